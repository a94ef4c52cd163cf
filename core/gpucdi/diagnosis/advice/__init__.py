"""Ranked ways out of each cause. Owns remedies, no verdicts.

Within a cause the order is: what helps for certain and touches least, first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from gpucdi.diagnosis.advice import claims, kinds
from gpucdi.diagnosis.advice.standing import STANDING
from gpucdi.diagnosis.case import MANAGEMENT_KIND, Case
from gpucdi.diagnosis.model import Advice, BlastRadius, Verdict
from gpucdi.engines.versions import release
from gpucdi.failures import Symptom
from gpucdi.findings import Cause, Who

Remedies = Callable[[Case], Iterator[Advice]]

_BY_CASE: Mapping[Cause, Remedies] = {
    Cause.ONLY_ALL_DEVICE: kinds.only_all,
    Cause.SPEC_LACKS_DEVICE: kinds.lacks_device,
    Cause.KIND_HAS_NO_SPEC: kinds.no_spec,
    Cause.DRA_CLAIM_SPEC_LOST: claims.lost_claim,
}
_UPSTREAM = (
    Cause.REPAIR_REFUSED,
    Cause.GENERATOR_MISSING,
    Cause.DRIVER_NOT_READY,
    Cause.REFRESH_UNIT_FAILED,
)
# Where draining or a reboot is not known to be in vain, or something else is said about it.
_NODE_AS_SUCH = frozenset(
    {
        Cause.GPU_LOST,
        Cause.DRIVER_MISMATCH,
        Cause.DRIVER_NOT_READY,
        Cause.DRA_CLAIM_SPEC_LOST,
        Cause.NOT_CDI,
        Cause.UNDETERMINED,
    }
)


def advise(case: Case, verdict: Verdict, *, repairable: bool) -> tuple[Advice, ...]:
    """Return the ways out of the verdict's main cause, ranked."""
    if verdict.resolved_now:
        return (_RETRY,)
    # A cause upstream comes first: without it removed, a spec cannot be written by anybody.
    first = [STANDING[cause][0] for cause in verdict.contributing if cause in _UPSTREAM]
    remedies = _BY_CASE.get(verdict.cause)
    if verdict.cause is Cause.GENERATOR_FAILED and case.failure.symptom is Symptom.PREPARE_FAILED:
        remedies = claims.not_prepared
    if remedies is not None:
        found = list(remedies(case))
    else:
        found = [kinds.repair(case)] if repairable else []
        found += STANDING.get(verdict.cause, ())
    if verdict.cause is Cause.UNDETERMINED:
        found = [*_to_see(case), *found]
    version = release(case.handler.toolkit) if case.handler else None
    names = case.failure.kinds
    return tuple(
        item
        for item in dict.fromkeys([*first, *found])
        if item.fits(version) and (item.kind is None or not names or item.kind in names)
    )


def _to_see(case: Case) -> Iterator[Advice]:
    """Return how what was not seen can be shown."""
    if case.pod is None or not case.pod.is_whole:
        name = case.pod.name if case.pod else ""
        namespace = f" -n {case.pod.namespace}" if case.pod and case.pod.namespace else ""
        yield Advice(
            "give the Pod itself: it shows who asked, and through which RuntimeClass",
            BlastRadius.NOTHING,
            Who.USER,
            command=f"kubectl get pod {name or 'POD'}{namespace} -o yaml | gpucdi explain",
        )
    if case.node is None:
        yield Advice(
            "give the node as well: capture it there, then explain with --root node.tar.gz",
            BlastRadius.NOTHING,
            Who.ADMIN,
            command="gpucdi-agent capture --output node.tar.gz",
        )


def warn(case: Case, verdict: Verdict) -> tuple[str, ...]:
    """Return what not to do about it, although it is near at hand."""
    found = []
    if MANAGEMENT_KIND in case.failure.kinds and verdict.cause in _BY_CASE:
        found += [kinds.REPLACE_WARNING, kinds.MANAGEMENT_MODE_WARNING, kinds.SECOND_ALL_WARNING]
    if verdict.cause is Cause.JIT_GENERATION_FAILED:
        found.append(_AUTOMATIC_WARNING)
    if verdict.cause is Cause.DRA_CLAIM_SPEC_LOST:
        found.append(claims.WARNING)
    if verdict.cause not in _NODE_AS_SUCH:
        found.append(kinds.NO_DRAIN_WARNING)
    return tuple(found)


_AUTOMATIC_WARNING = (
    "Do not write a spec file of the kind runtime.nvidia.com/gpu: no runtime would read it."
)
_RETRY = Advice(
    "nothing: kubelet tries again, or recreate the Pod to try at once",
    BlastRadius.POD,
    Who.USER,
)
