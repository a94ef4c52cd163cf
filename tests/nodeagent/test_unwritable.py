"""A directory that cannot be written does not end the repair: our file goes elsewhere."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.trees import c00

from gpucdi.api import Intent, NodeState, RepairMode
from gpucdi.findings import Finding
from gpucdi.host import HostTree
from gpucdi.programs import CapturedPrograms
from gpucdi.repair import Generation
from gpucdi_agent.files import RealFiles
from gpucdi_agent.nvml import NvmlReading
from gpucdi_agent.passes import NodePass, PassResult, Surroundings
from gpucdi_agent.state import StateStore
from gpucdi_agent.transaction import Transaction
from gpucdi_agent.unwritable import REMEMBERED_SECONDS, UnwritableDirectories

STATE = "/var/lib/gpucdi"
NAME = "gpucdi-management.nvidia.com-gpu.yaml"
FIRST, SECOND = f"/etc/cdi/{NAME}", f"/run/cdi/{NAME}"
NAMES = ("0", "1", *c00.UUIDS, "all")


@dataclass
class RefusingFiles:
    """The disk, with directories (host paths) that refuse every change."""

    root: Path
    refused: dict[str, int] = field(default_factory=dict)
    tried: list[str] = field(default_factory=list)
    real: RealFiles = field(default_factory=RealFiles)

    def make_directory(self, path: Path, mode: int) -> None:
        self.real.make_directory(path, mode)

    def replace(self, path: Path, content: bytes, mode: int) -> None:
        self._check(path)
        self.real.replace(path, content, mode)

    def remove(self, path: Path) -> None:
        self._check(path)
        self.real.remove(path)

    def _check(self, path: Path) -> None:
        place = f"/{path.parent.relative_to(self.root)}"
        self.tried.append(place)
        if place in self.refused:
            code = self.refused[place]
            raise OSError(code, os.strerror(code), str(path))


class SteadyGenerator:
    """Always generates every name."""

    def generate(self, generation: Generation) -> bytes | Finding:
        return c00.generated(NAMES, generation.kind)


@dataclass
class SteadyNvml:
    """Sees the GPUs of the incident, with this driver."""

    driver: str = "570.86.15"

    def read(self, library: str | None) -> NvmlReading:
        del library
        return NvmlReading(driver=self.driver, devices=c00.GPUS.devices)


@dataclass
class Bench:
    """The incident, with a disk that may refuse, and passes over it."""

    host: HostTree
    files: RefusingFiles = field(init=False)
    nvml: SteadyNvml = field(default_factory=SteadyNvml)
    seconds: float = 1000.0
    node_pass: NodePass = field(init=False)

    def __post_init__(self) -> None:
        self.files = RefusingFiles(self.host.root)
        state = StateStore(self.host, self.files, STATE)
        state.prepare()
        self.node_pass = NodePass(
            Surroundings(
                host=self.host,
                programs=CapturedPrograms.of(self.host),
                nvml=self.nvml,
                now=lambda: f"T{self.seconds:g}",
                monotonic=lambda: self.seconds,
                generator=SteadyGenerator(),
                state=state,
                transaction=Transaction(self.host, state, self.files, lambda: "T"),
            )
        )

    def run(self) -> PassResult:
        self.seconds += 1.0
        return self.node_pass.run(Intent(mode=RepairMode.AUTO))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(c00.copy(tmp_path / "host"))


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC])
def test_the_repair_goes_to_the_next_directory_in_the_same_pass(bench: Bench, code: int) -> None:
    bench.files.refused = {"/etc/cdi": code}

    result = bench.run()

    assert result.status.state is NodeState.RESOLVED
    assert [(record.file, record.result) for record in result.records] == [
        (FIRST, "Failed"),
        (SECOND, "Succeeded"),
    ]
    assert not [each for each in result.status.findings if "not made" in each.message]
    assert result.due is None


def test_a_directory_that_refused_is_left_alone_for_a_while(bench: Bench) -> None:
    bench.files.refused = {"/etc/cdi": errno.EROFS}
    bench.run()
    bench.host.outside(SECOND).unlink()
    bench.files.tried.clear()

    result = bench.run()

    assert [record.file for record in result.records] == [SECOND]
    assert "/etc/cdi" not in bench.files.tried


def test_where_every_directory_refuses_it_is_said_and_not_tried_at_once_again(
    bench: Bench,
) -> None:
    bench.files.refused = {"/etc/cdi": errno.EROFS, "/run/cdi": errno.ENOSPC}

    result = bench.run()

    assert {record.result for record in result.records} == {"Failed"}
    (finding,) = [each for each in result.status.findings if "not made" in each.message]
    assert os.strerror(errno.ENOSPC) in finding.message
    assert result.due is not None


def test_what_was_not_made_is_said_until_it_is_tried_again(bench: Bench) -> None:
    bench.files.refused = {STATE: errno.ENOSPC}
    first = bench.run()
    assert first.records

    second = bench.run()

    assert second.records == ()
    assert second.status.findings == first.status.findings
    assert [each for each in second.status.findings if "not made" in each.message]


def test_once_it_could_be_made_nothing_is_said_of_it(bench: Bench) -> None:
    bench.files.refused = {STATE: errno.ENOSPC}
    bench.run()
    bench.files.refused = {}
    bench.seconds += REMEMBERED_SECONDS

    result = bench.run()

    assert result.status.state is NodeState.RESOLVED
    assert not [each for each in result.status.findings if "not made" in each.message]


def test_an_old_file_that_cannot_be_changed_does_not_keep_the_new_one_away(bench: Bench) -> None:
    bench.run()
    old = bench.host.read(FIRST)
    bench.files.refused = {"/etc/cdi": errno.EROFS}
    bench.nvml.driver = "580.1"

    result = bench.run()

    assert result.status.state is NodeState.RESOLVED
    assert bench.host.read(FIRST) == old
    assert bench.host.exists(SECOND)
    bench.files.tried.clear()
    assert bench.run().records == ()


def test_a_directory_that_no_reader_follows_is_not_used_again(bench: Bench) -> None:
    folder = bench.host.root / "etc/cdi"
    folder.rename(bench.host.root / "etc/cdi.old")
    folder.symlink_to("/var/lib/cdi-moved")

    result = bench.run()

    assert f"{c00.MANAGEMENT}={c00.UUIDS[0]}" in {
        name for reader in result.observation.readers for name in reader.registry.devices
    }
    assert bench.host.exists(SECOND)


@pytest.fixture
def memory(tmp_path: Path) -> tuple[Path, list[float], UnwritableDirectories]:
    folder = tmp_path / "etc/cdi"
    folder.mkdir(parents=True)
    clock = [100.0]
    return folder, clock, UnwritableDirectories(HostTree(tmp_path), lambda: clock[0])


def test_a_refusal_is_forgotten_in_time(
    memory: tuple[Path, list[float], UnwritableDirectories],
) -> None:
    _, clock, unwritable = memory
    unwritable.note("/etc/cdi")
    assert unwritable.current() == {"/etc/cdi"}

    clock[0] += REMEMBERED_SECONDS

    assert unwritable.current() == frozenset()


def test_a_refusal_is_forgotten_when_the_directory_changes_its_mode(
    memory: tuple[Path, list[float], UnwritableDirectories],
) -> None:
    folder, _, unwritable = memory
    unwritable.note("/etc/cdi")

    folder.chmod(0o700)

    assert unwritable.current() == frozenset()


def test_a_refusal_outlasts_what_others_write_there(
    memory: tuple[Path, list[float], UnwritableDirectories],
) -> None:
    folder, _, unwritable = memory
    unwritable.note("/etc/cdi")

    (folder / "nvidia.yaml").touch()

    assert unwritable.current() == {"/etc/cdi"}
