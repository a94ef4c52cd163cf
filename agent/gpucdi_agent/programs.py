"""A live host's programs: what they say of themselves, and which engines run.

Owns: :class:`LivePrograms`, the answer to ``gpucdi.programs.Programs`` on a running node. Must not
know: what versions mean.
"""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Iterator, Mapping

from gpucdi.engines.versions import version_in
from gpucdi.host import FileKind, HostTree
from gpucdi.programs import EngineProcess
from gpucdi_agent.commands import Command, CommandRunner

VERSION_DEADLINE_SECONDS = 5.0
_VERSION_LIMIT_BYTES = 65536
_PROC_LIMIT_BYTES = 256 * 1024
# By the name of the executable, as the engine's process shows it.
_EXECUTABLES: Mapping[str, str] = {
    "containerd": "containerd",
    "cri-o": "crio",
    "docker": "dockerd",
}
# Docker runs a containerd of its own that no Pod ever meets.
_PRIVATE_CONTAINERD = "/docker/containerd/"
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class LivePrograms:
    """Asks programs by running them and engines by reading ``/proc``.

    A program's answer is kept until its file changes. Programs that someone else than root (or the
    user we run as) owns or may write are not run: that would lend them our rights.
    """

    def __init__(self, host: HostTree, runner: CommandRunner) -> None:
        self._host = host
        self._runner = runner
        self._versions: dict[tuple[str, int, int, int], str | None] = {}
        self._processes: dict[str, tuple[str, str]] = {}

    def version_output(self, path: str) -> str | None:
        """Return what ``path --version`` prints on standard output, whatever its exit code.

        ``nvidia-container-runtime --version`` prints its version before it reads a configuration
        that may be broken.
        """
        try:
            real = self._host.realpath(path)
            found = self._host.stat(real)
            owner = self._host.outside(real).stat().st_uid
        except OSError:
            return None
        if found.kind is not FileKind.FILE or not found.mode & stat.S_IXUSR:
            return None
        if found.mode & _WRITABLE_BY_OTHERS or owner not in {0, os.geteuid()}:
            return None
        key = (path, found.inode, found.mtime_ns, found.size_bytes)
        if key not in self._versions:
            self._forget(path)
            self._versions[key] = self._ask(path)
        return self._versions[key]

    def engine(self, name: str) -> EngineProcess | None:
        """Return the running engine ``name`` as ``/proc`` shows it."""
        executable = _EXECUTABLES.get(name)
        if executable is None:
            return None
        pid = self._known_process(name) or self._find_process(name, executable)
        if pid is None:
            return None
        program = self._executable_of(pid)
        return EngineProcess(
            version=version_in(self.version_output(program)) if program else None,
            arguments=self._arguments(pid),
            environment=self._environment(pid),
        )

    def _forget(self, path: str) -> None:
        for key in [key for key in self._versions if key[0] == path]:
            del self._versions[key]

    def _ask(self, path: str) -> str | None:
        result = self._runner.run(
            Command(
                (path, "--version"),
                deadline_seconds=VERSION_DEADLINE_SECONDS,
                output_limit_bytes=_VERSION_LIMIT_BYTES,
            )
        )
        return result.stdout.decode("utf-8", "replace") or None

    def _known_process(self, name: str) -> str | None:
        pid, started = self._processes.get(name, ("", ""))
        return pid if pid and self._started(pid) == started else None

    def _find_process(self, name: str, executable: str) -> str | None:
        for pid in self._pids():
            arguments = self._arguments(pid)
            if not arguments or posixpath.basename(arguments[0]) != executable:
                continue
            if any(_PRIVATE_CONTAINERD in argument for argument in arguments):
                continue
            self._processes[name] = (pid, self._started(pid))
            return pid
        self._processes.pop(name, None)
        return None

    def _pids(self) -> Iterator[str]:
        try:
            entries = self._host.listdir("/proc")
        except OSError:
            return
        yield from sorted((entry for entry in entries if entry.isdigit()), key=int)

    def _started(self, pid: str) -> str:
        # proc(5): the 22nd field of stat is the start time; the second may contain blanks.
        tail = self._read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        start_time = 22 - 3
        return tail[start_time].decode() if len(tail) > start_time else ""

    def _arguments(self, pid: str) -> tuple[str, ...] | None:
        content = self._read(f"/proc/{pid}/cmdline")
        return tuple(part.decode("utf-8", "replace") for part in content.split(b"\0")[:-1]) or None

    def _environment(self, pid: str) -> Mapping[str, str] | None:
        content = self._read(f"/proc/{pid}/environ")
        if not content:
            return None
        pairs = (item.decode("utf-8", "replace").partition("=") for item in content.split(b"\0"))
        return {name: value for name, equals, value in pairs if equals}

    def _executable_of(self, pid: str) -> str | None:
        try:
            path = self._host.readlink(f"/proc/{pid}/exe")
        except OSError:
            return None
        # After an upgrade the running file is gone; what lies there now is another version.
        return path if path.startswith("/") and not path.endswith(" (deleted)") else None

    def _read(self, path: str) -> bytes:
        try:
            return self._host.read(path, limit_bytes=_PROC_LIMIT_BYTES)
        except OSError:
            return b""
