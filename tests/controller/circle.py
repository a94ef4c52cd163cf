"""A fleet whose repairs go wrong, and the breaker's whole circle over it, on any API server.

Policies count in minutes. Here minutes pass when whoever plays says so; how fast the machine is
does not matter. Must not know: which server, or how replicas of the operator are started.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from tests.controller.scene import KIND, Outside, Scene, fresh

from gpucdi.api import NodeStatus, RepairRecord, read_status
from gpucdi_kube import Clock, SystemClock
from gpucdi_kube.clock import rfc3339

# Starts the replica of a number, with the steered clock.
Lead: TypeAlias = Callable[[int, Clock], AbstractAsyncContextManager[object]]
Until: TypeAlias = Callable[[Callable[[], object]], Awaitable[None]]
ROLL_OUT = {"percent": 20, "windowMinutes": 10, "pauseMinutes": 30}
TICK_S = 0.05


class SteeredClock(SystemClock):
    """The machine's clock, whose wall time is moved on by hand."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead


@dataclass(slots=True)
class Agents:
    """Every node's agent: repairs where its spec lets it, if repairs work at all."""

    api: Outside
    scene: Scene
    clock: SteeredClock
    works: bool = True
    tried: list[str] = field(default_factory=list)
    # The most nodes that were free to repair at the same time.
    most_at_once: int = 0
    # How often all agents had their chance.
    rounds: int = 0

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
        self.rounds += 1

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


def names(count: int) -> list[str]:
    return [f"n{number:04d}" for number in range(count)]


def breaker(api: Outside) -> dict[str, Any]:
    status = (api.find("gpucdipolicies", "p") or {}).get("status", {})
    found: dict[str, Any] = status.get("breaker", {})
    return found


def holds(api: Outside, reason: str = "BreakerOpen") -> set[str]:
    return {
        body["metadata"]["name"]
        for body in api.all("gpucdistatuses")
        if body["spec"]["repair"].get("hold", {}).get("reason") == reason
    }


def drifted(api: Outside) -> int:
    return sum(body["status"]["state"] == "Drifted" for body in api.all("gpucdistatuses"))


def governed(api: Outside) -> bool:
    return all(body["spec"]["repair"]["mode"] == "Auto" for body in api.all("gpucdistatuses"))


def fleet(agents: Agents, count: int, **repair: Any) -> None:
    for name in names(count):
        agents.scene.node(name)
        agents.says(name, drifted=False, ago_m=10_000)
    agents.scene.policy("p", repair=repair)


def stands(api: Outside, state: str) -> bool:
    return breaker(api).get("state") == state


def seen_drifted(api: Outside) -> int:
    """Return how many drifted nodes the leader has told of."""
    status = (api.find("gpucdipolicies", "p") or {}).get("status", {})
    return int(status.get("nodes", {}).get("drifted", 0))


async def nobody_tries(agents: Agents, until: Until) -> None:
    """See all agents have their chance a few times and none take it."""
    before, rounds = len(agents.tried), agents.rounds
    await until(lambda: agents.rounds >= rounds + 3)
    assert agents.tried[before:] == []


@dataclass(frozen=True, slots=True)
class Stopped:
    """How repairs stopped: of ``nodes`` so many drifted, and ``tried`` before all were held."""

    nodes: int
    bad: int
    seen: int
    tried: int
    took_s: float

    def __str__(self) -> str:
        """Return a line for whoever measures."""
        return (
            f"{self.nodes} nodes, {self.bad} of them bad: opened when {self.seen} had been seen; "
            f"{self.tried} nodes tried before all were held, {self.took_s:.2f} s after one too many"
        )


async def too_many(agents: Agents, count: int, first: str, until: Until) -> Stopped:
    """Let three of ten nodes drift while their agents are at work; return how repairs stopped.

    As many as may drift do, and are repaired as far as repairs work. One more makes too many; what
    drifts when all are held is not even tried.
    """
    api, bad, limit = agents.api, count * 3 // 10, count // 5
    waves = [first, *(name for name in names(bad) if name != first)]
    for name in waves[:limit]:
        agents.says(name, drifted=True, ago_m=1 if name == first else 0)
    await until(lambda: agents.tried and seen_drifted(api) == drifted(api))
    assert stands(api, "Closed")
    began = time.monotonic()
    agents.says(waves[limit], drifted=True)
    await until(lambda: holds(api) == set(names(count)))
    took_s = time.monotonic() - began
    assert stands(api, "Open")
    tried = set(agents.tried)
    assert tried <= set(waves[: limit + 1])
    for name in waves[limit + 1 :]:
        agents.says(name, drifted=True)
    await until(lambda: seen_drifted(api) == drifted(api))
    assert drifted(api) >= bad - len(tried)
    await nobody_tries(agents, until)
    return Stopped(count, bad, breaker(api)["nodes"], len(tried), took_s)


async def whole_circle(agents: Agents, count: int, lead: Lead, until: Until) -> Stopped:
    """Play a bad roll-out to the end over three operators.

    The first stops the repairs, which did not hold, the second begins a trial, the third goes on
    with it, sees it fail, tries another node after the next pause and lets all repair.
    """
    api, scene, bad = agents.api, agents.scene, count * 3 // 10
    fleet(agents, count, breaker=ROLL_OUT)
    everyone = set(names(count))
    agents.works = False
    async with lead(1, agents.clock), agents.at_work():
        await until(lambda: governed(api))
        stopped = await too_many(agents, count, "n0002", until)
        await until(lambda: scene.events("RepairsStopped"))
    assert breaker(api)["firstNode"] == "n0002"
    assert stopped.seen == count // 5 + 1
    told = scene.events("RepairsStopped")[0]["message"]
    for word in ("[OnlyAllDevice]", f"{stopped.seen} nodes", KIND, "n0002"):
        assert word in told
    agents.tried.clear()
    agents.most_at_once = 0

    async with lead(2, agents.clock), agents.at_work():
        agents.pass_minutes(30)
        await until(lambda: stands(api, "HalfOpen"))
        await until(lambda: holds(api) == everyone - {"n0000"})
        await until(lambda: agents.tried)
    async with lead(3, agents.clock), agents.at_work():
        assert stands(api, "HalfOpen")
        # The trial goes on where the last leader left it, and fails after five minutes.
        agents.pass_minutes(5)
        await until(lambda: stands(api, "Open"))
        await until(lambda: holds(api) == everyone)
        assert set(agents.tried) == {"n0000"}
        assert agents.most_at_once == 1
        agents.tried.clear()
        agents.works = True
        agents.pass_minutes(30)
        await until(lambda: stands(api, "Recovering"))
        await until(lambda: drifted(api) == 0 and holds(api) == set())
        assert agents.tried[0] == "n0001"
        assert set(agents.tried) == set(names(bad))
        agents.pass_minutes(10)
        await until(lambda: stands(api, "Closed"))
        await until(lambda: scene.events("RepairsResumed"))
    assert breaker(api).keys() == {"state", "since", "nodes"}
    assert len(scene.events("RepairsStopped")) == 1
    assert len(scene.events("RepairsResumed")) == 1
    return stopped
