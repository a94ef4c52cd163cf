"""Where failures of a Pod are read and diagnosed: ``gpucdi.failures`` and ``gpucdi.diagnosis``.

Owns: which failures of a Pod count, what is made of them for the cluster, and which names a status
says to be missing. Must not know: how a text is read or a cause is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from gpucdi.api import KindStatus, NameRequest, NodeStatus
from gpucdi.diagnosis import Diagnosis, diagnose, event_note
from gpucdi.failures import EventText, PodFailure, PodView, extract, pod_failures, pod_view
from gpucdi.failures.names import UUID, device_of, kind_of
from gpucdi.findings import Cause
from gpucdi.node.kinds import ALL, device_names
from gpucdi_operator.store import StatusRecord, Store

# Reasons of kubelet's Warning Events that can carry a CDI text; the others are loud and never do.
REASONS = frozenset({"Failed", "FailedCreatePodSandBox", "FailedPrepareDynamicResources"})


@dataclass(frozen=True, slots=True)
class Explanation:
    """One failing container (or, with an empty name, the whole Pod) with its diagnosis."""

    failure: PodFailure
    diagnosis: Diagnosis

    @property
    def cause(self) -> str:
        """Return the cause's name."""
        return self.diagnosis.cause.value

    def note(self, node: str) -> str:
        """Return the note of the explaining Event: at most 1,024 bytes."""
        return event_note(self.diagnosis, node=node, resource=node)

    def requests(self) -> tuple[NameRequest, ...]:
        """Return what the agent should make resolvable, if adding a file can end the failure."""
        if not self.diagnosis.repairable:
            return ()
        kinds: dict[str, list[str]] = {}
        for name in self.diagnosis.failure.names:
            kinds.setdefault(kind_of(name), []).append(device_of(name))
        return tuple(NameRequest(kind, tuple(names)) for kind, names in kinds.items())


def tells_of_cdi(text: str) -> bool:
    """Tell whether an Event's message reports a CDI failure."""
    return any(failure.is_cdi for failure in extract(text))


def explain(
    pod: Mapping[str, object], events: Iterable[EventText], store: Store
) -> tuple[Explanation, ...]:
    """Return why the Pod fails now, one explanation a failing container and cause."""
    failures = [item for item in pod_failures(pod, tuple(events)) if item.failure.is_cdi]
    failing = [item for item in failures if item.still_failing]
    if not failing:
        return ()
    view = pod_view(pod)
    handler = store.handler_of(view.runtime_class)
    record = store.statuses.get(view.node)
    node: NodeStatus | None = record.status if record is not None and record.has_status else None
    related = tuple(item.failure for item in failures)
    return tuple(
        Explanation(
            item,
            diagnose(
                item.failure,
                pod=view,
                node=node,
                handler=handler,
                related=tuple(other for other in related if other is not item.failure),
            ),
        )
        for item in failing
    )


def is_at_risk(pod: Mapping[str, object], store: Store) -> bool:
    """Tell whether a running Pod asks for device names that no longer resolve on its node.

    Its containers go on; the next start of one of them fails. Only what the Pod itself shows counts
    (its environment, its annotations): a device plugin may add requests that no API object has. A
    name of which the status does not tell counts as none, so there may be more Pods, never fewer.
    """
    view = pod_view(pod)
    record = store.statuses.get(view.node)
    name = store.handler_of(view.runtime_class)
    if record is None or name is None:
        return False
    handler = record.status.handler(name)
    if handler is None or handler.mode != "cdi":
        return False
    kinds = {kind.kind: kind for kind in record.status.kinds if not kind.is_resolved}
    return any(
        kind_of(asked) in kinds and _is_missing(kinds[kind_of(asked)], device_of(asked), record)
        for asked in _asked(view, handler.default_kind)
    )


def _asked(view: PodView, default_kind: str) -> Iterator[str]:
    """Yield the qualified names that a Pod shows it asks for; a bare one gets the default kind."""
    devices = [UUID.findall(requester.value) for requester in view.requesters]
    devices += [
        container.visible_devices.split(",")
        for container in view.containers
        if container.visible_devices
    ]
    for device in dict.fromkeys(item.strip() for items in devices for item in items):
        yield device if "=" in device else f"{default_kind}={device}"


def _is_missing(kind: KindStatus, device: str, record: StatusRecord) -> bool:
    """Tell whether a name is known to be missing.

    The list of missing names may be cut. It is in the order in which names are expected, so what
    lies before its end and is not listed resolves; of what lies behind, all is missing or it is not
    known what is.
    """
    listed = kind.missing.names
    hidden = kind.missing.count - len(listed)
    if device in listed or hidden <= 0:
        return device in listed
    expected = _expected(kind, record)
    if device not in expected or len(expected) != kind.expected:
        return False
    if kind.resolvable == 0:
        return True
    if kind.resolvable == 1 and kind.cause is Cause.ONLY_ALL_DEVICE:
        return device != ALL
    shown = [expected.index(name) for name in listed if name in expected]
    later = expected[max(shown, default=-1) + 1 :]
    return device in later and hidden == len(later)


def _expected(kind: KindStatus, record: StatusRecord) -> tuple[str, ...]:
    """Return the names that the agent holds a kind against, in its order.

    That is what ``gpucdi.node`` expects of a kind that is referenced, of one that only Pods asked
    for, and of one that is merely checked.
    """
    gpus, intent = record.status.gpus, record.intent
    everything = device_names(gpus, intent)
    known = {*gpus.uuids, *everything, ALL}
    asked = [
        name
        for item in intent.requests
        if item.kind == kind.kind
        for name in item.names
        if name in known
    ]
    if kind.referenced_by or kind.kind in intent.extra_kinds:
        return tuple(dict.fromkeys((*everything, *asked)))
    if asked:
        return tuple(dict.fromkeys(asked))
    whole = (gpu.uuid for gpu in gpus.devices if not gpu.mig_enabled)
    return (*whole, *(mig.uuid for gpu in gpus.devices for mig in gpu.mig))
