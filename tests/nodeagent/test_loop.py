"""The loop: what wakes a pass, what is told, and whether it lives."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from tests.trees import c00

from gpucdi.api import Intent, NodeState, NodeStatus, RepairMode
from gpucdi.host import HostTree
from gpucdi.programs import CapturedPrograms
from gpucdi.repair import Generation
from gpucdi_agent.files import RealFiles
from gpucdi_agent.logs import LOGGER, JsonFormatter
from gpucdi_agent.loop import Loop, Settings
from gpucdi_agent.metrics import Metrics
from gpucdi_agent.passes import NodePass, PassResult, Surroundings
from gpucdi_agent.state import StateStore
from gpucdi_agent.transaction import Transaction
from gpucdi_kube import SystemClock

OWN = "/etc/cdi/gpucdi-management.nvidia.com-gpu.yaml"


class Stand:
    """Generates the incident's devices."""

    def generate(self, generation: Generation) -> bytes:
        del generation
        return c00.generated((*c00.UUIDS, "all"))


class Lines(logging.Handler):
    """Keeps log lines as they would be written."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(JsonFormatter())
        self.lines: list[dict[str, object]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(json.loads(self.format(record)))


@dataclass
class Bench:
    host: HostTree
    loop: Loop
    metrics: Metrics
    state: StateStore
    shown: list[NodeStatus] = field(default_factory=list)

    async def until(self, condition: Callable[[], object], seconds: float = 15.0) -> None:
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110 - files and threads ring no bell
                await asyncio.sleep(0.01)

    async def until_state(self, state: NodeState) -> None:
        await self.until(lambda: self.shown and self.shown[-1].state is state)


@asynccontextmanager
async def running(
    folder: Path, *, observe: bool = False, interval: float = 60.0
) -> AsyncIterator[Bench]:
    host = c00.copy(folder / "host")
    files, clock = RealFiles(), SystemClock()
    state = StateStore(host, files, "/var/lib/gpucdi")
    state.prepare()

    def now() -> str:
        return "2026-01-01T00:00:00Z"

    surroundings = Surroundings(
        host=host,
        programs=CapturedPrograms.of(host),
        nvml=None,
        now=now,
        monotonic=clock.monotonic,
        generator=Stand(),
        state=state,
        transaction=Transaction(host, state, files, now),
    )
    metrics = Metrics()
    settings = Settings("n1", interval, observe)
    loop = Loop(settings, host, NodePass(surroundings), metrics, clock, state=state)
    bench = Bench(host, loop, metrics, state)
    loop.publish = bench.shown.append
    task = asyncio.create_task(loop.run())
    try:
        yield bench
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def lines() -> object:
    handler = Lines()
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    yield handler
    LOGGER.removeHandler(handler)


async def test_the_first_pass_needs_no_event(tmp_path: Path) -> None:
    async with running(tmp_path) as bench:
        assert bench.loop.ready_problem()

        await bench.until_state(NodeState.DRIFTED)

        assert bench.loop.ready_problem() == ""
        assert bench.loop.health_problem() == ""


async def test_a_new_intent_is_obeyed_and_remembered(tmp_path: Path) -> None:
    async with running(tmp_path) as bench:
        await bench.until_state(NodeState.DRIFTED)

        bench.loop.obey(Intent(mode=RepairMode.AUTO), 2)
        await bench.until_state(NodeState.RESOLVED)

        memory = bench.state.memory()
        assert memory.intent == Intent(mode=RepairMode.AUTO)
        assert memory.generation == 2
        assert bench.shown[-1].observed_generation == 2


async def test_observing_forbids_what_the_intent_allows(tmp_path: Path) -> None:
    async with running(tmp_path, observe=True) as bench:
        bench.loop.obey(Intent(mode=RepairMode.AUTO), 2)
        await bench.until(lambda: bench.shown and bench.shown[-1].observed_generation == 2)

        assert bench.shown[-1].state is NodeState.DRIFTED
        assert not bench.host.exists(OWN)
        assert bench.state.memory().intent is None


async def test_a_change_on_disk_is_a_pass(tmp_path: Path) -> None:
    async with running(tmp_path) as bench:
        await bench.until_state(NodeState.DRIFTED)
        await asyncio.sleep(0.5)

        (bench.host.root / "etc/cdi/more.yaml").write_bytes(c00.generated((*c00.UUIDS,), gpu=1))

        await bench.until_state(NodeState.RESOLVED)


async def test_without_events_the_timer_makes_a_pass(tmp_path: Path) -> None:
    async with running(tmp_path, interval=0.2) as bench:
        await bench.until_state(NodeState.DRIFTED)
        # Nobody watches /proc: only the timer can see a GPU go.
        gpus = bench.host.root / "proc/driver/nvidia/gpus"
        next(iter(sorted(gpus.iterdir()))).rename(bench.host.root / "gone")

        await bench.until(lambda: bench.shown[-1].gpus.count == 1)


async def test_nothing_is_told_when_nothing_changes(tmp_path: Path, lines: Lines) -> None:
    async with running(tmp_path, interval=0.05) as bench:
        await bench.until_state(NodeState.DRIFTED)
        count = len(lines.lines)
        seen = bench.metrics.text()

        await bench.until(lambda: bench.metrics.text() != seen)

        assert len(lines.lines) == count
        assert len(bench.shown) == 1


async def test_a_repair_is_one_line_with_file_and_numbers(tmp_path: Path, lines: Lines) -> None:
    async with running(tmp_path) as bench:
        bench.loop.obey(Intent(mode=RepairMode.AUTO), 1)
        await bench.until_state(NodeState.RESOLVED)

    (line,) = [line for line in lines.lines if line["message"] == "spec file changed"]
    assert (line["file"], line["result"], line["added"]) == (OWN, "Succeeded", 2)
    counted = 'gpucdi_repairs_total{cause="OnlyAllDevice",result="Succeeded"} 1.0'
    assert counted in bench.metrics.text().decode()


@dataclass
class FaultyPass:
    """A pass with a programming error at first, and a sound one behind it."""

    sound: NodePass
    failures: int = 1

    def run(self, *arguments: Any) -> PassResult:
        if self.failures:
            self.failures -= 1
            raise ZeroDivisionError("a fault of ours")
        return self.sound.run(*arguments)


async def test_a_fault_of_ours_ends_neither_the_loop_nor_silently(
    tmp_path: Path, lines: Lines
) -> None:
    async with running(tmp_path) as bench:
        await bench.until_state(NodeState.DRIFTED)
        faulty = FaultyPass(bench.loop.node_pass)
        bench.loop.node_pass = cast("NodePass", faulty)
        bench.loop.wake()
        await bench.until(lambda: any(line["message"] == "a pass failed" for line in lines.lines))

        bench.loop.obey(Intent(mode=RepairMode.AUTO), 2)

        await bench.until_state(NodeState.RESOLVED)


async def test_a_refused_watch_is_a_finding(tmp_path: Path) -> None:
    async with running(tmp_path, interval=0.2) as bench:
        await bench.until_state(NodeState.DRIFTED)
        bench.loop._watcher.problem = "OS file watch limit reached"

        await bench.until(
            lambda: any("watch limit" in item.message for item in bench.shown[-1].findings)
        )
