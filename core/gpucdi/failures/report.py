"""Whatever a person pastes, sorted: Pods, Events, RuntimeClasses, ``kubectl describe``, plain text.

Owns: telling these apart and reading the first kind of objects. Must not know the wordings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import yaml

from gpucdi.failures.describe import described_pods
from gpucdi.failures.extract import extract
from gpucdi.failures.jsonish import items, mapping, text
from gpucdi.failures.model import Failure, PodFailure, PodView
from gpucdi.failures.pods import EventText, pod_failures
from gpucdi.failures.podview import pod_view

# A list of thousands of Pods is not what `explain` is for.
DOCUMENT_LIMIT_CHARACTERS = 8_000_000
_KIND = re.compile(r"kind[\"']?[ \t]*:")
# Of `kubectl describe pod`: the Pod, or one of its containers, does not run now.
_NOT_UP = re.compile(
    r"^[ \t]*State:[ \t]+(?:Waiting|Terminated)|^Status:[ \t]+(?![ \t]|Running)", re.MULTILINE
)
# libyaml where it is built in: the same values, ten times sooner, and bounded in depth.
_LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Subject:
    """One thing to explain: a Pod with its failures, or failures of which no Pod is known."""

    pod: PodView | None
    failures: tuple[PodFailure, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """What was pasted. ``handlers`` maps the RuntimeClasses found in it to their handlers."""

    subjects: tuple[Subject, ...]
    handlers: Mapping[str, str] = field(default_factory=dict)


def read_report(content: str) -> Report:
    """Sort what was pasted; never raises over its content.

    Objects in YAML or JSON (also a List, also several documents) are read as such; Event objects
    go to the Pod they are about. Anything else is a text, with the Pods that ``kubectl describe``
    prints in it.
    """
    objects = list(_objects(content))
    pods = [item for item in objects if text(item, "kind") == "Pod"]
    events = [item for item in objects if text(item, "kind") == "Event"]
    # Many to one in a cluster that is well, and no failure is told in them.
    warnings = [event for event in events if text(event, "type") != "Normal"]
    handlers = {
        text(mapping(item, "metadata"), "name"): text(item, "handler")
        for item in objects
        if text(item, "kind") == "RuntimeClass"
    }
    if pods:
        return Report(tuple(_of_pod(pod, warnings) for pod in pods), handlers)
    if events:
        return Report(_of_events(warnings), handlers)
    return Report(_of_plain(content), handlers)


def _of_events(events: list[Mapping[str, object]]) -> tuple[Subject, ...]:
    """Return what Events alone tell of, those of one object together: none explains another's."""
    groups: dict[tuple[str, ...], list[Mapping[str, object]]] = {}
    for event in events:
        about = mapping(event, "involvedObject") or mapping(event, "regarding")
        key = tuple(text(about, name) for name in ("kind", "namespace", "name", "uid"))
        groups.setdefault(key, []).append(event)
    found = [
        Subject(_named_pod(group), _of_texts(list(map(_message, group))))
        for group in groups.values()
    ]
    failing = tuple(subject for subject in found if subject.failures)
    return failing or (found[0] if len(found) == 1 else Subject(None),)


def _named_pod(events: list[Mapping[str, object]]) -> PodView | None:
    """Return the Pod that Events are about; the node is known where kubelet reported one."""
    about = mapping(events[0], "involvedObject") or mapping(events[0], "regarding")
    if text(about, "kind") not in {"", "Pod"} or not text(about, "name"):
        return None
    return PodView(
        namespace=text(about, "namespace"),
        name=text(about, "name"),
        uid=text(about, "uid"),
        node=next(filter(None, map(_node_of, events)), ""),
        is_whole=False,
    )


def _node_of(event: Mapping[str, object]) -> str:
    source = mapping(event, "source") or mapping(event, "deprecatedSource")
    reporter = text(event, "reportingComponent") or text(event, "reportingController")
    node = text(event, "reportingInstance") if reporter == "kubelet" else ""
    if text(source, "component") in {"", "kubelet"}:
        return text(source, "host") or node
    return node


def _of_pod(pod: Mapping[str, object], events: list[Mapping[str, object]]) -> Subject:
    about = [EventText.of(event) for event in events if _is_about(event, pod)]
    return Subject(pod_view(pod), pod_failures(pod, about))


def _is_about(event: Mapping[str, object], pod: Mapping[str, object]) -> bool:
    """Tell whether an Event is about this very Pod; what one of the two leaves out may fit.

    Names repeat over namespaces, and over time: a StatefulSet's next Pod has the name of the last.
    """
    about = mapping(event, "involvedObject") or mapping(event, "regarding")
    metadata = mapping(pod, "metadata")
    if text(about, "kind") not in {"", "Pod"} or text(about, "name") != text(metadata, "name"):
        return False
    # A static Pod's Events carry kubelet's own id of it, which the API's copy has as an annotation.
    hashed = text(mapping(metadata, "annotations"), "kubernetes.io/config.hash")
    namespace, uid = text(about, "namespace"), text(about, "uid")
    return namespace in {"", text(metadata, "namespace") or namespace} and uid in {
        "",
        text(metadata, "uid") or uid,
        hashed,
    }


def _message(event: Mapping[str, object]) -> str:
    return text(event, "message") or text(event, "note")


def _of_plain(content: str) -> tuple[Subject, ...]:
    described = described_pods(content)
    if not described:
        return (Subject(None, _of_texts([content])),)
    return tuple(
        Subject(
            pod_view(item.pod), _of_texts([item.text], still=_NOT_UP.search(item.text) is not None)
        )
        for item in described
    )


def _of_texts(texts: list[str], *, still: bool = True) -> tuple[PodFailure, ...]:
    found: dict[Failure, None] = {}
    for content in texts:
        found.update(dict.fromkeys(extract(content)))
    return tuple(PodFailure("", "text", "", still_failing=still, failure=item) for item in found)


def _objects(content: str) -> Iterator[Mapping[str, object]]:
    if _KIND.search(content) is None or len(content) > DOCUMENT_LIMIT_CHARACTERS:
        return
    for document in _documents(content):
        if isinstance(document, Mapping):
            nested = list(items(document, "items"))
            kind = text(document, "kind")
            # Items of a typed list may leave their kind out.
            fallback = kind.removesuffix("List")
            yield from ({"kind": fallback, **item} for item in nested)
            if not nested:
                yield document


def _documents(content: str) -> list[object]:
    try:
        return [json.loads(content)]
    except (ValueError, RecursionError):
        pass
    try:
        return list(yaml.load_all(content, Loader=_LOADER))
    # PyYAML stumbles over a tag that its value does not fit: `!!int ''`, `!!bool x`.
    except (yaml.YAMLError, ValueError, RecursionError, AttributeError, TypeError, LookupError):
        return []
