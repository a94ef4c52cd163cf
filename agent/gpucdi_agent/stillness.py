"""Whether the spec directories held still while a plan was made.

Owns: the stamp of what lies in them. Must not know: what the files say.

A plan is proven on several readings of the same directories, with a run of ``nvidia-ctk`` between
them; it is only worth something if all of them saw the same files.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpucdi.cdi import FILE_LIMIT, is_spec_name
from gpucdi.host import HostTree

Stamp = tuple[object, ...]


def stamp(host: HostTree, directories: Iterable[str]) -> Stamp:
    """Return what names, inodes, times, sizes and modes the directories show."""
    return tuple(_directory(host, path) for path in directories)


def _directory(host: HostTree, path: str) -> Stamp:
    try:
        names = host.listdir(path)
    except OSError as error:
        return (path, error.errno)
    specs = list(filter(is_spec_name, names))
    # Behind these no reader looks, so that what one of them says can prove nothing.
    looked_at = specs[:FILE_LIMIT]
    return (path, specs, [_entry(host, f"{path}/{name}") for name in looked_at])


def _entry(host: HostTree, path: str) -> Stamp:
    try:
        found = host.stat(path)
    except OSError as error:
        return (path, error.errno)
    return (path, found.inode, found.mtime_ns, found.size_bytes, found.mode, found.kind)
