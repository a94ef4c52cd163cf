"""The one place where the operator meets ``gpucdi.failures`` and ``gpucdi.diagnosis``.

Owns: which failures of a Pod count, and what is made of them for the cluster. Must not know: how a
text is read or a cause is found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpucdi.api import NameRequest, NodeStatus
from gpucdi.diagnosis import Diagnosis, diagnose, event_note
from gpucdi.failures import PodFailure, extract, pod_failures, pod_view
from gpucdi.failures.names import device_of, kind_of
from gpucdi_operator.store import Store

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
    pod: Mapping[str, object], texts: Sequence[str], store: Store
) -> tuple[Explanation, ...]:
    """Return why the Pod fails now, one explanation a failing container and cause."""
    failures = [item for item in pod_failures(pod, texts) if item.failure.is_cdi]
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
