"""Leaves the cluster as it was found. Owns the removal of what the operator has put on others.

The condition goes by applying nothing as the same field manager; Events expire by themselves. No
finalizer of ours exists, so everything else can simply be deleted.
"""

from __future__ import annotations

from gpucdi.api.names import OPERATOR_MANAGER
from gpucdi_kube import KubeApi, paths
from gpucdi_kube.errors import NotFound
from gpucdi_operator.nodes import condition_body
from gpucdi_operator.store import NodeRecord


async def uninstall(api: KubeApi) -> int:
    """Remove our condition from every Node that carries it; return from how many."""
    removed = 0
    async for body in api.list(paths.NODES):
        node = NodeRecord.of(body)
        if node.condition is None:
            continue
        try:
            await api.apply(
                paths.node_status(node.name),
                condition_body(node.name, None),
                field_manager=OPERATOR_MANAGER,
                force=True,
            )
        except NotFound:
            continue
        removed += 1
    return removed
