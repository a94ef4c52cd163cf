"""That repairs are stopped, and resumed, is told once: also where a leader ends before it has told."""

from __future__ import annotations

import pytest
from tests.controller.circle import (
    ROLL_OUT,
    Agents,
    SteeredClock,
    breaker,
    drifted,
    fleet,
    governed,
    names,
    stands,
)
from tests.controller.conftest import Eventually, Start
from tests.controller.scene import KIND, Scene
from tests.fakeapi.server import FakeApi, Logged

FLEET = 10


@pytest.fixture
def agents(api: FakeApi, scene: Scene) -> Agents:
    made = Agents(api, scene, SteeredClock())
    fleet(made, FLEET, breaker=ROLL_OUT)
    return made


def untold(api: FakeApi, reason: str) -> None:
    """Keep every leader from telling: each ends as if it had between the two writes."""
    api.faults.add(422, verbs=["create"], plurals=["events"], telling=reason.encode())


def drift(agents: Agents, count: int = 5) -> None:
    for name in names(count):
        agents.says(name, drifted=True)


async def opened(agents: Agents, api: FakeApi, start: Start, eventually: Eventually) -> None:
    """Let a leader stop the repairs of a roll-out, and end."""
    async with start("one", agents.clock):
        await eventually(lambda: governed(api))
        drift(agents)
        await eventually(lambda: stands(api, "Open"))
        # Told, too, where nothing keeps it from that.
        await eventually(lambda: api.faults.active or agents.scene.events("RepairsStopped"))


async def looked(api: FakeApi, eventually: Eventually, times: int = 2) -> None:
    """Wait until a leader has looked at the policy, and has done whatever it does when it looks."""

    def is_published() -> bool:
        body = api.find("gpucdipolicies", "p") or {}
        return bool(body["status"]["observedGeneration"] == body["metadata"]["generation"])

    for _ in range(times):
        body = api.find("gpucdipolicies", "p") or {}
        priority = body["spec"]["priority"] + 1
        api.put("gpucdipolicies", {**body, "spec": {**body["spec"], "priority": priority}})
        await eventually(is_published)


async def asked_and_found(api: FakeApi, eventually: Eventually) -> None:
    """Wait until a leader has asked for the Event; it must have found it."""
    await eventually(lambda: api.requests("get", plural="events"))
    await looked(api, eventually)
    assert {entry.code for entry in api.requests("get", plural="events")} == {200}


def told(api: FakeApi) -> list[Logged]:
    return api.requests("create", "patch", plural="events")


async def test_a_leader_that_ends_before_it_told_of_an_open_breaker_is_made_up_for(
    scene: Scene, api: FakeApi, agents: Agents, start: Start, eventually: Eventually
) -> None:
    untold(api, "RepairsStopped")
    await opened(agents, api, start, eventually)
    assert scene.events("RepairsStopped") == []
    api.faults.clear()
    async with start("two", agents.clock):
        await eventually(lambda: scene.events("RepairsStopped"))
    (event,) = scene.events("RepairsStopped")
    assert f"{breaker(api)['nodes']} nodes drifted over {KIND}" in event["message"]
    api.log.clear()
    async with start("three", agents.clock):
        await asked_and_found(api, eventually)
    assert told(api) == []


async def test_what_was_told_is_asked_for_and_not_written_again(
    scene: Scene, api: FakeApi, agents: Agents, start: Start, eventually: Eventually
) -> None:
    await opened(agents, api, start, eventually)
    api.log.clear()
    async with start("two", agents.clock):
        await asked_and_found(api, eventually)
        await looked(api, eventually, 5)
    assert [entry.code for entry in api.requests("get", plural="events")] == [200]
    assert told(api) == []
    assert len(scene.events("RepairsStopped")) == 1


@pytest.mark.parametrize("minutes", [(30,), (30, 5), (30, 5, 1)])
async def test_it_is_made_up_for_also_while_a_node_is_tried_and_after_the_trial_failed(
    scene: Scene,
    api: FakeApi,
    agents: Agents,
    start: Start,
    eventually: Eventually,
    *,
    minutes: tuple[int, ...],
) -> None:
    untold(api, "RepairsStopped")
    await opened(agents, api, start, eventually)
    since = breaker(api)["since"]
    for number, passing in enumerate(minutes):
        agents.pass_minutes(passing)
        async with start(f"untold-{number}", agents.clock):
            await looked(api, eventually)
    assert breaker(api)["since"] > since
    assert breaker(api)["trial"] == "n0000"
    api.faults.clear()
    async with start("tells", agents.clock):
        await eventually(lambda: scene.events("RepairsStopped"))
    api.log.clear()
    async with start("last", agents.clock):
        await asked_and_found(api, eventually)
    assert told(api) == []
    assert len(scene.events("RepairsStopped")) == 1


async def test_what_was_told_keeps_its_event_through_all_states_of_the_breaker(
    scene: Scene, api: FakeApi, agents: Agents, start: Start, eventually: Eventually
) -> None:
    await opened(agents, api, start, eventually)
    api.log.clear()
    for number, passing in enumerate((30, 5, 1)):
        agents.pass_minutes(passing)
        async with start(f"replica-{number}", agents.clock):
            await asked_and_found(api, eventually)
    assert told(api) == []
    assert len(scene.events("RepairsStopped")) == 1


async def test_of_what_is_longer_ago_than_events_live_nobody_is_told(
    scene: Scene, api: FakeApi, agents: Agents, start: Start, eventually: Eventually
) -> None:
    untold(api, "RepairsStopped")
    await opened(agents, api, start, eventually)
    api.faults.clear()
    agents.pass_minutes(61)
    async with start("two", agents.clock) as operator:
        await looked(api, eventually)
        assert stands(api, "HalfOpen")
        assert operator.governor._news._untold == {}
    assert scene.events("RepairsStopped") == []


@pytest.mark.parametrize("later", [0, 10])
async def test_that_repairs_are_resumed_is_made_up_for_as_well(
    scene: Scene, api: FakeApi, agents: Agents, start: Start, eventually: Eventually, *, later: int
) -> None:
    await opened(agents, api, start, eventually)
    untold(api, "RepairsResumed")
    agents.pass_minutes(30)
    async with start("two", agents.clock), agents.at_work():
        await eventually(lambda: stands(api, "Recovering") and not drifted(api))
    agents.pass_minutes(later)
    async with start("three", agents.clock):
        await looked(api, eventually)
    assert stands(api, "Closed" if later else "Recovering")
    assert scene.events("RepairsResumed") == []
    api.faults.clear()
    async with start("four", agents.clock):
        await eventually(lambda: scene.events("RepairsResumed"))
    api.log.clear()
    async with start("five", agents.clock):
        await asked_and_found(api, eventually)
    assert told(api) == []
    assert len(scene.events("RepairsStopped")) == len(scene.events("RepairsResumed")) == 1


async def test_a_breaker_that_closed_because_nothing_is_repaired_any_more_resumed_nothing(
    scene: Scene, api: FakeApi, agents: Agents, start: Start, eventually: Eventually
) -> None:
    await opened(agents, api, start, eventually)
    agents.pass_minutes(1)
    async with start("two", agents.clock):
        scene.policy("p", repair={"mode": "Observe", "breaker": ROLL_OUT})
        await eventually(lambda: stands(api, "Closed"))
    async with start("three", agents.clock) as operator:
        await looked(api, eventually)
        assert operator.governor._news._untold == {}
    assert scene.events("RepairsResumed") == []
