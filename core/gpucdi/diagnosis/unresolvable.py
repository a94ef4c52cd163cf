"""``unresolvable CDI devices``: which of its many causes it is.

Owns the rules for that one symptom, in the order of how much they prove: the request itself, the
node's inventory, the node's verdict on the kind, the registry errors in the same text, the design
of the kind. The node's verdict (``KindStatus.cause``) is taken as it is and never decided twice.
"""

from __future__ import annotations

import re

from gpucdi.api import KindStatus, NodeState
from gpucdi.diagnosis.case import (
    AUTOMATIC_VENDOR,
    DEVICE_PLUGIN_VENDOR,
    DRA_VENDORS,
    MANAGEMENT_KIND,
    Case,
)
from gpucdi.diagnosis.inventory import absent, is_replica, is_short_uuid
from gpucdi.diagnosis.model import Confidence, Evidence, Verdict
from gpucdi.failures import RequesterName
from gpucdi.failures.names import device_of, kind_of
from gpucdi.findings import Cause

HIGH, MEDIUM, LOW = Confidence.HIGH, Confidence.MEDIUM, Confidence.LOW
_CLAIM_NAME = re.compile(r"(?:^|.*[-_.])[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}(?:$|[-_.].*)")
_TEXT_ONLY = "the spec files and the configuration of the node"
_ANY_UNRESOLVED = (
    Cause.KIND_HAS_NO_SPEC,
    Cause.SPEC_LACKS_DEVICE,
    Cause.SPEC_DIR_NOT_READ,
    Cause.SPEC_REJECTED,
    Cause.SPEC_TOO_NEW_FOR_READER,
    Cause.SPEC_NOT_READABLE,
    Cause.SAME_DIR_CONFLICT,
)


def decide(case: Case) -> Verdict:
    """Return the verdict on an unresolvable name."""
    for rule in (_empty_list, _request, _automatic, _not_on_node, _kind_verdict, _by_design):
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
        candidates=_ANY_UNRESOLVED,
        not_seen=("the names of the devices: the text ends where they would stand",),
    )


def _request(case: Case) -> Verdict | None:
    for name in case.failure.names:
        device, kind = device_of(name), kind_of(name)
        fault = _fault(device)
        if name in case.failure.malformed or fault:
            reason = fault or _malformation(device)
            return Verdict(
                Cause.MALFORMED_REQUEST,
                f"The request {name} cannot be the name of any CDI device: {reason}.",
                HIGH,
                (Evidence(f"requested: {name}"),),
            )
        if device == "void":
            return Verdict(
                Cause.VOID_MOUNT_SKEW,
                f"{name} is no device: it is the marker that another, newer toolkit's spec mounts "
                "to say that the devices are injected already.",
                MEDIUM,
                (Evidence(f"requested: {name}"),),
                not_seen=() if case.node else (_TEXT_ONLY,),
            )
        if device == "none":
            return _none(case, kind)
    return None


def _fault(device: str) -> str:
    if is_replica(device):
        return "it is kubelet's id of a share of a GPU, not the GPU's UUID"
    if is_short_uuid(device):
        return "a shortened UUID is understood in legacy mode only"
    return ""


def _malformation(device: str) -> str:
    if not device:
        return (
            "its name is empty, which NVIDIA_VISIBLE_DEVICES=none or a repeated id leads to "
            "(toolkit up to 1.18.1)"
        )
    if "=" in device or "/" in device:
        return "the kind stands in it twice, or it is a path"
    return "it holds characters that no CDI name may have"


def _none(case: Case, kind: str) -> Verdict:
    return Verdict(
        Cause.SPEC_LACKS_DEVICE,
        f"{kind} has no device `none`: NVIDIA_VISIBLE_DEVICES=none (or a repeated id) becomes "
        f"{kind}=none in cdi mode.",
        MEDIUM if case.node is None else HIGH,
        (Evidence(f"requested: {kind}=none"),),
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
        if "nvidia" not in kind_of(name):
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


def _kind_verdict(case: Case) -> Verdict | None:
    drifted = [kind for kind in case.kinds if kind.cause is not None]
    if drifted:
        return _of_kind(case, drifted[0])
    if case.kinds and len(case.kinds) == len(case.failure.kinds):
        return _resolves_now(case)
    if case.node is not None and case.node.state is not NodeState.UNKNOWN:
        return _unlisted(case)
    return None


def _of_kind(case: Case, kind: KindStatus) -> Verdict:
    cause = kind.cause or Cause.UNDETERMINED
    evidence = tuple(
        Evidence(
            f"defines {file.devices} device{'' if file.devices == 1 else 's'} of {kind.kind}"
            + (f": {file.problem}" if file.problem else ""),
            file.path,
        )
        for file in kind.files
    )
    return Verdict(
        cause,
        _kind_summary(case, kind),
        HIGH,
        evidence or (Evidence(f"no spec file defines {kind.kind}"),),
        near_miss=kind.near_miss,
    )


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
        tuple(
            Evidence(f"defines {file.devices} devices of {kind.kind}", file.path)
            for kind in case.kinds
            for file in kind.files
        ),
        not_seen=("the state of the node at the time of the failure",),
        resolved_now=True,
    )


