"""What a container says, and what the NVIDIA runtime makes of it: the values of a prediction.

Owns: the types. Must not know: rules of any version.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpucdi.toolkit.model import Mode


class Platform(enum.StrEnum):
    """What the runtime takes the node for when its mode is ``auto``."""

    NVML = "nvml"  # also every node that is none of the others
    WSL = "wsl"
    TEGRA = "tegra"


class RequestOrigin(enum.StrEnum):
    """Where the names were read from; the first that has any wins, they are never merged."""

    ANNOTATIONS = "annotations"
    MOUNTS = "volume mounts"
    ENVIRONMENT = "environment"


@dataclass(frozen=True, slots=True)
class RequestMount:
    """One bind mount of the container, as the OCI specification has it."""

    source: str
    destination: str


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """The part of a container's OCI specification that the runtime looks at.

    ``environment`` holds ``NAME=value`` in order, image, Pod and device plugin together; the last
    assignment of a name counts. ``annotations`` are those that the engine passes on.
    ``privileged`` means that ``CAP_SYS_ADMIN`` is in the bounding set.
    """

    environment: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[RequestMount, ...] = ()
    privileged: bool = False

    def variables(self) -> dict[str, str]:
        """Return the environment as a mapping; entries without ``=`` are left out."""
        pairs = (entry.partition("=") for entry in self.environment)
        return {name: value for name, equals, value in pairs if equals}


@dataclass(frozen=True, slots=True)
class Requested:
    """What the runtime asks for on behalf of one container.

    ``mode`` is the effective one (never ``auto``); ``None`` when it cannot be told. ``names`` are
    fully qualified as the runtime forms them, legal or not, in its order; empty means that nothing
    is injected. ``extra`` are the further parts of a just-in-time request (``mode=imex,id=0``).
    ``error`` is the runtime's complete text when it fails before looking anything up; ``crashes``
    is True for a Go panic, which leaves no such text. ``ignored`` says why a request that the
    container makes is not honoured. ``unknown`` says why there is no answer; then nothing else
    counts.
    """

    mode: Mode | None
    names: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    origin: RequestOrigin | None = None
    error: str | None = None
    crashes: bool = False
    ignored: str | None = None
    unknown: str | None = None

    @property
    def is_automatic(self) -> bool:
        """True when the names are generated in memory and never sought in spec files."""
        return bool(self.names) and self.names[0].startswith(AUTOMATIC_PREFIX)


AUTOMATIC_KIND = "runtime.nvidia.com/gpu"
AUTOMATIC_PREFIX = AUTOMATIC_KIND + "="
