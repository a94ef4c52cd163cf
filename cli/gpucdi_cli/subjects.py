"""What is to be explained: each Pod, each object that Events are about, or a text.

Owns: which of them there are, and their names for people. Must not know: how a failure is read
(``gpucdi.failures``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpucdi.api import fields
from gpucdi.failures import Subject, read_report
from gpucdi_cli.pasted import Object, Pasted, listed


@dataclass(frozen=True, slots=True)
class Where:
    """The Pod that a failure belongs to; what is not known is empty."""

    namespace: str
    name: str
    node: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Asked:
    """One subject and the Pod that it is about, ``None`` where no Pod is known.

    ``handler`` is what a RuntimeClass in the same paste says, ``None`` without one.
    """

    subject: Subject
    where: Where | None = None
    handler: str | None = None


def asked_of(pasted: Pasted) -> tuple[Asked, ...]:
    """Return what to explain, in the order in which it was given; at least one."""
    events = pasted.of_kind("Event")
    if events and not pasted.of_kind("Pod"):
        return _of_events(pasted, events)
    report = read_report(pasted.text)
    return tuple(_of_subject(subject, report.handlers) for subject in report.subjects)


def _of_subject(subject: Subject, handlers: Mapping[str, str]) -> Asked:
    pod = subject.pod
    if pod is None:
        return Asked(subject)
    where = Where(pod.namespace, pod.name, pod.node)
    return Asked(subject, where, handlers.get(pod.runtime_class) if pod.runtime_class else None)


def _of_events(pasted: Pasted, events: tuple[Object, ...]) -> tuple[Asked, ...]:
    """Sort Events by the object that they are about: one Pod's failure explains no other Pod."""
    groups: dict[tuple[str, str, str], list[Object]] = {}
    for event in events:
        if fields.text(event, "type") == "Normal":
            # Many to one in a cluster that is well, and no failure is told in them.
            continue
        about = fields.mapping(event, "involvedObject") or fields.mapping(event, "regarding")
        key = (fields.text(about, "kind"), fields.text(about, "namespace"))
        groups.setdefault((*key, fields.text(about, "name")), []).append(event)
    found = []
    for (kind, namespace, name), group in groups.items():
        subject = read_report(listed(group)).subjects[0]
        if subject.failures:
            where = Where(namespace, name, _node_of(group)) if kind == "Pod" and name else None
            found.append(Asked(subject, where))
    return tuple(found) or (Asked(read_report(pasted.text).subjects[0]),)


def _node_of(events: list[Object]) -> str:
    """Return the node whose kubelet reported, empty where the Events do not tell."""
    hosts = (
        fields.text(fields.mapping(event, "source"), "host")
        or fields.text(fields.mapping(event, "deprecatedSource"), "host")
        for event in events
    )
    return next(filter(None, hosts), "")
