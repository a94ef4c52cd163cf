"""What a policy does to a fleet on the fake API server, and what its status says of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.controller.conftest import Eventually, Start, quick
from tests.controller.scene import Scene, fresh, node_status
from tests.fakeapi.server import FakeApi

from gpucdi.api import Intent
from gpucdi.api.names import LABEL_REPAIR
from gpucdi.api.policy import BreakerState, BreakerStatus, Policy
from gpucdi_kube import Credentials, HttpKubeApi, KubeObject, SystemClock
from gpucdi_kube.clock import rfc3339
from gpucdi_operator.events import Recorder
from gpucdi_operator.groups import Group, gather
from gpucdi_operator.policies import Choice
from gpucdi_operator.policy_status import conditions
from gpucdi_operator.store import NodeRecord, PolicyRecord, StatusRecord, Store

UPGRADE = {"nvidia.com/gpu-driver-upgrade-state": "drain-required"}
ROLL_OUT = {"percent": 20, "minNodes": 5, "windowMinutes": 10, "pauseMinutes": 30}


def names(count: int) -> list[str]:
    return [f"n{number:02d}" for number in range(count)]


def fleet(scene: Scene, count: int, drifted: Iterable[str] = (), **labels: str) -> None:
    for name in names(count):
        scene.node(name, labels=labels)
        scene.agent_says(name, fresh(drifted=name in set(drifted)))


def status(api: FakeApi, name: str = "p") -> dict[str, Any]:
    found: dict[str, Any] = (api.find("gpucdipolicies", name) or {}).get("status", {})
    return found


def told(api: FakeApi, kind: str, name: str = "p") -> dict[str, Any]:
    found = [item for item in status(api, name).get("conditions", ()) if item["type"] == kind]
    return found[0] if found else {}


def holds(scene: Scene, count: int) -> dict[str, str]:
    specs = {name: scene.spec(name)["repair"].get("hold", {}) for name in names(count)}
    return {name: hold["reason"] for name, hold in specs.items() if hold}


def state(api: FakeApi) -> dict[str, Any]:
    found: dict[str, Any] = status(api).get("breaker", {})
    return found


def stored(api: FakeApi, **breaker: Any) -> None:
    """Put into the policy's status what an earlier leader has left there."""
    body = api.find("gpucdipolicies", "p")
    assert body is not None
    api.put("gpucdipolicies", {**body, "status": {"breaker": breaker}})


def minutes_ago(minutes: float) -> str:
    return rfc3339(SystemClock().now() - timedelta(minutes=minutes))


