"""The verdict on one node: which expected names resolve, and why the others do not.

Owns: the join of wanted names with every reader's registry, the cause of each missing name, the
near miss, and what is wrong with spec files as such. Must not know: what to write about it
(``gpucdi.repair``), nor how the API shows it (``gpucdi.node.summary``).
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from gpucdi.api.status import FileStatus, NearMiss
from gpucdi.cdi import Reader, Unresolved, UnresolvedReason
from gpucdi.findings import Cause, Finding
from gpucdi.host import HostTree, real_or_same
from gpucdi.node.files import (
    file_findings,
    has_no_directory,
    hidden_by_missing,
    kind_files,
)
from gpucdi.node.generator import generator_findings
from gpucdi.node.kinds import (
    ALL,
    DEVICE_PREFIXES,
    WantedKind,
    is_foreign,
    is_nvidia,
    wanted_kinds,
)
from gpucdi.node.lost_claims import lost_claim_findings
from gpucdi.node.mismatch import mig_management_findings, mismatch_findings
from gpucdi.node.observation import ASSUMED_LIBRARY, NodeReader, Observation, unheeded_dirs
from gpucdi.node.rejections import rejected_as_too_new
from gpucdi.node.requests import request_findings

# The order in which one cause is named for a whole kind or node: what hides others comes first.
_RANK = (
    Cause.SAME_DIR_CONFLICT,
    Cause.SPEC_NOT_READABLE,
    Cause.SPEC_TOO_NEW_FOR_READER,
    Cause.SPEC_REJECTED,
    Cause.SPEC_DIR_NOT_READ,
    Cause.ONLY_ALL_DEVICE,
    Cause.MIG_LAYOUT_CHANGED,
    Cause.STALE_UUID,
    Cause.SPEC_LACKS_DEVICE,
    Cause.SPEC_DIR_MISSING,
    Cause.KIND_HAS_NO_SPEC,
)

# What a generated spec would end.
_GENERATED = frozenset(
    {
        Cause.KIND_HAS_NO_SPEC,
        Cause.SPEC_DIR_MISSING,
        Cause.SPEC_LACKS_DEVICE,
        Cause.ONLY_ALL_DEVICE,
    }
)


@dataclass(frozen=True, slots=True)
class MissingName:
    """One expected name that a needing reader cannot resolve, with the first such reader."""

    name: str
    cause: Cause
    reader: str
    detail: str = ""
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KindAssessment:
    """One kind: expected names against the registries of those who need them."""

    kind: str
    handlers: tuple[str, ...]
    readers: tuple[NodeReader, ...]
    expected: tuple[str, ...]
    missing: tuple[MissingName, ...]
    near_miss: NearMiss | None
    files: tuple[FileStatus, ...]
    wanted: bool

    @property
    def managed(self) -> bool:
        """True when gpucdi may write this kind."""
        return self.wanted and not is_foreign(self.kind)

    @property
    def cause(self) -> Cause | None:
        """Return the cause that explains the kind, ``None`` when every name resolves."""
        return main_cause(missing.cause for missing in self.missing)


@dataclass(frozen=True, slots=True)
class Assessment:
    """One pass's verdict."""

    observation: Observation
    kinds: tuple[KindAssessment, ...]
    findings: tuple[Finding, ...]

    @property
    def is_resolved(self) -> bool:
        """True when every expected name of every kind resolves for every reader that needs it."""
        return not any(kind.missing for kind in self.kinds)

    @property
    def cause(self) -> Cause | None:
        """Return the one cause for the node: a wanted kind's before a merely checked one's."""
        wanted = [kind.cause for kind in self.kinds if kind.wanted and kind.cause]
        checked = [kind.cause for kind in self.kinds if not kind.wanted and kind.cause]
        return main_cause(cause for cause in (wanted or checked) if cause)

    def kind(self, name: str) -> KindAssessment | None:
        """Return the assessment of the kind ``name``."""
        return next((kind for kind in self.kinds if kind.kind == name), None)


