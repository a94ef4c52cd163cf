"""A reader that looks again only when something changed.

Owns: the fingerprint of spec directories. Must not know: what the files say.
"""

from __future__ import annotations

import posixpath

from gpucdi.host import FileKind, FileStat, HostTree

from .reader import Reader
from .registry import Registry

Fingerprint = tuple[object, ...]


class CachedReader:
    """Answers an unchanged tree by ``stat`` alone.

    A change is noticed by name, kind, mode, size, inode and modification time of every directory
    and entry, links followed; a rewrite in place with the same size within one tick of the file
    system's clock goes unnoticed until the next change.
    """

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self._host: HostTree | None = None
        self._fingerprint: Fingerprint = ()
        self._registry: Registry | None = None

    def load(self, host: HostTree) -> Registry:
        """Return the registry of ``host``, the very same object while nothing changes."""
        fingerprint = self._look(host)
        if self._registry is None or host is not self._host or fingerprint != self._fingerprint:
            self._registry = self.reader.load(host)
            # Taken before the files were read: a change in between makes the next look differ.
            self._fingerprint = fingerprint
            self._host = host
        return self._registry

    def _look(self, host: HostTree) -> Fingerprint:
        return tuple(_directory(host, path) for path in self.reader.effective_dirs)


def _directory(host: HostTree, path: str) -> Fingerprint:
    try:
        own = host.lstat(path)
        names = host.listdir(path)
    except OSError as error:
        return (path, error.errno)
    entries = []
    for name in names:
        each = posixpath.join(path, name)
        entries.append((name, *_entry(host, each)))
    return (path, own.kind, own.mode, tuple(entries))


def _entry(host: HostTree, path: str) -> Fingerprint:
    try:
        found = host.lstat(path)
        if found.kind is FileKind.SYMLINK:
            return ("->", host.readlink(path), *_facts(host.stat(path)))
        return _facts(found)
    except OSError as error:
        return (error.errno,)


def _facts(found: FileStat) -> Fingerprint:
    return (found.kind, found.mode, found.size_bytes, found.mtime_ns, found.inode)