def _unlisted(case: Case) -> Verdict | None:
    verdict = _by_design(case)
    if verdict is not None:
        return verdict
    kind = next(iter(case.failure.kinds))
    return Verdict(
        Cause.KIND_HAS_NO_SPEC,
        f"The node knows no spec of the kind {kind}.",
        LOW,
        candidates=_ANY_UNRESOLVED[1:],
        not_seen=(f"whether any file defines {kind}: the node's status does not list that kind",),
    )


def _by_design(case: Case) -> Verdict | None:
    for name in case.failure.names:
        kind, device = kind_of(name), device_of(name)
        vendor = kind.partition("/")[0]
        if kind == MANAGEMENT_KIND:
            return _management(case, device)
        if vendor in DRA_VENDORS or _is_claim(case, kind, device):
            return _claim(name)
        if vendor == DEVICE_PLUGIN_VENDOR and device == "all":
            return Verdict(
                Cause.SPEC_LACKS_DEVICE,
                f"{kind} has one device a GPU and never an aggregate `all`.",
                MEDIUM,
                (Evidence(f"requested: {name}"),),
                not_seen=(_TEXT_ONLY,),
            )
        if device.startswith("MIG-"):
            return Verdict(
                Cause.MIG_LAYOUT_CHANGED,
                f"No spec of {kind} has the MIG instance {device}: specs are not rewritten when "
                "the MIG layout changes.",
                MEDIUM,
                (Evidence(f"requested: {name}"),),
                candidates=(Cause.KIND_HAS_NO_SPEC, Cause.SPEC_LACKS_DEVICE),
                not_seen=(_TEXT_ONLY, "the MIG instances of the node"),
            )
    return None


def _management(case: Case, device: str) -> Verdict:
    if device == "all":
        return Verdict(
            Cause.KIND_HAS_NO_SPEC,
            f"{MANAGEMENT_KIND}=all is what the toolkit container writes at each start: its spec "
            "file is missing, or no reader takes it.",
            MEDIUM,
            (Evidence(f"requested: {MANAGEMENT_KIND}=all"),),
            candidates=_ANY_UNRESOLVED[2:],
            not_seen=(_TEXT_ONLY,),
        )
    count = len(case.devices_of(MANAGEMENT_KIND))
    asked = device if count == 1 else f"{count} devices"
    return Verdict(
        Cause.ONLY_ALL_DEVICE,
        f"{MANAGEMENT_KIND} has by design the one device `all`, so {asked} cannot resolve: an "
        "unqualified request was given the default kind of the toolkit's configuration.",
        MEDIUM,
        (Evidence(f"requested: {case.failure.names[0]}"),),
        candidates=(Cause.KIND_HAS_NO_SPEC,),
        not_seen=(_TEXT_ONLY,),
    )


def _is_claim(case: Case, kind: str, device: str) -> bool:
    if _CLAIM_NAME.fullmatch(device) is None or device.startswith(("GPU-", "MIG-")):
        return False
    return kind.endswith("/claim") or "claim" in device or case.asked_by(RequesterName.DRA)


def _claim(name: str) -> Verdict:
    return Verdict(
        Cause.DRA_CLAIM_SPEC_LOST,
        f"The DRA driver prepared {name}, and its spec is not where the engine looks: lost in a "
        "reboot, or written to another directory.",
        MEDIUM,
        (Evidence(f"requested: {name}"),),
        candidates=(Cause.SPEC_DIR_NOT_READ, Cause.SPEC_DIR_MISSING),
        not_seen=("the spec directory of the DRA driver and its checkpoint",),
    )


def _undetermined(case: Case) -> Verdict:
    names = ", ".join(case.failure.names)
    return Verdict(
        Cause.UNDETERMINED,
        f"{names} is in no spec that the reader takes; the text alone does not tell why.",
        LOW,
        (Evidence(f"requested: {names}"),),
        candidates=_ANY_UNRESOLVED,
        not_seen=(_TEXT_ONLY,),
    )
