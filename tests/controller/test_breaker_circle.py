"""The breaker's whole circle and the turns, on the fake API server with simulated agents.

Policies count in minutes. Here minutes pass when the test says so; how fast the machine is does not
matter. ``GPUCDI_BREAKER_NODES`` sets the size of the fleet (default 200).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.controller.conftest import Eventually, Start
from tests.controller.scene import KIND, Scene, fresh
from tests.fakeapi.server import FakeApi

from gpucdi.api import NodeStatus, RepairRecord, read_status
from gpucdi_kube import SystemClock
from gpucdi_kube.clock import rfc3339

COUNT = int(os.environ.get("GPUCDI_BREAKER_NODES", "200"))
BAD = COUNT * 3 // 10
TICK_S = 0.05
CALM = {"lease_sweep_s": 30.0}

pytestmark = pytest.mark.timeout(900)


class SteeredClock(SystemClock):
    """The machine's clock, whose wall time is moved on by hand."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead


@dataclass(slots=True)
class Agents:
    """Every node's agent: repairs where its spec lets it, if repairs work at all."""

    api: FakeApi
    scene: Scene
    clock: SteeredClock
    works: bool = True
    tried: list[str] = field(default_factory=list)
    # The most nodes that were free to repair at the same time.
    most_at_once: int = 0

    def says(self, name: str, *, drifted: bool, ago_m: float = 0, kind: str = KIND) -> None:
        """Publish that a node has drifted, or resolves, as of so many minutes ago."""
        since = self.clock.now() - timedelta(minutes=ago_m)
        status = fresh(drifted=drifted, since=since)
        status = replace(status, kinds=(replace(status.kinds[0], kind=kind),))
        self.scene.agent_says(name, status)

    def free(self) -> list[tuple[str, NodeStatus]]:
        """Return the drifted nodes that may repair now."""
        found = []
        for body in self.api.all("gpucdistatuses"):
            repair, status = body["spec"]["repair"], body["status"]
            if repair["mode"] == "Auto" and "hold" not in repair and status["state"] == "Drifted":
                found.append((body["metadata"]["name"], read_status(status)))
        return found

    def act(self) -> None:
        """Let every agent that may repair try once."""
        free = self.free()
        self.most_at_once = max(self.most_at_once, len(free))
        for name, status in free:
            self.tried.append(name)
            if self.works:
                moment = rfc3339(self.clock.now())
                record = RepairRecord(moment, status.kinds[0].kind, "f", "Succeeded", 2)
                after = replace(fresh(drifted=False, since=self.clock.now()), repairs=(record,))
                self.scene.agent_says(name, after)

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Act again and again until the block ends."""

        async def run() -> None:
            while True:
                self.act()
                await asyncio.sleep(TICK_S)

        task = asyncio.create_task(run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def pass_minutes(self, minutes: float) -> None:
        """Move the wall time on; the agents go on renewing their Leases."""
        self.clock.ahead += timedelta(minutes=minutes)
        for body in self.api.all("gpucdistatuses"):
            name = body["metadata"]["name"]
            self.scene.lease(name, age_s=-self.clock.ahead.total_seconds())


@pytest.fixture
def agents(api: FakeApi, scene: Scene) -> Agents:
    return Agents(api, scene, SteeredClock())


def names(count: int) -> list[str]:
    return [f"n{number:04d}" for number in range(count)]


def breaker(api: FakeApi) -> dict[str, Any]:
    status = (api.find("gpucdipolicies", "p") or {}).get("status", {})
    found: dict[str, Any] = status.get("breaker", {})
    return found


def holds(api: FakeApi, reason: str = "BreakerOpen") -> set[str]:
    return {
        body["metadata"]["name"]
        for body in api.all("gpucdistatuses")
        if body["spec"]["repair"].get("hold", {}).get("reason") == reason
    }


def drifted(api: FakeApi) -> int:
    return sum(body["status"]["state"] == "Drifted" for body in api.all("gpucdistatuses"))


def governed(api: FakeApi) -> bool:
    return all(body["spec"]["repair"]["mode"] == "Auto" for body in api.all("gpucdistatuses"))


def fleet(agents: Agents, count: int, **repair: Any) -> None:
    for name in names(count):
        agents.scene.node(name)
        agents.says(name, drifted=False, ago_m=10_000)
    agents.scene.policy("p", repair=repair)


def circle(api: FakeApi, state: str) -> bool:
    return breaker(api).get("state") == state


async def test_a_bad_roll_out_goes_the_whole_circle_over_three_operators(
    scene: Scene, api: FakeApi, agents: Agents, start: Start, eventually: Eventually
) -> None:
    fleet(agents, COUNT, breaker={"percent": 20, "windowMinutes": 10, "pauseMinutes": 30})
    everyone = set(names(COUNT))
    agents.works = False
    async with start("replica-1", agents.clock, **CALM):
        await eventually(lambda: governed(api))
        agents.says("n0007", drifted=True, ago_m=1)
        for name in names(BAD):
            if name != "n0007":
                agents.says(name, drifted=True)
        await eventually(lambda: holds(api) == everyone)
        await eventually(lambda: scene.events("RepairsStopped"))
        assert circle(api, "Open")
        assert breaker(api)["firstNode"] == "n0007"
        # As many as had been seen when there were too many.
        seen = breaker(api)["nodes"]
        assert COUNT // 5 < seen <= BAD
    told = scene.events("RepairsStopped")[0]["message"]
    for word in ("[OnlyAllDevice]", f"{seen} nodes", KIND, "n0007"):
        assert word in told
    agents.tried.clear()

    async with start("replica-2", agents.clock, **CALM), agents.at_work():
        agents.pass_minutes(30)
        await eventually(lambda: circle(api, "HalfOpen"))
        await eventually(lambda: holds(api) == everyone - {"n0000"})
        await eventually(lambda: agents.tried)
    async with start("replica-3", agents.clock, **CALM), agents.at_work():
        assert circle(api, "HalfOpen")
        # The trial goes on where the last leader left it, and fails after five minutes.
        agents.pass_minutes(5)
        await eventually(lambda: circle(api, "Open"))
        await eventually(lambda: holds(api) == everyone)
        assert set(agents.tried) == {"n0000"}
        agents.tried.clear()
        agents.works = True
        agents.pass_minutes(30)
        await eventually(lambda: circle(api, "Recovering"))
        await eventually(lambda: drifted(api) == 0 and holds(api) == set())
        assert agents.tried[0] == "n0001"
        assert set(agents.tried) == set(names(BAD))
        agents.pass_minutes(10)
        await eventually(lambda: circle(api, "Closed"))
        await eventually(lambda: scene.events("RepairsResumed"))
    assert breaker(api).keys() == {"state", "since", "nodes"}
    assert len(scene.events("RepairsStopped")) == 1
    assert len(scene.events("RepairsResumed")) == 1
    assert agents.most_at_once <= BAD


async def test_failures_that_are_scattered_over_kinds_and_time_never_stop_repairs(
    scene: Scene, api: FakeApi, agents: Agents, start: Start, eventually: Eventually
) -> None:
    fleet(agents, 100, breaker={"percent": 20, "windowMinutes": 10, "pauseMinutes": 30})
    states: set[str] = set()
    async with start("replica-1", agents.clock, **CALM) as operator, agents.at_work():
        await eventually(lambda: governed(api))
        waves = ((0, KIND), (15, "nvidia.com/gpu"), (30, KIND), (45, "example.com/gpu"))
        for first, kind in waves:
            for name in names(100)[first : first + 15]:
                agents.says(name, drifted=True, kind=kind)
            await operator.governor.look()
            states.add(breaker(api)["state"])
            await eventually(lambda: drifted(api) == 0)
            await operator.governor.look()
            states.add(breaker(api)["state"])
            agents.pass_minutes(5.5)
    assert states == {"Closed"}
    assert scene.events("RepairsStopped") == []
    assert len(set(agents.tried)) == 60


async def test_never_more_nodes_repair_at_once_than_their_policy_says(
    api: FakeApi, agents: Agents, start: Start, eventually: Eventually
) -> None:
    fleet(agents, 30, maxConcurrent=3, breaker={"percent": 100, "minNodes": 1000})
    agents.works = False
    bad = names(12)
    async with start("replica-1", agents.clock, **CALM), agents.at_work():
        await eventually(lambda: len(holds(api, "AwaitingTurn")) == 30)
        # A leader that knew nothing would choose the first by name.
        repairing = set(bad[-3:])
        for name in bad[-3:]:
            agents.says(name, drifted=True)
        await eventually(lambda: {name for name, _ in agents.free()} == repairing)
        for name in bad[:-3]:
            agents.says(name, drifted=True)
    async with start("replica-2", agents.clock, **CALM) as operator, agents.at_work():
        await eventually(lambda: operator.elector.is_leader)
        await eventually(lambda: operator.nodes.rulings and operator.node_queue.is_idle)
        assert {name for name, _ in agents.free()} == repairing
        agents.works = True
        await eventually(lambda: drifted(api) == 0)
    assert agents.most_at_once == 3
    assert set(agents.tried) == set(bad)
