"""Advice where a DRA driver takes a claim for prepared and its devices are gone.

Source: kubernetes-sigs/dra-driver-nvidia-gpu pull request 1066 (v0.4.0): a checkpoint of another
boot is dropped when the driver starts, one without a boot id is believed.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpucdi.diagnosis.case import DRA_VENDORS, Case
from gpucdi.diagnosis.model import Advice, BlastRadius
from gpucdi.findings import Cause, Who

_START = Advice(
    "start the DRA driver's Pod of this node, or restart it: it drops a checkpoint of another boot "
    "and prepares the claims anew",
    BlastRadius.NODE,
    Who.COMPONENT,
    valid_for="NVIDIA DRA driver 0.4.0 and newer",
)
_RECREATE = Advice(
    "delete the Pod and its ResourceClaim, so that the driver prepares the claim anew",
    BlastRadius.POD,
    Who.USER,
)
_UPGRADE = Advice(
    "upgrade the DRA driver to one that notices a reboot. It believes a checkpoint without a boot "
    "id: move that file away first, while no Pod of the node has a claim",
    BlastRadius.FLEET,
    Who.ADMIN,
    valid_for="NVIDIA DRA driver 0.4.0 and newer",
)
_UPGRADE_OTHER = Advice(
    "upgrade the DRA driver to one that writes claim specs again after a reboot",
    BlastRadius.FLEET,
    Who.ADMIN,
)
_READ_ITS_LOG = Advice(
    "read the log of the DRA driver's Pod of this node: it says what the claim failed for",
    BlastRadius.NOTHING,
    Who.ADMIN,
)
_DAMAGED = Advice(
    "move the damaged checkpoint away while no Pod of the node has a claim, then start the driver's "
    "Pod again: it prepares from what the file says, and kubelet asks it once per claim",
    BlastRadius.NODE,
    Who.ADMIN,
)
WARNING = (
    "Do not write claim specs by hand and do not reboot: the driver alone writes them, and a reboot "
    "loses them again."
)


def not_prepared(case: Case) -> Iterator[Advice]:
    """Return the ways out where the driver itself could not prepare a claim."""
    if "checkpoint is corrupted" in case.failure.detail:
        yield _DAMAGED
    yield _READ_ITS_LOG


def lost_claim(case: Case) -> Iterator[Advice]:
    """Return the ways out, the driver's own one first where the checkpoint has a boot id."""
    finding = case.finding(Cause.DRA_CLAIM_SPEC_LOST)
    if finding is not None and finding.who is Who.COMPONENT:
        yield _START
        yield _RECREATE
        return
    yield _RECREATE
    vendors = {kind.partition("/")[0] for kind in case.failure.kinds}
    by_nvidia = finding is not None or bool(vendors & set(DRA_VENDORS))
    yield _UPGRADE if by_nvidia else _UPGRADE_OTHER
