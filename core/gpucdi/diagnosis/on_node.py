"""An unresolvable name against the node's own verdict on its kind.

Owns the join of names with ``NodeStatus.kinds`` and its findings. The node's cause of a kind is
taken as it is; only names that the node did not expect of anybody are judged here.
"""

from __future__ import annotations

import enum
from dataclasses import replace

from gpucdi.api import KindStatus
from gpucdi.diagnosis.by_design import ANY_UNRESOLVED, by_design
from gpucdi.diagnosis.case import Case
from gpucdi.diagnosis.clues import told
from gpucdi.diagnosis.inventory import names_of
from gpucdi.diagnosis.model import Confidence, Evidence, Verdict
from gpucdi.failures import RequesterName
from gpucdi.failures.names import device_of, kind_of
from gpucdi.findings import Cause, Finding

# What makes a reader not see a file that is there.
HIDING = frozenset(
    {
        Cause.SAME_DIR_CONFLICT,
        Cause.SPEC_NOT_READABLE,
        Cause.SPEC_TOO_NEW_FOR_READER,
        Cause.SPEC_REJECTED,
        Cause.SPEC_DIR_NOT_READ,
        Cause.SPEC_DIR_MISSING,
    }
)
# What keeps those who write specs from writing them.
UPSTREAM = frozenset(
    {
        Cause.GENERATOR_MISSING,
        Cause.GENERATOR_FAILED,
        Cause.REFRESH_UNIT_FAILED,
        Cause.DRIVER_NOT_READY,
        Cause.DRIVER_MISMATCH,
        Cause.DRIVER_ROOT_WRONG,
        Cause.GPU_LOST,
    }
)
HIGH, MEDIUM, LOW = Confidence.HIGH, Confidence.MEDIUM, Confidence.LOW


class _State(enum.Enum):
    """What the node's status says of one name."""

    MISSING = "missing"
    RESOLVES = "resolves"
    UNKNOWN = "unknown"


def kind_verdict(case: Case) -> Verdict | None:
    """Take what the node says of each name's kind; ``None`` without a node."""
    if case.node is None:
        return None
    states = {name: _state(case, name) for name in case.failure.names}
    for name, state in states.items():
        status = case.node.kind(kind_of(name))
        if state is _State.MISSING and status is not None:
            return _of_kind(case, status)
    if all(state is _State.RESOLVES for state in states.values()):
        return _resolves_now(case)
    unknown = next(name for name, state in states.items() if state is _State.UNKNOWN)
    return _not_listed(case, unknown)


def _state(case: Case, name: str) -> _State:
    status = case.node.kind(kind_of(name)) if case.node else None
    device = device_of(name)
    if status is None:
        return _State.UNKNOWN
    if device in status.missing.names or _is_whole(status, device):
        return _State.MISSING
    listed = names_of(case.inventory or ()) | ({"all"} if status.managed else set())
    if device not in listed or not status.expected:
        return _State.UNKNOWN
    # A long list of missing names is cut, with the full count beside it.
    is_cut = status.missing.count > len(status.missing.names)
    return _State.MISSING if is_cut and status.cause else _State.RESOLVES


def _is_whole(status: KindStatus, device: str) -> bool:
    """Tell whether the kind's cause holds for every name, also one that nobody expected."""
    if status.cause is Cause.ONLY_ALL_DEVICE:
        return device != "all"
    # Of other vendors' kinds the node cannot know which names to expect, nor whose file has them.
    return status.cause is Cause.KIND_HAS_NO_SPEC and "nvidia.com/" in status.kind


def _of_kind(case: Case, kind: KindStatus) -> Verdict:
    if kind.cause is Cause.KIND_HAS_NO_SPEC and kind.files:
        # Another reader of the node does have the kind: the asking one reads other directories.
        return _elsewhere(kind)
    upstream = (*_upstream(case, kind), *_refusals(case, kind))
    unread = (Cause.REQUEST_NOT_READ,) if _plugin_request_unread(case, kind) else ()
    return Verdict(
        kind.cause or Cause.UNDETERMINED,
        _kind_summary(case, kind),
        HIGH,
        (*_files(kind), *_hiding(case, kind), *(item for each in upstream for item in told(each))),
        contributing=(*unread, *dict.fromkeys(item.cause for item in upstream)),
        near_miss=kind.near_miss,
    )


def _elsewhere(kind: KindStatus) -> Verdict:
    places = ", ".join(file.path for file in kind.files)
    return Verdict(
        Cause.SPEC_DIR_NOT_READ,
        f"{kind.kind} is defined in {places}, in a directory that the asking reader does not read.",
        HIGH,
        _files(kind),
        near_miss=kind.near_miss,
    )


def _upstream(case: Case, kind: KindStatus) -> tuple[Finding, ...]:
    """Return the node's findings that say why nobody wrote the missing names."""
    if kind.cause not in {Cause.KIND_HAS_NO_SPEC, Cause.SPEC_LACKS_DEVICE} or case.node is None:
        return ()
    return tuple(item for item in case.node.findings if item.cause in UPSTREAM)


def _refusals(case: Case, kind: KindStatus) -> tuple[Finding, ...]:
    """Return why gpucdi did not repair the kind, where it was allowed to."""
    findings = case.node.findings if case.node else ()
    return tuple(
        item
        for item in findings
        if item.cause is Cause.REPAIR_REFUSED and item.kind in {None, kind.kind}
    )


