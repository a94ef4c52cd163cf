"""Files that nobody in his right mind would put there: bounded time and memory, and a finding.

A pass here is a whole ``gpucdi-agent inspect``, the start of Python included.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.trees import c00

from gpucdi.api import NodeStatus, read_status
from gpucdi.findings import Cause
from gpucdi.host import HostTree

pytestmark = pytest.mark.slow

CONFIG = "usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml"
# 100,000 is what a pass should bear; today each entry costs the CDI reader 0.2 ms.
MANY_FILES = int(os.environ.get("GPUCDI_MANY_FILES", "4000"))
# Two seconds and 100 MiB are for an idle machine; tests share theirs.
SECONDS = 2.0 * float(os.environ.get("GPUCDI_SLOWNESS", "4"))
BYTES = 100 * 1024 * 1024


def spec_path(root: Path) -> Path:
    return root / "run/cdi/hostile.yaml"


def huge_spec(root: Path) -> None:
    with spec_path(root).open("wb") as file:
        file.write(b"cdiVersion: 0.5.0\nkind: nvidia.com/gpu\n#")
        file.truncate(1024**3)


def many_files(root: Path) -> None:
    for number in range(MANY_FILES):
        os.mknod(root / f"run/cdi/{number}.txt", 0o644)


def alias_bomb(root: Path) -> None:
    lines = ['a0: &a0 ["x"]']
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    spec_path(root).write_text("\n".join(lines))


def link_loop(root: Path) -> None:
    spec_path(root).symlink_to("hostile.yaml")


def link_to_secret(root: Path) -> None:
    spec_path(root).symlink_to("../../../../../../../../etc/shadow")


def pipe(root: Path) -> None:
    os.mkfifo(spec_path(root))


def not_utf8(root: Path) -> None:
    spec_path(root).write_bytes(b"cdiVersion: \xff\xfe\xfa\nkind: \xc3\x28\n")


def deep_nesting(root: Path) -> None:
    spec_path(root).write_text("devices: " + "[" * 100_000)


def huge_toml(root: Path) -> None:
    with (root / CONFIG).open("wb") as file:
        file.write(b"# " + b"x" * (50 * 1024 * 1024))


def directory_link_loop(root: Path) -> None:
    folder = root / "etc/cdi"
    (folder / "nvidia.yaml").unlink()
    folder.rmdir()
    folder.symlink_to("cdi")


@dataclass(frozen=True, slots=True)
class Seen:
    status: NodeStatus
    seconds: float
    bytes: int


# The peak is the process' own (VmHWM); rusage would count the forking test run's memory as well.
MEASURED = """
import re, sys
from gpucdi_agent.__main__ import main
code = main(sys.argv[1:])
peak = re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())
print(int(peak.group(1)) * 1024, file=sys.stderr)
"""


def look(host: HostTree) -> Seen:
    arguments = ["inspect", "--root", str(host.root), "-o", "json"]
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=50,
    )
    seconds = time.monotonic() - started
    return Seen(read_status(json.loads(done.stdout)["status"]), seconds, int(done.stderr))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Give a folder in memory where there is one: 100,000 files take a disk a minute."""
    memory = Path("/dev/shm")
    if not memory.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory, prefix="gpucdi-hostile-") as made:
        yield Path(made)


CASES: list[tuple[Callable[[Path], None], Cause | None]] = [
    (huge_spec, Cause.SPEC_NOT_READABLE),
    (many_files, None),
    (alias_bomb, Cause.SPEC_REJECTED),
    (link_loop, Cause.SPEC_NOT_READABLE),
    (link_to_secret, Cause.SPEC_NOT_READABLE),
    (pipe, Cause.SPEC_REJECTED),
    (not_utf8, Cause.SPEC_REJECTED),
    (deep_nesting, Cause.SPEC_REJECTED),
    (huge_toml, Cause.CONFIG_UNREADABLE),
    (directory_link_loop, None),
]


@pytest.mark.parametrize(("spoil", "cause"), CASES, ids=[spoil.__name__ for spoil, _ in CASES])
def test_it_costs_bounded_time_and_memory_and_is_told(
    folder: Path, spoil: Callable[[Path], None], cause: Cause | None
) -> None:
    host = c00.copy(folder / "host")
    spoil(host.root)

    seen = look(host)

    print(f"{spoil.__name__}: {seen.seconds:.1f} s, {seen.bytes / 2**20:.0f} MiB")
    assert seen.seconds < SECONDS
    assert seen.bytes < BYTES
    if cause is not None:
        assert cause in {finding.cause for finding in seen.status.findings}


def test_a_link_never_leads_out_of_the_root(tmp_path: Path) -> None:
    host = c00.copy(tmp_path / "host")
    secret = tmp_path / "etc/shadow"
    secret.parent.mkdir()
    secret.write_text("top secret")
    link_to_secret(host.root)

    seen = look(host)

    assert "top secret" not in str(seen.status)
