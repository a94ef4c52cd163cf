"""A reader that looks again only when something changed.

Owns: the fingerprint of spec directories. Must not know: what the files say.
"""

from __future__ import annotations

import posixpath

from gpucdi.host import FileKind, FileStat, HostTree

from .loading import UNREAD_LIMIT, is_spec_name, select
from .reader import Reader
from .registry import Registry

Fingerprint = tuple[object, ...]


class CachedReader:
    """Answers an unchanged tree by ``stat`` alone, as long as it is asked about one ``HostTree``.

    A change is noticed by name, kind, mode, size, inode, and the times of modification and of
    change of every directory and entry that the reader looks at, links followed; a rewrite in place
    with the same size within one tick of the file system's clock goes unnoticed until the next
    change.
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
    own = _entry(host, path)
    try:
        names = host.listdir(path)
    except OSError as error:
        # It may be a spec file itself, which old libraries read.
        return (path, own, error.errno)
    entries = [
        (name, _entry(host, posixpath.join(path, name), look_inside=True))
        for name in select(names).names
    ]
    return (path, own, len(names), tuple(entries))


def _entry(host: HostTree, path: str, *, look_inside: bool = False) -> Fingerprint:
    try:
        found = host.lstat(path)
        if found.kind is FileKind.SYMLINK:
            return ("->", host.readlink(path), *_facts(host.stat(path)))
        if found.kind is FileKind.DIRECTORY and look_inside:
            # Spec files in there are not read, but they explain why a name is not known.
            inside = [posixpath.join(path, name) for name in host.listdir(path)]
            files = [each for each in inside if is_spec_name(each)][:UNREAD_LIMIT]
            return (*_facts(found), *((each, _entry(host, each)) for each in files))
        return _facts(found)
    except OSError as error:
        return (error.errno,)


def _facts(found: FileStat) -> Fingerprint:
    times = (found.mtime_ns, found.ctime_ns)
    return (found.kind, found.mode, found.size_bytes, found.inode, *times)
