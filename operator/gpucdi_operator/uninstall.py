"""Leaves the cluster as it was found. Owns the removal of what the operator has put on others.

Condition and taint go by patches that leave the others; Events expire by themselves. No finalizer
of ours exists, so everything else can simply be deleted. To be run when no operator runs any more,
which would put both back.
"""

from __future__ import annotations

from gpucdi_kube import KubeApi, KubeError, paths
from gpucdi_kube.errors import NotFound
from gpucdi_operator import conditions, taints
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
    await conditions.write(api, node, None)


async def _taint(api: KubeApi, node: str) -> None:
    await taints.write(api, node, wanted=False)
