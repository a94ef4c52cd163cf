"""Wordings of low-level runtimes that put files and devices into a container, or miss them there.

Owns: the rows of those wordings. Must not know: whether the host has what they blame.

Sources: opencontainers/runc ``libcontainer/rootfs_linux.go``, containers/crun
``src/libcrun/{linux,container}.c``, NVIDIA's own programs.
"""

from __future__ import annotations

import re

from gpucdi.failures.formats import ERRNO, PATH, QUOTE, Format, spaced
from gpucdi.failures.model import Stage, Symptom

_S, _Y = Stage, Symptom


def _of_gpu_files(row: str, symptom: Symptom, pattern: re.Pattern[str]) -> Format:
    """Return a row that counts as CDI by what its path or subject is, usually told at a start."""
    return Format(row, symptom, pattern, _S.UNKNOWN, gpu_only=True, usually=_S.START)


MOUNTS: tuple[Format, ...] = (
    Format(
        "S13",
        _Y.IDMAP_FAILED,
        spaced(rf"failed to set MOUNT_ATTR_IDMAP on {PATH}(?:: {ERRNO})?"),
        _S.UNKNOWN,
        usually=_S.START,
    ),
    Format(
        "S24",
        _Y.RUNTIME_DIED,
        spaced(r"read (?:status )?from sync socket: (?P<detail>No such process)"),
        _S.UNKNOWN,
        usually=_S.CREATE,
    ),
    Format(
        "S24",
        _Y.RUNTIME_DIED,
        spaced(r"(?P<detail>read (?:status )?from sync socket)"),
        _S.UNKNOWN,
        is_cdi=False,
        usually=_S.CREATE,
    ),
    _of_gpu_files(
        "M55",
        _Y.IDMAP_FAILED,
        spaced(
            r"error creating device nodes: mount (?P<path>/[^\s:]+):\S+ \(via [^()]*\)"
            rf"(?:, flags: \w+)?: {ERRNO}"
        ),
    ),
    _of_gpu_files(
        "M18",
        _Y.MOUNT_FAILED,
        spaced(rf"failed to fulfil mount request: open {PATH}:? {ERRNO}"),
    ),
    _of_gpu_files(
        "M18",
        _Y.MOUNT_FAILED,
        spaced(rf"error mounting {PATH}(?P<detail>[^\n]{{0,400}})"),
    ),
    _of_gpu_files(
        "M18",
        _Y.MOUNT_FAILED,
        spaced(
            rf"crun: mount {PATH} to {QUOTE}?\S+{QUOTE}?: (?P<detail>No such file or directory)"
        ),
    ),
    _of_gpu_files(
        "M17b",
        _Y.MOUNT_FAILED,
        spaced(rf"error stat'ing file {PATH}:? (?P<detail>No such file or directory)"),
    ),
    _of_gpu_files(
        "M17",
        _Y.MOUNT_FAILED,
        spaced(rf"cannot stat {PATH}:? (?P<detail>No such file or directory)"),
    ),
    Format(
        "M17c",
        _Y.NOT_INJECTED,
        spaced(
            rf"(?:executable file|exec:) {QUOTE}(?P<subject>nvidia-[\w-]+){QUOTE}:? "
            r"(?:executable file )?not found in \$PATH"
        ),
        _S.UNKNOWN,
        usually=_S.START,
    ),
)

LIBRARIES: tuple[Format, ...] = (
    Format(
        "S25",
        _Y.NOT_INJECTED,
        spaced(r"couldn't find (?P<subject>libnvidia-ml\.so) library"),
        _S.RUNNING,
    ),
)
