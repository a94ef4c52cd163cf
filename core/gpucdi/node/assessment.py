"""The verdict on one node: which expected names resolve, and why the others do not.

Owns: which names of which kinds are held against whose registries, the near miss, and the list of
everything found. Must not know: why a name is missing (``gpucdi.node.missing``), what to write about
it (``gpucdi.repair``), nor how the API shows it (``gpucdi.node.summary``).
"""

from __future__ import annotations

from dataclasses import dataclass

from gpucdi.api.status import FileStatus, NearMiss
from gpucdi.findings import Cause, Finding
from gpucdi.host import HostTree
from gpucdi.node.files import file_findings, kind_files
from gpucdi.node.generator import generator_findings
from gpucdi.node.kinds import (
    DEVICE_PREFIXES,
    WantedKind,
    is_foreign,
    is_nvidia,
    wanted_kinds,
)
from gpucdi.node.lost_claims import lost_claim_findings
from gpucdi.node.mismatch import mig_management_findings, mismatch_findings
from gpucdi.node.missing import MissingName, main_cause, missing_names
from gpucdi.node.observation import NodeReader, Observation
from gpucdi.node.requests import request_findings

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
    missing = missing_names(observation, host, wanted.kind, wanted.names, wanted.readers)
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
    missing = missing_names(observation, host, kind, expected, readers)
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
