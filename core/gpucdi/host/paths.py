"""Host paths as text: cleaned, taken apart and put in order as the kernel and Go do.

Owns: what can be a path at all. Must not know: what lies at one.
"""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Collection

# PATH_MAX (include/uapi/linux/limits.h) counts the closing NUL.
PATH_LIMIT_BYTES = 4096
SLASH = "/"


def system_error(code: int, path: str) -> OSError:
    """Return what the kernel says, with the host path as the file's name."""
    return OSError(code, os.strerror(code), path)


def steps_of(path: str) -> list[str]:
    """Return the parts of a path, last one first; a slash at its end is a part of its own.

    Raises what the kernel says to a path that cannot be one.
    """
    try:
        length = len(path) if path.isascii() else len(os.fsencode(path))
    except UnicodeEncodeError:
        raise system_error(errno.EINVAL, path) from None
    if "\0" in path:
        raise system_error(errno.EINVAL, path)
    if length >= PATH_LIMIT_BYTES:
        raise system_error(errno.ENAMETOOLONG, path)
    steps = [part for part in path.split("/") if part]
    if steps and path.endswith("/"):
        steps.append(SLASH)
    return steps[::-1]


def normal(path: str) -> str:
    """Return ``path`` absolute and lexically cleaned, as Go's ``filepath.Clean`` would."""
    cleaned = posixpath.normpath("/" + path)
    # POSIX lets two leading slashes mean something else, and normpath honours that.
    return "/" + cleaned.lstrip("/")


def in_byte_order(names: Collection[str]) -> list[str]:
    """Return file names sorted as their bytes are, which is how Go sorts them."""
    # The code points of a name that is UTF-8 have the order of its bytes; escaped bytes have not.
    if all(map(str.isascii, names)):
        return sorted(names)
    return sorted(names, key=os.fsencode)