def main_cause(causes: Iterable[Cause]) -> Cause | None:
    """Return the cause to name first; unranked ones come after ranked, in order of frequency."""
    counts = Counter(causes)
    for cause in _RANK:
        if cause in counts:
            return cause
    return counts.most_common(1)[0][0] if counts else None


def assess(observation: Observation, host: HostTree) -> Assessment:
    """Judge an observation. ``host`` is asked for device nodes, mount sources and hooks only."""
    wanted, findings = wanted_kinds(observation)
    names = {kind.kind for kind in wanted}
    kinds = [_assess_kind(observation, host, kind) for kind in wanted]
    kinds += [
        _check_kind(observation, host, kind)
        for kind in _kinds_on_disk(observation)
        if kind not in names
    ]
    lacking = [item.kind for item in kinds if item.managed and item.cause in _GENERATED]
    everything = (
        *([observation.inventory.problem] if observation.inventory.problem else []),
        *observation.inventory.findings,
        *observation.findings,
        *findings,
        *file_findings(observation, host, names),
        *mismatch_findings(observation, host, names),
        *mig_management_findings(observation, host),
        *request_findings(observation, host),
        *lost_claim_findings(observation, host),
        *generator_findings(observation, host, lacking),
    )
    return Assessment(
        observation=observation,
        kinds=tuple(sorted(kinds, key=lambda kind: (not kind.wanted, kind.kind))),
        findings=tuple(dict.fromkeys(everything)),
    )


def _kinds_on_disk(observation: Observation) -> list[str]:
    found = {kind for reader in observation.readers for kind in reader.registry.kinds}
    return sorted(kind for kind in found if is_nvidia(kind))


def _assess_kind(observation: Observation, host: HostTree, wanted: WantedKind) -> KindAssessment:
    missing = _missing(observation, host, wanted.kind, wanted.names, wanted.readers)
    return KindAssessment(
        kind=wanted.kind,
        handlers=wanted.handlers,
        readers=wanted.readers,
        expected=wanted.names,
        missing=missing,
        near_miss=_near_miss(observation, wanted.kind, missing),
        files=kind_files(observation, wanted.kind),
        wanted=True,
    )


def _check_kind(observation: Observation, host: HostTree, kind: str) -> KindAssessment:
    """Check a kind that no handler's default leads to: do its UUIDs still fit the hardware.

    Only a kind that names devices by UUID can be held against the inventory; of any other it is
    not known which names its owner means to give.
    """
    defined = {name for reader in observation.readers for name in reader.registry.names_of(kind)}
    expected: tuple[str, ...] = ()
    if any(name.startswith(DEVICE_PREFIXES) for name in defined):
        gpus = observation.inventory.gpus
        whole = [gpu.uuid for gpu in gpus.devices if not gpu.mig_enabled]
        expected = (*whole, *(mig.uuid for gpu in gpus.devices for mig in gpu.mig))
    readers = tuple(reader for reader in observation.readers if kind in reader.registry.kinds)
    missing = _missing(observation, host, kind, expected, readers)
    return KindAssessment(
        kind=kind,
        handlers=(),
        readers=readers,
        expected=expected,
        missing=missing,
        near_miss=_near_miss(observation, kind, missing),
        files=kind_files(observation, kind),
        wanted=False,
    )


def _missing(
    observation: Observation,
    host: HostTree,
    kind: str,
    names: tuple[str, ...],
    readers: tuple[NodeReader, ...],
) -> tuple[MissingName, ...]:
    found: dict[str, MissingName] = {}
    for reader in readers:
        defined = reader.registry.names_of(kind)
        absent = [name for name in names if name not in defined]
        if not absent:
            continue
        resolution = reader.registry.resolve([f"{kind}={name}" for name in absent])
        for name in absent:
            why = resolution.why.get(f"{kind}={name}")
            if why is not None and name not in found:
                cause = _cause(observation, host, reader, f"{kind}={name}", why)
                found[name] = MissingName(name, cause, reader.label, why.detail, why.files)
    return tuple(found[name] for name in names if name in found)


