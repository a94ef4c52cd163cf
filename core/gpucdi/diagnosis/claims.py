"""Pods whose ResourceClaim the DRA driver holds as prepared, and whose devices are gone.

Owns the join of a Pod's claim names with the node's finding about the driver's checkpoint. Must not
know how a checkpoint is read.
"""

from __future__ import annotations

from gpucdi.diagnosis.case import Case
from gpucdi.diagnosis.clues import told
from gpucdi.diagnosis.model import Confidence, Verdict
from gpucdi.diagnosis.pod_requests import PodRequests
from gpucdi.findings import Cause, Finding, Severity


def prepared_and_lost(case: Case) -> Verdict | None:
    """Judge an unresolvable name that a checkpoint of the node holds as prepared."""
    for finding in _findings(case):
        name = next((name for name in case.failure.names if name in finding.names), None)
        if name is not None:
            return Verdict(
                Cause.DRA_CLAIM_SPEC_LOST,
                f"The DRA driver holds {name} as prepared, and its spec is gone: specs do not "
                "outlive a reboot, and the driver's checkpoint does.",
                Confidence.HIGH,
                told(finding),
            )
    return None


def running_with_lost_claim(case: Case, asked: PodRequests) -> Verdict | None:
    """Judge a Pod without a failure that has a claim, on a node whose checkpoint is out of date.

    A Pod does not show the uid of its claim, so it may be another's that is meant.
    """
    finding = next(iter(_findings(case)), None)
    if finding is None or not asked.by_claim:
        return None
    return Verdict(
        Cause.DRA_CLAIM_SPEC_LOST,
        f"The Pod has a ResourceClaim, and the DRA driver's checkpoint {finding.message}.",
        Confidence.MEDIUM,
        told(finding),
        not_seen=("which of the checkpoint's claims is the Pod's",),
        kind=finding.kind,
    )


def _findings(case: Case) -> list[Finding]:
    found = case.node.findings if case.node else ()
    mine = (item for item in found if item.cause is Cause.DRA_CLAIM_SPEC_LOST)
    return sorted(mine, key=lambda item: list(Severity).index(item.severity))
