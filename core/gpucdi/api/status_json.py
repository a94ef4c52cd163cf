"""``GpuCdiStatus.status`` from and to JSON.

Owns: field names and bounds of the whole, of kinds, findings and repairs; what the node has is in
``inventory_json``. Must not know: how a value comes about, nor who reads it.

Sizes are bounded here, once: long name lists are cut to :data:`NAMES_SHOWN` with the full count
beside them, so that a node with 16 GPUs of 7 MIG instances stays below 32 KB.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from gpucdi.api import fields
from gpucdi.api.conditions import Condition
from gpucdi.api.fields import Json
from gpucdi.api.intent import Hold
from gpucdi.api.inventory_json import (
    read_engine,
    read_gpus,
    read_handler,
    read_refresh,
    write_engine,
    write_gpus,
    write_handler,
    write_refresh,
)
from gpucdi.api.status import (
    FileStatus,
    HandlerStatus,
    KindStatus,
    MissingNames,
    NearMiss,
    NodeState,
    NodeStatus,
    RepairRecord,
)
from gpucdi.findings import Cause, Finding, Severity, Who

NAMES_SHOWN = 16
FINDINGS_SHOWN = 24
# With 16 GPUs of 7 instances the rest takes 18 KiB of the 32 that an object should have at most.
FINDINGS_LIMIT_BYTES = 10 * 1024
REPAIRS_SHOWN = 10
ENGINES_SHOWN = 8
TEXT_LIMIT = 960
SUMMARY_LIMIT = 128


def read_status(source: object) -> NodeStatus:
    """Read a status, leaving out whatever does not have the expected type."""
    state = fields.text(source, "state")
    hold = fields.mapping(source, "hold")
    return NodeStatus(
        state=NodeState(state) if state in set(NodeState) else NodeState.UNKNOWN,
        observed_generation=fields.optional_integer(source, "observedGeneration"),
        cause=_cause(source),
        mode=fields.text(source, "mode"),
        hold=_read_hold(hold),
        gpus=read_gpus(fields.mapping(source, "gpus")),
        engines=tuple(read_engine(item) for item in fields.objects(source, "engines")),
        handlers=tuple(read_handler(item) for item in fields.objects(source, "handlers")),
        kinds=tuple(_read_kind(item) for item in fields.objects(source, "kinds")),
        findings=tuple(_read_finding(item) for item in fields.objects(source, "findings")),
        repairs=tuple(_read_repair(item) for item in fields.objects(source, "repairs")),
        conditions=tuple(
            Condition.from_json(item) for item in fields.objects(source, "conditions")
        ),
        refresh=read_refresh(fields.mapping(source, "refresh")),
    )


def write_status(status: NodeStatus) -> dict[str, Json]:
    """Write the status with its derived summary for the printer columns."""
    resolved = sum(kind.is_resolved for kind in status.kinds)
    mig = sum(len(device.mig) for device in status.gpus.devices)
    return fields.compact(
        observedGeneration=status.observed_generation,
        state=status.state.value,
        cause=status.cause and status.cause.value,
        mode=status.mode,
        hold=_write_hold(status.hold),
        summary={
            "gpus": status.gpus.count,
            "migInstances": mig,
            "kinds": f"{resolved}/{len(status.kinds)}",
            "missing": status.missing,
            **_summary_of_runtimes(status.handlers),
        },
        gpus=write_gpus(status.gpus),
        engines=[write_engine(engine) for engine in status.engines[:ENGINES_SHOWN]],
        handlers=[write_handler(handler) for handler in status.handlers],
        kinds=[_write_kind(kind) for kind in status.kinds],
        refresh=write_refresh(status.refresh),
        findings=_write_findings(status.findings),
        repairs=[_write_repair(repair) for repair in status.repairs[-REPAIRS_SHOWN:]],
        conditions=[condition.to_json() for condition in status.conditions],
    )


def _summary_of_runtimes(handlers: tuple[HandlerStatus, ...]) -> dict[str, Json]:
    """Return versions and modes of the node's NVIDIA handlers, each once, for the wide columns."""
    ours = [handler for handler in handlers if handler.is_nvidia or handler.toolkit]
    return fields.compact(
        toolkit=_listed(handler.toolkit for handler in ours),
        mode=_listed(handler.mode for handler in ours),
    )


def _listed(values: Iterable[str]) -> str:
    return ",".join(sorted({value for value in values if value}))[:SUMMARY_LIMIT]


def _cause(source: object) -> Cause | None:
    cause = fields.text(source, "cause")
    if not cause:
        return None
    # A newer agent may know causes that this program does not.
    return Cause(cause) if cause in set(Cause) else Cause.UNDETERMINED


