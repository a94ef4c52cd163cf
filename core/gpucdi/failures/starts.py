"""Whether the containers of a Pod have started, and when, as its status shows it.

Owns: what counts as a start. All moments of one Pod are of its node's clock and whole seconds; its
status is one picture, so the latest start in it is older than any that it does not show yet. Must
not know: failures, Events, this machine's clock.
Source: kubernetes/kubernetes ``pkg/kubelet/kubelet_pods.go`` (convertToAPIContainerStatuses),
containerd/containerd ``internal/cri/server/container_start.go`` (StartError, no time of a start).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from gpucdi.failures.jsonish import items, mapping, text

EPHEMERAL = "ephemeralContainerStatuses"
STATUS_LISTS = ("initContainerStatuses", "containerStatuses", EPHEMERAL)
NEVER_STARTED = frozenset({"StartError", "ContainerCannotRun"})
# Where a container has not started, engines give this or an earlier moment.
NEVER = datetime(1970, 1, 1, tzinfo=UTC)


def statuses(pod: Mapping[str, object]) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the status of every container, with the list that it is in."""
    status = mapping(pod, "status")
    for list_name in STATUS_LISTS:
        for container in items(status, list_name):
            yield list_name, container


def moment(source: object, key: str) -> datetime | None:
    """Return the time at ``key``; ``None`` where there is none that can be read."""
    try:
        found = datetime.fromisoformat(text(source, key))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def started_at(ended: Mapping[str, object]) -> datetime:
    """Return when a container that has ended had started, ``NEVER`` where that is not known."""
    if text(ended, "reason") in NEVER_STARTED:
        return NEVER
    return max(NEVER, moment(ended, "startedAt") or NEVER)


def last_start(container: Mapping[str, object]) -> datetime:
    """Return the latest start that a container's status shows, ``NEVER`` where it shows none."""
    state, last = mapping(container, "state"), mapping(container, "lastState")
    runs_since = moment(mapping(state, "running"), "startedAt") or NEVER
    ended = (mapping(state, "terminated"), mapping(last, "terminated"))
    return max(NEVER, runs_since, *map(started_at, ended))


def last_start_of(pod: Mapping[str, object], name: str = "") -> datetime:
    """Return the latest start of one container, or of any."""
    found = (item for _, item in statuses(pod) if name in {"", text(item, "name")})
    return max(map(last_start, found), default=NEVER)


def has_started_since(container: Mapping[str, object], since: datetime | None) -> bool:
    """Tell whether a container is known to have started after ``since``."""
    return since is not None and last_start(container) > since


def runs(container: Mapping[str, object]) -> bool:
    """Tell whether a container runs; an empty object may be all that is known of it."""
    return isinstance(mapping(container, "state").get("running"), Mapping)


def is_well(container: Mapping[str, object]) -> bool:
    """Tell whether a container runs or has ended well."""
    ended = mapping(mapping(container, "state"), "terminated")
    return runs(container) or ended.get("exitCode") == 0


def is_not_restarted(list_name: str, container: Mapping[str, object]) -> bool:
    """Tell whether kubelet never starts a container again, whatever its Pod says.

    Source: kubernetes/kubernetes ``pkg/kubelet/kuberuntime/kuberuntime_manager.go``
    (computePodActions: "Ephemeral Containers are never restarted").
    """
    return list_name == EPHEMERAL and bool(mapping(mapping(container, "state"), "terminated"))


def waits_for_image(container: Mapping[str, object]) -> bool:
    """Tell whether a container waits for its image, which comes before all that concerns devices.

    Source: kubernetes/kubernetes ``pkg/kubelet/images/types.go`` (all reasons name the image).
    """
    waiting = mapping(mapping(container, "state"), "waiting")
    return "Image" in text(waiting, "reason")