_DIRECT = {
    UnresolvedReason.CONFLICT: Cause.SAME_DIR_CONFLICT,
    UnresolvedReason.FILE_UNREADABLE: Cause.SPEC_NOT_READABLE,
    UnresolvedReason.FILE_CRASHES_READER: Cause.SPEC_REJECTED,
    UnresolvedReason.DIRECTORY_NOT_READ: Cause.SPEC_DIR_NOT_READ,
    UnresolvedReason.FILE_NOT_SCANNED: Cause.SPEC_DIR_NOT_READ,
    UnresolvedReason.NOT_A_LEGAL_NAME: Cause.MALFORMED_REQUEST,
}


def _cause(
    observation: Observation, host: HostTree, reader: NodeReader, name: str, why: Unresolved
) -> Cause:
    direct = _DIRECT.get(why.reason)
    if direct is Cause.SPEC_DIR_NOT_READ and _is_hidden(reader, why):
        return Cause.SPEC_DIR_MISSING
    if direct is not None:
        return direct
    if why.reason is UnresolvedReason.FILE_REJECTED:
        files = [file for file in reader.registry.files if file.path in why.files]
        too_new = any(rejected_as_too_new(host, file, reader.reader.library) for file in files)
        return Cause.SPEC_TOO_NEW_FOR_READER if too_new else Cause.SPEC_REJECTED
    if _lies_elsewhere(observation, host, reader, name):
        return Cause.SPEC_DIR_NOT_READ
    if why.reason is UnresolvedReason.NO_SUCH_KIND:
        # Where one directory exists, somebody could have written the spec, and has not.
        return Cause.SPEC_DIR_MISSING if has_no_directory(reader) else Cause.KIND_HAS_NO_SPEC
    return _lacking_cause(observation, reader, name)


def _is_hidden(reader: NodeReader, why: Unresolved) -> bool:
    places = {posixpath.dirname(path) for path in why.files}
    return any(
        hidden_by_missing(reader, each) and each.path in places
        for each in reader.registry.directories
    )


def _lies_elsewhere(
    observation: Observation, host: HostTree, reader: NodeReader, qualified: str
) -> bool:
    """Tell whether the name is defined in a directory that this reader does not read.

    Either another reader does, or an engine's configuration names it to no effect.
    """
    read = {real_or_same(host, path) for path in reader.reader.effective_dirs}
    others = (other.registry.devices.get(qualified) for other in observation.readers)
    if any(
        device is not None and real_or_same(host, device.file.directory) not in read
        for device in others
    ):
        return True
    unheeded = tuple(path for engine in observation.engines for path in unheeded_dirs(engine))
    return bool(unheeded) and qualified in Reader(unheeded, ASSUMED_LIBRARY).load(host).devices


def _lacking_cause(observation: Observation, reader: NodeReader, qualified: str) -> Cause:
    kind, _, name = qualified.partition("=")
    defined = reader.registry.names_of(kind)
    if defined <= {ALL}:
        return Cause.ONLY_ALL_DEVICE
    present = observation.inventory.gpus.uuids
    gone = {item for item in defined if item.startswith(DEVICE_PREFIXES)} - present
    if gone and name.startswith("MIG-"):
        return Cause.MIG_LAYOUT_CHANGED
    if gone and name.startswith("GPU-"):
        return Cause.STALE_UUID
    return Cause.SPEC_LACKS_DEVICE


def _near_miss(
    observation: Observation, kind: str, missing: tuple[MissingName, ...]
) -> NearMiss | None:
    """Return the other kind that has most of the missing device names; a plain kind before others'."""
    names = {item.name for item in missing}
    if not names:
        return None
    counts: dict[str, int] = {}
    for reader in observation.readers:
        for other in reader.registry.kinds - {kind}:
            shared = len(names & reader.registry.names_of(other))
            counts[other] = max(counts.get(other, 0), shared)
    ranked = sorted(counts, key=lambda other: (-counts[other], is_foreign(other), other))
    if not ranked or not counts[ranked[0]]:
        return None
    return NearMiss(ranked[0], counts[ranked[0]])
