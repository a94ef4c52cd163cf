"""Running a program of the host: with a deadline, bounded output, in the host's root.

Owns: the seam :class:`CommandRunner` and its one real implementation. Must not know: what any
program prints, nor why it is run.
"""

from __future__ import annotations

import contextlib
import enum
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self

# What a program finds its helpers by; the host's own PATH is not known to a container.
HOST_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OUTPUT_LIMIT_BYTES = 8 * 1024 * 1024
ERROR_LIMIT_BYTES = 64 * 1024
# How long a killed program may take to die; one that hangs in the driver never does.
REAP_SECONDS = 1.0
_READ_BYTES = 65536
# How often to look whether the program has ended while nothing comes.
_LOOK_SECONDS = 0.05
_SHORT_SECONDS = 0.002
# How long a child that goes on writing after the program's end is listened to.
_DRAIN_SECONDS = 0.5


class Ending(enum.Enum):
    """How a run ended."""

    EXITED = "exited"
    NOT_STARTED = "not started"
    TIMED_OUT = "timed out"
    TOO_MUCH_OUTPUT = "too much output"


@dataclass(frozen=True, slots=True)
class Command:
    """What to run: ``arguments[0]`` is a host path; the environment is given in full."""

    arguments: tuple[str, ...]
    deadline_seconds: float
    environment: Mapping[str, str] = field(default_factory=lambda: {"PATH": HOST_PATH})
    output_limit_bytes: int = OUTPUT_LIMIT_BYTES


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What came of it; ``exit_code`` is only known for ``EXITED`` (negative: by that signal).

    ``problem`` says in one line why a program did not start.
    """

    ending: Ending
    exit_code: int | None = None
    stdout: bytes = b""
    stderr: str = ""
    seconds: float = 0.0
    problem: str = ""

    @property
    def succeeded(self) -> bool:
        """True for exit code 0."""
        return self.exit_code == 0


class CommandRunner(Protocol):
    """Runs one program to its end and never raises over it."""

    def run(self, command: Command) -> CommandResult:
        """Run ``command``; at its deadline the program and its children are killed."""


class HostRunner:
    """Runs programs below ``root``: directly for ``/``, by ``chroot`` otherwise.

    With a chroot every path that the program sees and prints is a host path, which is what a spec
    file must hold.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._prefix = () if root == Path("/") else ("chroot", str(root))

    def run(self, command: Command) -> CommandResult:
        """Run ``command`` with an empty standard input in a process group of its own."""
        started = time.monotonic()
        try:
            process = subprocess.Popen(  # noqa: S603 - a list, no shell; the caller vouches
                [*self._prefix, *command.arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(command.environment),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            problem = error.strerror if isinstance(error, OSError) else str(error)
            return CommandResult(Ending.NOT_STARTED, problem=problem or str(error))
        with _Reader(process, command) as reader:
            ending = reader.read_until(started + command.deadline_seconds)
            exit_code = reader.finish(ending)
        if ending is Ending.EXITED and exit_code is None:
            ending = Ending.TIMED_OUT
        return CommandResult(
            ending=ending,
            exit_code=exit_code if ending is Ending.EXITED else None,
            stdout=bytes(reader.stdout),
            stderr=reader.stderr.decode("utf-8", "replace"),
            seconds=time.monotonic() - started,
        )


class _Reader:
    """Drains both pipes of one process within its limits."""

    def __init__(self, process: subprocess.Popen[bytes], command: Command) -> None:
        self._process = process
        self._limit = command.output_limit_bytes
        self._deadline = 0.0
        self._over_at = 0.0
        self.stdout = bytearray()
        self.stderr = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def read_until(self, deadline: float) -> Ending:
        """Read until both pipes are closed, the limit is passed or ``deadline`` (monotonic).

        Once the program itself has ended, what it wrote is in the pipes already: a child that it
        left behind and that keeps them open is not waited for.
        """
        self._deadline = deadline
        with selectors.DefaultSelector() as selector:
            for pipe in (self._process.stdout, self._process.stderr):
                if pipe is not None:
                    selector.register(pipe, selectors.EVENT_READ)
            while selector.get_map():
                left = deadline - time.monotonic()
                if left <= 0:
                    return Ending.TIMED_OUT
                # Asked first: whatever the program wrote before its end is then found below.
                is_over = self._has_ended()
                ready = selector.select(0 if is_over else min(left, _LOOK_SECONDS))
                for key, _ in ready:
                    if not self._take(key.fd, is_stdout=key.fileobj is self._process.stdout):
                        selector.unregister(key.fileobj)
                if len(self.stdout) > self._limit:
                    return Ending.TOO_MUCH_OUTPUT
                if is_over and (not ready or time.monotonic() > self._over_at + _DRAIN_SECONDS):
                    break
        return Ending.EXITED

    def _has_ended(self) -> bool:
        """Tell whether the program has ended, without reaping it: its process id stays taken."""
        if self._over_at == 0.0:
            flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
            if os.waitid(os.P_PID, self._process.pid, flags) is not None:
                self._over_at = time.monotonic()
        return self._over_at != 0.0

    def _take(self, descriptor: int, *, is_stdout: bool) -> bool:
        chunk = os.read(descriptor, _READ_BYTES)
        if is_stdout:
            self.stdout += chunk
        else:
            self.stderr += chunk
            # The end of a log says what went wrong.
            del self.stderr[:-ERROR_LIMIT_BYTES]
        return bool(chunk)

    def finish(self, ending: Ending) -> int | None:
        """Return the exit code, ending whatever still runs; ``None`` if the program itself did."""
        if ending is Ending.EXITED:
            while not self._has_ended() and time.monotonic() < self._deadline:
                time.sleep(_SHORT_SECONDS)
        ended = self._has_ended()
        kill_group(self._process)
        return self._process.returncode if ended else None


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process started in its own session with all its children, and reap it if it dies."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        process.wait(REAP_SECONDS)
    except subprocess.TimeoutExpired:
        # It hangs in the kernel; poll() of a later Popen reaps it (subprocess keeps a list).
        return
