"""Which Pods are followed and for how long: those that go, that fail again, and that never run."""

from __future__ import annotations

import asyncio
import math
from datetime import datetime
from typing import Any

import pytest
from tests.controller.conftest import Eventually, Start
from tests.controller.scene import MESSAGE, UUID, Scene, node_status
from tests.fakeapi.server import FakeApi

from gpucdi_operator.podfacts import key_of
from gpucdi_operator.tracks import Track

GONE = "GPU-99999999-b7e4-8cb0-69a8-40490ce01a2f"
EXPLAINED, RESTORED = "CdiDeviceUnresolvable", "CdiDeviceRestored"
HOUR_S = 3600.0


def fails_again(scene: Scene, api: FakeApi, pod: dict[str, Any]) -> None:
    """Let a Pod fail as it did before, with kubelet's Event."""
    known = api.find("pods", pod["metadata"]["name"], pod["metadata"]["namespace"])
    assert known is not None
    scene.warn(api.put("pods", {**known, "status": pod["status"]}), MESSAGE)


def count(scene: Scene, reason: str) -> int:
    """Return how often something was told: an Event counts as one, a series as its count."""
    return sum(event.get("series", {}).get("count", 1) for event in scene.events(reason))


def last(scene: Scene, reason: str) -> datetime:
    (event,) = scene.events(reason)
    return datetime.fromisoformat(
        event.get("series", {}).get("lastObservedTime", event["eventTime"])
    )


# Pods that go -----------------------------------------------------------------------------------


