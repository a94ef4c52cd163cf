"""What is to be explained: each Pod, or a text. Owns the join with what a RuntimeClass says.

Must not know: how a failure is read (``gpucdi.failures``).
"""

from __future__ import annotations

from dataclasses import dataclass

from gpucdi.failures import PodView, Subject, read_report
from gpucdi_cli.pasted import Pasted


@dataclass(frozen=True, slots=True)
class Asked:
    """One subject; ``handler`` is what a RuntimeClass in the same paste says, ``None`` without one."""

    subject: Subject
    handler: str | None = None

    @property
    def pod(self) -> PodView | None:
        """Return the Pod that it is about, ``None`` where none is known."""
        return self.subject.pod


def asked_of(pasted: Pasted) -> tuple[Asked, ...]:
    """Return what to explain, in the order in which it was given; at least one."""
    report = read_report(pasted.text)
    return tuple(
        Asked(subject, report.handlers.get(subject.pod.runtime_class or ""))
        if subject.pod is not None
        else Asked(subject)
        for subject in report.subjects
    )


def name_of(pod: PodView) -> str:
    """Return a Pod's name for people."""
    return f"{pod.namespace}/{pod.name}" if pod.namespace else pod.name
