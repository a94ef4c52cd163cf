"""When the driver is asked again."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpucdi.host import HostTree
from gpucdi_agent.nvml import NvmlFailure, NvmlReading
from gpucdi_agent.recent import GOOD_FOR_SECONDS, RecentNvml


@dataclass
class CountingNvml:
    answer: NvmlReading = field(default_factory=NvmlReading)
    asked: int = 0

    def read(self, library: str | None) -> NvmlReading:
        del library
        self.asked += 1
        return self.answer


@dataclass
class Bench:
    root: Path
    seconds: float = 0.0
    nvml: CountingNvml = field(default_factory=CountingNvml)
    recent: RecentNvml = field(init=False)

    def __post_init__(self) -> None:
        (self.root / "dev").mkdir()
        self.recent = RecentNvml(self.nvml, HostTree(self.root), lambda: self.seconds)

    def ask(self, library: str | None = None) -> int:
        self.recent.read(library)
        return self.nvml.asked


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_at_once_the_last_answer_is_good(bench: Bench) -> None:
    assert (bench.ask(), bench.ask()) == (1, 1)


def test_an_old_answer_is_not(bench: Bench) -> None:
    bench.ask()
    bench.seconds = GOOD_FOR_SECONDS

    assert bench.ask() == 2


def test_a_new_device_node_ends_it(bench: Bench) -> None:
    bench.ask()
    (bench.root / "dev/nvidia3").touch()

    assert bench.ask() == 2


def test_somebody_elses_device_does_not(bench: Bench) -> None:
    bench.ask()
    (bench.root / "dev/sdb").touch()

    assert bench.ask() == 1


def test_another_library_is_another_driver(bench: Bench) -> None:
    bench.ask("/usr/lib64/libnvidia-ml.so.1")

    assert bench.ask("/run/nvidia/driver/usr/lib64/libnvidia-ml.so.1") == 2


def test_a_failure_is_asked_about_every_time(bench: Bench) -> None:
    bench.nvml.answer = NvmlReading(failure=NvmlFailure.TIMEOUT)

    assert (bench.ask(), bench.ask()) == (1, 2)
