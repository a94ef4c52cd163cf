"""Policies: which one governs, what it asks of a node, and what stands above it."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.controller.conftest import Eventually, Start
from tests.controller.scene import Scene, fresh, node_status
from tests.fakeapi.server import FakeApi

H100 = {"nvidia.com/gpu.product": "NVIDIA-H100"}


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


async def test_a_hold_reaches_a_drifted_node_whose_condition_cannot_be_written(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    scene.policy("p")
    refused = api.faults.add(403, verbs=["apply"], plurals=["nodes"])
    async with start():
        await eventually(lambda: refused.met and scene.spec("n1")["repair"] == {"mode": "Auto"})
        scene.node("n1", labels={"nvidia.com/gpu-driver-upgrade-state": "drain-required"})
        await eventually(
            lambda: scene.spec("n1")["repair"].get("hold", {}).get("reason") == "DriverUpgrade"
        )
        refused.times = 0
        scene.node("n1", labels={"zone": "a"})
        await eventually(lambda: scene.condition("n1"))
