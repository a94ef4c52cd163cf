"""A node's status for people in a terminal and for programs.

Owns: the layout of ``inspect``'s table. Must not know: how the status came about.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

import yaml

from gpucdi.api import (
    GROUP,
    KIND_STATUS,
    VERSION,
    HandlerStatus,
    KindStatus,
    NodeStatus,
    write_status,
)
from gpucdi.api.fields import Json
from gpucdi.findings import Finding
from gpucdi.repair import Plan, WriteFile

NAMES_IN_TABLE = 4


def as_object(status: NodeStatus, node_name: str) -> dict[str, Json]:
    """Return the status as the API object it is published in."""
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND_STATUS,
        "metadata": {"name": node_name},
        "spec": {"nodeName": node_name},
        "status": write_status(status),
    }


def as_json(document: Mapping[str, object]) -> str:
    """Return a document as JSON with sorted keys, so that equal ones are equal text."""
    return json.dumps(document, indent=2, sort_keys=True)


def as_yaml(document: Mapping[str, object]) -> str:
    """Return a document as YAML."""
    return yaml.safe_dump(dict(document), sort_keys=True, allow_unicode=True).rstrip()


def as_table(status: NodeStatus, node_name: str) -> str:
    """Return what a person reads first: state, handlers, kinds, findings."""
    return "\n".join(_lines(status, node_name))


def plan_lines(plan: Plan) -> Iterator[str]:
    """Yield one line for each file change of a plan, and one for each refusal."""
    for action in plan.actions:
        if isinstance(action, WriteFile):
            yield f"write   {action.path}  ({action.kind}: +{action.added} -{action.removed} names)"
        else:
            yield f"remove  {action.path}  ({action.kind}: -{action.removed} names)"
    for refusal in plan.refusals:
        yield f"refused {refusal.message}"


def _lines(status: NodeStatus, node_name: str) -> Iterator[str]:
    cause = f" ({status.cause.value})" if status.cause else ""
    yield f"{node_name}: {status.state.value}{cause}, repair {status.mode or '-'}"
    if status.hold is not None:
        yield f"held since {status.hold.since}: {status.hold.reason}, {status.hold.message}"
    yield _gpu_line(status)
    if (refresh := status.refresh) is not None:
        covers = f", writes {refresh.kind} to {refresh.file}" if refresh.kind else ""
        told = f", {refresh.problem}" if refresh.problem else ""
        yield f"nvidia-cdi-refresh: service {refresh.service}, path {refresh.path}{covers}{told}"
    yield ""
    yield from _table(
        ("HANDLER", "ENGINE", "MODE", "DEFAULT KIND", "TOOLKIT", "BINARY", "CONFIG"),
        [_handler_row(handler) for handler in status.handlers],
    )
    yield ""
    yield from _table(
        ("KIND", "RESOLVES", "CAUSE", "MISSING", "NEAR MISS", "FILES"),
        [_kind_row(kind) for kind in status.kinds],
    )
    for number, finding in enumerate(status.findings, 1):
        yield ""
        yield from _finding_lines(number, finding)


def _gpu_line(status: NodeStatus) -> str:
    gpus = status.gpus
    mig = sum(len(device.mig) for device in gpus.devices)
    parts = [f"{gpus.count} GPUs" + (f", {mig} MIG instances" if mig else "")]
    parts.append(f"counted by {gpus.source}" if gpus.source != "none" else "nobody can count them")
    if gpus.driver:
        parts.append(f"driver {gpus.driver}")
    return ", ".join(parts)


def _handler_row(handler: HandlerStatus) -> tuple[str, ...]:
    return (
        handler.name + (" *" if handler.is_default else ""),
        handler.engine,
        handler.mode or "-",
        # Only this mode turns a name into one of a spec file; elsewhere the setting means nothing.
        handler.default_kind if handler.mode == "cdi" and handler.default_kind else "-",
        handler.toolkit or "-",
        handler.binary or "-",
        handler.config or "-",
    )


def _kind_row(kind: KindStatus) -> tuple[str, ...]:
    names = ", ".join(kind.missing.names[:NAMES_IN_TABLE])
    more = kind.missing.count - NAMES_IN_TABLE
    near = f"{kind.near_miss.count} as {kind.near_miss.kind}" if kind.near_miss else "-"
    return (
        kind.kind,
        f"{kind.resolvable}/{kind.expected}",
        kind.cause.value if kind.cause else "-",
        (names + (f" +{more}" if more > 0 else "")) or "-",
        near,
        " ".join(file.path for file in kind.files) or "-",
    )


def _finding_lines(number: int, finding: Finding) -> Iterator[str]:
    place = " ".join(part for part in (finding.file, finding.key) if part)
    yield f"{number}. {finding.severity.value} {finding.cause.value}: {finding.message}"
    if place:
        yield f"   at {place}"
    yield f"   {finding.who.value}: {finding.advice}"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    lines = [header, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    for line in lines:
        yield "  ".join(
            cell.ljust(width) for cell, width in zip(line, widths, strict=True)
        ).rstrip()
