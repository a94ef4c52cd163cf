"""Which waiting Pods are made anew after a repair. Pure.

Owns the decision and its reasons. Most failing Pods need nobody: kubelet starts a container in
CrashLoopBackOff again after five minutes at most, tries CreateContainer and the sandbox again on
every sync, and the owner of a Pod that has ended as Failed makes another by itself. What remains:

- a container that ended under ``restartPolicy: Never`` in a Pod that has not ended: kubelet never
  starts it again, and its owner does not know;
- a Pod whose device names were chosen for it at its admission (device plugin, scheduler, DRA) and do
  not exist any more, though every name of the node resolves: only a new Pod is given new ones;
- a Pod that still waits long after its names resolve, for whatever reason; with a short
  ``afterSeconds`` also the one that merely waits for the end of its back-off.

A Pod that was made after the node's names resolved is never restarted: its owner would make the same
again, without end. Sources: kubernetes/kubernetes ``pkg/kubelet/kuberuntime/kuberuntime_manager.go``,
``pkg/controller/controller_utils.go`` (FilterActivePods), ``pkg/kubelet/types/pod_update.go``.
Must not know: the API server, rates, Namespaces.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpucdi.api import ConditionStatus, NodeState, RepairMode, fields
from gpucdi.api.policy import BreakerStatus
from gpucdi.failures import PodView, RequesterName, pod_view
from gpucdi.failures.model import Symptom
from gpucdi.failures.names import device_of
from gpucdi_kube.clock import parse_time
from gpucdi_operator.diagnosing import Explanation
from gpucdi_operator.policies import HOLD_TURN, Ruling
from gpucdi_operator.store import StatusRecord

# Who makes a Pod anew that is gone: (API group, kind) of its controller.
REMAKERS = frozenset(
    {
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        ("apps", "DaemonSet"),
        ("batch", "Job"),
        ("", "ReplicationController"),
    }
)
# On Pods that kubelet reads from a file or URL; what the API server has of them is a mirror.
_STATIC = ("kubernetes.io/config.mirror", "kubernetes.io/config.source")
_OF_THE_TEMPLATE = frozenset(
    {RequesterName.OWN_ENV, RequesterName.CDI_ANNOTATION, RequesterName.NRI_ANNOTATION}
)
_ENDED = frozenset({"Succeeded", "Failed"})


class Why(enum.StrEnum):
    """Why kubelet does not start a Pod that could run."""

    STILL_WAITS = "StillWaits"
    NEVER_STARTED_AGAIN = "NeverStartedAgain"
    NAMES_FIXED = "NamesFixedAtAdmission"


@dataclass(frozen=True, slots=True)
class Restart:
    """That a Pod is to be restarted: why, when at the earliest, and who makes it anew."""

    why: Why
    not_before: datetime
    owner: str
    container: str = ""


def resolved_since(
    record: StatusRecord | None,
    ruling: Ruling | None,
    breaker: BreakerStatus,
    *,
    silent: bool,
    now: datetime,
) -> datetime | None:
    """Return since when every name of a node resolves; ``None`` where Pods are to be left alone.

    That is on a node that is drifted, silent, held (waiting for its turn to repair does not count:
    there is nothing to repair), switched off, or under a breaker that stops repairs.
    """
    if record is None or ruling is None or silent or breaker.state.stops_repairs:
        return None
    holds = (ruling.hold, record.intent.hold, record.status.hold)
    if any(hold is not None and hold.reason != HOLD_TURN for hold in holds):
        return None
    if record.status.state is not NodeState.RESOLVED or record.is_drifted:
        return None
    if (ruling.mode or record.intent.mode) is RepairMode.OFF:
        return None
    condition = record.resolvable
    if condition is None or condition.status is not ConditionStatus.TRUE:
        return None
    since = parse_time(condition.last_transition_time)
    # A node's clock may be ahead of ours.
    return None if since is None else min(since, now)


def decide(
    pod: Mapping[str, object],
    explanations: Sequence[Explanation],
    since: datetime,
    *,
    after: timedelta,
    settle: timedelta,
) -> Restart | None:
    """Return the restart that ends a Pod's failure, or ``None`` where no restart does or may.

    ``since`` is when the names of its node resolved again; ``after`` is what the policy leaves
    kubelet, ``settle`` what even a hopeless Pod is left, so that a node that flaps restarts nobody.
    """
    owner, view = _remaker(pod), pod_view(pod)
    created = parse_time(fields.text(fields.mapping(pod, "metadata"), "creationTimestamp"))
    if not owner or created is None or created > since or not _may_go(pod):
        return None
    failing = [item for item in explanations if _is_unresolvable(item)]
    if not failing or len(failing) < len(_of_the_pod(explanations)):
        # Something else is wrong as well, which a new Pod would meet again.
        return None
    unresolved = [item for item in failing if not item.diagnosis.resolved_now]
    if unresolved:
        if any(_asked_in_template(view, item) for item in unresolved):
            return None
        return Restart(Why.NAMES_FIXED, since + after, owner, unresolved[0].failure.container)
    ended = next((item for item in failing if _never_starts_again(pod, item)), None)
    if ended is not None:
        container = ended.failure.container
        return Restart(Why.NEVER_STARTED_AGAIN, since + settle, owner, container)
    wait = max(after, settle)
    return Restart(Why.STILL_WAITS, since + wait, owner, failing[0].failure.container)


def _remaker(pod: Mapping[str, object]) -> str:
    """Return ``Kind name`` of the controller that would make the Pod anew, or nothing."""
    for item in fields.objects(fields.mapping(pod, "metadata"), "ownerReferences"):
        group, _, _ = fields.text(item, "apiVersion").rpartition("/")
        if fields.boolean(item, "controller") and (group, fields.text(item, "kind")) in REMAKERS:
            return f"{fields.text(item, 'kind')} {fields.text(item, 'name')}"
    return ""


def _may_go(pod: Mapping[str, object]) -> bool:
    meta, status = fields.mapping(pod, "metadata"), fields.mapping(pod, "status")
    annotations = fields.mapping(meta, "annotations")
    static = any(annotations.get(key, "api") != "api" for key in _STATIC)
    ready = any(
        fields.text(item, "type") == "Ready" and fields.text(item, "status") == "True"
        for item in fields.objects(status, "conditions")
    )
    going = "deletionTimestamp" in meta
    return not (static or ready or going or fields.text(status, "phase") in _ENDED)


def _of_the_pod(explanations: Iterable[Explanation]) -> list[Explanation]:
    # A person's debug container is no reason to evict anything.
    debug = "ephemeralContainerStatuses"
    return [item for item in explanations if item.failure.container_list != debug]


def _is_unresolvable(item: Explanation) -> bool:
    failure = item.failure.failure
    return bool(failure.symptom is Symptom.UNRESOLVABLE and failure.names and _of_the_pod([item]))


def _asked_in_template(view: PodView, item: Explanation) -> bool:
    """Tell whether the Pod's own template asks for a name that fails, as a new Pod would."""
    devices = {device_of(name) for name in item.diagnosis.failure.names}
    said = [asked.value for asked in view.requesters if asked.name in _OF_THE_TEMPLATE]
    others = [asked for asked in view.requesters if asked.name not in _OF_THE_TEMPLATE]
    return not others or any(device in value for value in said for device in devices)


def _never_starts_again(pod: Mapping[str, object], item: Explanation) -> bool:
    if fields.text(fields.mapping(pod, "spec"), "restartPolicy") != "Never":
        return False
    statuses = fields.objects(fields.mapping(pod, "status"), item.failure.container_list)
    states = (
        fields.mapping(status, "state")
        for status in statuses
        if fields.text(status, "name") == item.failure.container
    )
    return any(fields.mapping(state, "terminated") for state in states)
