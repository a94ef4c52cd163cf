"""What ``kubectl describe pod`` prints, read back as far as devices go.

Owns the layout of kubernetes/kubectl ``pkg/describe/describe.go`` (describePod): top-level fields at
the margin, values behind them, continuation lines and containers indented. Must not know wordings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

_START = re.compile(r"^Name:[ \t]+\S", re.MULTILINE)
# Lines come without blanks at their end.
_FIELD = re.compile(r"^(?P<key>[A-Z][A-Za-z ]{0,40}):(?:[ \t]+(?P<value>.+))?$")
_PAIR = re.compile(r"^\s*(?P<key>[\w./-]+)[:=]\s*(?P<value>.*)$")
_CONTAINER = re.compile(r"^  (?P<name>[a-z0-9][a-z0-9.-]*):$")
_SECTION = re.compile(r"^ {4}(?P<name>Limits|Requests|Environment):")
_ENTRY = re.compile(r"^ {6,}(?P<key>[\w./-]+):\s+(?P<value>\S.*)$")
_LISTS = {
    "Init Containers": "initContainers",
    "Containers": "containers",
    "Ephemeral Containers": "ephemeralContainers",
}


@dataclass(frozen=True, slots=True)
class Described:
    """One Pod of the output: what could be read, shaped as the API shapes it, and its text."""

    pod: Mapping[str, object]
    text: str


def described_pods(content: str) -> tuple[Described, ...]:
    """Return the Pods that the output describes; none for any other text."""
    starts = [found.start() for found in _START.finditer(content)]
    parts = [content[start:end] for start, end in pairwise([*starts, len(content)])]
    return tuple(
        Described(_pod(part), part)
        for part in parts
        if re.search(r"^(?:Node|Containers):", part, re.MULTILINE)
    )


def _pod(part: str) -> dict[str, object]:
    sections = dict(_sections(part))
    one = {key: lines[0] for key, lines in sections.items()}
    annotations = _pairs(sections.get("Annotations", []))
    spec: dict[str, object] = {
        "nodeName": one.get("Node", "").partition("/")[0],
        "runtimeClassName": one.get("Runtime Class Name", ""),
        "schedulerName": one.get("Scheduler Name", ""),
    }
    for title, list_name in _LISTS.items():
        spec[list_name] = list(_containers(sections.get(title, [])))
    return {
        "kind": "Pod",
        "metadata": {
            "name": one.get("Name", ""),
            "namespace": one.get("Namespace", ""),
            "annotations": annotations,
            "labels": _pairs(sections.get("Labels", [])),
        },
        "spec": spec,
        "status": {"phase": one.get("Status", "")},
    }


def _sections(part: str) -> Iterator[tuple[str, list[str]]]:
    key, lines = "", [""]
    for line in (raw.rstrip() for raw in part.splitlines()):
        found = _FIELD.match(line)
        if found:
            if key:
                yield key, lines
            key, lines = found["key"], [found["value"] or ""]
        else:
            lines.append(line)
    if key:
        yield key, lines


def _pairs(lines: list[str]) -> dict[str, str]:
    found = (_PAIR.match(line) for line in lines)
    return {pair["key"]: pair["value"] for pair in found if pair}


def _containers(lines: list[str]) -> Iterator[dict[str, object]]:
    name, own = "", list[str]()
    for line in [*lines, "  end-of-containers:"]:
        found = _CONTAINER.match(line)
        if found:
            if name:
                yield _container(name, own)
            name, own = found["name"], []
        else:
            own.append(line)


def _container(name: str, lines: list[str]) -> dict[str, object]:
    values: dict[str, dict[str, str]] = {"Limits": {}, "Requests": {}, "Environment": {}}
    current: dict[str, str] | None = None
    for line in lines:
        section = _SECTION.match(line)
        entry = _ENTRY.match(line)
        if section:
            current = values[section["name"]]
        elif entry and current is not None:
            current[entry["key"]] = entry["value"]
        else:
            current = None
    return {
        "name": name,
        "resources": {"limits": values["Limits"], "requests": values["Requests"]},
        "env": [{"name": key, "value": value} for key, value in values["Environment"].items()],
    }
