"""The repair as a list of file changes, proven on the registries that would result.

Owns: which names our file of each kind is to hold. Must not know: how a file is written. A plan that cannot be proven is a refusal, and a refusal is a finding.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from gpucdi.cdi import NEWEST, Accepted, Device, Spec, decode_spec, lint_spec
from gpucdi.findings import Cause, Finding
from gpucdi.host import HostTree
from gpucdi.node.assessment import Assessment, KindAssessment
from gpucdi.node.kinds import NONE
from gpucdi.node.observation import Observation
from gpucdi.repair.actions import Plan, RemoveFile
from gpucdi.repair.content import gpu_minors, narrowed, own_fingerprint, sha256_text
from gpucdi.repair.need import Generation, OwnFile, fingerprint_of, own_files, targets
from gpucdi.repair.placement import PlanState, Source, place
from gpucdi.repair.refusals import lacking, of_another_gpu, refusal, unsound, without_node

# With these, a kind that nobody seems to ask for may be asked for: a configuration is not read, or
# a handler's program is away, as it is while the toolkit is installed anew.
_BLINDING = {Cause.CONFIG_UNREADABLE, Cause.HANDLER_MISSING}


def plan(
    assessment: Assessment,
    host: HostTree,
    generations: Iterable[Generation],
    generated: Mapping[str, bytes | Finding],
    *,
    unwritable: Collection[str] = (),
) -> Plan:
    """Plan the repair of every managed kind, one after the other, each proven on the one before.

    ``generated`` holds, by kind, the generator's spec file or the finding that says why there is
    none. Kinds that need no generation still lose what others define by now. ``unwritable`` are
    real directories that cannot be written, as earlier writes showed.
    """
    observation = assessment.observation
    state = PlanState(observation, host, own_files(observation, host), unwritable)
    requests = {request.kind: request for request in generations}
    for kind in assessment.kinds:
        if kind.managed:
            _plan_kind(state, kind, requests.get(kind.kind), generated.get(kind.kind))
    if not any(finding.cause in _BLINDING for finding in assessment.findings):
        _remove_unwanted(state, {kind.kind for kind in assessment.kinds if kind.managed})
    return state.finish()


def _remove_unwanted(state: PlanState, wanted: set[str]) -> None:
    for file in state.ours:
        kind = file.kind
        if kind not in wanted and file.path not in state.written:
            state.given_up |= file.qualified
            state.remove(file, kind)


def removal(observation: Observation, host: HostTree) -> Plan:
    """Plan the removal of every file of ours, whatever then stops resolving."""
    actions = tuple(
        RemoveFile(file.path, file.kind, len(file.qualified), sha256_text(file.content))
        for file in own_files(observation, host)
    )
    return Plan(actions=actions)


def verify(plan: Plan, host: HostTree) -> tuple[str, ...]:
    """Load every registry again and name what should resolve now and does not."""
    problems: list[str] = []
    for reader, names in plan.must_resolve:
        lost = sorted(names - set(reader.load(host).devices))
        problems += [f"{name} does not resolve in {', '.join(reader.spec_dirs)}" for name in lost]
    return tuple(problems)


def _plan_kind(
    state: PlanState,
    kind: KindAssessment,
    request: Generation | None,
    content: bytes | Finding | None,
) -> None:
    ours = _freshest_first(state, kind)
    expected = _expected(state.observation, kind, ours)
    names = targets(kind, expected, state.foreign)
    held = {item for file in ours for item in file.qualified}
    state.given_up |= held - {f"{kind.kind}={name}" for name in expected}
    if not names:
        for file in ours:
            state.remove(file, kind.kind)
        return
    if isinstance(content, Finding):
        state.refusals.append(content)
    source = _source(ours, request, content)
    if source is None:
        if isinstance(content, bytes):
            text = "what the generator printed is no valid spec"
            state.refusals.append(refusal(kind.kind, text))
        return
    devices, findings = _sound_devices(state, source, kind.kind, names)
    state.refusals.extend(findings)
    kept = {f"{kind.kind}={device.name}" for device in devices}
    # What our file holds and the host no longer carries fails a container either way.
    state.given_up |= held - kept
    if devices:
        found = replace(source, spec=replace(source.spec, devices=tuple(devices)))
        place(state, kind, found, tuple(device.name for device in devices))


def _freshest_first(state: PlanState, kind: KindAssessment) -> list[OwnFile]:
    # Two of them: an old one lies where it cannot be removed.
    today = fingerprint_of(state.observation, kind)
    ours = [file for file in state.ours if file.kind == kind.kind]
    return sorted(ours, key=lambda file: own_fingerprint(file.content) != today)


def _expected(
    observation: Observation, kind: KindAssessment, ours: list[OwnFile]
) -> tuple[str, ...]:
    """Return the names to hold: while NVML is silent, nothing that our file has is given up."""
    if observation.inventory.problem is None:
        return kind.expected
    held = [device.name for file in ours for device in (file.spec or Spec()).devices]
    return tuple(dict.fromkeys([*kind.expected, *held]))


def _source(
    ours: list[OwnFile], request: Generation | None, content: bytes | Finding | None
) -> Source | None:
    """Take devices from fresh output, else from our own file, which then can only shrink."""
    files = tuple(ours)
    if isinstance(content, bytes) and request is not None:
        outcome = decode_spec(content, request.kind, NEWEST)
        if not isinstance(outcome, Accepted):
            return None
        return Source(outcome.spec, request.fingerprint, files)
    for file in ours:
        spec = file.spec
        if spec is not None:
            return Source(spec, own_fingerprint(file.content) or "", files)
    return None


def _sound_devices(
    state: PlanState, source: Source, kind: str, names: Iterable[str]
) -> tuple[list[Device], list[Finding]]:
    """Return a device for each name that the host can carry, and a finding for each other name.

    Where the generator left a name out that our file still has soundly, that device is kept: one
    lost GPU must not take the names of the others away.
    """
    fresh = {device.name: device for device in source.spec.devices}
    held = {
        device.name: device
        for file in reversed(source.ours)
        if file.spec
        for device in file.spec.devices
    }
    devices: list[Device] = []
    findings: list[Finding] = []
    for name in names:
        problem = _problem(state, source.spec, kind, name, fresh.get(name))
        if problem is None:
            devices.append(fresh[name])
            continue
        findings.append(problem)
        if name in held and _problem(state, source.spec, kind, name, held[name]) is None:
            devices.append(held[name])
    return devices, findings


def _problem(
    state: PlanState, spec: Spec, kind: str, name: str, device: Device | None
) -> Finding | None:
    if device is None:
        return lacking(kind, name)
    minors = gpu_minors(device)
    if name != NONE and not minors:
        return without_node(kind, name)
    own = _minor_of(state.observation, name)
    if own is not None and own not in minors and len(minors) == 1:
        return of_another_gpu(kind, name, min(minors), own)
    # Judged as it will be written: the device numbers of a generator's output are left out.
    written = narrowed(replace(spec, devices=(device,)), kind, (name,), plain=False)
    problems = lint_spec(written, state.host)
    return unsound(kind, name, problems[0].message) if problems else None


def _minor_of(observation: Observation, name: str) -> int | None:
    """Return the minor of the whole GPU called ``name``, ``None`` where it is not known."""
    for gpu in observation.inventory.gpus.devices:
        if name in {gpu.uuid, str(gpu.index)}:
            return gpu.minor
    return None
