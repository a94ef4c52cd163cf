"""Ranked ways out of each cause. Owns remedies, no verdicts.

Within a cause the order is: what helps for certain and touches least, first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from gpucdi.diagnosis.advice import kinds
from gpucdi.diagnosis.case import MANAGEMENT_KIND, Case
from gpucdi.diagnosis.model import Advice, Verdict
from gpucdi.findings import Cause

Remedies = Callable[[Case], Iterator[Advice]]

_BY_CAUSE: Mapping[Cause, Remedies] = {
    Cause.ONLY_ALL_DEVICE: kinds.only_all,
    Cause.SPEC_LACKS_DEVICE: kinds.lacks_device,
    Cause.KIND_HAS_NO_SPEC: kinds.no_spec,
    Cause.DRA_CLAIM_SPEC_LOST: kinds.component,
}


def advise(case: Case, verdict: Verdict) -> tuple[Advice, ...]:
    """Return the ways out of the verdict's main cause, ranked."""
    remedies = _BY_CAUSE.get(verdict.cause)
    return tuple(remedies(case)) if remedies else ()


def warn(case: Case, verdict: Verdict) -> tuple[str, ...]:
    """Return what not to do about it, although it is near at hand."""
    found = []
    if MANAGEMENT_KIND in case.failure.kinds and verdict.cause in {
        Cause.ONLY_ALL_DEVICE,
        Cause.SPEC_LACKS_DEVICE,
        Cause.KIND_HAS_NO_SPEC,
    }:
        found += [
            kinds.REPLACE_WARNING,
            kinds.MANAGEMENT_MODE_WARNING,
            kinds.SECOND_ALL_WARNING,
        ]
    if verdict.cause in _BY_CAUSE:
        found.append(kinds.NO_DRAIN_WARNING)
    return tuple(found)
