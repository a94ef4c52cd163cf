"""What a look at a host's file system brings back. Owns the values, no way to get them."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

READ_LIMIT_BYTES = 16 * 1024 * 1024


class FileKind(enum.Enum):
    """What a directory entry is."""

    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    CHAR_DEVICE = "c"
    BLOCK_DEVICE = "b"
    FIFO = "p"
    SOCKET = "socket"


@dataclass(frozen=True, slots=True)
class FileStat:
    """The part of ``stat(2)`` that verdicts need; ``mode`` holds the permission bits only."""

    kind: FileKind
    mode: int
    size_bytes: int = 0
    mtime_ns: int = 0
    inode: int = 0
    major: int = 0
    minor: int = 0
    ctime_ns: int = 0

    @property
    def is_device(self) -> bool:
        """True for what the CDI library calls a device node: block, character or FIFO."""
        return self.kind in {FileKind.CHAR_DEVICE, FileKind.BLOCK_DEVICE, FileKind.FIFO}


@dataclass(frozen=True, slots=True)
class CaptureFacts:
    """What a captured tree says beyond its files; empty for a live host.

    ``programs`` maps a host path to that program's ``--version`` output, ``engines`` an engine's
    name to its running version, ``read_as_uid`` is the user that the engine reads specs as.
    ``arguments`` and ``environments`` are those of the running engines, by name, where known.
    ``modified_s`` are the times, in seconds since 1970, of files whose time counts.
    """

    devices: Mapping[str, FileStat] = field(default_factory=dict)
    programs: Mapping[str, str] = field(default_factory=dict)
    modes: Mapping[str, int] = field(default_factory=dict)
    engines: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    environments: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    read_as_uid: int = 0
    modified_s: Mapping[str, int] = field(default_factory=dict)
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """The names in a directory; when ``is_cut`` it has more, and the file system chose these."""

    names: list[str]
    is_cut: bool = False


class FileTooLargeError(OSError):
    """A regular file is larger than the caller's bound; nothing of it was read."""
