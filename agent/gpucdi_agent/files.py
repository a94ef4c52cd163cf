"""Changing files so that a crash at any moment leaves either the old content or the new.

Owns: the seam :class:`Files` (every system call that changes the disk goes through it) and the order
of write, fsync, rename. Must not know: which file is whose.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

# No engine or runtime loads a name that ends otherwise than .json or .yaml
# (container-device-interface pkg/cdi/spec-dirs.go).
TEMPORARY_PREFIX = ".gpucdi-"
TEMPORARY_SUFFIX = ".tmp"


class Files(Protocol):
    """Changes to the disk. Paths are this process's own, links already resolved."""

    def make_directory(self, path: Path, mode: int) -> None:
        """Create a directory and its parents; one that exists is left as it is."""

    def replace(self, path: Path, content: bytes, mode: int) -> None:
        """Put ``content`` at ``path`` in one step, lasting when this returns."""

    def remove(self, path: Path) -> None:
        """Remove ``path``, lasting when this returns; one that is gone is fine."""


class RealFiles:
    """The disk itself."""

    def make_directory(self, path: Path, mode: int) -> None:
        """Create a directory and its parents."""
        path.mkdir(mode=mode, parents=True, exist_ok=True)

    def replace(self, path: Path, content: bytes, mode: int) -> None:
        """Write beside ``path``, fsync, rename over it, fsync the directory."""
        try:
            self._replace(path, content, mode)
        except OSError as error:
            # The kernel's complaint names the temporary file, or none when the disk is full.
            raise OSError(error.errno, error.strerror, str(path)) from error

    @staticmethod
    def _replace(path: Path, content: bytes, mode: int) -> None:
        name = f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}{TEMPORARY_SUFFIX}"
        with _directory(path.parent) as directory:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(name, flags, 0o600, dir_fd=directory)
            try:
                with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor has no path
                    file.write(content)
                    file.flush()
                    # Whatever the umask: the engine may read specs as another user.
                    os.fchmod(descriptor, mode)
                    os.fsync(descriptor)
                os.rename(name, path.name, src_dir_fd=directory, dst_dir_fd=directory)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=directory)
                raise
            os.fsync(directory)

    def remove(self, path: Path) -> None:
        """Unlink ``path`` and fsync the directory."""
        with _directory(path.parent) as directory:
            try:
                os.unlink(path.name, dir_fd=directory)
            except FileNotFoundError:
                return
            os.fsync(directory)


@contextmanager
def _directory(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def is_temporary(name: str) -> bool:
    """Tell whether a directory entry is what an interrupted :meth:`Files.replace` leaves."""
    return name.startswith(TEMPORARY_PREFIX) and name.endswith(TEMPORARY_SUFFIX)


def message_of(error: OSError, root: Path = Path("/")) -> str:
    """Return one line about a failed system call, with its file as the host at ``root`` has it."""
    text = error.strerror or os.strerror(error.errno or errno.EIO)
    name = str(error.filename or "")
    if name.startswith("/"):
        name = "/" + name.removeprefix(str(root)).lstrip("/")
    return f"{name}: {text}" if name else text
