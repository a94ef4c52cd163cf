"""From a verdict to ``GpuCdiStatus.status``. Owns what the API shows of an assessment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpucdi.api import names
from gpucdi.api.conditions import Condition, ConditionStatus, stamp
from gpucdi.api.intent import Hold, RepairMode
from gpucdi.api.status import (
    EngineStatus,
    HandlerStatus,
    KindStatus,
    MissingNames,
    NodeState,
    NodeStatus,
    RefreshStatus,
    RepairRecord,
)
from gpucdi.cdi import reader_library
from gpucdi.engines import Engine
from gpucdi.findings import Cause, Finding, Severity
from gpucdi.node.assessment import Assessment, KindAssessment
from gpucdi.node.observation import TOOLKIT, native_dirs
from gpucdi.toolkit import HandlerRuntime

_MESSAGE_NAMES = 3
# A file of ours that was taken away as planned is a success too.
_DONE = frozenset({"Succeeded", "Removed"})


@dataclass(frozen=True, slots=True)
class PassContext:
    """What a pass knows besides its verdict.

    ``now`` is RFC 3339 in UTC, ``generation`` that of the spec obeyed, ``repairs`` the history with
    the newest last, ``extra`` findings of the pass itself (a refused repair, a failed generator).
    """

    now: str
    mode: RepairMode = RepairMode.OBSERVE
    generation: int | None = None
    hold: Hold | None = None
    repairs: tuple[RepairRecord, ...] = ()
    extra: tuple[Finding, ...] = ()
    repairing: bool = False
    refresh: RefreshStatus | None = None


def node_status(
    assessment: Assessment, context: PassContext, previous: NodeStatus | None = None
) -> NodeStatus:
    """Build the status. Equal verdicts give equal statuses: time enters through transitions only."""
    findings = tuple(dict.fromkeys((*assessment.findings, *context.extra)))
    cause = assessment.cause or _error_cause(findings)
    return NodeStatus(
        state=_state(assessment, context, findings),
        observed_generation=context.generation,
        cause=cause,
        mode=context.mode.value,
        hold=context.hold,
        gpus=assessment.observation.inventory.gpus,
        engines=tuple(_engine(engine) for engine in assessment.observation.engines),
        handlers=tuple(_handler(runtime) for runtime in assessment.observation.runtimes),
        kinds=tuple(kind_status(kind) for kind in assessment.kinds),
        findings=tuple(sorted(findings, key=_severity_rank)),
        repairs=context.repairs,
        conditions=stamp(
            _conditions(assessment, context, findings),
            previous.conditions if previous else (),
            context.now,
        ),
        refresh=context.refresh,
    )


def kind_status(kind: KindAssessment) -> KindStatus:
    """Return what the API shows of one kind."""
    return KindStatus(
        kind=kind.kind,
        referenced_by=kind.handlers,
        managed=kind.managed,
        expected=len(kind.expected),
        resolvable=len(kind.expected) - len(kind.missing),
        missing=MissingNames(len(kind.missing), tuple(item.name for item in kind.missing)),
        cause=kind.cause,
        near_miss=kind.near_miss,
        files=kind.files,
    )


def _severity_rank(finding: Finding) -> int:
    return list(Severity).index(finding.severity)


def _error_cause(findings: Iterable[Finding]) -> Cause | None:
    return next((item.cause for item in findings if item.severity is Severity.ERROR), None)


def _state(
    assessment: Assessment, context: PassContext, findings: tuple[Finding, ...]
) -> NodeState:
    drifted = not assessment.is_resolved or _error_cause(findings) is not None
    if drifted and context.repairing:
        return NodeState.REPAIRING
    if drifted and context.hold is not None and context.mode is RepairMode.AUTO:
        return NodeState.HELD
    if drifted:
        return NodeState.DRIFTED
    if not assessment.observation.inventory.is_known:
        return NodeState.UNKNOWN
    return NodeState.RESOLVED


def _engine(engine: Engine) -> EngineStatus:
    version = engine.version.value
    library = reader_library(engine.name.value, version) if version else None
    return EngineStatus(
        name=engine.name.value,
        version=version or "",
        cdi_enabled=engine.cdi_enabled.value,
        spec_dirs=native_dirs(engine),
        library=str(library) if library else "",
    )


def _handler(runtime: HandlerRuntime) -> HandlerStatus:
    toolkit = runtime.toolkit
    version = toolkit.version.value if toolkit else None
    library = reader_library(TOOLKIT, version) if version else None
    config = runtime.config
    return HandlerStatus(
        name=runtime.handler.name,
        engine=runtime.handler.engine.value,
        binary=runtime.wrapper or runtime.program or runtime.handler.binary.value or "",
        config=config.file if config else "",
        toolkit=version or "",
        mode=runtime.mode.value.value if runtime.mode.value else "",
        default_kind=config.default_kind.value if config else "",
        spec_dirs=config.spec_dirs.value if config else (),
        library=str(library) if library else "",
        is_default=runtime.handler.is_default,
        is_nvidia=runtime.is_nvidia,
        driver_root=config.driver_root.value if config else "",
        annotation_prefixes=config.annotation_prefixes.value if config else (),
        pod_annotations=runtime.handler.pod_annotations,
        accept_env=config.accept_envvar_when_unprivileged.value if config else None,
        accept_mounts=config.accept_volume_mounts.value if config else None,
    )


def _conditions(
    assessment: Assessment, context: PassContext, findings: tuple[Finding, ...]
) -> tuple[Condition, ...]:
    built = [
        _resolvable(assessment, findings),
        _inventory_fresh(assessment),
        _config_readable(findings),
    ]
    if context.repairs:
        last = context.repairs[-1]
        built.append(
            Condition(
                names.CONDITION_REPAIR_SUCCEEDED,
                ConditionStatus.TRUE if last.result in _DONE else ConditionStatus.FALSE,
                last.result,
                f"{last.kind}: {last.message or last.file}",
            )
        )
    return tuple(built)


def _resolvable(assessment: Assessment, findings: tuple[Finding, ...]) -> Condition:
    kind = names.CONDITION_RESOLVABLE
    missing = next((item for item in assessment.kinds if item.missing), None)
    if missing is not None:
        return Condition(
            kind,
            ConditionStatus.FALSE,
            (assessment.cause or Cause.UNDETERMINED).value,
            _missing_text(missing),
        )
    error = next((item for item in findings if item.severity is Severity.ERROR), None)
    if error is not None:
        return Condition(kind, ConditionStatus.FALSE, error.cause.value, error.message)
    if not assessment.observation.inventory.is_known:
        return Condition(
            kind, ConditionStatus.UNKNOWN, "InventoryUnknown", "the GPUs could not be counted"
        )
    return Condition(kind, ConditionStatus.TRUE, "AllNamesResolve", "every expected name resolves")


def _missing_text(kind: KindAssessment) -> str:
    listed = ", ".join(item.name for item in kind.missing[:_MESSAGE_NAMES])
    more = len(kind.missing) - _MESSAGE_NAMES
    tail = f" and {more} more" if more > 0 else ""
    text = f"{kind.kind}: {len(kind.missing)} of {len(kind.expected)} names do not resolve"
    text += f" ({listed}{tail})"
    if kind.near_miss is not None:
        text += f"; {kind.near_miss.count} of them exist as {kind.near_miss.kind}"
    return text


def _inventory_fresh(assessment: Assessment) -> Condition:
    problem = assessment.observation.inventory.problem
    if problem is None:
        source = assessment.observation.inventory.gpus.source
        told = "NVML answered" if source == "nvml" else f"counted by {source}, without NVML"
        return Condition(names.CONDITION_INVENTORY_FRESH, ConditionStatus.TRUE, "Counted", told)
    known = assessment.observation.inventory.is_known
    return Condition(
        names.CONDITION_INVENTORY_FRESH,
        ConditionStatus.FALSE if known else ConditionStatus.UNKNOWN,
        problem.cause.value,
        problem.message,
    )


def _config_readable(findings: tuple[Finding, ...]) -> Condition:
    bad = next((item for item in findings if item.cause is Cause.CONFIG_UNREADABLE), None)
    if bad is None:
        return Condition(
            names.CONDITION_CONFIG_READABLE, ConditionStatus.TRUE, "Read", "every file was read"
        )
    return Condition(
        names.CONDITION_CONFIG_READABLE,
        ConditionStatus.FALSE,
        bad.cause.value,
        f"{bad.file}: {bad.message}" if bad.file else bad.message,
    )
