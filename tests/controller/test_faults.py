"""An API server that fails in every way it can, and what the operator makes of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.controller.conftest import QUICK, Eventually, Start
from tests.controller.scene import Scene, node_status
from tests.fakeapi.server import FakeApi

from gpucdi_kube import Credentials, HttpKubeApi
from gpucdi_operator.app import Operator
from gpucdi_operator.options import Options
from gpucdi_operator.uninstall import uninstall

WRITES = ("apply", "create", "patch", "update")


async def test_what_was_deleted_while_versions_expired_is_noticed_by_the_next_lists(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    for name in ("n1", "n2"):
        scene.node(name)
        scene.agent_says(name, node_status(drifted=True))
    async with start(resync_s=1.0) as operator:
        await eventually(lambda: scene.condition("n1") and scene.condition("n2"))
        api.remove("gpucdistatuses", "n1")
        api.remove("nodes", "n2")
        api.expire()
        await eventually(lambda: "n1" not in operator.store.statuses)
        await eventually(lambda: "n2" not in operator.store.nodes)
        await eventually(lambda: scene.condition("n1") is None)


async def test_changes_come_through_after_every_watch_was_cut(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    async with start():
        await eventually(lambda: (scene.condition("n1") or {}).get("status") == "True")
        api.cut_watches()
        scene.agent_says("n1", node_status(drifted=False))
        await eventually(lambda: (scene.condition("n1") or {}).get("status") == "False")


@pytest.mark.parametrize("fault", [{"code": 503}, {"cut": True}, {"code": 500}])
async def test_a_server_that_is_away_for_seconds_costs_time_and_nothing_else(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually, fault: dict[str, Any]
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    async with start():
        await eventually(lambda: scene.condition("n1"))
        api.faults.add(**fault)
        api.cut_watches()
        scene.agent_says("n1", node_status(drifted=False))
        await asyncio.sleep(3)
        api.faults.clear()
        await eventually(lambda: (scene.condition("n1") or {}).get("status") == "False")


async def test_a_busy_server_gets_each_write_in_the_end(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    for number in range(20):
        scene.node(f"n{number}")
        scene.agent_says(f"n{number}", node_status(drifted=True))
    api.faults.add(429, verbs=["apply"], times=30, retry_after_s=1)
    async with start():
        await eventually(lambda: all(scene.condition(f"n{number}") for number in range(20)))


async def test_a_lost_answer_makes_no_second_event(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    async with start() as operator:
        api.faults.add(verbs=["create"], plurals=["events"], lose=True, times=1)
        scene.failing_pod("gpu-pod", "n1")
        await eventually(lambda: scene.events("CdiDeviceUnresolvable"))
        await eventually(lambda: len(api.requests("create", plural="events")) >= 2)
        await eventually(lambda: operator.pod_queue.is_idle)
    assert len(scene.events("CdiDeviceUnresolvable")) == 1
    assert "series" not in scene.events("CdiDeviceUnresolvable")[0]


async def test_a_refused_write_for_one_node_does_not_stop_the_others(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    api.authorizer = lambda _, target: not (target.subresource == "status" and target.name == "n0")
    for number in range(5):
        scene.node(f"n{number}")
        scene.agent_says(f"n{number}", node_status(drifted=True))
    async with start():
        await eventually(lambda: all(scene.condition(f"n{number}") for number in range(1, 5)))
        await asyncio.sleep(1)
    assert scene.condition("n0") is None
    refused = [entry for entry in api.requests("apply", plural="nodes") if entry.code == 403]
    assert len(refused) == 1


async def test_a_refused_watch_is_asked_for_until_it_is_granted(
    scene: Scene, api: FakeApi, eventually: Eventually
) -> None:
    scene.node("n1")
    api.authorizer = lambda _, target: (
        not (target.resource.plural == "gpucdistatuses" and target.verb == "watch")
    )
    operator = Operator(Options(http="127.0.0.1:0", timing=QUICK), Credentials(api.url))
    running = asyncio.create_task(operator.run())
    try:
        await eventually(lambda: api.requests("watch", plural="gpucdistatuses"))
        api.authorizer = None
        scene.agent_says("n1", node_status(drifted=True))
        await eventually(lambda: scene.condition("n1"))
    finally:
        operator.stop()
        await asyncio.wait_for(running, 120)


async def test_a_watch_that_falls_silent_is_opened_anew_and_tells_what_happened_meanwhile(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    api.bookmark_s = 0.5
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    async with start(watch_idle_s=3.0, resync_s=6000.0, pod_resync_s=6000.0):
        await eventually(lambda: (scene.condition("n1") or {}).get("status") == "True")
        api.silence_watches()
        # Neither of the two is listed again; the Event is seen by the next watch only.
        scene.failing_pod("gpu-pod", "n1")
        scene.agent_says("n1", node_status(drifted=False))
        await eventually(lambda: (scene.condition("n1") or {}).get("status") == "False")
        await eventually(lambda: scene.events("CdiDeviceUnresolvable"))


async def test_what_silent_watches_do_not_tell_is_caught_up_by_the_next_lists(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    for name in ("n1", "n2"):
        scene.node(name)
    scene.agent_says("n1", node_status(drifted=True))
    async with start(watch_idle_s=6000.0, resync_s=1.0, pod_resync_s=1.0) as operator:
        await eventually(lambda: (scene.condition("n1") or {}).get("status") == "True")
        api.silence_watches()
        opened = api.counts["watch gpucdistatuses"]
        scene.agent_says("n1", node_status(drifted=False))
        scene.agent_says("n2", node_status(drifted=True))
        scene.failing_pod("gpu-pod", "n2")
        scene.node("n3")
        scene.agent_says("n3", node_status(drifted=True))
        await eventually(lambda: (scene.condition("n1") or {}).get("status") == "False")
        await eventually(lambda: (scene.condition("n2") or {}).get("status") == "True")
        await eventually(lambda: (scene.condition("n3") or {}).get("status") == "True")
        # Its Event went unheard; it is found among the Pods of its drifted node.
        await eventually(lambda: scene.events("CdiDeviceUnresolvable"))
        api.remove("nodes", "n3")
        await eventually(lambda: "n3" not in operator.store.nodes)
    assert api.counts["watch gpucdistatuses"] == opened


@pytest.mark.kopf_ends
async def test_a_list_page_that_expires_ends_the_process_and_the_next_one_goes_on_without_loss(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    scene.failing_pod("before", "n1")
    async with start() as operator:
        await eventually(lambda: operator.elector.is_leader)
        await eventually(lambda: scene.events("CdiDeviceUnresolvable"))
        await eventually(lambda: scene.spec("n1").get("requests"))
    api.faults.add(410, verbs=["list"], plurals=["events"])
    with pytest.raises(Exception, match="a fault of the test"):
        await asyncio.wait_for(
            Operator(Options(http="127.0.0.1:0", timing=QUICK), Credentials(api.url)).run(), 120
        )
    api.faults.clear()
    # While no operator runs: the node is repaired, its Pod runs, and another node begins to drift.
    scene.agent_says("n1", node_status(drifted=False))
    scene.pod_runs("before")
    scene.node("n2")
    scene.agent_says("n2", node_status(drifted=True))
    scene.failing_pod("meanwhile", "n2")
    async with start() as operator:
        await eventually(lambda: (scene.condition("n1") or {}).get("status") == "False")
        await eventually(lambda: (scene.condition("n2") or {}).get("status") == "True")
        await eventually(lambda: scene.events("CdiDeviceRestored"))
        await eventually(lambda: len(scene.events("CdiDeviceUnresolvable")) == 2)
        await eventually(lambda: scene.spec("n2").get("requests"))
        await eventually(lambda: operator.pod_queue.is_idle and operator.node_queue.is_idle)
    explained = [event["involvedObject"]["name"] for event in scene.events("CdiDeviceUnresolvable")]
    assert sorted(explained) == ["before", "meanwhile"]
    restored = [event["involvedObject"]["name"] for event in scene.events("CdiDeviceRestored")]
    assert restored == ["before"]
    assert all("series" not in event for event in scene.events_of_ours())


async def test_no_finalizer_of_ours_is_on_anything(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    scene.policy("p", taint="NoSchedule")
    scene.failing_pod("gpu-pod", "n1")
    async with start():
        await eventually(lambda: scene.condition("n1"))
        await eventually(lambda: scene.events("CdiDeviceUnresolvable"))
        await eventually(lambda: scene.spec("n1").get("requests"))
        await eventually(lambda: (api.find("gpucdipolicies", "p") or {}).get("status"))
    held = {
        resource.plural: [body["metadata"]["name"] for body in api.all(resource.plural)]
        for resource in api.resources
        if any("finalizers" in body["metadata"] for body in api.all(resource.plural))
    }
    assert held == {}
    written = ("nodes", "pods", "events", "leases", "gpucdistatuses", "gpucdipolicies")
    assert all(api.all(plural) for plural in written)


async def test_a_node_that_is_made_anew_under_its_name_is_marked_anew(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    async with start():
        await eventually(lambda: (scene.condition("n1") or {}).get("status") == "True")
        await eventually(lambda: _owner(api, "n1") == _uid(api, "n1"))
        api.remove("nodes", "n1")
        # Its owner is gone, so the garbage collector takes the status object.
        assert api.find("gpucdistatuses", "n1") is None
        scene.node("n1")
        scene.agent_says("n1", node_status(drifted=False))
        await eventually(lambda: (scene.condition("n1") or {}).get("status") == "False")
        await eventually(lambda: _owner(api, "n1") == _uid(api, "n1"))


async def test_uninstalling_leaves_nodes_as_they_were_found(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    for name in ("n1", "n2"):
        scene.node(name)
    scene.agent_says("n1", node_status(drifted=True))
    async with start():
        await eventually(lambda: scene.condition("n1"))
    client = HttpKubeApi(Credentials(api.url))
    api.log.clear()
    assert await uninstall(client) == 1
    await client.close()
    for node in api.all("nodes"):
        assert [item["type"] for item in node["status"]["conditions"]] == ["Ready"]
        assert "finalizers" not in node["metadata"]
    assert len(api.requests(*WRITES)) == 1


def _uid(api: FakeApi, name: str) -> str:
    body = api.find("nodes", name)
    return str(body["metadata"]["uid"]) if body else ""


def _owner(api: FakeApi, name: str) -> str:
    body = api.find("gpucdistatuses", name) or {"metadata": {}}
    owners = body["metadata"].get("ownerReferences", [])
    return str(owners[0]["uid"]) if owners else ""


async def test_a_pod_whose_event_is_refused_does_not_hide_the_others_of_its_node(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    for name in ("a-refused", "b-seen", "c-seen"):
        scene.failing_pod(name, "n1", event=False)
    api.faults.add(422, verbs=["create"], plurals=["events"], telling=b"a-refused")
    async with start(pod_resync_s=600.0):
        await eventually(lambda: len(scene.events_of_ours()) == 2)
    told = {event["involvedObject"]["name"] for event in scene.events_of_ours()}
    assert told == {"b-seen", "c-seen"}
