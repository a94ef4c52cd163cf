"""A Pod's status and its Events: where each failure stands and whether it still holds.

Owns the places (kubernetes/kubernetes ``pkg/kubelet/kuberuntime``, ``status_manager.go``). Must not
know the wordings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpucdi.failures.extract import extract
from gpucdi.failures.jsonish import items, mapping, text
from gpucdi.failures.model import PodFailure

STATUS_LISTS = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
SPEC_LISTS = ("initContainers", "containers", "ephemeralContainers")
# kubelet shares this many bytes among the terminated messages of a Pod's containers.
TERMINATED_BYTES = 12_288
# Reasons under which kubelet reports a container that never ran.
WAITING_REASONS = frozenset({"CreateContainerError", "RunContainerError", "CrashLoopBackOff"})
NEVER_STARTED = frozenset({"StartError", "ContainerCannotRun"})


def pod_failures(
    pod: Mapping[str, object], event_texts: Sequence[str] = ()
) -> tuple[PodFailure, ...]:
    """Return the failures of every container list, then those that only Events tell.

    ``event_texts`` are messages of Warning Events about this Pod. The same failure of a container
    is given once: the uncut text of ``waiting`` wins over a terminated message that kubelet cut.
    """
    kept: dict[tuple[object, ...], PodFailure] = {}
    for found in (*_of_statuses(pod), *_of_pod(pod)):
        _keep(kept, found)
    seen = [found.failure for found in kept.values()]
    for event_text in event_texts:
        # kubelet cuts no Event (27 KB came through whole).
        for failure in extract(event_text, cut=False):
            known = any(
                other.symptom is failure.symptom
                and other.path == failure.path
                and set(failure.names) <= set(other.names)
                for other in seen
            )
            if not known:
                still = _is_waiting(pod)
                _keep(kept, PodFailure("", "events", "Event", still, failure))
    return tuple(kept.values())


def _keep(kept: dict[tuple[object, ...], PodFailure], found: PodFailure) -> None:
    failure = found.failure
    key = (found.container, failure.symptom, failure.path, failure.hook)
    known = kept.get(key)
    if known is None:
        kept[key] = found
    elif set(known.failure.names) <= set(failure.names):
        still = known.still_failing or found.still_failing
        kept[key] = PodFailure(found.container, found.container_list, found.reason, still, failure)
    elif not set(failure.names) <= set(known.failure.names):
        kept[(*key, failure.names)] = found


def _of_statuses(pod: Mapping[str, object]) -> Iterator[PodFailure]:
    limit = TERMINATED_BYTES // max(1, _container_count(pod))
    status = mapping(pod, "status")
    for list_name in STATUS_LISTS:
        for container in items(status, list_name):
            still = _still_failing(container, text(status, "phase"))
            for reason, message, cut in _messages(container, limit):
                for failure in extract(message, cut=cut):
                    yield PodFailure(text(container, "name"), list_name, reason, still, failure)


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


def _messages(container: Mapping[str, object], limit_bytes: int) -> Iterator[tuple[str, str, bool]]:
    state, last = mapping(container, "state"), mapping(container, "lastState")
    for terminated in (mapping(last, "terminated"), mapping(state, "terminated")):
        message = text(terminated, "message")
        # kubelet may leave one byte less where a cut would split a character.
        cut = limit_bytes - 4 < len(message.encode("utf-8", "replace")) <= limit_bytes
        yield text(terminated, "reason"), message, cut
    waiting = mapping(state, "waiting")
    yield text(waiting, "reason"), text(waiting, "message"), False


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
    return any(
        mapping(mapping(container, "state"), "waiting")
        for list_name in STATUS_LISTS
        for container in items(status, list_name)
    )


def _container_count(pod: Mapping[str, object]) -> int:
    spec, status = mapping(pod, "spec"), mapping(pod, "status")
    declared = sum(1 for name in SPEC_LISTS for _ in items(spec, name))
    return declared or sum(1 for name in STATUS_LISTS for _ in items(status, name))
