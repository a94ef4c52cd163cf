"""Leaves the cluster as it was found. Owns the removal of what the operator has put on others.

Condition and taint go by patches that leave the others; Events expire by themselves. No finalizer
of ours exists, so everything else can simply be deleted. An operator that still runs would put both
back, so nothing is removed while one renews its Lease.
"""

from __future__ import annotations

from gpucdi.api import fields
from gpucdi.api.names import OPERATOR_LEASE
from gpucdi_kube import Clock, KubeApi, KubeError, paths
from gpucdi_kube.errors import NotFound
from gpucdi_operator import conditions, taints
from gpucdi_operator.leader import Renewals
from gpucdi_operator.store import NodeRecord

PATIENCE_S = 60.0
POLL_S = 1.0
# Where a Lease does not say for how long it holds.
USUAL_S = 15.0


class StillLeadingError(RuntimeError):
    """An operator runs and leads."""


async def until_nobody_leads(
    api: KubeApi, clock: Clock, namespace: str, patience_s: float = PATIENCE_S
) -> None:
    """Wait until the operator's Lease is given back, or has run out without being renewed.

    Raises :class:`StillLeadingError` when it is still renewed after ``patience_s``.
    """
    began, renewals = clock.monotonic(), Renewals(clock, USUAL_S)
    while True:
        spec = fields.mapping(await api.get(paths.lease(OPERATOR_LEASE, namespace)), "spec")
        holder = fields.text(spec, "holderIdentity")
        if not holder or renewals.have_stopped(spec):
            return
        if clock.monotonic() - began > patience_s:
            raise StillLeadingError(
                f"{holder} still leads and would put back what is removed: delete the operator's "
                f"Deployment and wait until its Pods in {namespace} are gone"
            )
        await clock.sleep(POLL_S)


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
