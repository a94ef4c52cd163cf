"""File name patterns inside a host tree, as Go's ``filepath.Glob`` expands them.

Owns: the expansion. Must not know: who asks.
"""

from __future__ import annotations

import fnmatch
import posixpath

from gpucdi.host import HostTree


def expand(host: HostTree, pattern: str) -> list[str]:
    """Return the existing host paths that match an absolute pattern, sorted within each folder.

    ``*``, ``?`` and ``[…]`` match within one path part and also a leading dot; ``**`` means no more
    than ``*``. Folders that cannot be read match nothing.
    """
    found = ["/"]
    for part in pattern.strip("/").split("/"):
        found = [path for folder in found for path in _step(host, folder, part)]
    return found


def _step(host: HostTree, folder: str, part: str) -> list[str]:
    if not any(character in part for character in "*?["):
        path = posixpath.join(folder, part)
        return [path] if _is_there(host, path) else []
    try:
        names = host.listdir(folder)
    except OSError:
        return []
    return [posixpath.join(folder, name) for name in names if fnmatch.fnmatchcase(name, part)]


def _is_there(host: HostTree, path: str) -> bool:
    try:
        host.lstat(path)
    except OSError:
        return False
    return True
