"""What a kind is by design, where the node itself cannot be looked at.

Owns the known kinds: who writes them, with which names, and so what an unresolvable name of theirs
most likely means. Sources: NVIDIA/gpu-operator ``assets/state-container-toolkit``,
NVIDIA/k8s-device-plugin ``internal/cdi``, the NVIDIA DRA driver ``cmd/gpu-kubelet-plugin/cdi.go``.
"""

from __future__ import annotations

import re

from gpucdi.diagnosis.case import DEVICE_PLUGIN_VENDOR, DRA_VENDORS, MANAGEMENT_KIND, Case
from gpucdi.diagnosis.model import Confidence, Evidence, Verdict
from gpucdi.failures import RequesterName
from gpucdi.failures.names import device_of, kind_of
from gpucdi.findings import Cause

MEDIUM = Confidence.MEDIUM
TEXT_ONLY = "the spec files and the configuration of the node"
ANY_UNRESOLVED = (
    Cause.KIND_HAS_NO_SPEC,
    Cause.SPEC_LACKS_DEVICE,
    Cause.SPEC_DIR_NOT_READ,
    Cause.SPEC_REJECTED,
    Cause.SPEC_TOO_NEW_FOR_READER,
    Cause.SPEC_NOT_READABLE,
    Cause.SAME_DIR_CONFLICT,
)
_CLAIM_NAME = re.compile(r"(?:^|.*[-_.])[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}(?:$|[-_.].*)")


def by_design(case: Case) -> Verdict | None:
    """Return what the design of a known kind says; ``None`` for kinds of unknown design."""
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
                not_seen=(TEXT_ONLY,),
            )
        if device.startswith("MIG-"):
            return Verdict(
                Cause.MIG_LAYOUT_CHANGED,
                f"No spec of {kind} has the MIG instance {device}: specs are not rewritten when "
                "the MIG layout changes.",
                MEDIUM,
                (Evidence(f"requested: {name}"),),
                candidates=(Cause.KIND_HAS_NO_SPEC, Cause.SPEC_LACKS_DEVICE),
                not_seen=(TEXT_ONLY, "the MIG instances of the node"),
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
            candidates=ANY_UNRESOLVED[2:],
            not_seen=(TEXT_ONLY,),
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
        not_seen=(TEXT_ONLY,),
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
