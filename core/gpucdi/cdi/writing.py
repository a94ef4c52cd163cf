"""Putting a spec file into place so that no reader ever sees half of it.

Owns: the order of temporary file, fsync, rename and fsync of the directory. Must not know: what
the file says.

The temporary file lies in the same directory, because readers that watch a directory see a rename
inside it but not one from elsewhere (reference behaviour of cache.go ``watch``), and its name ends
in ``.tmp``, because every reader loads what ends in ``.yaml`` or ``.json``.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import Protocol

from .loading import is_spec_name

DIRECTORY_MODE = 0o755
FILE_MODE = 0o644


class Filesystem(Protocol):
    """The steps of an atomic write; each may raise :class:`OSError`."""

    def make_directory(self, path: Path) -> None:
        """Create a directory with its parents; nothing happens when it exists."""

    def write_new(self, path: Path, content: bytes) -> None:
        """Create ``path``, which must not exist, write and fsync it, and set its mode."""

    def rename(self, source: Path, target: Path) -> None:
        """Put ``source`` in the place of ``target``."""

    def sync_directory(self, path: Path) -> None:
        """Make the names in a directory durable."""

    def remove(self, path: Path) -> None:
        """Remove a file; a missing one is no error."""


class RealFilesystem:
    """The machine's own file system."""

    def make_directory(self, path: Path) -> None:
        """Create a directory with its parents, 0755."""
        path.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)

    def write_new(self, path: Path, content: bytes) -> None:
        """Create, write, fsync and chmod a new file; it is readable to all before its rename."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        with os.fdopen(os.open(path, flags, FILE_MODE), "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), FILE_MODE)
            os.fsync(file.fileno())

    def rename(self, source: Path, target: Path) -> None:
        """Rename within one file system."""
        source.replace(target)

    def sync_directory(self, path: Path) -> None:
        """Fsync a directory."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def remove(self, path: Path) -> None:
        """Unlink a file if it is there."""
        path.unlink(missing_ok=True)


def write_spec(
    directory: Path, name: str, content: bytes, filesystem: Filesystem | None = None
) -> Path:
    """Write ``content`` to ``directory``/``name`` atomically, mode 0644, and return the path.

    ``directory`` is where it lies for this process and is created when missing. Raises
    :class:`ValueError` for a name that readers would not load, :class:`OSError` when a step fails.
    Then the old file is as it was, and no temporary file remains unless even its removal failed;
    only when making the directory durable fails, the last step, the new file is in place already.
    A writer that is killed may leave a temporary file, which the next one with its thread's number
    removes: after a restart in a container that is usually the same.
    """
    if "/" in name or not is_spec_name(name):
        raise ValueError(f"readers load no file of this name: {name!r}")
    steps = filesystem or RealFilesystem()
    steps.make_directory(directory)
    target = directory / name
    # Two threads of one process are two writers; the kernel numbers threads like processes.
    temporary = directory / f".{name}.{threading.get_native_id()}.tmp"
    steps.remove(temporary)
    try:
        steps.write_new(temporary, content)
        steps.rename(temporary, target)
    except OSError:
        with contextlib.suppress(OSError):
            steps.remove(temporary)
        raise
    steps.sync_directory(directory)
    return target
