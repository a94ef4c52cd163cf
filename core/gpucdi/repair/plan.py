"""The repair as a list of file changes, proven on the registries that would result.

Owns: which names our file of each kind is to hold. Must not know: how a file is written. A plan that cannot be proven is a refusal, and a refusal is a finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from gpucdi.cdi import NEWEST, Accepted, Spec, decode_spec, lint_spec
from gpucdi.findings import Cause, Finding
from gpucdi.host import HostTree
from gpucdi.node.assessment import Assessment, KindAssessment
from gpucdi.node.kinds import NONE
from gpucdi.node.observation import Observation
from gpucdi.repair.actions import Plan, RemoveFile
from gpucdi.repair.content import lacks_own_node, own_fingerprint, sha256_text
from gpucdi.repair.need import Generation, OwnFile, own_files, targets
from gpucdi.repair.placement import PlanState, Source, place
from gpucdi.repair.refusals import lacking, refusal, unsound, without_node


def plan(
    assessment: Assessment,
    host: HostTree,
    generations: Iterable[Generation],
    generated: Mapping[str, bytes | Finding],
) -> Plan:
    """Plan the repair of every managed kind, one after the other, each proven on the one before.

    ``generated`` holds, by kind, the generator's spec file or the finding that says why there is
    none. Kinds that need no generation still lose what others define by now.
    """
    observation = assessment.observation
    state = PlanState(observation, host, own_files(observation, host))
    requests = {request.kind: request for request in generations}
    for kind in assessment.kinds:
        if kind.managed:
            _plan_kind(state, kind, requests.get(kind.kind), generated.get(kind.kind))
    if not any(finding.cause is Cause.CONFIG_UNREADABLE for finding in assessment.findings):
        # With a configuration unread, a kind that nobody seems to ask for may be asked for.
        _remove_unwanted(state, {kind.kind for kind in assessment.kinds if kind.managed})
    return state.finish()


def _remove_unwanted(state: PlanState, wanted: set[str]) -> None:
    for file in state.ours:
        kind = file.kind
        if kind not in wanted:
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
    ours = [file for file in state.ours if file.kind == kind.kind]
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
        return
    source = _source(ours, request, content)
    if source is None:
        state.refusals.append(refusal(kind.kind, "the generator's output is no valid spec"))
        return
    usable, findings = _usable(state.host, source.spec, kind.kind, names)
    state.refusals.extend(findings)
    if usable:
        place(state, kind, source, tuple(usable))


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


def _usable(
    host: HostTree, spec: Spec, kind: str, names: Iterable[str]
) -> tuple[list[str], list[Finding]]:
    """Return the names whose devices are sound on this host, and a finding for each other one."""
    by_name = {device.name: device for device in spec.devices}
    usable: list[str] = []
    findings: list[Finding] = []
    for name in names:
        device = by_name.get(name)
        if device is None:
            findings.append(lacking(kind, name))
            continue
        if name != NONE and lacks_own_node(device):
            findings.append(without_node(kind, name))
            continue
        problems = lint_spec(replace(spec, devices=(device,)), host)
        if problems:
            findings.append(unsound(kind, name, problems[0].message))
            continue
        usable.append(name)
    return usable, findings
