"""What was asked for, before anybody looks for it: names that no spec could or should define.

Owns malformed names, ids of shares, and the special words ``none`` and ``void``. Source:
NVIDIA/nvidia-container-toolkit ``internal/config/image/{cuda_image,devices}.go``.
"""

from __future__ import annotations

from gpucdi.diagnosis.by_design import TEXT_ONLY
from gpucdi.diagnosis.case import Case
from gpucdi.diagnosis.inventory import is_replica, is_short_uuid
from gpucdi.diagnosis.model import Confidence, Evidence, Verdict
from gpucdi.failures.names import device_of, kind_of
from gpucdi.findings import Cause

HIGH, MEDIUM = Confidence.HIGH, Confidence.MEDIUM


def asked(case: Case) -> Verdict | None:
    """Return what is wrong with a name as such, or with asking for it; ``None`` if nothing is."""
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
                not_seen=() if case.node else (TEXT_ONLY,),
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
