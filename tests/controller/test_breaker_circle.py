"""The breaker's whole circle and the turns, on the fake API server with simulated agents.

``GPUCDI_BREAKER_NODES`` sets the size of the fleet (default 200); with ``-s`` the tests print how
the repairs stopped.
"""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager

import pytest
from tests.controller.circle import (
    ROLL_OUT,
    Agents,
    SteeredClock,
    breaker,
    drifted,
    fleet,
    governed,
    holds,
    names,
    stands,
    too_many,
    whole_circle,
)
from tests.controller.conftest import Eventually, Start
from tests.controller.scene import KIND, Scene
from tests.fakeapi.server import FakeApi

from gpucdi_kube import Clock

COUNT = int(os.environ.get("GPUCDI_BREAKER_NODES", "200"))
CALM = {"lease_sweep_s": 30.0}

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def agents(api: FakeApi, scene: Scene) -> Agents:
    return Agents(api, scene, SteeredClock())


async def test_a_bad_roll_out_goes_the_whole_circle_over_three_operators(
    agents: Agents, start: Start, eventually: Eventually
) -> None:
    def lead(number: int, clock: Clock) -> AbstractAsyncContextManager[object]:
        return start(f"replica-{number}", clock, **CALM)

    print(await whole_circle(agents, COUNT, lead, eventually))


async def test_repairs_in_turn_that_hold_stop_after_the_limit_too(
    api: FakeApi, agents: Agents, start: Start, eventually: Eventually
) -> None:
    """Whoever has a turn had drifted at a look that did not find too many: at most the limit."""
    turns = COUNT // 40
    fleet(agents, COUNT, maxConcurrent=turns, breaker=ROLL_OUT)
    async with start("replica-1", agents.clock, **CALM), agents.at_work():
        await eventually(lambda: len(holds(api, "AwaitingTurn")) == COUNT)
        stopped = await too_many(agents, COUNT, "n0000", eventually)
        print(f"{stopped}, {agents.most_at_once} at once of {turns}")
        assert stopped.tried <= COUNT // 5
        repaired = len(agents.tried)
        assert drifted(api) == stopped.bad - repaired
        agents.pass_minutes(30)
        await eventually(lambda: stands(api, "Recovering"))
        await eventually(lambda: drifted(api) == 0)
    assert agents.most_at_once <= turns
    # Each was repaired once.
    assert sorted(agents.tried) == names(stopped.bad)


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
