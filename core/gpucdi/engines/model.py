"""The values that engine configuration is read into. Owns no reading."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from gpucdi.findings import DEFAULT, UNKNOWN, Finding, Sourced


class EngineName(enum.StrEnum):
    """The engines whose configuration gpucdi reads."""

    CONTAINERD = "containerd"
    CRIO = "cri-o"
    DOCKER = "docker"
    PODMAN = "podman"


@dataclass(frozen=True, slots=True)
class Handler:
    """One runtime handler of one engine, as RuntimeClass ``handler`` names it.

    ``binary`` is what the configuration says (``BinaryName``, ``runtime_path``, ``path``): an
    absolute host path, or a bare name that the engine looks up in its PATH; ``None`` when the
    engine's built-in default applies. ``container_annotations`` and ``pod_annotations`` are the
    globs of annotations that the engine hands to the runtime.
    """

    name: str
    engine: EngineName
    binary: Sourced[str | None] = field(default_factory=lambda: Sourced(None, DEFAULT))
    runtime_type: Sourced[str | None] = field(default_factory=lambda: Sourced(None, DEFAULT))
    is_default: bool = False
    container_annotations: tuple[str, ...] = ()
    pod_annotations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine on the node: its configuration in force.

    ``cdi_enabled`` is the engine's *own* (native) CDI injection; ``None`` when the version that
    decides the default is not known. ``spec_dirs`` are the directories that native injection reads,
    lowest priority first. ``place`` names the layout by which it was found (``kubeadm``, ``k3s``…).
    """

    name: EngineName
    version: Sourced[str | None] = field(default_factory=lambda: Sourced(None, UNKNOWN))
    config_files: tuple[str, ...] = ()
    cdi_enabled: Sourced[bool | None] = field(default_factory=lambda: Sourced(None, UNKNOWN))
    spec_dirs: Sourced[tuple[str, ...]] = field(
        default_factory=lambda: Sourced(("/etc/cdi", "/var/run/cdi"), DEFAULT)
    )
    default_handler: Sourced[str | None] = field(default_factory=lambda: Sourced(None, UNKNOWN))
    handlers: tuple[Handler, ...] = ()
    place: str | None = None
    findings: tuple[Finding, ...] = ()

    def handler(self, name: str) -> Handler | None:
        """Return the handler of that name; the empty name is the default handler."""
        wanted = name or self.default_handler.value
        return next((handler for handler in self.handlers if handler.name == wanted), None)
