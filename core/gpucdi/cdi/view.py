"""A host tree with changes laid over it, as one reader may see it.

Owns: the overlay, the permissions of a reader that is not root in a captured tree, and Go's words
for what the operating system refuses. Must not know: what a spec is.
"""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from collections.abc import Mapping

from gpucdi.host import (
    FileKind,
    FileStat,
    FileTooLargeError,
    HostTree,
    Listing,
    in_byte_order,
    normal,
)

_NOT_FOUND = frozenset({errno.ENOENT})


class View:
    """Reads of ``host`` with ``overlay`` (host path to content, ``None`` for absent) on top.

    Methods raise :class:`OSError` as :class:`~gpucdi.host.HostTree` does.
    """

    def __init__(
        self, host: HostTree, overlay: Mapping[str, bytes | None], *, as_root: bool = False
    ) -> None:
        self.host = host
        self._limited = host.capture.read_as_uid != 0 and not as_root
        self._changed: dict[str, bytes | None] = {
            self._key(path): content for path, content in overlay.items()
        }
        self._added: dict[str, set[str]] = {}
        self._removed: dict[str, set[str]] = {}
        for path, content in self._changed.items():
            changes = self._removed if content is None else self._added
            changes.setdefault(posixpath.dirname(path), set()).add(posixpath.basename(path))

    def lstat(self, path: str) -> FileStat:
        """Describe ``path`` without following a link in its last part."""
        if self._changed:
            place = self._place(path)
            if place in self._changed:
                return self._laid_over(place, path)
            # A link stays a link, also one that leads nowhere or in a circle.
            if place in self._added and not self._is_entry(place):
                return FileStat(kind=FileKind.DIRECTORY, mode=0o755)
        if self._limited:
            self._check(posixpath.dirname(normal(path)), stat.S_IXOTH, path)
        return self.host.lstat(path)

    def stat(self, path: str) -> FileStat:
        """Describe what ``path`` leads to."""
        if self._changed:
            place = self.host.realpath(path)
            for each in (place, self._place(path)):
                if each in self._changed:
                    return self._laid_over(each, path)
            if self._is_added_directory(place):
                return FileStat(kind=FileKind.DIRECTORY, mode=0o755)
        return self.host.stat(path)

    def listing(self, path: str) -> Listing:
        """Return a directory's names in byte order, and whether there are more."""
        if self._limited:
            self._check(path, stat.S_IROTH, path)
        if not self._changed:
            return self.host.listing(path)
        real = self.host.realpath(path)
        try:
            found = self.host.listing(path)
        except FileNotFoundError:
            if not self._is_added_directory(real):
                raise
            found = Listing([])
        added = self._added.get(real, set())
        removed = self._removed.get(real, set())
        if not added and removed.isdisjoint(found.names):
            return found
        names = set(found.names) - removed | added
        return Listing(in_byte_order(names), found.is_cut)

    def read(self, path: str, limit_bytes: int) -> bytes:
        """Return a regular file's content, also one that is laid over, up to ``limit_bytes``."""
        if self._changed:
            for place in (self._place(path), self.host.realpath(path)):
                if place in self._changed:
                    content = self._changed[place]
                    if content is None:
                        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
                    if len(content) > limit_bytes:
                        text = f"larger than {limit_bytes} bytes"
                        raise FileTooLargeError(errno.EFBIG, text, path)
                    return content
        if self._limited:
            self._check(posixpath.dirname(normal(path)), stat.S_IXOTH, path)
        return self.host.read(path, limit_bytes)

    def _key(self, path: str) -> str:
        """Return where ``path`` lies; one that the host cannot reach stands for nothing else."""
        try:
            return self._place(path)
        except OSError:
            return normal(path)

    def _place(self, path: str) -> str:
        directory, name = posixpath.split(normal(path))
        return posixpath.join(self.host.realpath(directory), name)

    def _is_added_directory(self, real: str) -> bool:
        return real in self._added and not self.host.exists(real)

    def _is_entry(self, place: str) -> bool:
        try:
            self.host.lstat(place)
        except OSError:
            return False
        return True

    def _laid_over(self, place: str, path: str) -> FileStat:
        content = self._changed[place]
        if content is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return FileStat(kind=FileKind.FILE, mode=0o644, size_bytes=len(content))

    def _check(self, directory: str, bit: int, path: str) -> None:
        try:
            mode = self.host.stat(directory).mode
        except OSError:
            return
        if not mode & bit:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)


def go_text(error: OSError) -> str:
    """Return the operating system's message as Go's syscall package spells it."""
    if error.errno == errno.ENOTDIR:
        return "not a directory"
    text = os.strerror(error.errno or errno.EIO)
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def is_not_found(error: OSError) -> bool:
    """Tell whether Go's ``os.IsNotExist`` holds; a path below a file is *not* such a case."""
    return error.errno in _NOT_FOUND
