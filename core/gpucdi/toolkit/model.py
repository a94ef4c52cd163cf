"""The values that the toolkit's files are read into. Owns no reading.

Defaults are those of NVIDIA/nvidia-container-toolkit ``internal/config/config.go`` (``api/config/v1``
from 1.19); where a default depends on the version, the reader fills it in.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from gpucdi.engines.model import Handler
from gpucdi.engines.versions import Release
from gpucdi.findings import DEFAULT, UNKNOWN, Finding, Source, Sourced


class Mode(enum.StrEnum):
    """How ``nvidia-container-runtime`` turns a request into edits."""

    AUTO = "auto"
    LEGACY = "legacy"
    CSV = "csv"
    CDI = "cdi"
    JIT_CDI = "jit-cdi"


@dataclass(frozen=True, slots=True)
class ToolkitConfig:
    """The effective ``config.toml`` of one runtime, each value with its provenance.

    ``file`` is the path that is looked at; ``exists`` is False when the defaults apply because it
    is absent. ``mode`` and ``default_kind`` keep the literal text, valid or not. ``usable`` is
    False when the runtime itself would refuse to start over this file (it is then a finding).
    """

    file: str
    exists: bool
    usable: bool = True
    mode: Sourced[str] = field(default_factory=lambda: Sourced("auto", DEFAULT))
    default_kind: Sourced[str] = field(default_factory=lambda: Sourced("nvidia.com/gpu", DEFAULT))
    spec_dirs: Sourced[tuple[str, ...]] = field(
        default_factory=lambda: Sourced(("/etc/cdi", "/var/run/cdi"), DEFAULT)
    )
    annotation_prefixes: Sourced[tuple[str, ...]] = field(
        default_factory=lambda: Sourced(("cdi.k8s.io/",), DEFAULT)
    )
    driver_root: Sourced[str] = field(default_factory=lambda: Sourced("/", DEFAULT))
    accept_envvar_when_unprivileged: Sourced[bool] = field(
        default_factory=lambda: Sourced(True, DEFAULT)
    )
    accept_volume_mounts: Sourced[bool] = field(default_factory=lambda: Sourced(False, DEFAULT))
    swarm_resources: Sourced[tuple[str, ...]] = field(default_factory=lambda: Sourced((), DEFAULT))
    ignore_imex_channel_requests: Sourced[bool] = field(
        default_factory=lambda: Sourced(False, DEFAULT)
    )
    ctk_path: Sourced[str] = field(default_factory=lambda: Sourced("nvidia-ctk", DEFAULT))
    low_level_runtimes: Sourced[tuple[str, ...]] = field(
        default_factory=lambda: Sourced(("runc", "crun"), DEFAULT)
    )
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Toolkit:
    """One installed toolkit: the directory of its programs and what is known of them.

    ``ctk`` and ``hook`` are host paths of ``nvidia-ctk`` and ``nvidia-cdi-hook`` (``nvidia-ctk``
    where the hook did not exist yet), ``None`` when not found beside the runtime nor in the PATH.
    Where no program could be asked, files may still bound the version: it is at least ``since``
    and older than ``before``. ``config_source`` is why its ``config.toml`` is the one in force.
    """

    directory: str
    version: Sourced[str | None] = field(default_factory=lambda: Sourced(None, UNKNOWN))
    ctk: str | None = None
    hook: str | None = None
    since: Release | None = None
    before: Release | None = None
    config_source: Source = DEFAULT


@dataclass(frozen=True, slots=True)
class HandlerRuntime:
    """What runs when a Pod names a handler.

    ``program`` is the executable behind wrappers (host path; ``None`` when it cannot be found).
    ``is_nvidia`` is ``None`` when that cannot be told. ``mode`` is the mode in force before a
    request is looked at (``auto`` stays ``auto``: it depends on the request); ``None`` when
    unknown. ``modules_file`` is the list of kernel modules in which the wrapper looks for ``nvidia``
    (``None``: no check). ``other_configs`` are further ``config.toml`` files on the node that people may edit
    although this handler does not read them.
    """

    handler: Handler
    program: str | None
    wrapper: str | None = None
    is_nvidia: bool | None = None
    toolkit: Toolkit | None = None
    config: ToolkitConfig | None = None
    mode: Sourced[Mode | None] = field(default_factory=lambda: Sourced(None, UNKNOWN))
    modules_file: str | None = None
    other_configs: tuple[ToolkitConfig, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def needs_kernel_module(self) -> bool:
        """True when a wrapper runs the low-level runtime instead while the module is missing."""
        return self.modules_file is not None

    @property
    def resolves_through_files(self) -> bool:
        """True when an unqualified request becomes ``default-kind=name`` and is sought in files."""
        return bool(self.is_nvidia) and self.mode.value is Mode.CDI

    @property
    def conflicting_configs(self) -> tuple[ToolkitConfig, ...]:
        """The other files that, were they read, would ask for other names or look elsewhere."""
        config = self.config
        if config is None:
            return ()
        return tuple(
            other
            for other in self.other_configs
            if other.mode.value != config.mode.value
            or other.default_kind.value != config.default_kind.value
            or other.spec_dirs.value != config.spec_dirs.value
        )
