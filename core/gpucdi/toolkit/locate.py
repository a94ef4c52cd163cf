"""Finding programs on a host the way a service with a plain environment does.

Owns: the search path. Must not know: what is searched for.
"""

from __future__ import annotations

import posixpath
import stat
from collections.abc import Iterable

from gpucdi.host import FileKind, HostTree, real_or_same

SEARCH_PATH = (
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
)


def is_program(host: HostTree, path: str) -> bool:
    """Tell whether ``path`` leads to an executable regular file.

    A captured tree may have lost its modes: there any regular file counts unless the tree states its
    mode, and so does a program of which it carries the version output only.
    """
    try:
        found = host.stat(path)
    except OSError:
        return real_or_same(host, path) in host.capture.programs
    executable = bool(found.mode & (stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH))
    certain = host.is_live or real_or_same(host, path) in host.capture.modes
    return found.kind is FileKind.FILE and (executable or not certain)


def locate(host: HostTree, name: str, directories: Iterable[str] = SEARCH_PATH) -> str | None:
    """Return the host path of a program: itself when absolute, else the first in the search path.

    ``None`` when there is no such program.
    """
    if name.startswith("/"):
        return name if is_program(host, name) else None
    if "/" in name:
        return None
    paths = (posixpath.join(directory, name) for directory in directories)
    return next((path for path in paths if is_program(host, path)), None)


def search_path(text: str | None) -> tuple[str, ...]:
    """Return the folders of a ``PATH`` value; the standard ones for ``None`` or an empty value."""
    folders = tuple(folder for folder in (text or "").split(":") if folder.startswith("/"))
    return folders or SEARCH_PATH
