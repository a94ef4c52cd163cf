"""The repair as a list of file changes, proven on the registries that would result.

Owns: which directory our file goes to, and the rule that nothing gets worse. Must not know: how a
file is written. A plan that cannot be proven is a refusal, and a refusal is a finding.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gpucdi.api.names import own_file_name
from gpucdi.cdi import (
    NEWEST,
    Accepted,
    Library,
    Reader,
    Registry,
    Spec,
    decode_spec,
    lint_spec,
)
from gpucdi.findings import Cause, Finding, Severity, Who
from gpucdi.host import HostTree
from gpucdi.node.assessment import Assessment, KindAssessment
from gpucdi.node.kinds import NONE
from gpucdi.node.observation import NodeReader, Observation
from gpucdi.repair.content import (
    lacks_own_node,
    narrowed,
    own_content,
    own_fingerprint,
    sha256_text,
)
from gpucdi.repair.need import (
    Generation,
    OwnFile,
    foreign_registries,
    own_files,
    spellings,
    targets,
)

# Both ends of the library's releases: what a reader of unknown version may be.
_EXTREMES = (Library("0.5.4"), NEWEST)
_TEMPORARY = ("/run/", "/var/run/")


@dataclass(frozen=True, slots=True)
class WriteFile:
    """Write ``content`` to ``path``; ``before`` is the hash of what lies there, empty for nothing."""

    path: str
    kind: str
    content: bytes
    added: int
    removed: int
    before: str = ""


@dataclass(frozen=True, slots=True)
class RemoveFile:
    """Remove our file at ``path``."""

    path: str
    kind: str
    removed: int
    before: str


@dataclass(frozen=True, slots=True)
class Plan:
    """File changes in the order they are to be made, and what must hold afterwards.

    ``must_resolve`` gives, for each reader, the qualified names that have to resolve once all
    changes are made.
    """

    actions: tuple[WriteFile | RemoveFile, ...] = ()
    refusals: tuple[Finding, ...] = ()
    must_resolve: tuple[tuple[Reader, frozenset[str]], ...] = ()


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
    state = _State(observation, host, own_files(observation, host))
    requests = {request.kind: request for request in generations}
    for kind in assessment.kinds:
        if kind.managed:
            _plan_kind(state, kind, requests.get(kind.kind), generated.get(kind.kind))
    if not any(finding.cause is Cause.CONFIG_UNREADABLE for finding in assessment.findings):
        # With a configuration unread, a kind that nobody seems to ask for may be asked for.
        _remove_unwanted(state, {kind.kind for kind in assessment.kinds if kind.managed})
    return state.finish()


def _remove_unwanted(state: _State, wanted: set[str]) -> None:
    for file in state.ours:
        kind = _kind_of(file)
        if kind not in wanted:
            state.given_up |= _qualified(file)
            state.remove(file, kind)


def removal(observation: Observation, host: HostTree) -> Plan:
    """Plan the removal of every file of ours, whatever then stops resolving."""
    actions = tuple(
        RemoveFile(file.path, _kind_of(file), _count(file), sha256_text(file.content))
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


@dataclass(frozen=True, slots=True)
class _Candidate:
    """One way to hold ``names``: this content at this path, our other files of the kind gone."""

    kind: KindAssessment
    ours: tuple[OwnFile, ...]
    names: tuple[str, ...]
    path: str
    content: bytes

    @property
    def qualified(self) -> set[str]:
        return {f"{self.kind.kind}={name}" for name in self.names}

    def overlay(self, state: _State) -> dict[str, bytes | None]:
        hidden = [path for file in self.ours for path in state.spellings(file.path)]
        held = dict.fromkeys(state.spellings(self.path), self.content)
        return {**state.overlay, **dict.fromkeys(hidden), **held}


class _State:
    """The overlay that grows while kinds are planned, and what every reader saw at the start."""

    def __init__(self, observation: Observation, host: HostTree, ours: tuple[OwnFile, ...]) -> None:
        self.observation = observation
        self.host = host
        self.ours = ours
        self.foreign = foreign_registries(observation, host, ours)
        self.overlay: dict[str, bytes | None] = {}
        self.actions: list[WriteFile | RemoveFile] = []
        self.refusals: list[Finding] = []
        self.given_up: set[str] = set()
        self.targets: dict[str, set[str]] = {reader.label: set() for reader in observation.readers}

    def spellings(self, path: str) -> tuple[str, ...]:
        """Return every path by which a reader reaches ``path``."""
        return spellings(self.observation, self.host, path)

    def remove(self, file: OwnFile, kind: str) -> None:
        """Plan the removal of one of our files."""
        self.actions.append(RemoveFile(file.path, kind, _count(file), sha256_text(file.content)))
        for path in self.spellings(file.path):
            self.overlay[path] = None

    def finish(self) -> Plan:
        """Return the plan; writes come before removals, so that no name is away in between."""
        actions = sorted(self.actions, key=lambda action: isinstance(action, RemoveFile))
        must = tuple(
            (reader.reader, frozenset(self.kept(reader) | self.targets[reader.label]))
            for reader in self.observation.readers
        )
        return Plan(tuple(actions), tuple(self.refusals), must if actions else ())

    def kept(self, reader: NodeReader) -> set[str]:
        """Return what resolves now and must go on to do so.

        Left out is only what our own files gave and nobody expects any more.
        """
        return set(reader.registry.devices) - self.given_up


def _plan_kind(
    state: _State,
    kind: KindAssessment,
    request: Generation | None,
    content: bytes | Finding | None,
) -> None:
    ours = [file for file in state.ours if _kind_of(file) == kind.kind]
    expected = _expected(state.observation, kind, ours)
    names = targets(kind, expected, state.foreign)
    held = {item for file in ours for item in _qualified(file)}
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
        state.refusals.append(_refusal(kind, "the generator's output is no valid spec"))
        return
    usable, findings = _usable(state.host, source.spec, kind.kind, names)
    state.refusals.extend(findings)
    if usable:
        _place(state, kind, source, tuple(usable))


@dataclass(frozen=True, slots=True)
class _Source:
    """Where devices are taken from, and what that was made from."""

    spec: Spec
    fingerprint: str
    ours: tuple[OwnFile, ...]


def _expected(
    observation: Observation, kind: KindAssessment, ours: list[OwnFile]
) -> tuple[str, ...]:
    """Return the names to hold: while NVML is silent, nothing that our file has is given up."""
    if observation.inventory.problem is None:
        return kind.expected
    held = [device.name for file in ours for device in (_spec_of(file) or Spec()).devices]
    return tuple(dict.fromkeys([*kind.expected, *held]))


def _source(
    ours: list[OwnFile], request: Generation | None, content: bytes | Finding | None
) -> _Source | None:
    """Take devices from fresh output, else from our own file, which then can only shrink."""
    files = tuple(ours)
    if isinstance(content, bytes) and request is not None:
        outcome = decode_spec(content, request.kind, NEWEST)
        if not isinstance(outcome, Accepted):
            return None
        return _Source(outcome.spec, request.fingerprint, files)
    for file in ours:
        spec = _spec_of(file)
        if spec is not None:
            return _Source(spec, own_fingerprint(file.content) or "", files)
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
            findings.append(_lacking(kind, name))
            continue
        if name != NONE and lacks_own_node(device):
            findings.append(_without_node(kind, name))
            continue
        problems = lint_spec(replace(spec, devices=(device,)), host)
        if problems:
            findings.append(_unsound(kind, name, problems[0].message))
            continue
        usable.append(name)
    return usable, findings


def _place(state: _State, kind: KindAssessment, source: _Source, names: tuple[str, ...]) -> None:
    reasons: list[str] = []
    for directory in _directories(state, kind, source.ours):
        path = posixpath.join(directory, own_file_name(kind.kind))
        for plain in (False, True):
            spec = narrowed(source.spec, kind.kind, names, plain=plain)
            content = own_content(spec, source.fingerprint)
            candidate = _Candidate(kind, source.ours, names, path, content)
            reason = _objection(state, candidate)
            if reason is None:
                _accept(state, candidate)
                return
            reasons.append(f"{directory}: {reason}")
    text = "; ".join(dict.fromkeys(reasons)) or "no directory is read by every reader that asks"
    state.refusals.append(_refusal(kind, text))


def _directories(state: _State, kind: KindAssessment, ours: tuple[OwnFile, ...]) -> list[str]:
    """Return the real directories that every asking reader reads, best first.

    Best is where our file already lies: to move it is a risk without a gain. Then where no foreign
    file has the kind, below the foreign file's priority; then memory before disk, since what is
    generated at boot need not outlive it.
    """
    present = {posixpath.dirname(file.path) for file in ours}
    common: list[str] = []
    for reader in kind.readers:
        reals = [_real(state.host, item) for item in reader.reader.effective_dirs]
        common = [item for item in common if item in reals] if common else reals
    foreign = {
        _real(state.host, posixpath.dirname(file.path))
        for registry in (state.foreign[reader.label] for reader in kind.readers)
        for file in registry.files
        if isinstance(file.outcome, Accepted) and file.outcome.spec.kind == kind.kind
    }
    highest = max((common.index(item) for item in foreign if item in common), default=-1)

    def rank(directory: str) -> tuple[bool, bool, bool, bool, int]:
        position = common.index(directory)
        above = bool(foreign) and position > highest
        on_disk = not (directory + "/").startswith(_TEMPORARY)
        return directory not in present, directory in foreign, above, on_disk, position

    return sorted(dict.fromkeys(common), key=rank)


def _objection(state: _State, candidate: _Candidate) -> str | None:
    """Return why the file must not be written, ``None`` when it makes nothing worse."""
    asking = {reader.label for reader in candidate.kind.readers}
    overlay = candidate.overlay(state)
    for reader in state.observation.readers:
        after = reader.reader.load(state.host, overlay=overlay)
        problem = _parse_problem(state, candidate, reader, after)
        if problem:
            return f"{reader.label} cannot read it: {problem}"
        lost = state.kept(reader) - set(after.devices)
        if lost:
            return f"{reader.label} would lose {min(lost)}"
        unresolved = candidate.qualified - set(after.devices)
        if unresolved and reader.label in asking:
            return f"{reader.label} would still not resolve {min(unresolved)}"
    return None


def _parse_problem(
    state: _State, candidate: _Candidate, reader: NodeReader, after: Registry
) -> str | None:
    read = set(state.spellings(candidate.path))
    if not any(file.path in read for file in after.files):
        return None
    libraries = _EXTREMES if reader.is_assumed else (reader.reader.library,)
    for library in libraries:
        outcome = decode_spec(candidate.content, candidate.path, library)
        if not isinstance(outcome, Accepted):
            return outcome.reason
    return None


def _accept(state: _State, candidate: _Candidate) -> None:
    state.overlay = candidate.overlay(state)
    for reader in candidate.kind.readers:
        state.targets[reader.label] |= candidate.qualified
    before = {item for file in candidate.ours for item in _qualified(file)}
    here = next((file for file in candidate.ours if file.path == candidate.path), None)
    if here is None or here.content != candidate.content:
        state.actions.append(
            WriteFile(
                path=candidate.path,
                kind=candidate.kind.kind,
                content=candidate.content,
                added=len(candidate.qualified - before),
                removed=len(before - candidate.qualified),
                before=sha256_text(here.content) if here else "",
            )
        )
    for file in candidate.ours:
        if file.path != candidate.path:
            state.remove(file, candidate.kind.kind)


def _real(host: HostTree, path: str) -> str:
    try:
        return host.realpath(path)
    except OSError:
        return path


def _spec_of(file: OwnFile) -> Spec | None:
    outcome = decode_spec(file.content, file.path, NEWEST)
    return outcome.spec if isinstance(outcome, Accepted) else None


def _kind_of(file: OwnFile) -> str:
    spec = _spec_of(file)
    return spec.kind if spec else ""


def _qualified(file: OwnFile) -> set[str]:
    spec = _spec_of(file)
    return {spec.qualified(device.name) for device in spec.devices} if spec else set()


def _count(file: OwnFile) -> int:
    return len(_qualified(file))


def _refusal(kind: KindAssessment, reason: str) -> Finding:
    return Finding(
        cause=Cause.REPAIR_REFUSED,
        severity=Severity.ERROR,
        message=f"{kind.kind} was not repaired: {reason}",
        advice="mend the cause named for this kind; gpucdi tries again at every change",
        who=Who.ADMIN,
        kind=kind.kind,
    )


def _lacking(kind: str, name: str) -> Finding:
    return Finding(
        cause=Cause.GENERATOR_FAILED,
        severity=Severity.WARNING,
        message=f"nvidia-ctk generated no device {name!r} for {kind}",
        advice="run the node's nvidia-ctk cdi generate by hand and read its warnings",
        kind=kind,
        names=(name,),
    )


def _without_node(kind: str, name: str) -> Finding:
    return Finding(
        cause=Cause.DEVICE_WITHOUT_NODE,
        severity=Severity.ERROR,
        message=f"{kind}={name} was generated without a /dev/nvidia node and is not written",
        advice="create the device node: nvidia-smi on the host, or nvidia-modprobe -c <minor>",
        kind=kind,
        names=(name,),
    )


def _unsound(kind: str, name: str, problem: str) -> Finding:
    return Finding(
        cause=Cause.REPAIR_REFUSED,
        severity=Severity.ERROR,
        message=f"{kind}={name} would not start a container and is not written: {problem}",
        advice="mend what is named; gpucdi tries again at the next change",
        kind=kind,
        names=(name,),
    )
