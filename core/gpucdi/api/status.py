"""``GpuCdiStatus.status``: what the agent of one node observed. Written by the agent alone.

Owns the values; their JSON is ``status_json``.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from gpucdi.api.conditions import Condition
from gpucdi.api.intent import Hold
from gpucdi.findings import Cause, Finding


class NodeState(enum.StrEnum):
    """One word a node, derived from everything else in the status."""

    RESOLVED = "Resolved"
    DRIFTED = "Drifted"
    REPAIRING = "Repairing"
    HELD = "Held"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class MigDevice:
    """One MIG compute instance; ``index`` is its NVML slot, as in the name ``gpu:mig``."""

    uuid: str
    index: int | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None


@dataclass(frozen=True, slots=True)
class GpuDevice:
    """One GPU; ``index`` is NVML's, ``minor`` that of ``/dev/nvidia<minor>``."""

    uuid: str
    index: int | None = None
    minor: int | None = None
    pci: str = ""
    model: str = ""
    mig_enabled: bool | None = None
    mig: tuple[MigDevice, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuStatus:
    """The inventory; ``source`` is ``nvml``, ``proc`` or ``none``."""

    source: str = "none"
    driver: str = ""
    cuda: str = ""
    devices: tuple[GpuDevice, ...] = ()

    @property
    def count(self) -> int:
        """Return the number of GPUs, MIG instances not counted."""
        return len(self.devices)

    @property
    def uuids(self) -> frozenset[str]:
        """Return the UUID of every GPU and MIG instance."""
        found = {device.uuid for device in self.devices}
        return frozenset(found | {mig.uuid for device in self.devices for mig in device.mig})


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """One engine's own (native) CDI injection: whether it takes place, reading what.

    ``cdi_enabled`` is ``None`` where the version that decides the default is not known.
    """

    name: str
    version: str = ""
    cdi_enabled: bool | None = None
    spec_dirs: tuple[str, ...] = ()
    library: str = ""


@dataclass(frozen=True, slots=True)
class HandlerStatus:
    """One runtime handler: who runs, configured where, in which mode, reading what.

    ``pod_annotations`` are the globs of the Pod annotations that the engine hands to the runtime,
    ``annotation_prefixes`` those in which the runtime looks for devices. ``accept_env`` tells
    whether it takes NVIDIA_VISIBLE_DEVICES from unprivileged containers too, ``accept_mounts``
    whether it takes requests by mount; both are ``None`` for what is no NVIDIA runtime.
    """

    name: str
    engine: str = ""
    binary: str = ""
    config: str = ""
    toolkit: str = ""
    mode: str = ""
    default_kind: str = ""
    spec_dirs: tuple[str, ...] = ()
    library: str = ""
    is_default: bool = False
    is_nvidia: bool | None = None
    driver_root: str = ""
    annotation_prefixes: tuple[str, ...] = ()
    pod_annotations: tuple[str, ...] = ()
    accept_env: bool | None = None
    accept_mounts: bool | None = None


@dataclass(frozen=True, slots=True)
class MissingNames:
    """Names that do not resolve: all counted, the first few listed."""

    count: int = 0
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NearMiss:
    """Another kind under which ``count`` of the missing names do resolve."""

    kind: str
    count: int = 0


@dataclass(frozen=True, slots=True)
class FileStatus:
    """One spec file of a kind; ``owner`` is who writes it, as far as can be told."""

    path: str
    owner: str = ""
    devices: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class KindStatus:
    """One kind: what should resolve and what does.

    ``managed`` is False for kinds that others own: they are checked and never written.
    """

    kind: str
    referenced_by: tuple[str, ...] = ()
    managed: bool = False
    expected: int = 0
    resolvable: int = 0
    missing: MissingNames = field(default_factory=MissingNames)
    cause: Cause | None = None
    near_miss: NearMiss | None = None
    files: tuple[FileStatus, ...] = ()

    @property
    def is_resolved(self) -> bool:
        """True when every expected name resolves."""
        return self.missing.count == 0


@dataclass(frozen=True, slots=True)
class RepairRecord:
    """One repair: hashes are ``sha256:…`` of our file before and after, empty when absent."""

    time: str
    kind: str
    file: str
    result: str  # Succeeded | Refused | RolledBack | Failed | Removed
    added: int = 0
    removed: int = 0
    before: str = ""
    after: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class RefreshStatus:
    """The host's own ``nvidia-cdi-refresh``: the health of its units, what they write and where.

    ``problem`` says why nothing is known of them.
    """

    service: str = "Unknown"
    path: str = "Unknown"
    kind: str = ""
    file: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """The whole status of one node. ``refresh`` is ``None`` where nobody asked systemd."""

    state: NodeState = NodeState.UNKNOWN
    observed_generation: int | None = None
    cause: Cause | None = None
    mode: str = ""
    hold: Hold | None = None
    gpus: GpuStatus = field(default_factory=GpuStatus)
    engines: tuple[EngineStatus, ...] = ()
    handlers: tuple[HandlerStatus, ...] = ()
    kinds: tuple[KindStatus, ...] = ()
    findings: tuple[Finding, ...] = ()
    repairs: tuple[RepairRecord, ...] = ()
    conditions: tuple[Condition, ...] = ()
    refresh: RefreshStatus | None = None

    @property
    def missing(self) -> int:
        """Return how many expected names do not resolve, over all kinds."""
        return sum(kind.missing.count for kind in self.kinds)

    def kind(self, name: str) -> KindStatus | None:
        """Return the status of the kind ``name``."""
        return next((kind for kind in self.kinds if kind.kind == name), None)

    def engine(self, name: str) -> EngineStatus | None:
        """Return the engine of that name."""
        return next((engine for engine in self.engines if engine.name == name), None)

    def handler(self, name: str) -> HandlerStatus | None:
        """Return the handler of that name; the empty name is the engine's default handler."""
        for handler in self.handlers:
            if handler.name == name or (not name and handler.is_default):
                return handler
        return None
