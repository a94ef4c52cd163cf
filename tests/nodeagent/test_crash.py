"""The real process is killed at the boundaries of the system calls of a repair.

``GPUCDI_CRASH_RUNS`` sets how many boundaries are tried (default 12, evenly spread; 0: all).
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.trees import c00

from gpucdi.host import HostTree
from gpucdi_agent.__main__ import main
from gpucdi_agent.files import RealFiles, is_temporary
from gpucdi_agent.state import StateStore
from gpucdi_agent.transaction import FAILED

pytestmark = pytest.mark.slow

CALLS = (
    *("openat", "write", "fchmod", "fsync", "renameat", "unlinkat", "close", "mkdir"),
    *("read", "readlink", "newfstatat", "lseek", "getdents64"),
)
DEFAULT_RUNS = 12
STATE = "/var/lib/gpucdi"
NAMES = {f"{c00.MANAGEMENT}={name}" for name in c00.UUIDS}


@dataclass(frozen=True, slots=True)
class Boundary:
    """The ``number``-th call of one name that the process makes; it is killed on entering it."""

    call: str
    number: int

    def __str__(self) -> str:
        return f"{self.call}-{self.number}"


@dataclass(frozen=True, slots=True)
class Bench:
    """A fresh copy of the incident and a repair of it as a process."""

    host: HostTree
    command: tuple[str, ...]

    def run(self, *strace: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
        traced = ("strace", "-qq", "-e", f"trace={','.join(CALLS)}", *strace)
        return subprocess.run(
            [*traced, *self.command],
            env=environment,
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )

    def resolvable(self) -> set[str]:
        readers = c00.judge(self.host).observation.readers
        return {name for reader in readers for name in reader.reader.load(self.host).devices}


def bench(folder: Path) -> Bench:
    host = c00.copy(folder / "host")
    spec = folder / "spec.yaml"
    spec.write_bytes(c00.generated((*c00.UUIDS, "all")))
    generator = folder / "generator"
    generator.write_text(f"#!/bin/sh\ncat {spec}\n")
    generator.chmod(0o755)
    arguments = ("repair", "--root", str(host.root), "--generator", str(generator))
    return Bench(host, (sys.executable, "-m", "gpucdi_agent", *arguments))


def boundaries(log: str) -> Iterator[Boundary]:
    """Yield every traced call from the first to the last that changes the disk."""
    lines = [line for line in log.splitlines() if re.match(r"\w+\(", line)]
    marks = [index for index, line in enumerate(lines) if ".gpucdi-" in line or "journal" in line]
    seen: Counter[str] = Counter()
    for index, line in enumerate(lines):
        call = line.partition("(")[0]
        seen[call] += 1
        if marks and marks[0] <= index <= marks[-1] + 3:
            yield Boundary(call, seen[call])


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[Boundary]:
    folder = tmp_path_factory.mktemp("traced")
    log = folder / "log"
    try:
        done = bench(folder).run("-o", str(log))
    except FileNotFoundError:
        pytest.skip("needs strace")
    if done.returncode != 0:
        pytest.skip(f"strace cannot trace here: {done.stderr[-200:]}")
    return list(boundaries(log.read_text()))


def share(found: list[Boundary], part: int, parts: int) -> list[Boundary]:
    """Return one part of the boundaries to try, the parts together evenly spread over all."""
    runs = int(os.environ.get("GPUCDI_CRASH_RUNS", str(DEFAULT_RUNS))) or len(found)
    step = max(1.0, len(found) / runs)
    chosen = [found[int(index * step)] for index in range(min(runs, len(found)))]
    return chosen[part::parts]


PARTS = 6


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(PARTS))
def test_killed_at_any_boundary_nothing_is_lost_and_the_next_start_finishes(
    found: list[Boundary], part: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(found) > 40
    for boundary in share(found, part, PARTS):
        folder = tmp_path / str(boundary)
        folder.mkdir()
        check(bench(folder), boundary)
    capsys.readouterr()


def check(tried: Bench, boundary: Boundary) -> None:
    before = tried.resolvable()

    inject = f"inject={boundary.call}:signal=KILL:when={boundary.number}"
    done = tried.run("-o", "/dev/null", "-e", inject)

    assert done.returncode == -signal.SIGKILL, (str(boundary), done.stderr[-500:])
    assert tried.resolvable() >= before, str(boundary)
    loaded = {
        file.path
        for reader in c00.judge(tried.host).observation.readers
        for file in reader.registry.files
    }
    assert not any(is_temporary(Path(path).name) for path in loaded), str(boundary)

    assert main(list(tried.command[3:])) == 0, str(boundary)
    assert tried.resolvable() >= before | NAMES, str(boundary)
    assert not tried.host.exists(f"{STATE}/journal.json"), str(boundary)
    repairs = StateStore(tried.host, RealFiles(), STATE).memory().repairs
    assert [item.file for item in repairs if item.result != FAILED] == [repairs[-1].file]
    left = [path.name for path in tried.host.root.rglob(".gpucdi-*") if is_temporary(path.name)]
    assert left == [], str(boundary)
