"""Where our file of a kind goes, proven on the registry that would result.

Owns: the choice of the directory and the rule that nothing gets worse. Must not know: which names
the file should hold.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection
from dataclasses import dataclass

from gpucdi.api.names import own_file_name
from gpucdi.cdi import NEWEST, Accepted, Library, Registry, Spec, decode_spec
from gpucdi.findings import Finding
from gpucdi.host import FileKind, HostTree, real_or_same
from gpucdi.node.assessment import KindAssessment
from gpucdi.node.observation import NodeReader, Observation
from gpucdi.node.owners import is_ours
from gpucdi.repair.actions import Plan, RemoveFile, WriteFile
from gpucdi.repair.content import narrowed, own_content, sha256_text
from gpucdi.repair.need import OwnFile, foreign_registries, spellings
from gpucdi.repair.refusals import refusal

# Both ends of the library's releases: what a reader of unknown version may be.
_EXTREMES = (Library("0.5.4"), NEWEST)


@dataclass(frozen=True, slots=True)
class Source:
    """Where devices are taken from, and what that was made from."""

    spec: Spec
    fingerprint: str
    ours: tuple[OwnFile, ...]


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

    def overlay(self, state: PlanState) -> dict[str, bytes | None]:
        hidden = [path for file in self.ours for path in state.spellings(file.path)]
        held = dict.fromkeys(state.spellings(self.path), self.content)
        return {**state.overlay, **dict.fromkeys(hidden), **held}


class PlanState:
    """The overlay that grows while kinds are planned, and what every reader saw at the start."""

    def __init__(
        self,
        observation: Observation,
        host: HostTree,
        ours: tuple[OwnFile, ...],
        unwritable: Collection[str] = (),
    ) -> None:
        self.observation = observation
        self.host = host
        self.ours = ours
        self.unwritable = unwritable
        self.written: set[str] = set()
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
        self.actions.append(
            RemoveFile(file.path, kind, len(file.qualified), sha256_text(file.content))
        )
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


def place(state: PlanState, kind: KindAssessment, source: Source, names: tuple[str, ...]) -> None:
    """Add the change that makes ``names`` resolve, or the refusal with every directory's reason."""
    reasons: list[str] = []
    for directory in _directories(state, kind, source.ours):
        path = posixpath.join(directory, own_file_name(kind.kind))
        blocked = _blocked(state, path)
        if blocked is not None:
            reasons.append(blocked)
            continue
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
    state.refusals.append(refusal(kind.kind, text))


def _directories(state: PlanState, kind: KindAssessment, ours: tuple[OwnFile, ...]) -> list[str]:
    """Return the real directories that every asking reader reads, best first.

    Best is where our file already lies: to move it is a risk without a gain. Then where no foreign
    file has the kind, below the foreign file's priority, lowest first. The components that write
    these kinds return to the highest directory at their next start; a name that they then define
    is theirs at once, whereas in one directory both definitions would be lost until we gave way.
    """
    present = {posixpath.dirname(file.path) for file in ours}
    common = _common_directories(state, kind)
    foreign = {
        real_or_same(state.host, posixpath.dirname(file.path))
        for registry in (state.foreign[reader.label] for reader in kind.readers)
        for file in registry.files
        # A file that is rejected today is whole again tomorrow.
        if kind.kind in {file.claimed_kind, file.spec.kind if file.spec else ""}
    }
    highest = max((common.index(item) for item in foreign if item in common), default=-1)

    def rank(directory: str) -> tuple[bool, bool, bool, int]:
        position = common.index(directory)
        above = bool(foreign) and position > highest
        return directory not in present, directory in foreign, above, position

    return sorted(dict.fromkeys(common), key=rank)


def _common_directories(state: PlanState, kind: KindAssessment) -> list[str]:
    common: list[str] = []
    for reader in kind.readers:
        reals = [real_or_same(state.host, item) for item in reader.reader.effective_dirs]
        common = [item for item in common if item in reals] if common else reals
    return [item for item in common if item != "/" and item not in state.unwritable]


def _blocked(state: PlanState, path: str) -> str | None:
    """Say what of somebody else's lies where our file would go, ``None`` if nothing does."""
    try:
        found = state.host.lstat(path)
    except OSError:
        return None
    if found.kind is not FileKind.FILE:
        return f"a {found.kind.name.lower().replace('_', ' ')} lies at {path}"
    return None if is_ours(state.host, path) else f"{path} is somebody else's: it lacks our mark"


def _objection(state: PlanState, candidate: _Candidate) -> str | None:
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
    state: PlanState, candidate: _Candidate, reader: NodeReader, after: Registry
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


def _accept(state: PlanState, candidate: _Candidate) -> None:
    state.overlay = candidate.overlay(state)
    for reader in candidate.kind.readers:
        state.targets[reader.label] |= candidate.qualified
    before = {item for file in candidate.ours for item in file.qualified}
    # Whatever it has become by hand: it bears our mark.
    here = next((file for file in state.ours if file.path == candidate.path), None)
    state.written.add(candidate.path)
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
