"""Which Nodes carry the condition: all of them, or those that policies select."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from tests.controller.conftest import Eventually, Start
from tests.controller.scene import Scene, node_status
from tests.fakeapi.server import FakeApi

from gpucdi_kube import Credentials, HttpKubeApi, SystemClock
from gpucdi_operator.app import Operator
from gpucdi_operator.metrics import Metrics
from gpucdi_operator.nodes import NodeReconciler
from gpucdi_operator.options import Options, Timing
from gpucdi_operator.rights import Rights
from gpucdi_operator.store import NodeRecord, StatusRecord, Store
from gpucdi_operator.taints import Tainter

ZONE_A = {"matchLabels": {"zone": "a"}}
NODES = ("a1", "a2", "b1")


@pytest.fixture
def nodes(scene: Scene) -> None:
    for name in NODES:
        scene.node(name, labels={"zone": name[0]})
        scene.agent_says(name, node_status(drifted=True))


def marked(scene: Scene) -> set[str]:
    return {name for name in NODES if scene.condition(name) is not None}


def written(api: FakeApi) -> set[str]:
    """Return the Nodes that were written to."""
    return {entry.name for entry in api.requests("apply", "patch", plural="nodes")}


@pytest.mark.usefixtures("nodes")
async def test_without_a_policy_every_node_is_marked_and_with_one_those_that_it_selects(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    async with start():
        await eventually(lambda: marked(scene) == set(NODES))
        scene.policy("p", nodeSelector=ZONE_A)
        await eventually(lambda: marked(scene) == {"a1", "a2"})
        assert api.find("gpucdistatuses", "b1")
        api.remove("gpucdipolicies", "p")
        await eventually(lambda: marked(scene) == set(NODES))


@pytest.mark.usefixtures("nodes")
async def test_the_condition_goes_with_the_label_that_selects_and_comes_back_with_it(
    scene: Scene, start: Start, eventually: Eventually
) -> None:
    scene.policy("p", nodeSelector=ZONE_A)
    async with start():
        await eventually(lambda: marked(scene) == {"a1", "a2"})
        relabel(scene, "a1", "b")
        await eventually(lambda: marked(scene) == {"a2"})
        relabel(scene, "a1", "a")
        await eventually(lambda: marked(scene) == {"a1", "a2"})


def relabel(scene: Scene, name: str, zone: str) -> None:
    """Change a label as a person does: everything else of the Node stays."""
    body = scene.api.find("nodes", name)
    assert body is not None
    scene.api.put("nodes", {**body, "metadata": {**body["metadata"], "labels": {"zone": zone}}})


@pytest.mark.usefixtures("nodes")
async def test_a_policy_that_is_switched_off_marks_its_nodes_all_the_same(
    scene: Scene, start: Start, eventually: Eventually
) -> None:
    scene.policy("p", nodeSelector=ZONE_A, repair={"mode": "Off"})
    async with start():
        await eventually(lambda: marked(scene) == {"a1", "a2"})
        await eventually(lambda: scene.spec("a1")["repair"]["mode"] == "Off")


@pytest.mark.usefixtures("nodes")
async def test_a_node_that_no_policy_selects_costs_no_write_when_it_comes_or_changes(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.policy("p", nodeSelector=ZONE_A)
    async with start() as operator:
        await eventually(lambda: marked(scene) == {"a1", "a2"})
        api.log.clear()
        for drifted in (False, True):
            scene.agent_says("b1", node_status(drifted=drifted))
            scene.node("b2", labels={"zone": "b"})
            scene.agent_says("b2", node_status(drifted=drifted))
            # The watches are read in order: whoever has seen this has seen everything before.
            scene.agent_says("a1", node_status(drifted=drifted))
            expected = "True" if drifted else "False"
            await eventually(lambda: (scene.condition("a1") or {})["status"] == expected)  # noqa: B023  # waited for at once
        operator.fleet.enqueue_all()
        await eventually(lambda: operator.node_queue.is_idle)
        assert scene.condition("b2") is None
        assert written(api) == {"a1"}


async def test_a_fleet_that_a_policy_leaves_out_is_written_to_once_a_node(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    names = [f"n{number:02d}" for number in range(60)]
    for name in names:
        scene.node(name)
        scene.agent_says(name, node_status(drifted=False))
    async with start() as operator:
        await eventually(lambda: all(scene.condition(name) for name in names))
        api.log.clear()
        scene.policy("p", nodeSelector=ZONE_A)
        await eventually(lambda: not any(scene.condition(name) for name in names))
        operator.fleet.enqueue_all()
        await operator.governor.look()
        await eventually(lambda: operator.node_queue.is_idle)
        removed = api.requests("apply", "patch", plural="nodes")
        assert sorted(entry.name for entry in removed) == names


@pytest.mark.usefixtures("nodes")
async def test_what_a_watch_brings_from_before_a_write_is_no_reason_to_write_again(
    scene: Scene, api: FakeApi
) -> None:
    store, metrics = Store(), Metrics()
    store.put_node(NodeRecord.of(api.find("nodes", "a1") or {}))
    store.put_status(StatusRecord.of(api.find("gpucdistatuses", "a1") or {}))
    relabel(scene, "a1", "b")
    meanwhile = api.find("nodes", "a1")
    assert meanwhile is not None
    client, clock = HttpKubeApi(Credentials(api.url)), SystemClock()
    tainter = Tainter(client, metrics, Rights(clock, metrics))
    nodes = NodeReconciler(client, store, clock, metrics, tainter)
    await nodes.reconcile("a1")
    store.put_node(NodeRecord.of(meanwhile))
    await nodes.reconcile("a1")
    await client.close()
    assert len(api.requests("apply", plural="nodes")) == 1


@pytest.mark.usefixtures("nodes")
async def test_who_may_not_read_the_policies_does_not_lead_and_removes_nothing(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.policy("p", nodeSelector=ZONE_A)
    async with start():
        await eventually(lambda: marked(scene) == {"a1", "a2"})
    api.log.clear()
    refused = api.faults.add(403, verbs=["list"], plurals=["gpucdipolicies"])
    options = Options(http="127.0.0.1:0", identity="replica-2", timing=Timing(retry_s=0.05))
    operator = Operator(options, Credentials(api.url))
    task = asyncio.create_task(operator.run())
    try:
        await eventually(lambda: refused.met > 3)
        assert not operator.elector.is_leader
        assert marked(scene) == {"a1", "a2"}
        assert written(api) == set()
        api.faults.clear()
        # Now it is known what there is, and nothing differs from it.
        await eventually(lambda: operator.nodes.rulings and operator.node_queue.is_idle)
        assert marked(scene) == {"a1", "a2"}
        assert written(api) == set()
    finally:
        operator.stop()
        with suppress(asyncio.CancelledError):
            await asyncio.wait_for(task, 120)


@pytest.mark.usefixtures("nodes")
async def test_a_leader_whose_policies_can_no_longer_be_read_goes_by_those_that_it_knows(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.policy("p", nodeSelector=ZONE_A)
    async with start(resync_s=0.2) as operator:
        await eventually(lambda: marked(scene) == {"a1", "a2"})
        refused = api.faults.add(403, verbs=["list", "watch"], plurals=["gpucdipolicies"])
        api.cut_watches()
        await eventually(lambda: refused.met > 3)
        await operator.governor.look()
        await eventually(lambda: operator.node_queue.is_idle)
        assert marked(scene) == {"a1", "a2"}