@pytest.mark.parametrize("owner", ["", "Job"])
async def test_a_deleted_pod_fails_no_more_though_its_node_stays_drifted(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually, owner: str
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    async with start(pod_resync_s=0.5) as operator:
        scene.failing_pod("first", "n1", owner=owner)
        scene.failing_pod("stays", "n1")
        await eventually(lambda: operator.pods.failing == 2)
        api.remove("pods", "first", "default")
        await eventually(lambda: operator.pods.failing == 1)
        assert [key.name for key in operator.pods.tracks] == ["stays"]
        assert len(operator.pods.on_node["n1"]) == 1


@pytest.mark.parametrize("plural", ["nodes", "gpucdistatuses"])
async def test_the_pods_of_a_node_that_goes_are_looked_at_without_waiting_for_a_list(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually, plural: str
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    async with start(pod_resync_s=HOUR_S, resync_s=HOUR_S) as operator:
        scene.failing_pod("gpu-pod", "n1")
        await eventually(lambda: operator.pods.failing == 1)
        api.remove("pods", "gpu-pod", "default")
        api.remove(plural, "n1")
        await eventually(lambda: operator.pods.failing == 0)


async def test_a_pod_that_outlives_its_nodes_status_is_found_gone_by_the_next_list(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    async with start(pod_resync_s=0.5) as operator:
        scene.failing_pod("gpu-pod", "n1")
        await eventually(lambda: operator.pods.failing == 1)
        api.remove("gpucdistatuses", "n1")
        await eventually(lambda: not operator.store.statuses)
        await eventually(lambda: not any(key in operator.pod_queue for key in operator.pods.tracks))
        api.remove("pods", "gpu-pod", "default")
        await eventually(lambda: operator.pods.failing == 0)


async def test_a_pod_that_has_ended_is_not_waited_for_once_its_node_is_well(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    async with start(pod_resync_s=HOUR_S) as operator:
        pod = scene.failing_pod("gpu-pod", "n1", event=False)
        scene.warn(
            api.put("pods", {**pod, "status": {**pod["status"], "phase": "Failed"}}), MESSAGE
        )
        await eventually(lambda: operator.pods.failing == 1)
        scene.agent_says("n1", node_status(drifted=False))
        await eventually(lambda: operator.pods.failing == 0)
    assert scene.events(RESTORED) == []


# Pods that run before it is known what they were told --------------------------------------------


async def test_a_listed_pod_whose_event_was_written_without_an_answer_is_told_when_it_runs(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    scene.failing_pod("gpu-pod", "n1", event=False)
    lost = api.faults.add(verbs=["create"], plurals=["events"], lose=True, times=1)
    read = api.faults.add(verbs=["get"], plurals=["pods"], delay_s=3.0, times=1)
    async with start(pod_resync_s=0.5) as operator:
        await eventually(lambda: read.met)
        scene.pod_runs("gpu-pod")
        await eventually(lambda: count(scene, RESTORED) == 1)
        await eventually(lambda: not operator.pods.tracks)
    assert lost.met == 1
    assert count(scene, EXPLAINED) == 1


async def test_a_pod_that_runs_before_its_event_was_found_written_is_told_so(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    api.faults.add(verbs=["create"], plurals=["events"], lose=True, times=1)
    refused = api.faults.add(409, verbs=["get"], plurals=["events"], times=1)
    async with start(pod_resync_s=HOUR_S, pod_get_s=3.0) as operator:
        scene.failing_pod("gpu-pod", "n1")
        await eventually(lambda: refused.met)
        scene.pod_runs("gpu-pod")
        await eventually(lambda: count(scene, RESTORED) == 1)
        await eventually(lambda: not operator.pods.tracks)
    assert count(scene, EXPLAINED) == 1


async def test_a_pod_that_was_never_told_that_it_fails_is_not_told_that_it_runs(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    refused = api.faults.add(409, verbs=["create"], plurals=["events"], telling=b"Unresolvable")
    async with start(pod_resync_s=HOUR_S) as operator:
        scene.failing_pod("gpu-pod", "n1")
        await eventually(lambda: refused.met)
        scene.pod_runs("gpu-pod")
        await eventually(lambda: not operator.pods.tracks)
    assert scene.events_of_ours() == []


# Pods that fail again ---------------------------------------------------------------------------


async def test_a_pod_that_fails_again_after_it_was_restored_is_told_both_again(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    async with start(event_again_s=0.0, pod_resync_s=0.5) as operator:
        pod = scene.failing_pod("gpu-pod", "n1")
        await eventually(lambda: count(scene, EXPLAINED) == 1)
        scene.pod_runs("gpu-pod")
        await eventually(lambda: count(scene, RESTORED) == 1)
        fails_again(scene, api, pod)
        await eventually(lambda: count(scene, EXPLAINED) == 2)
        assert last(scene, EXPLAINED) > last(scene, RESTORED)
        assert operator.pods.failing == 1
        scene.pod_runs("gpu-pod")
        await eventually(lambda: count(scene, RESTORED) == 2)
        assert last(scene, RESTORED) > last(scene, EXPLAINED)
        await eventually(lambda: operator.pods.failing == 0)
        assert operator.metrics.restored._value.get() == 2
    assert len(scene.events_of_ours()) == 2


async def test_a_pod_that_fails_and_runs_in_turn_is_not_told_each_time(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    async with start(event_again_s=HOUR_S, pod_resync_s=0.5) as operator:
        pod = scene.failing_pod("gpu-pod", "n1")
        await eventually(lambda: count(scene, EXPLAINED) == 1)
        for _ in range(4):
            scene.pod_runs("gpu-pod")
            await eventually(lambda: operator.pods.failing == 0 and scene.events(RESTORED))
            fails_again(scene, api, pod)
            await eventually(lambda: operator.pods.failing == 1)
    assert api.requests("patch", plural="events") == []
    assert (count(scene, EXPLAINED), count(scene, RESTORED)) == (1, 1)


async def test_what_was_not_told_at_once_is_told_when_its_time_has_come(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    async with start(event_again_s=3.0, pod_resync_s=HOUR_S):
        pod = scene.failing_pod("gpu-pod", "n1")
        await eventually(lambda: count(scene, EXPLAINED) == 1)
        first = last(scene, EXPLAINED)
        scene.agent_says("n1", node_status(drifted=False))
        scene.pod_runs("gpu-pod")
        await eventually(lambda: scene.events(RESTORED))
        scene.agent_says("n1", node_status(drifted=True))
        fails_again(scene, api, pod)
        await eventually(lambda: count(scene, EXPLAINED) == 2)
        assert (last(scene, EXPLAINED) - first).total_seconds() >= 3.0


async def test_a_list_that_is_older_than_the_pods_last_event_tells_it_nothing(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    async with start(event_again_s=0.0, pod_resync_s=0.5) as operator:
        pod = scene.failing_pod("gpu-pod", "n1")
        await eventually(lambda: scene.events(EXPLAINED))
        scene.pod_runs("gpu-pod")
        await eventually(lambda: scene.events(RESTORED) and not operator.pods.tracks)
        before = len(api.requests("get", plural="pods"))
        await operator.pods.saw_pod(key_of(pod), pod, listed=True)
        await eventually(lambda: len(api.requests("get", plural="pods")) > before)
        await eventually(lambda: operator.pod_queue.is_idle and not operator.pods.tracks)
    assert api.requests("patch", plural="events") == []


async def test_a_new_leader_takes_over_a_pod_that_fails_again_and_not_one_that_was_restored(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    async with start(event_again_s=0.0, pod_resync_s=0.5):
        pods = [scene.failing_pod(name, "n1") for name in ("again", "well")]
        await eventually(lambda: count(scene, EXPLAINED) == 2)
        for name in ("again", "well"):
            scene.pod_runs(name)
        await eventually(lambda: count(scene, RESTORED) == 2)
        fails_again(scene, api, pods[0])
        await eventually(lambda: count(scene, EXPLAINED) == 3)
    scene.agent_says("n1", node_status(drifted=False))
    scene.pod_runs("again")
    api.log.clear()
    async with start("replica-2", pod_resync_s=HOUR_S) as operator:
        await eventually(lambda: count(scene, RESTORED) == 3)
        await eventually(lambda: operator.pod_queue.is_idle and not operator.pods.tracks)
    # kubelet's old Events are heard of by a replica that starts, and lead to one look each.
    read = [entry.name for entry in api.requests("get", plural="pods")]
    assert read.count("well") <= 1


async def test_who_leads_again_learns_what_another_has_told_meanwhile(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    async with start(event_again_s=0.0, pod_resync_s=HOUR_S) as first:
        pod = scene.failing_pod("gpu-pod", "n1")
        await eventually(lambda: first.pods.failing == 1)
        lease = api.find("leases", "gpucdi-operator", "gpucdi-system")
        assert lease is not None
        api.put("leases", {**lease, "spec": {**lease["spec"], "holderIdentity": "replica-2"}})
        async with start("replica-2", event_again_s=HOUR_S, pod_resync_s=0.5) as second:
            await eventually(lambda: second.pods.failing == 1)
            scene.pod_runs("gpu-pod")
            await eventually(lambda: scene.events(RESTORED))
            api.put("pods", {**pod, "metadata": {**pod["metadata"], "resourceVersion": ""}})
            await eventually(lambda: second.pods.failing == 1)
            assert count(scene, EXPLAINED) == 1
        await eventually(lambda: count(scene, EXPLAINED) == 2)
        await eventually(lambda: first.pods.failing == 1)
    assert count(scene, RESTORED) == 1


# Pods that never run ----------------------------------------------------------------------------


def test_who_brings_nothing_new_is_looked_at_ever_less_often() -> None:
    track = Track(0.0)
    waits = [track.recheck_s(15.0, 300.0) for _ in range(7)]
    assert waits == [15.0, 30.0, 60.0, 120.0, 240.0, 300.0, 300.0]


async def asks_for_what_is_not(scene: Scene, api: FakeApi) -> dict[str, Any]:
    """Let a Pod fail on a well node over a device that the node never had."""
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=False))
    pod = scene.failing_pod("gpu-pod", "n1", event=False)
    waits = pod["status"]["containerStatuses"][0]
    waits["lastState"]["terminated"]["message"] = MESSAGE.replace(UUID, GONE)
    made = api.put("pods", pod)
    scene.warn(made, MESSAGE.replace(UUID, GONE))
    return made


async def test_a_pod_that_asks_for_what_does_not_exist_costs_ever_fewer_requests(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    first_s = 0.05
    async with start(pod_recheck_s=first_s, pod_get_s=0.01, pod_resync_s=HOUR_S) as operator:
        await asks_for_what_is_not(scene, api)
        await eventually(lambda: scene.events(EXPLAINED) and scene.condition("n1"))
        await eventually(lambda: operator.node_queue.is_idle)
        begun = asyncio.get_running_loop().time()
        api.log.clear()
        await asyncio.sleep(5)
        looks = len(api.requests("get", plural="pods"))
        passed_s = asyncio.get_running_loop().time() - begun
    # Twice, because what is written to the node in between lets it begin anew.
    assert looks <= 2 * (math.log2(passed_s / first_s + 1) + 2)


@pytest.mark.parametrize("news", ["event", "status", "node"])
async def test_what_is_new_lets_the_looks_begin_anew(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually, news: str
) -> None:
    async with start(pod_recheck_s=0.02, pod_get_s=0.01, pod_resync_s=HOUR_S) as operator:
        pod = await asks_for_what_is_not(scene, api)
        await eventually(lambda: scene.events(EXPLAINED) and scene.condition("n1"))
        track = operator.pods.tracks[key_of(pod)]
        await eventually(lambda: track.looks >= 7)
        if news == "event":
            scene.warn(pod, MESSAGE.replace(UUID, GONE))
        elif news == "status":
            scene.agent_says("n1", node_status(drifted=True))
        else:
            scene.node("n1", labels={"zone": "b"})
        await eventually(lambda: track.looks < 7)
