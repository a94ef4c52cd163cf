"""How releases of the toolkit differ in reading a request; one field for every change.

Owns: which release behaves how. Must not know: a container.

Sources: NVIDIA/nvidia-container-toolkit ``internal/modifier/cdi.go``,
``internal/config/image/cuda_image.go``, ``internal/info/auto.go`` at the tags v1.13.5 to v1.20.2.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpucdi.cdi import Library, reader_library
from gpucdi.engines.versions import Release
from gpucdi.toolkit.model import Mode

OLDEST_PREDICTED: Release = (1, 13, 0)

# One release for each set of rules; together they stand for an unknown version.
RULE_SETS: tuple[Release, ...] = (
    (1, 13, 5),
    (1, 14, 6),
    (1, 17, 4),
    (1, 18, 1),
    (1, 18, 2),
    (1, 19, 1),
    (1, 20, 0),
    (1, 20, 1),
    (1, 20, 2),
)


@dataclass(frozen=True, slots=True)
class Rules:
    """What one release does.

    ``unified``: annotations, mounts and environment are read by one function, and ``auto`` looks at
    its result (1.18.0). ``auto_default``: what ``auto`` is without a reason for something else.
    ``none_name``: what an empty element becomes. ``late_errors``: requests are looked at while the
    specification is modified, not before (1.19.0), which changes the text's beginning.
    """

    version: Release
    library: Library
    unified: bool
    auto_default: Mode
    auto_looks_at_environment: bool
    auto_looks_at_mounts: bool
    reads_mounts: bool
    none_name: str
    late_errors: bool
    reads_swarm: bool
    knows_jit: bool
    jit_falls_back: bool
    reads_jit_extras: bool
    reads_mig_capabilities: bool
    generates_nvswitch: bool
    bounds_imex_channels: bool
    knows_none_device: bool
    knows_void_mount: bool


def library_of(version: Release) -> Library | None:
    """Return the CDI library of a release, ``None`` when it was never looked at."""
    return reader_library("nvidia-container-toolkit", ".".join(map(str, version)))


def rules_of(version: Release) -> Rules:
    """Return the rules of a release; raise :class:`LookupError` for one never looked at."""
    library = library_of(version)
    if library is None or version < OLDEST_PREDICTED:
        raise LookupError(f"release {version} of the toolkit was never looked at")
    return Rules(
        version=version,
        library=library,
        unified=version >= (1, 18, 0),
        auto_default=Mode.JIT_CDI if version >= (1, 18, 0) else Mode.LEGACY,
        auto_looks_at_environment=version >= (1, 14, 0),
        auto_looks_at_mounts=version >= (1, 15, 0),
        reads_mounts=version >= (1, 15, 0),
        none_name="none" if version >= (1, 18, 2) else "",
        late_errors=version >= (1, 19, 0),
        reads_swarm=version >= (1, 19, 0),
        knows_jit=version >= (1, 15, 0),
        jit_falls_back=version < (1, 18, 2),
        reads_jit_extras=version >= (1, 18, 0),
        reads_mig_capabilities=version >= (1, 20, 1),
        generates_nvswitch=version >= (1, 19, 0),
        bounds_imex_channels=version >= (1, 20, 0),
        knows_none_device=version >= (1, 18, 2),
        knows_void_mount=version >= (1, 20, 2),
    )