def _files(kind: KindStatus) -> tuple[Evidence, ...]:
    found = tuple(
        Evidence(
            f"defines {file.devices} device{'' if file.devices == 1 else 's'} of {kind.kind}"
            + (f", not read by {file.problem}" if file.problem else ""),
            file.path,
        )
        for file in kind.files
    )
    return found or (Evidence(f"no spec file that is read defines {kind.kind}"),)


def _hiding(case: Case, kind: KindStatus) -> tuple[Evidence, ...]:
    finding = case.finding(kind.cause) if kind.cause in HIDING else None
    return told(finding)


def _plugin_request_unread(case: Case, kind: KindStatus) -> bool:
    # NVIDIA's plugin hands over qualified names; a bare one that reaches the runtime means that it
    # was told not to, or that the engine did not take them.
    others = tuple(name for name in RequesterName if name is not RequesterName.DEVICE_PLUGIN)
    by_plugin = case.asked_by(RequesterName.DEVICE_PLUGIN) and not case.asked_by(*others)
    return by_plugin and kind.cause is Cause.ONLY_ALL_DEVICE


def _kind_summary(case: Case, kind: KindStatus) -> str:
    devices = case.devices_of(kind.kind)
    device = devices[0] if len(devices) == 1 else f"{len(devices)} devices"
    start = {
        Cause.ONLY_ALL_DEVICE: f"{kind.kind} has the one device `all`, so {device} cannot resolve",
        Cause.KIND_HAS_NO_SPEC: f"No spec file defines the kind {kind.kind}",
        Cause.SPEC_LACKS_DEVICE: f"The spec of {kind.kind} lacks {device}",
    }.get(
        kind.cause or Cause.UNDETERMINED,
        f"{kind.missing.count} of {kind.expected} names of {kind.kind} do not resolve",
    )
    near = kind.near_miss
    end = f"; {near.kind} has {near.count} of the missing names" if near else ""
    return f"{start}{end}."


def _resolves_now(case: Case) -> Verdict:
    names = ", ".join(case.failure.names)
    unread = _unread_by_engine(case)
    if unread is not None:
        return Verdict(
            unread.cause,
            f"{names} is defined, in a file that the engine does not take: {unread.message}.",
            MEDIUM,
            told(unread),
        )
    return Verdict(
        Cause.UNDETERMINED,
        f"{names} resolves on this node now: the failure is older than the node's last look.",
        MEDIUM,
        tuple(item for kind in case.kinds for item in _files(kind)),
        not_seen=("the state of the node at the time of the failure",),
        resolved_now=True,
    )


def _unread_by_engine(case: Case) -> Finding | None:
    """Return why the failing engine does not take a file that other readers take."""
    paths = {file.path for kind in case.kinds for file in kind.files}
    engine = case.failure.engine.value if case.failure.engine else ""
    for finding in case.node.findings if case.node and engine else ():
        if finding.cause is Cause.SPEC_TOO_NEW_FOR_READER and finding.file in paths:
            return finding if f"for {engine} " in finding.message else None
    return None


def _not_listed(case: Case, name: str) -> Verdict:
    """Judge a name of which the node's status does not say whether it resolves."""
    kind = kind_of(name)
    status = case.node.kind(kind) if case.node else None
    design = by_design(case)
    if status is not None and status.files:
        only_one = all(file.devices == 1 for file in status.files)
        if only_one and design is not None and design.cause is Cause.ONLY_ALL_DEVICE:
            # Without an inventory nothing is expected of the kind, and still it has one device.
            return replace(design, evidence=_files(status), confidence=HIGH, not_seen=())
        return Verdict(
            Cause.SPEC_LACKS_DEVICE,
            f"The spec files of {kind} are read and do not define {device_of(name)}.",
            MEDIUM,
            _files(status),
            not_seen=("the list of names that the files define",),
        )
    hidden = _hidden_by(case, kind)
    if hidden is not None:
        return Verdict(
            hidden.cause,
            f"{name} does not resolve, and {hidden.file or 'a spec file'} is not taken: "
            f"{hidden.message}.",
            MEDIUM,
            told(hidden),
            candidates=(Cause.KIND_HAS_NO_SPEC,),
        )
    if status is not None:
        return Verdict(
            Cause.KIND_HAS_NO_SPEC, f"No spec file defines the kind {kind}.", HIGH, _files(status)
        )
    if design is not None:
        return design
    return Verdict(
        Cause.KIND_HAS_NO_SPEC,
        f"The node knows no spec of the kind {kind}.",
        LOW,
        candidates=ANY_UNRESOLVED[1:],
        not_seen=(f"whether any file defines {kind}: the node's status does not list that kind",),
    )


def _hidden_by(case: Case, kind: str) -> Finding | None:
    findings = case.node.findings if case.node else ()
    found = [finding for finding in findings if finding.cause in HIDING]
    vendor, _, name = kind.partition("/")
    named = [
        finding
        for finding in found
        if finding.kind == kind
        or (finding.file and (vendor in finding.file or name in finding.file))
    ]
    return next(iter(named or [item for item in found if item.kind is None]), None)
