"""``unresolvable CDI devices``: which of its many causes it is.

Owns the rules for that one symptom, in the order of how much they prove: the request itself, the
node's inventory, the node's verdict on the kind, the registry errors in the same text, the design
of the kind. The node's verdict (``KindStatus.cause``) is taken as it is and never decided twice.
"""

from __future__ import annotations

import enum
from dataclasses import replace

from gpucdi.api import KindStatus
from gpucdi.diagnosis import siblings
from gpucdi.diagnosis.asked import asked
from gpucdi.diagnosis.by_design import ANY_UNRESOLVED, TEXT_ONLY, by_design
from gpucdi.diagnosis.case import AUTOMATIC_VENDOR, DEVICE_PLUGIN_VENDOR, MANAGEMENT_KIND, Case
from gpucdi.diagnosis.clues import told
from gpucdi.diagnosis.inventory import absent, names_of
from gpucdi.diagnosis.model import Confidence, Evidence, Verdict
from gpucdi.failures import RequesterName, Symptom
from gpucdi.failures.names import device_of, kind_of
from gpucdi.findings import Cause, Finding

# The kinds whose names are the driver's own: index, `gpu:mig` and UUID.
GPU_KINDS = frozenset({"nvidia.com/gpu", MANAGEMENT_KIND, f"{DEVICE_PLUGIN_VENDOR}/gpu"})
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
HIGH, MEDIUM, LOW = Confidence.HIGH, Confidence.MEDIUM, Confidence.LOW


def decide(case: Case) -> Verdict:
    """Return the verdict on an unresolvable name."""
    for rule in (
        _empty_list,
        asked,
        _automatic,
        _not_on_node,
        _kind_verdict,
        _registry_error,
        by_design,
    ):
        verdict = rule(case)
        if verdict is not None:
            return verdict
    return _undetermined(case)


def _empty_list(case: Case) -> Verdict | None:
    if case.failure.names:
        return None
    return Verdict(
        Cause.UNDETERMINED,
        "A CDI device does not resolve; the text was cut before it names the device.",
        LOW,
        candidates=ANY_UNRESOLVED,
        not_seen=("the names of the devices: the text ends where they would stand",),
    )


def _automatic(case: Case) -> Verdict | None:
    if not any(kind.startswith(f"{AUTOMATIC_VENDOR}/") for kind in case.failure.kinds):
        return None
    names = ", ".join(case.failure.names)
    return Verdict(
        Cause.JIT_GENERATION_FAILED,
        f"{names} is generated in memory when the container starts, never read from a file: that "
        "generation failed, and this toolkit hides why.",
        HIGH,
        (Evidence(f"the kind {AUTOMATIC_VENDOR}/gpu exists in memory only"),),
        not_seen=("the generator's own error, which toolkits up to 1.18.1 log as a warning only",),
    )


def _not_on_node(case: Case) -> Verdict | None:
    gpus = case.inventory
    if gpus is None:
        return None
    for name in case.failure.names:
        if kind_of(name) not in GPU_KINDS:
            continue
        cause = absent(device_of(name), gpus)
        if cause is None or (cause is Cause.MIG_PARENT_HIDDEN and _blames_other(case, name)):
            continue
        others = (kind.cause for kind in case.kinds if kind.cause is not None)
        return Verdict(
            cause,
            _absence(cause, device_of(name)),
            HIGH,
            (Evidence(f"the node has {len(gpus)} GPUs: {_inventory(case)}"),),
            contributing=tuple(other for other in others if other is not cause),
        )
    return None


def _blames_other(case: Case, name: str) -> bool:
    # The parent of MIG instances is hidden only where the rest of the kind resolves.
    status = case.node.kind(kind_of(name)) if case.node else None
    return status is not None and status.cause not in {None, Cause.MIG_PARENT_HIDDEN}


def _absence(cause: Cause, device: str) -> str:
    if cause is Cause.STALE_UUID:
        return f"No GPU of this node has the UUID {device}: the card was swapped, lost, or moved."
    if cause is Cause.MIG_LAYOUT_CHANGED:
        return f"The MIG instance {device} does not exist on this node: the MIG layout changed."
    if cause is Cause.MIG_PARENT_HIDDEN:
        return (
            f"The GPU {device} is in MIG mode: specs of toolkits from 1.18 on list its instances "
            "and not the GPU itself."
        )
    return f"This node has no GPU called {device}."


def _inventory(case: Case) -> str:
    gpus = case.inventory or ()
    shown = ", ".join(gpu.uuid for gpu in gpus[:4])
    return shown + (", …" if len(gpus) > 4 else "")  # noqa: PLR2004 - as many as a line takes


class _State(enum.Enum):
    """What the node's status says of one name."""

    MISSING = "missing"
    RESOLVES = "resolves"
    UNKNOWN = "unknown"


def _kind_verdict(case: Case) -> Verdict | None:
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
    if device in status.missing.names:
        return _State.MISSING
    listed = names_of(case.inventory or ()) | ({"all"} if status.managed else set())
    if device not in listed or not status.expected:
        return _State.UNKNOWN
    # A long list of missing names is cut, with the full count beside it.
    is_cut = status.missing.count > len(status.missing.names)
    return _State.MISSING if is_cut and status.cause else _State.RESOLVES


def _of_kind(case: Case, kind: KindStatus) -> Verdict:
    unread = _plugin_request_unread(case, kind)
    return Verdict(
        kind.cause or Cause.UNDETERMINED,
        _kind_summary(case, kind),
        HIGH,
        (*_files(kind), *_hiding(case, kind)),
        contributing=(Cause.REQUEST_NOT_READ,) if unread else (),
        near_miss=kind.near_miss,
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
    return Verdict(
        Cause.UNDETERMINED,
        f"{names} resolves on this node now: the failure is older than the node's last look.",
        MEDIUM,
        tuple(item for kind in case.kinds for item in _files(kind)),
        not_seen=("the state of the node at the time of the failure",),
        resolved_now=True,
    )


def _not_listed(case: Case, name: str) -> Verdict:
    """Judge a name of which the node's status does not say whether it resolves."""
    kind = kind_of(name)
    status = case.node.kind(kind) if case.node else None
    if status is not None and status.files:
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
    design = by_design(case)
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


def _registry_error(case: Case) -> Verdict | None:
    """Take the reader's own word for why it dropped a file, if the same text has it."""
    for other in case.related:
        if other.symptom in {Symptom.SPEC_LOAD_FAILED, Symptom.NAME_CONFLICT}:
            verdict = siblings.decide(replace(case, failure=other))
            names = ", ".join(case.failure.names)
            return replace(verdict, summary=f"{names} does not resolve: {verdict.summary}")
    return None


def _undetermined(case: Case) -> Verdict:
    names = ", ".join(case.failure.names)
    return Verdict(
        Cause.UNDETERMINED,
        f"{names} is in no spec that the reader takes; the text alone does not tell why.",
        LOW,
        (Evidence(f"requested: {names}"),),
        candidates=ANY_UNRESOLVED,
        not_seen=(TEXT_ONLY,),
    )
