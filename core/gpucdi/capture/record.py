"""Watches what is asked of a host while something else draws its conclusions.

Owns: the record. Must not know: who asks, and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpucdi.host import LIST_LIMIT, READ_LIMIT_BYTES, FileStat, HostTree, Listing, normal
from gpucdi.programs import EngineProcess, Programs


@dataclass(slots=True)
class Record:
    """Host paths by what was done with them; a path may be in several sets."""

    read: set[str] = field(default_factory=set)
    listed: set[str] = field(default_factory=set)
    looked_at: set[str] = field(default_factory=set)
    timed: set[str] = field(default_factory=set)
    versions: dict[str, str] = field(default_factory=dict)
    engines: dict[str, EngineProcess] = field(default_factory=dict)

    @property
    def paths(self) -> list[str]:
        """Every path, parents before what lies below them."""
        return sorted(self.read | self.listed | self.looked_at | self.timed)


class RecordingTree(HostTree):
    """A host tree that answers as ``host`` does and remembers the questions."""

    def __init__(self, host: HostTree, record: Record) -> None:
        super().__init__(host.root)
        self.record = record

    def realpath(self, path: str) -> str:
        """Remember and answer."""
        self.record.looked_at.add(normal(path))
        return super().realpath(path)

    def exists(self, path: str) -> bool:
        """Remember and answer."""
        self.record.looked_at.add(normal(path))
        return super().exists(path)

    def stat(self, path: str) -> FileStat:
        """Remember and answer."""
        self.record.looked_at.add(normal(path))
        return super().stat(path)

    def lstat(self, path: str) -> FileStat:
        """Remember and answer."""
        self.record.looked_at.add(normal(path))
        return super().lstat(path)

    def modified_s(self, path: str) -> int | None:
        """Remember and answer."""
        self.record.timed.add(normal(path))
        return super().modified_s(path)

    def readlink(self, path: str) -> str:
        """Remember and answer."""
        self.record.looked_at.add(normal(path))
        return super().readlink(path)

    def listing(self, path: str, limit: int = LIST_LIMIT) -> Listing:
        """Remember and answer."""
        self.record.listed.add(normal(path))
        return super().listing(path, limit)

    def read(self, path: str, limit_bytes: int = READ_LIMIT_BYTES) -> bytes:
        """Remember and answer."""
        self.record.read.add(normal(path))
        return super().read(path, limit_bytes)


class RecordingPrograms:
    """Programs that answer as ``programs`` do and remember the answers."""

    def __init__(self, programs: Programs, record: Record) -> None:
        self._programs = programs
        self.record = record

    def version_output(self, path: str) -> str | None:
        """Answer, and remember what is known."""
        output = self._programs.version_output(path)
        if output is not None:
            self.record.versions[normal(path)] = output
        return output

    def engine(self, name: str) -> EngineProcess | None:
        """Answer, and remember what is known."""
        process = self._programs.engine(name)
        if process is not None:
            self.record.engines[name] = process
        return process


# The variables of an engine's environment that decide anything, and carry no secret.
KEPT_VARIABLES = (
    *("PATH", "XDG_CONFIG_HOME", "NVIDIA_CTK_CONFIG_FILE_PATH", "CONTAINER_CDI_SPEC_DIRS"),
    "XDG_RUNTIME_DIR",
)


def kept_environment(environment: Mapping[str, str] | None) -> dict[str, str] | None:
    """Return the part of an engine's environment that may leave the node; ``None`` stays so."""
    if environment is None:
        return None
    return {name: environment[name] for name in KEPT_VARIABLES if name in environment}
