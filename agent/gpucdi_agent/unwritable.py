"""Directories in which a write has failed, so that the next plan puts our file elsewhere.

Owns: which failures are the directory's, and for how long each is remembered. Must not know: where
else a file may go (``gpucdi.repair``).
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field

from gpucdi.host import HostTree

REMEMBERED_SECONDS = 600.0
_REFUSALS = frozenset(
    {
        *(errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT, errno.EIO),
        # Something else than a directory lies on the way.
        *(errno.ENOTDIR, errno.EEXIST, errno.ELOOP),
    }
)


def is_refusal(error: OSError) -> bool:
    """Tell whether a write that failed so would fail again in the same directory."""
    return error.errno in _REFUSALS


@dataclass(slots=True)
class UnwritableDirectories:
    """Remembers real host paths until they change, or for ten minutes (``monotonic`` seconds)."""

    host: HostTree
    monotonic: Callable[[], float]
    _noted: dict[str, tuple[float, object]] = field(default_factory=dict)

    def note(self, directory: str) -> None:
        """Remember that a write to ``directory`` has failed, or had no effect, just now."""
        self._noted[directory] = (self.monotonic(), self._look(directory))

    def current(self) -> frozenset[str]:
        """Return those that are as they were when the write failed."""
        horizon = self.monotonic() - REMEMBERED_SECONDS
        self._noted = {
            directory: noted
            for directory, noted in self._noted.items()
            if noted[0] > horizon and noted[1] == self._look(directory)
        }
        return frozenset(self._noted)

    def _look(self, directory: str) -> object:
        try:
            found = self.host.stat(directory)
        except OSError as error:
            return error.errno
        # Not its times: others go on writing there, and so did our own failed attempt.
        return found.kind, found.mode, found.inode