async def test_only_drifted_nodes_that_a_hold_keeps_from_repairing_count_as_held(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    fleet(scene, 5)
    scene.policy("p", repair={"maxConcurrent": 1})

    def counted() -> tuple[int, int]:
        nodes = status(api).get("nodes", {})
        return nodes.get("drifted", -1), nodes.get("held", -1)

    async with start():
        await eventually(lambda: len(holds(scene, 5)) == 5)
        await eventually(lambda: counted() == (0, 0))
        for name in names(3):
            scene.agent_says(name, fresh(drifted=True))
        await eventually(lambda: counted() == (3, 2))


async def test_a_node_that_is_switched_off_takes_no_turn_from_those_that_repair(
    scene: Scene, start: Start, eventually: Eventually
) -> None:
    fleet(scene, 4, drifted=names(4))
    scene.node("n00", labels={LABEL_REPAIR: "off"})
    scene.node("n01", labels=UPGRADE)
    scene.policy("p", repair={"maxConcurrent": 1, "breaker": {"minNodes": 50}})
    async with start():
        await eventually(lambda: holds(scene, 4).keys() == {"n01", "n03"})
        assert scene.spec("n02")["repair"] == {"mode": "Auto"}
        assert scene.spec("n00")["repair"] == {"mode": "Off"}


async def test_a_policy_that_observes_tells_of_no_stopped_repairs(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    fleet(scene, 10, drifted=names(8))
    scene.policy("p", repair={"mode": "Observe", "breaker": ROLL_OUT})
    async with start() as operator:
        await eventually(lambda: status(api).get("nodes", {}).get("drifted") == 8)
        await operator.governor.look()
        assert state(api)["state"] == "Closed"
        assert "no node of this policy is in mode Auto" in told(api, "RepairsAllowed")["message"]
        assert scene.events("RepairsStopped") == []
        scene.node("n09", labels={LABEL_REPAIR: "auto"})
        await eventually(lambda: scene.events("RepairsStopped"))
        await eventually(lambda: holds(scene, 10) == {"n09": "BreakerOpen"})


async def test_an_open_breaker_of_a_policy_that_is_set_to_observe_closes(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    fleet(scene, 10, drifted=names(8))
    scene.policy("p", repair={"breaker": ROLL_OUT})
    async with start():
        await eventually(lambda: state(api).get("state") == "Open")
        scene.policy("p", repair={"mode": "Observe", "breaker": ROLL_OUT})
        await eventually(lambda: state(api).get("state") == "Closed")
        await eventually(lambda: told(api, "RepairsAllowed").get("status") == "True")
        await eventually(lambda: holds(scene, 10) == {})


async def test_the_trial_is_the_next_node_that_could_repair(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    fleet(scene, 10, drifted=names(8))
    scene.node("n02", labels={LABEL_REPAIR: "observe"})
    scene.node("n03", labels=UPGRADE)
    scene.policy("p", repair={"breaker": ROLL_OUT})
    kept = {"state": "Open", "since": minutes_ago(31), "kind": "k", "cause": "c", "nodes": 8}
    stored(api, **kept, firstNode="n00", trial="n01")
    async with start():
        await eventually(lambda: state(api).get("trial") == "n04")
        assert state(api)["state"] == "HalfOpen"
        await eventually(lambda: told(api, "RepairsAllowed")["message"].endswith("n04 is tried"))
        await eventually(lambda: "n04" not in holds(scene, 10))
        api.remove("nodes", "n04")
        api.remove("gpucdistatuses", "n04")
        await eventually(lambda: state(api).get("trial") == "n05")
        assert state(api)["state"] == "HalfOpen"
        scene.agent_says("n05", fresh(drifted=False))
        await eventually(lambda: state(api).get("state") == "Recovering")


async def test_a_breaker_that_finds_nothing_to_try_stays_open_and_says_so(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    fleet(scene, 10, drifted=names(8))
    for name in names(8):
        scene.node(name, labels=UPGRADE)
    scene.policy("p", repair={"breaker": ROLL_OUT})
    since = minutes_ago(31)
    stored(api, state="Open", since=since, kind="k", cause="c", nodes=8, firstNode="n00")

    def message() -> str:
        return str(told(api, "RepairsAllowed").get("message", ""))

    async with start() as operator:
        await eventually(lambda: "none of the drifted nodes can be tried now" in message())
        await operator.governor.look()
        assert (state(api)["state"], state(api)["since"]) == ("Open", since)
        scene.node("n06", labels={})
        await eventually(lambda: state(api).get("trial") == "n06")


class Stuck(HttpKubeApi):
    """A connection on which nothing that is created is ever answered."""

    async def create(self, path: str, body: KubeObject) -> KubeObject:
        """Wait for ever."""
        del path, body
        return await asyncio.Future()


async def test_what_stops_repairs_does_not_wait_until_it_is_told(
    scene: Scene, api: FakeApi
) -> None:
    fleet(scene, 10, drifted=names(8))
    scene.node("n09", labels={LABEL_REPAIR: "sometimes"})
    scene.policy("p", repair={"breaker": ROLL_OUT})
    operator = quick(api)
    await operator.fleet.resync()
    client, stuck = HttpKubeApi(Credentials(api.url)), Stuck(Credentials(api.url))
    recorder = Recorder(stuck, operator.clock, operator.metrics, "replica-1")
    governor = replace(operator.governor, api=client, recorder=recorder)
    telling = asyncio.create_task(governor.tell_on())
    async with asyncio.timeout(60):
        await governor.look()
        await governor.look()
    rulings = operator.nodes.rulings
    assert {ruling.hold.reason for ruling in rulings.values() if ruling.hold} == {
        "BreakerOpen",
        "RepairLabelUnreadable",
    }
    assert all(ruling.hold for ruling in rulings.values())
    telling.cancel()
    await asyncio.gather(telling, return_exceptions=True)
    for each in (client, stuck, operator.api, operator.evicting, operator.elector.api):
        await each.close()


# Without a server ---------------------------------------------------------------------------


def message(kind: str, group: Group, state: BreakerStatus, **repair: Any) -> str:
    record = PolicyRecord("p", "u", Policy.from_json("p", {"repair": repair}), state)
    return next(item.message for item in conditions(record, group, state, {}) if item.type == kind)


def test_a_policy_that_outranks_hundreds_names_some_of_them() -> None:
    store = Store(nodes={"n0": NodeRecord("n0", "u")})
    policies = [Policy("winner", priority=1), *(Policy(f"p{number:03d}") for number in range(200))]
    group = gather(store, Choice(policies))["winner"]
    told = message("Governs", group, BreakerStatus())
    assert told.endswith("it outranks p000, p001, p002, p003, p004 and 195 more")
    assert len(told) < 200


@pytest.mark.parametrize(
    ("mode", "labels", "acts"),
    [
        ("Auto", {}, True),
        ("Observe", {}, False),
        ("Auto", {LABEL_REPAIR: "observe"}, False),
        ("Observe", {LABEL_REPAIR: "auto"}, True),
    ],
)
def test_a_policy_acts_where_one_of_its_nodes_is_in_mode_auto(
    mode: str, labels: dict[str, str], *, acts: bool
) -> None:
    policy = Policy.from_json("p", {"repair": {"mode": mode}})
    record = PolicyRecord("p", "u", policy, BreakerStatus())
    status = StatusRecord("n0", "u", Intent(), node_status(drifted=False))
    store = Store({"n0": NodeRecord("n0", "u", labels)}, {"n0": status}, policies={"p": record})
    assert gather(store, Choice([policy]))["p"].acts(policy) is acts


@pytest.mark.parametrize(
    ("state", "drifted", "able"),
    [
        (BreakerState.CLOSED, True, {"n0"}),
        (BreakerState.CLOSED, False, set()),
        (BreakerState.HALF_OPEN, False, {"n0"}),
        (BreakerState.OPEN, False, set()),
    ],
)
def test_the_drifted_nodes_and_the_one_that_is_tried_are_asked_whether_they_could_repair(
    state: BreakerState, able: set[str], *, drifted: bool
) -> None:
    policy = Policy.from_json("p", {"repair": {"mode": "Auto"}})
    record = PolicyRecord("p", "u", policy, BreakerStatus(state, trial="n0"))
    status = StatusRecord("n0", "u", Intent(), node_status(drifted=drifted))
    store = Store({"n0": NodeRecord("n0", "u")}, {"n0": status}, policies={"p": record})
    assert gather(store, Choice([policy]))["p"].able == able
    store.silent = {"n0"}
    assert gather(store, Choice([policy]))["p"].able == set()


@pytest.mark.parametrize(("mode", "acts"), [("Auto", True), ("Observe", False)])
def test_a_policy_without_nodes_acts_as_its_mode_says(mode: str, *, acts: bool) -> None:
    assert Group().acts(Policy.from_json("p", {"repair": {"mode": mode}})) is acts


def test_a_trial_that_failed_is_named_while_the_breaker_is_open() -> None:
    state = BreakerStatus(BreakerState.OPEN, "", "k", "c", "n00", 8, "n03")
    assert message("RepairsAllowed", Group(), state).endswith("; n03 was the last to be tried")
