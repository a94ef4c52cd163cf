"""Failure, Pod and node joined into one diagnosis. Owns the order; the rules are elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpucdi.api import NodeStatus
from gpucdi.diagnosis import siblings, silent, unresolvable
from gpucdi.diagnosis.advice import advise, warn
from gpucdi.diagnosis.advice.kinds import foreign
from gpucdi.diagnosis.by_design import TEXT_ONLY
from gpucdi.diagnosis.case import AUTOMATIC_VENDOR, Case
from gpucdi.diagnosis.model import Confidence, Diagnosis, Evidence, Verdict
from gpucdi.failures import Failure, PodView, RequesterName, Stage, Symptom
from gpucdi.findings import Cause

# Another file with the same names ends these; anything else needs a change elsewhere.
REPAIRABLE = frozenset(
    {
        Cause.KIND_HAS_NO_SPEC,
        Cause.SPEC_LACKS_DEVICE,
        Cause.ONLY_ALL_DEVICE,
        Cause.SPEC_REJECTED,
        Cause.SPEC_TOO_NEW_FOR_READER,
        Cause.SPEC_NOT_READABLE,
        Cause.SPEC_DIR_NOT_READ,
        Cause.SPEC_DIR_MISSING,
    }
)

_STARTED = frozenset({"Running", "Succeeded", "Failed"})
# Anchored and bounded: a log may hold a token of a million characters.
_MENTIONS = re.compile(
    r"\bCDI\b|nvidia|(?<![\w.-])[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}/[\w.-]{1,63}=", re.IGNORECASE
)

# What Kubernetes says before or beside any device; these words may name nvidia.com all the same.
_ELSEWHERE = re.compile(
    r"\d+/\d+ nodes are available: [^\n]{0,200}"
    r"|(?:configmap|secret) \"[^\"\n]{1,253}\" not found"
    r"|couldn't find key \S{1,253} in (?:ConfigMap|Secret) \S{1,320}"
    r"|MountVolume\.\w+ failed for volume [^\n]{0,200}"
    r"|Unable to attach or mount volumes[^\n]{0,200}"
    r"|bind source path does not exist: \S{1,300}"
    r"|Allocate failed due to (?:requested number|no healthy)[^\n]{0,200}"
    r"|checkpoint is corrupted",
    re.IGNORECASE,
)


def diagnose(
    failure: Failure,
    *,
    pod: PodView | None = None,
    node: NodeStatus | None = None,
    handler: str | None = None,
    related: Sequence[Failure] = (),
) -> Diagnosis:
    """Say why the container failed.

    ``handler`` is the runtime handler that the Pod's RuntimeClass names, ``""`` for the engine's
    default, ``None`` when not known. ``related`` are other failures of the same text or Pod: an
    engine that says why it dropped a spec explains the name that does not resolve. Never raises
    over what any of them contains.
    """
    case = Case(failure, pod, node, handler, tuple(related))
    return _joined(case, _decide(case))


def diagnose_silent(
    *, pod: PodView, node: NodeStatus, handler: str | None = None
) -> Diagnosis | None:
    """Say why a Pod whose status shows no failure may lack its GPU; ``None`` if nothing does."""
    case = Case(silent.NO_TEXT, pod, node, handler)
    verdict = silent.decide(case)
    if verdict is None:
        return None
    kinds = () if verdict.kind is None else (verdict.kind,)
    stage = Stage.RUNNING if pod.phase in _STARTED else Stage.UNKNOWN
    failure = replace(silent.NO_TEXT, kinds=kinds, stage=stage)
    if stage is Stage.UNKNOWN:
        said = f"it is {pod.phase}" if pod.phase else "it has no status"
        verdict = replace(verdict, not_seen=(*verdict.not_seen, f"the Pod at its start: {said}"))
    return _joined(replace(case, failure=failure), verdict)


def diagnose_nothing(
    text: str, *, pod: PodView | None = None, node: NodeStatus | None = None
) -> Diagnosis:
    """Say that ``text`` reports no failure that is known, and what that means.

    ``pod`` and ``node`` are what was looked at beside it and shows no failure either.
    """
    elsewhere = _ELSEWHERE.search(text)
    mentions = elsewhere is None and _MENTIONS.search(text) is not None
    failure = replace(silent.NO_TEXT, stage=Stage.UNKNOWN, is_cdi=mentions, text="")
    if elsewhere is not None:
        said = " ".join(elsewhere.group().split())
        summary = f"The failure is not about CDI devices: {said.rstrip('.')}."
    elif mentions:
        summary = "The text mentions CDI or GPU devices and reports no failure that is known."
    else:
        summary = f"{_looked_at(pod, node)} failure of CDI devices."
    cause = Cause.UNDETERMINED if mentions else Cause.NOT_CDI
    return _joined(Case(failure, pod, node), Verdict(cause, summary, Confidence.LOW))


def _looked_at(pod: PodView | None, node: NodeStatus | None) -> str:
    if pod is None:
        return "The text reports no"
    return "The Pod shows no" if node is None else "Neither the Pod nor its node shows a"


def _joined(case: Case, verdict: Verdict) -> Diagnosis:
    failure = case.failure
    repairable = _is_repairable(case, verdict)
    return Diagnosis(
        failure=failure,
        cause=verdict.cause,
        summary=verdict.summary,
        confidence=_confidence(failure, verdict),
        contributing=verdict.contributing,
        candidates=verdict.candidates,
        evidence=(*verdict.evidence, *_evidence(case)),
        near_miss=verdict.near_miss,
        advice=advise(case, verdict, repairable=repairable),
        repairable=repairable,
        not_seen=tuple(dict.fromkeys((*_unseen_by(verdict, case), *_not_seen(case)))),
        warnings=warn(case, verdict),
        resolved_now=verdict.resolved_now,
    )


def _confidence(failure: Failure, verdict: Verdict) -> Confidence:
    # What was cut off may be what another cause would have shown in.
    if failure.truncated and verdict.confidence is Confidence.HIGH:
        return Confidence.MEDIUM
    return verdict.confidence


def diagnose_all(
    failures: Sequence[Failure],
    *,
    pod: PodView | None = None,
    node: NodeStatus | None = None,
    handler: str | None = None,
) -> tuple[Diagnosis, ...]:
    """Diagnose the failures of one text or Pod together, the one to act on first.

    Each knows the others, and the first carries their causes as contributing ones.
    """
    found = [
        diagnose(
            failure,
            pod=pod,
            node=node,
            handler=handler,
            related=[other for other in failures if other is not failure],
        )
        for failure in failures
    ]
    found.sort(key=_rank)
    return (_with_others(found[0], found[1:]), *found[1:]) if found else ()


def _rank(diagnosis: Diagnosis) -> tuple[int, int, int]:
    confidence = list(Confidence).index(diagnosis.confidence)
    told = diagnosis.cause in {Cause.UNDETERMINED, Cause.NOT_CDI}
    # A unit that failed passes on what its generator said; a warning passes on nothing.
    warned = diagnosis.failure.symptom in {Symptom.GENERATE_WARNING, Symptom.UNIT_FAILED}
    named = diagnosis.failure.symptom is Symptom.UNRESOLVABLE
    return told + warned, confidence, 0 if named else 1


def _with_others(main: Diagnosis, others: Sequence[Diagnosis]) -> Diagnosis:
    causes = [other.cause for other in others]
    added = [
        cause
        for cause in (*main.contributing, *causes)
        if cause not in {main.cause, Cause.UNDETERMINED, Cause.NOT_CDI}
    ]
    return replace(main, contributing=tuple(dict.fromkeys(added)))


def _decide(case: Case) -> Verdict:
    if case.failure.symptom is Symptom.UNRESOLVABLE:
        return unresolvable.decide(case)
    return siblings.decide(case)


def _is_repairable(case: Case, verdict: Verdict) -> bool:
    if verdict.cause not in REPAIRABLE or not case.failure.names or foreign(case):
        return False
    # gpucdi has the node's own generator make the names.
    if {Cause.REPAIR_REFUSED, Cause.GENERATOR_MISSING} & set(verdict.contributing):
        return False
    if any(kind.startswith(AUTOMATIC_VENDOR) for kind in case.failure.kinds):
        return False
    return all(kind.managed for kind in case.kinds)


def _evidence(case: Case) -> Iterator[Evidence]:
    handler = case.handler
    if handler is not None and handler.config and case.by_nvidia_runtime:
        yield Evidence(
            f"handler {handler.name} runs in mode {handler.mode or 'unknown'}",
            handler.config,
            "nvidia-container-runtime.mode",
        )
        yield Evidence(
            f"unqualified requests become {handler.default_kind or 'unknown'}=…",
            handler.config,
            "nvidia-container-runtime.modes.cdi.default-kind",
        )
    pod = case.pod
    if pod is not None and pod.runtime_class:
        yield Evidence(f"runtimeClassName {pod.runtime_class}", key="spec.runtimeClassName")
    if pod is not None:
        yield from _asked(pod)


def _asked(pod: PodView) -> Iterator[Evidence]:
    """Say who asked, the most telling mark of each party."""
    first: dict[RequesterName, Evidence] = {}
    for item in pod.requesters:
        first.setdefault(item.name, Evidence(f"asked by {item.name}", key=item.key))
    if len(first) > 1:
        first.pop(RequesterName.OWN_ENV, None)
    if RequesterName.HAMI in first:
        # HAMi's webhook takes over the device plugin's own resource name.
        first.pop(RequesterName.DEVICE_PLUGIN, None)
    yield from list(first.values())[:2]


def _unseen_by(verdict: Verdict, case: Case) -> Iterator[str]:
    """Yield what the verdict itself could not see; that of a node that nobody saw goes without."""
    yield from (item for item in verdict.not_seen if case.node is not None or item != TEXT_ONLY)


def _not_seen(case: Case) -> Iterator[str]:
    if case.pod is None or not case.pod.is_whole:
        yield "the Pod: who asked for the devices, and through which RuntimeClass"
    if case.node is None:
        yield "the node: its handlers, spec files and GPUs"
    elif case.inventory is None:
        yield "the GPUs of the node"
    if case.failure.truncated:
        yield "the whole list of devices: the text was cut"
