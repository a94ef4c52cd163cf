"""Leaves the cluster as it was found. Owns the removal of what the operator has put on others.

The condition goes by applying nothing as the same field manager, the taint by a patch that leaves
the others; Events expire by themselves. No finalizer of ours exists, so everything else can simply
be deleted. To be run when no operator runs any more, which would put both back.
"""

from __future__ import annotations

from gpucdi.api.names import OPERATOR_MANAGER
from gpucdi_kube import KubeApi, KubeError, paths
from gpucdi_kube.errors import NotFound
from gpucdi_operator import taints
from gpucdi_operator.nodes import condition_body
from gpucdi_operator.store import NodeRecord


async def uninstall(api: KubeApi) -> int:
    """Remove our condition and taint from every Node that carries one; return from how many.

    What cannot be written stays, and the first such error is raised after everything else is done.
    """
    cleaned: set[str] = set()
    refused: KubeError | None = None
    async for body in api.list(paths.NODES):
        node = NodeRecord.of(body)
        for carried, remove in ((node.condition, _condition), (node.tainted, _taint)):
            if not carried:
                continue
            try:
                await remove(api, node.name)
            except NotFound:
                continue
            except KubeError as error:
                refused = refused or error
            else:
                cleaned.add(node.name)
    if refused is not None:
        raise refused
    return len(cleaned)


async def _condition(api: KubeApi, node: str) -> None:
    await api.apply(
        paths.node_status(node),
        condition_body(node, None),
        field_manager=OPERATOR_MANAGER,
        force=True,
    )


async def _taint(api: KubeApi, node: str) -> None:
    await taints.write(api, node, wanted=False)
