"""The NoSchedule taint on drifted nodes: which of them carry it, and how it is put and removed.

``spec.taints`` is one atomic list: whoever applies it owns all of it, so server-side apply would
take other taints away, and kubelet's and the node controller's with them. As Kubernetes itself does,
we patch the whole list with the version of the Node that it was read from, and read again where that
is refused. Sources: kubernetes/kubernetes ``staging/src/k8s.io/api/core/v1/types.go``
(``+listType=atomic``), ``staging/src/k8s.io/cloud-provider/node/helpers/taints.go``
(``PatchNodeTaints``). Must not know: policies' selectors, conditions.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime

from gpucdi.api import fields
from gpucdi.api.policy import BreakerState, Policy, TaintEffect
from gpucdi.api.taint import taints_with
from gpucdi_kube import KubeApi, KubeObject, paths
from gpucdi_kube.api import MERGE_PATCH
from gpucdi_kube.errors import Conflict, Forbidden, NotFound
from gpucdi_operator.logs import log
from gpucdi_operator.metrics import Metrics
from gpucdi_operator.rights import Feature, Rights, is_rbac

ATTEMPTS = 5


def most(policy: Policy, governed: int) -> int:
    """Return how many of ``governed`` nodes may be tainted at most."""
    return governed * policy.breaker.percent // 100


def chosen(
    policy: Policy,
    state: BreakerState,
    governed: int,
    drifted: Mapping[str, datetime],
    carrying: AbstractSet[str],
) -> frozenset[str]:
    """Return the nodes that should carry the taint.

    ``drifted`` maps nodes to the time since when; ``carrying`` are those that have the taint now:
    they keep it while there is room, so that the choice among too many does not wander.
    """
    if policy.taint is TaintEffect.NONE or state.stops_repairs:
        return frozenset()
    order = sorted(drifted, key=lambda name: (name not in carrying, drifted[name], name))
    return frozenset(order[: most(policy, governed)])


def patch_of(node: Mapping[str, object], *, wanted: bool) -> KubeObject | None:
    """Return the merge patch that puts or removes our taint alone, or ``None`` for nothing to do."""
    new = taints_with(node, ours=wanted)
    if new is None:
        return None
    version = fields.text(fields.mapping(node, "metadata"), "resourceVersion")
    return {"metadata": {"resourceVersion": version}, "spec": {"taints": new or None}}


@dataclass(slots=True)
class Tainter:
    """Writes the taint. Raises ``Forbidden`` where the optional right is missing."""

    api: KubeApi
    metrics: Metrics
    rights: Rights

    async def set(self, name: str, *, wanted: bool) -> bool:
        """Put the taint on a Node, or remove it; tell whether the Node changed.

        A Node that is gone is fine, and so is one where a person's taint stands in the way.
        """
        self.rights.check(Feature.TAINTS)
        try:
            written = await write(self.api, name, wanted=wanted)
        except Forbidden as error:
            # An admission policy that protects one Node says nothing of the others.
            if is_rbac(error):
                self.rights.refused(Feature.TAINTS)
            raise
        self.rights.granted(Feature.TAINTS)
        if written:
            self.metrics.taint_writes.labels("put" if wanted else "removed").inc()
            log("node tainted" if wanted else "node taint removed", node=name)
        return written


async def write(api: KubeApi, name: str, *, wanted: bool) -> bool:
    """Read the Node and patch its taints until nobody was faster; tell whether it changed."""
    for attempt in range(ATTEMPTS):
        node = await api.get(paths.node(name))
        patch = None if node is None else patch_of(node, wanted=wanted)
        if patch is None:
            return False
        try:
            await api.patch(paths.node(name), patch, content_type=MERGE_PATCH)
        except NotFound:
            return False
        except Conflict:
            if attempt == ATTEMPTS - 1:
                raise
        else:
            return True
    return False
