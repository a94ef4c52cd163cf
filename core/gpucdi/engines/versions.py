"""Versions as programs print them, as comparable numbers.

Owns: reading ``1.7.35``, ``v2.4.2``, ``1.6.20~ds1`` and ``--version`` outputs. Must not know: what
any version can do.
"""

from __future__ import annotations

import re

_VERSION = re.compile(r"(?<![\w.])v?(\d+)\.(\d+)(?:\.(\d+))?((?:-(?:rc|beta|alpha|dev)[\w.]*)?)")

Release = tuple[int, int, int]


def release(version: str | None) -> Release | None:
    """Return the first dotted number of ``version`` as (major, minor, patch); ``None`` without one.

    A pre-release counts as the release it leads up to.
    """
    found = _VERSION.search(version or "")
    if found is None:
        return None
    return int(found[1]), int(found[2]), int(found[3] or 0)


def version_in(output: str | None) -> str | None:
    """Return the first version number, without ``v``, in a program's ``--version`` output."""
    found = _VERSION.search(output or "")
    return found[0].removeprefix("v") if found else None
