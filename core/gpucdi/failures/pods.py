"""A Pod's status and its Events: where each failure stands and whether it still holds.

Owns the places (kubernetes/kubernetes ``pkg/kubelet/kuberuntime``, ``status_manager.go``). Must not
know the wordings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from gpucdi.failures.extract import extract
from gpucdi.failures.jsonish import items, mapping, text
from gpucdi.failures.model import Failure, PodFailure, Stage
from gpucdi.failures.starts import (
    NEVER,
    NEVER_STARTED,
    STATUS_LISTS,
    has_started_since,
    is_not_restarted,
    is_well,
    moment,
    runs,
    started_at,
    statuses,
    waits_for_image,
)

SPEC_LISTS = ("initContainers", "containers", "ephemeralContainers")
# kubelet shares this many bytes among the terminated messages of a Pod's containers.
TERMINATED_BYTES = 12_288
# Reasons under which kubelet reports a container that never ran.
WAITING_REASONS = frozenset({"CreateContainerError", "RunContainerError", "CrashLoopBackOff"})
# At these no container has been made: what is told holds for the Pod as a whole.
POD_STAGES = frozenset({Stage.ADMISSION, Stage.PREPARE, Stage.SANDBOX})
_FIELD_PATH = re.compile(r"spec\.(?:c|initC|ephemeralC)ontainers\{([-a-z0-9]{1,63})\}")


@dataclass(frozen=True, slots=True)
class EventText:
    """What a Warning Event tells of a Pod.

    ``containers`` are those that it is about; none where that is not known, or where it is the Pod.
    A container that has started after ``since`` has got over it; where that is ``None``, what is told
    holds for as long as a container waits.
    """

    text: str
    containers: tuple[str, ...] = ()
    since: datetime | None = None

    @classmethod
    def of(cls, event: Mapping[str, object]) -> EventText:
        """Read an Event of core/v1 or events.k8s.io/v1; its times are of the node's clock."""
        about = mapping(event, "involvedObject") or mapping(event, "regarding")
        named = _FIELD_PATH.fullmatch(text(about, "fieldPath"))
        times = (
            moment(mapping(event, "series"), "lastObservedTime"),
            *(moment(event, key) for key in ("lastTimestamp", "deprecatedLastTimestamp")),
            moment(event, "eventTime"),
        )
        return cls(
            text(event, "message") or text(event, "note"),
            (named[1],) if named else (),
            max((time for time in times if time is not None), default=None),
        )


def pod_failures(
    pod: Mapping[str, object], events: Sequence[EventText] = ()
) -> tuple[PodFailure, ...]:
    """Return the failures of every container list, then those that only ``events`` tell.

    The same failure of a container is given once: the uncut text of ``waiting`` wins over a
    terminated message that kubelet cut.
    """
    kept: dict[tuple[object, ...], PodFailure] = {}
    for found in (*_of_statuses(pod), *_of_pod(pod)):
        _keep(kept, found)
    seen = [found.failure for found in kept.values()]
    for event in events:
        # kubelet cuts no Event (27 KB came through whole).
        for failure in extract(event.text, cut=False):
            known = any(
                other.symptom is failure.symptom
                and other.path == failure.path
                and set(failure.names) <= set(other.names)
                for other in seen
            )
            if not known:
                _keep(kept, _told(pod, event, failure))
    return tuple(kept.values())


def _told(pod: Mapping[str, object], event: EventText, failure: Failure) -> PodFailure:
    """Return a failure that only an Event tells."""
    if failure.stage in POD_STAGES:
        still = _is_waiting(pod) and not any(
            runs(container) or has_started_since(container, event.since)
            for _, container in statuses(pod)
        )
        return PodFailure("", "events", "Event", still, failure)
    still = _is_waiting(pod) and _still_holds(pod, event)
    return PodFailure("", "events", "Event", still, failure, containers=event.containers)


