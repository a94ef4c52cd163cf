"""One agent at a time: what keeps two of them on one node from writing at once.

Owns: the lock, which a process holds by an open descriptor and so loses with its life. Must not
know: what is written under it.

Two agents meet while a DaemonSet is replaced, and when a person repairs by hand beside the resident
one. The state directory itself is locked: nothing needs to be created, and every container that has
it mounted meets the same lock.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE_SECONDS = 10.0
_LOOK_SECONDS = 0.05
# Not every network file system has locks; there the journal alone must do, as before.
_NO_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


class BusyError(OSError):
    """Another agent holds the lock."""


@contextmanager
def exclusive(directory: Path, patience_seconds: float = PATIENCE_SECONDS) -> Iterator[None]:
    """Hold the lock on ``directory`` meanwhile.

    Raises :class:`BusyError` when somebody else has it for longer than ``patience_seconds``, and
    any other :class:`OSError` when there is no such directory.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _lock(descriptor, time.monotonic() + patience_seconds, directory)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, until: float, directory: Path) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                text = "another gpucdi-agent is at work on this node"
                raise BusyError(errno.EBUSY, text, str(directory)) from None
            time.sleep(_LOOK_SECONDS)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            return
        else:
            return