def _read_hold(source: Mapping[str, object]) -> Hold | None:
    reason = fields.text(source, "reason")
    if not reason:
        return None
    return Hold(reason, fields.text(source, "since"), fields.text(source, "message"))


def _write_hold(hold: Hold | None) -> Json:
    if hold is None:
        return None
    return fields.compact(reason=hold.reason, since=hold.since, message=_cut(hold.message))


def _read_kind(source: Mapping[str, object]) -> KindStatus:
    missing, near = fields.mapping(source, "missing"), fields.mapping(source, "nearMiss")
    near_kind = fields.text(near, "kind")
    return KindStatus(
        kind=fields.text(source, "kind"),
        referenced_by=fields.texts(source, "referencedBy"),
        managed=fields.boolean(source, "managed"),
        expected=fields.integer(source, "expected"),
        resolvable=fields.integer(source, "resolvable"),
        missing=MissingNames(fields.integer(missing, "count"), fields.texts(missing, "names")),
        cause=_cause(source),
        near_miss=NearMiss(near_kind, fields.integer(near, "count")) if near_kind else None,
        files=tuple(
            FileStatus(
                path=fields.text(item, "path"),
                owner=fields.text(item, "owner"),
                devices=fields.integer(item, "devices"),
                problem=fields.text(item, "problem"),
            )
            for item in fields.objects(source, "files")
        ),
    )


def _write_kind(kind: KindStatus) -> dict[str, Json]:
    missing = kind.missing
    near = kind.near_miss
    return fields.compact(
        kind=kind.kind,
        referencedBy=list(kind.referenced_by),
        managed=kind.managed,
        expected=kind.expected,
        resolvable=kind.resolvable,
        missing={"count": missing.count, "names": list(missing.names[:NAMES_SHOWN])}
        if missing.count
        else None,
        cause=kind.cause and kind.cause.value,
        nearMiss=None if near is None else {"kind": near.kind, "count": near.count},
        files=[
            fields.compact(
                path=file.path,
                owner=file.owner,
                devices=file.devices,
                problem=_cut(file.problem),
            )
            for file in kind.files
        ],
    )


def _read_finding(source: Mapping[str, object]) -> Finding:
    severity, who = fields.text(source, "severity"), fields.text(source, "who")
    return Finding(
        cause=_cause(source) or Cause.UNDETERMINED,
        severity=Severity(severity) if severity in set(Severity) else Severity.WARNING,
        message=fields.text(source, "message"),
        advice=fields.text(source, "advice"),
        who=Who(who) if who in set(Who) else Who.ADMIN,
        file=fields.optional_text(source, "file"),
        key=fields.optional_text(source, "key"),
        kind=fields.optional_text(source, "kind"),
        names=fields.texts(source, "names"),
    )


def _write_findings(findings: tuple[Finding, ...]) -> list[Json]:
    """Write the first findings, the worst being first, and how many more there are."""
    written: list[Json] = []
    size_bytes = 0
    for finding in findings[:FINDINGS_SHOWN]:
        item = _write_finding(finding)
        size_bytes += len(json.dumps(item))
        if written and size_bytes > FINDINGS_LIMIT_BYTES:
            break
        written.append(item)
    left_out = len(findings) - len(written)
    if left_out:
        written.append(_write_finding(_more(left_out)))
    return written


def _more(count: int) -> Finding:
    return Finding(
        cause=Cause.UNDETERMINED,
        severity=Severity.INFO,
        message=f"{count} more findings are left out here",
        advice="see all of them in the agent's log",
        who=Who.ADMIN,
    )


def _write_finding(finding: Finding) -> dict[str, Json]:
    return fields.compact(
        cause=finding.cause.value,
        severity=finding.severity.value,
        message=_cut(finding.message),
        advice=_cut(finding.advice),
        who=finding.who.value,
        file=finding.file,
        key=finding.key,
        kind=finding.kind,
        names=list(finding.names[:NAMES_SHOWN]),
    )


def _read_repair(source: Mapping[str, object]) -> RepairRecord:
    return RepairRecord(
        time=fields.text(source, "time"),
        kind=fields.text(source, "kind"),
        file=fields.text(source, "file"),
        result=fields.text(source, "result"),
        added=fields.integer(source, "added"),
        removed=fields.integer(source, "removed"),
        before=fields.text(source, "before"),
        after=fields.text(source, "after"),
        message=fields.text(source, "message"),
    )


def _write_repair(repair: RepairRecord) -> dict[str, Json]:
    return fields.compact(
        time=repair.time,
        kind=repair.kind,
        file=repair.file,
        result=repair.result,
        added=repair.added,
        removed=repair.removed,
        before=repair.before,
        after=repair.after,
        message=_cut(repair.message),
    )


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_LIMIT else text[: TEXT_LIMIT - 1] + "…"