def _still_holds(pod: Mapping[str, object], event: EventText) -> bool:
    """Tell whether one of the containers that an Event may be about has not started since."""
    shown = {text(container, "name") for _, container in statuses(pod)}
    if not shown or not shown.issuperset(event.containers):
        return True
    phase = text(mapping(pod, "status"), "phase")
    return any(
        _may_fail(container, event.since, phase)
        for list_name, container in statuses(pod)
        if not event.containers or text(container, "name") in event.containers
        if not is_not_restarted(list_name, container)
    )


def _may_fail(container: Mapping[str, object], since: datetime | None, phase: str) -> bool:
    if is_well(container) or has_started_since(container, since):
        return False
    if mapping(mapping(container, "state"), "waiting"):
        return not waits_for_image(container)
    return phase in {"Pending", "Failed"}


def _keep(kept: dict[tuple[object, ...], PodFailure], found: PodFailure) -> None:
    failure = found.failure
    about = found.container or found.containers
    key = (about, failure.symptom, failure.path, failure.hook)
    known = kept.get(key)
    if known is None:
        kept[key] = found
    elif set(known.failure.names) <= set(failure.names):
        still = known.still_failing or found.still_failing
        kept[key] = replace(found, still_failing=still)
    elif not set(failure.names) <= set(known.failure.names):
        kept[(*key, failure.names)] = found


def _of_statuses(pod: Mapping[str, object]) -> Iterator[PodFailure]:
    limit = TERMINATED_BYTES // max(1, _container_count(pod))
    phase = text(mapping(pod, "status"), "phase")
    for list_name, container in statuses(pod):
        name, is_final = text(container, "name"), is_not_restarted(list_name, container)
        still = _still_failing(container, phase)
        for reason, message, cut, is_past in _messages(container, limit):
            for failure in extract(message, cut=cut):
                fails = still and not is_past
                yield PodFailure(name, list_name, reason, fails, failure, is_final)


def _of_pod(pod: Mapping[str, object]) -> Iterator[PodFailure]:
    status = mapping(pod, "status")
    still = text(status, "phase") in {"Pending", "Failed", ""}
    reason = text(status, "reason")
    for failure in extract(f"{reason}: {text(status, 'message')}" if reason else ""):
        yield PodFailure("", "status", reason, still, failure)
    for condition in items(status, "conditions"):
        if text(condition, "status") != "True":
            for failure in extract(text(condition, "message")):
                yield PodFailure("", "status", text(condition, "reason"), still, failure)


def _messages(
    container: Mapping[str, object], limit_bytes: int
) -> Iterator[tuple[str, str, bool, bool]]:
    """Yield reason and message, whether kubelet cut it, and whether a later start ended that."""
    state, last = mapping(container, "state"), mapping(container, "lastState")
    ended = mapping(state, "terminated")
    for terminated in (mapping(last, "terminated"), ended):
        message = text(terminated, "message")
        # kubelet may leave one byte less where a cut would split a character.
        cut = limit_bytes - 4 < len(message.encode("utf-8", "replace")) <= limit_bytes
        is_past = terminated is not ended and started_at(ended) > NEVER
        yield text(terminated, "reason"), message, cut, is_past
    waiting = mapping(state, "waiting")
    yield text(waiting, "reason"), text(waiting, "message"), False, False


def _still_failing(container: Mapping[str, object], phase: str) -> bool:
    state = mapping(container, "state")
    if mapping(state, "running"):
        return False
    if text(mapping(state, "waiting"), "reason") in WAITING_REASONS:
        return True
    terminated = mapping(state, "terminated")
    return bool(terminated) and (phase == "Failed" or text(terminated, "reason") in NEVER_STARTED)


def _is_waiting(pod: Mapping[str, object]) -> bool:
    status = mapping(pod, "status")
    if text(status, "phase") in {"Pending", "Failed"}:
        return True
    return any(mapping(mapping(container, "state"), "waiting") for _, container in statuses(pod))


def _container_count(pod: Mapping[str, object]) -> int:
    spec, status = mapping(pod, "spec"), mapping(pod, "status")
    declared = sum(1 for name in SPEC_LISTS for _ in items(spec, name))
    return declared or sum(1 for name in STATUS_LISTS for _ in items(status, name))
