"""Running the host's programs: ends, limits and roots."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from gpucdi_agent.commands import Command, Ending, HostRunner

SH = "/bin/sh"


def sh(script: str, deadline_seconds: float = 10.0, limit: int = 1000) -> Command:
    return Command((SH, "-c", script), deadline_seconds, output_limit_bytes=limit)


def is_running(pid: str) -> bool:
    """Tell whether a process still runs; one that only waits to be reaped does not."""
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return False
        if state == "Z":
            return False
        time.sleep(0.01)
    return True


def test_output_and_exit_code_come_back() -> None:
    result = HostRunner().run(sh("echo out; echo err >&2; exit 3"))

    assert (result.ending, result.exit_code) == (Ending.EXITED, 3)
    assert (result.stdout, result.stderr) == (b"out\n", "err\n")
    assert not result.succeeded


def test_a_program_that_is_not_there_is_a_result() -> None:
    result = HostRunner().run(Command(("/nonexistent/program",), 1.0))

    assert result.ending is Ending.NOT_STARTED
    assert "No such file" in result.problem


def test_at_the_deadline_the_program_and_its_children_are_gone(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    started = time.monotonic()

    result = HostRunner().run(sh(f"sleep 60 & echo $! > {note}; wait", deadline_seconds=0.3))

    assert result.ending is Ending.TIMED_OUT
    assert time.monotonic() - started < 5
    assert not is_running(note.read_text().strip())


@pytest.mark.parametrize("child", ["sleep 60", "yes"])
def test_a_child_left_behind_is_neither_waited_for_nor_left(tmp_path: Path, child: str) -> None:
    note = tmp_path / "pid"
    started = time.monotonic()

    result = HostRunner().run(sh(f"{child} >&2 & echo $! > {note}; echo spec; exit 3"))

    assert (result.ending, result.exit_code, result.stdout) == (Ending.EXITED, 3, b"spec\n")
    assert time.monotonic() - started < 5
    assert not is_running(note.read_text().strip())


def test_all_that_the_program_wrote_is_there_though_a_child_keeps_the_pipe_open() -> None:
    script = "sleep 60 & exec head -c 300000 /dev/zero"

    result = HostRunner().run(sh(script, limit=400_000))

    assert (result.exit_code, len(result.stdout)) == (0, 300_000)


def test_a_program_that_closes_its_pipes_and_goes_on_ends_at_its_deadline() -> None:
    result = HostRunner().run(sh("exec >&- 2>&-; sleep 60", deadline_seconds=0.3))

    assert (result.ending, result.exit_code) == (Ending.TIMED_OUT, None)


def test_more_output_than_allowed_ends_the_program() -> None:
    result = HostRunner().run(sh("yes", limit=1000))

    assert result.ending is Ending.TOO_MUCH_OUTPUT


def test_of_much_standard_error_the_end_is_kept() -> None:
    result = HostRunner().run(sh("yes noise | head -c 300000 >&2; echo the reason >&2; exit 1"))

    assert result.stderr.endswith("the reason\n")
    assert len(result.stderr) < 100_000


def test_a_program_below_a_root_sees_that_root(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root (chroot)")
    busybox = Path("/bin/busybox")
    if not busybox.exists():
        pytest.skip("needs busybox-static")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/busybox").write_bytes(busybox.read_bytes())
    (tmp_path / "bin/busybox").chmod(0o755)
    (tmp_path / "only-here").touch()

    result = HostRunner(tmp_path).run(Command(("/bin/busybox", "ls", "/"), 5.0))

    assert result.stdout.split() == [b"bin", b"only-here"]
