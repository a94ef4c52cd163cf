"""Policies: which one governs, what it asks of a node, and what stands above it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.controller.conftest import Eventually, Start
from tests.controller.scene import Scene, fresh, node_status
from tests.fakeapi.server import FakeApi

from gpucdi.api import Intent, RepairMode
from gpucdi.api.policy import BreakerState, BreakerStatus, Policy
from gpucdi_operator.policies import Turns, could_repair, governing, label_hold, rule
from gpucdi_operator.store import NodeRecord

H100 = {"nvidia.com/gpu.product": "NVIDIA-H100"}


def policy(name: str, **spec: Any) -> Policy:
    return Policy.from_json(name, spec)


def test_the_highest_priority_governs_and_of_equals_the_first_by_name() -> None:
    policies = [
        policy("b", priority=1),
        policy("a", priority=1),
        policy("c", priority=5, nodeSelector={"matchLabels": H100}),
    ]
    assert [found.name for found in governing(policies, {})] == ["a", "b"]
    assert [found.name for found in governing(policies, H100)] == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("operator", "values", "labels", "selected"),
    [
        ("In", ["x"], {"k": "x"}, True),
        ("In", ["x"], {}, False),
        ("NotIn", ["x"], {}, True),
        ("NotIn", ["x"], {"k": "x"}, False),
        ("Exists", [], {"k": ""}, True),
        ("DoesNotExist", [], {"k": ""}, False),
        ("Gt", ["1"], {"k": "2"}, False),
    ],
)
def test_a_selector_means_what_kubernetes_means(
    operator: str, values: list[str], labels: dict[str, str], *, selected: bool
) -> None:
    term = {"key": "k", "operator": operator, "values": values}
    found = policy("p", nodeSelector={"matchExpressions": [term]})
    assert found.selects(labels) is selected


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ({"nvidia.com/mig.config.state": "pending"}, "MigChange"),
        ({"nvidia.com/mig.config.state": "success"}, None),
        ({"nvidia.com/gpu.deploy.device-plugin": "paused-for-mig-change"}, "OperandsPaused"),
        ({"nvidia.com/gpu.deploy.device-plugin": "true"}, None),
        ({"gpucdi.io/repair": "atuo"}, "RepairLabelUnreadable"),
        ({"gpucdi.io/repair": ""}, "RepairLabelUnreadable"),
        ({"gpucdi.io/repair": "Observe"}, None),
    ],
)
def test_labels_of_other_operators_hold_repairs(labels: dict[str, str], reason: str | None) -> None:
    hold = label_hold(labels)
    assert (hold.reason if hold else None) == reason


@pytest.mark.parametrize(
    ("state", "held"),
    [
        ("upgrade-required", False),
        ("cordon-required", True),
        ("wait-for-jobs-required", True),
        ("pod-deletion-required", True),
        ("drain-required", True),
        ("node-maintenance-required", True),
        ("post-maintenance-required", True),
        ("pod-restart-required", True),
        ("validation-required", True),
        ("uncordon-required", True),
        ("upgrade-done", False),
        ("upgrade-failed", False),
    ],
)
def test_a_driver_upgrade_holds_from_its_cordon_to_its_uncordon(state: str, *, held: bool) -> None:
    hold = label_hold({"nvidia.com/gpu-driver-upgrade-state": state})
    assert (hold.reason if hold else None) == ("DriverUpgrade" if held else None)


@pytest.mark.parametrize(
    ("mode", "labels", "able"),
    [
        ("Auto", {}, True),
        ("Observe", {}, False),
        ("Off", {}, False),
        ("Auto", {"gpucdi.io/repair": "off"}, False),
        ("Auto", {"gpucdi.io/repair": "observe"}, False),
        ("Auto", {"gpucdi.io/repair": "atuo"}, False),
        ("Observe", {"gpucdi.io/repair": "auto"}, True),
        ("Auto", {"nvidia.com/mig.config.state": "pending"}, False),
        ("Auto", {"nvidia.com/gpu.deploy.dcgm": "paused-for-driver-upgrade"}, False),
    ],
)
def test_who_could_repair(mode: str, labels: dict[str, str], *, able: bool) -> None:
    found = policy("p", repair={"mode": mode})
    assert could_repair(labels, found, silent=False) is able
    assert not could_repair(labels, found, silent=True)


def node(name: str = "n1", **labels: str) -> NodeRecord:
    return NodeRecord(name, "u", labels)


def test_the_label_of_the_node_stands_above_every_policy() -> None:
    auto = policy("p", repair={"mode": "Auto"})
    found = rule(node(**{"gpucdi.io/repair": "off"}), auto, BreakerStatus(), None)
    assert found.mode is RepairMode.OFF
    found = rule(node(**{"gpucdi.io/repair": "auto"}), None, BreakerStatus(), None)
    assert found.mode is RepairMode.AUTO


def test_without_policy_and_label_nothing_is_asked() -> None:
    found = rule(node(), None, BreakerStatus(), None)
    assert found.is_met_by(Intent("n1"))
    assert found.mode is None


def test_an_open_breaker_holds_all_but_the_trial() -> None:
    auto = policy("p", repair={"mode": "Auto"})
    state = BreakerStatus(BreakerState.HALF_OPEN, trial="n2")
    held = rule(node("n1"), auto, state, None).hold
    assert held is not None
    assert held.reason == "BreakerOpen"
    assert rule(node("n2"), auto, state, None).hold is None
    again = rule(node("n2"), auto, replace(state, state=BreakerState.OPEN), None).hold
    assert again is not None, "the last one that was tried is held like all the others"


def test_at_most_so_many_nodes_have_their_turn() -> None:
    turns = Turns()
    drifted = [f"n{number}" for number in range(10)]
    first = turns.give(3, drifted, 0.0)
    assert first == {"n0", "n1", "n2"}
    assert turns.give(3, drifted, 1.0) == first
    assert turns.give(3, [item for item in drifted if item != "n1"], 2.0) == {"n0", "n2", "n3"}


def test_a_node_that_does_not_get_well_makes_room_for_others() -> None:
    turns = Turns(patience_s=10)
    assert turns.give(1, ["n0", "n1"], 0.0) == {"n0"}
    assert turns.give(1, ["n0", "n1"], 11.0) == {"n1"}
    assert turns.give(1, ["n0"], 12.0) == {"n0"}


async def test_a_policy_reaches_the_spec_of_the_nodes_it_selects(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("h100", labels=H100)
    scene.node("other")
    for name in ("h100", "other"):
        scene.agent_says(name, node_status(drifted=False))
    scene.policy("p", nodeSelector={"matchLabels": H100}, kinds={"extra": ["nvidia.com/gpu"]})
    async with start():
        await eventually(lambda: scene.spec("h100")["repair"]["mode"] == "Auto")
        assert scene.spec("h100")["kinds"]["extra"] == ["nvidia.com/gpu"]
        assert scene.spec("other")["repair"]["mode"] == "Observe"
        await eventually(lambda: (api.find("gpucdipolicies", "p") or {}).get("status"))
        status = (api.find("gpucdipolicies", "p") or {})["status"]
        assert status["nodes"] == {
            "selected": 1,
            "governed": 1,
            "drifted": 0,
            "held": 0,
            "tainted": 0,
        }
        api.remove("gpucdipolicies", "p")
        await eventually(lambda: scene.spec("h100")["repair"]["mode"] == "Observe")
        assert "kinds" not in scene.spec("h100")


async def test_the_loser_of_two_policies_is_told(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=False))
    scene.policy("winner", priority=10)
    scene.policy("loser", repair={"mode": "Off"})

    def governs(name: str) -> dict[str, Any]:
        status = (api.find("gpucdipolicies", name) or {}).get("status", {})
        found = [item for item in status.get("conditions", []) if item["type"] == "Governs"]
        return found[0] if found else {}

    async with start():
        await eventually(lambda: governs("loser"))
        assert governs("loser")["status"] == "False"
        assert governs("loser")["message"].endswith("; the others are governed by winner")
        assert governs("winner")["status"] == "True"
        assert governs("winner")["message"] == "1 of 1 selected nodes; it outranks loser"
        await eventually(lambda: scene.spec("n1")["repair"]["mode"] == "Auto")


async def test_a_restart_does_not_take_back_what_a_policy_set(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=False))
    scene.policy("p")
    async with start():
        await eventually(lambda: scene.spec("n1")["repair"]["mode"] == "Auto")
        await eventually(lambda: (api.find("gpucdipolicies", "p") or {}).get("status"))
    before = api.find("gpucdistatuses", "n1")
    assert before is not None
    async with start("replica-2") as operator:
        await eventually(lambda: operator.elector.is_leader)
        await asyncio.sleep(1.5)
    after = api.find("gpucdistatuses", "n1")
    assert after is not None
    assert after["metadata"]["generation"] == before["metadata"]["generation"]


async def test_a_mode_that_a_person_set_stays_without_a_policy(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=False))
    async with start():
        await eventually(lambda: scene.condition("n1"))
        body = api.find("gpucdistatuses", "n1")
        assert body is not None
        spec = {**body["spec"], "repair": {"mode": "Auto"}}
        api.put("gpucdistatuses", {**body, "spec": spec})
        await asyncio.sleep(1)
        api.log.clear()
        await asyncio.sleep(1)
        assert scene.spec("n1")["repair"] == {"mode": "Auto"}
        assert api.requests("apply") == []


async def test_a_driver_upgrade_holds_the_node_and_its_end_releases_it(
    scene: Scene, start: Start, eventually: Eventually
) -> None:
    label = "nvidia.com/gpu-driver-upgrade-state"
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    scene.policy("p")
    async with start():
        await eventually(lambda: scene.spec("n1")["repair"]["mode"] == "Auto")
        scene.node("n1", labels={label: "pod-restart-required"})
        await eventually(lambda: "hold" in scene.spec("n1")["repair"])
        assert scene.spec("n1")["repair"]["hold"]["reason"] == "DriverUpgrade"
        scene.node("n1", labels={label: "upgrade-done"})
        await eventually(lambda: "hold" not in scene.spec("n1")["repair"])


async def test_a_repair_label_that_nobody_can_read_holds_the_node_and_is_told_once(
    scene: Scene, start: Start, eventually: Eventually
) -> None:
    label = "gpucdi.io/repair"
    scene.node("n1", labels={label: "disabled"})
    scene.agent_says("n1", node_status(drifted=True))
    scene.policy("p")
    async with start():
        await eventually(lambda: "hold" in scene.spec("n1")["repair"])
        assert scene.spec("n1")["repair"]["hold"]["reason"] == "RepairLabelUnreadable"
        await eventually(lambda: scene.events("RepairLabelUnreadable"))
    async with start("replica-2") as operator:
        await eventually(lambda: operator.nodes.rulings)
        scene.node("n1", labels={label: "off"})
        await eventually(lambda: scene.spec("n1")["repair"] == {"mode": "Off"})
    told = scene.events("RepairLabelUnreadable")
    assert len(told) == 1
    assert "gpucdi.io/repair=disabled: write auto, observe or off" in told[0]["message"]
    assert told[0]["involvedObject"]["kind"] == "Node"
    assert told[0]["involvedObject"]["uid"]


async def test_a_bad_roll_out_stops_repairs_once_and_says_so(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    count, bad = 100, 30
    for number in range(count):
        scene.node(f"n{number:03d}")
        scene.agent_says(f"n{number:03d}", fresh(drifted=False))
    scene.policy("p", repair={"breaker": {"percent": 20, "minNodes": 5, "windowMinutes": 10}})

    def held() -> int:
        specs = [body["spec"]["repair"] for body in api.all("gpucdistatuses")]
        return sum(spec.get("hold", {}).get("reason") == "BreakerOpen" for spec in specs)

    async with start():
        await eventually(lambda: scene.spec("n099")["repair"]["mode"] == "Auto")
        for number in range(bad):
            scene.agent_says(f"n{number:03d}", fresh(drifted=True))
        await eventually(lambda: held() == count)
        await asyncio.sleep(1)
    stopped = scene.events("RepairsStopped")
    assert len(stopped) == 1
    assert "OnlyAllDevice" in stopped[0]["message"]
    status = (api.find("gpucdipolicies", "p") or {})["status"]
    assert status["breaker"]["state"] == "Open"
    assert status["breaker"]["firstNode"] == "n000"
    async with start("replica-2") as operator:
        await eventually(lambda: operator.elector.is_leader)
        await asyncio.sleep(1.5)
        assert held() == count
        shown = operator.metrics.text
        await eventually(lambda: b'gpucdi_breaker_open{policy="p"} 1.0' in shown())
        api.remove("gpucdipolicies", "p")
        await eventually(lambda: held() == 0)
        await eventually(lambda: b'gpucdi_breaker_open{policy="p"}' not in shown())
    assert b"gpucdi_operator_leader 0.0" in shown()
    assert len(scene.events("RepairsStopped")) == 1
