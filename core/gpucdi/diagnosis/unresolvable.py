"""``unresolvable CDI devices``: which of its many causes it is.

Owns the rules for that one symptom, in the order of how much they prove: the request itself, the
node's inventory, the node's verdict on the kind, the registry errors in the same text, the design
of the kind. The node's verdict (``KindStatus.cause``) is taken as it is and never decided twice.
"""

from __future__ import annotations

from dataclasses import replace

from gpucdi.api import KindStatus
from gpucdi.diagnosis import siblings
from gpucdi.diagnosis.asked import asked
from gpucdi.diagnosis.by_design import ANY_UNRESOLVED, TEXT_ONLY, by_design
from gpucdi.diagnosis.case import AUTOMATIC_VENDOR, DEVICE_PLUGIN_VENDOR, MANAGEMENT_KIND, Case
from gpucdi.diagnosis.claims import prepared_and_lost
from gpucdi.diagnosis.inventory import absent
from gpucdi.diagnosis.model import Confidence, Evidence, Verdict
from gpucdi.diagnosis.on_node import kind_verdict
from gpucdi.failures import Symptom
from gpucdi.failures.names import device_of, kind_of
from gpucdi.findings import Cause

# The kinds whose names are the driver's own: index, `gpu:mig` and UUID.
GPU_KINDS = frozenset({"nvidia.com/gpu", MANAGEMENT_KIND, f"{DEVICE_PLUGIN_VENDOR}/gpu"})
HIGH, MEDIUM, LOW = Confidence.HIGH, Confidence.MEDIUM, Confidence.LOW


def decide(case: Case) -> Verdict:
    """Return the verdict on an unresolvable name."""
    for rule in (
        _empty_list,
        asked,
        _automatic,
        _not_on_node,
        prepared_and_lost,
        kind_verdict,
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
    for kind in case.kinds:
        known = _of_kind(kind)
        if known is not None:
            return known
    kinds = ", ".join(case.failure.kinds)
    return Verdict(
        Cause.UNDETERMINED,
        f"A CDI device {f'of {kinds} ' if kinds else ''}does not resolve; the text was cut before "
        "it names the device.",
        LOW,
        candidates=(*_by_kind(case), *ANY_UNRESOLVED),
        not_seen=("the names of the devices: the text ends where they would stand",),
    )


def _of_kind(kind: KindStatus) -> Verdict | None:
    if kind.cause is None:
        return None
    return Verdict(
        kind.cause,
        f"A device of {kind.kind} does not resolve, its name is cut off; of this kind "
        f"{kind.missing.count} of {kind.expected} names do not resolve.",
        MEDIUM,
        tuple(Evidence(f"defines devices of {kind.kind}", file.path) for file in kind.files),
        candidates=ANY_UNRESOLVED,
        near_miss=kind.near_miss,
    )


def _by_kind(case: Case) -> tuple[Cause, ...]:
    # By design that kind has `all` alone, and it is seldom that very file which is missing.
    return (Cause.ONLY_ALL_DEVICE,) if MANAGEMENT_KIND in case.failure.kinds else ()


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
    # The parent of MIG instances is hidden where the kind's spec is there and simply lacks it.
    status = case.node.kind(kind_of(name)) if case.node else None
    hidden = {None, Cause.MIG_PARENT_HIDDEN, Cause.SPEC_LACKS_DEVICE, Cause.MIG_LAYOUT_CHANGED}
    return status is not None and status.cause not in hidden


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
