"""When a Pod has got over its failure: its containers have started since, whatever ends them then."""

from __future__ import annotations

import copy
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from tests.controller.conftest import Eventually, Start
from tests.controller.scene import KIND, MESSAGE, UUID, Scene, fresh, node_status
from tests.fakeapi.server import FakeApi

from gpucdi.failures import EventText
from gpucdi_operator.podfacts import key_of
from gpucdi_operator.texts import Texts
from gpucdi_operator.tracks import Track

EXPLAINED, RESTORED, EVICTED = "CdiDeviceUnresolvable", "CdiDeviceRestored", "CdiPodRestarted"
HOUR_S = 3600.0
EARLIER = "2020-11-30T10:00:00Z"
# After any Event that a test sends, should those tell when they were.
FIRST, SECOND, THIRD = (f"2126-11-30T10:0{minute}:00Z" for minute in (1, 2, 3))
NATIVE = (
    "Error: failed to create containerd container: CDI device injection failed: unresolvable CDI "
    f"devices {KIND}={UUID}"
)
SANDBOX = "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to start sandbox "
BACK_OFF = {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}
GPU = "ubuntu-container"


def crashes(started: str, name: str = GPU) -> dict[str, Any]:
    """Return the status of a container that started and fails for a reason of its own."""
    own = {"reason": "Error", "exitCode": 1, "startedAt": started, "finishedAt": started}
    last = {"terminated": own | {"message": "ImportError: no module named torch"}}
    return {"name": name, "restartCount": 7, "state": {"waiting": BACK_OFF}, "lastState": last}


def runs(started: str, name: str = GPU) -> dict[str, Any]:
    return {"name": name, "state": {"running": {"startedAt": started}}, "lastState": {}}


def waits(reason: str, name: str = GPU, message: str = "") -> dict[str, Any]:
    waiting = {"reason": reason, "message": message}
    return {"name": name, "state": {"waiting": waiting}, "lastState": {}}


def shows(api: FakeApi, *containers: dict[str, Any], **status: object) -> dict[str, Any]:
    """Let kubelet report these containers of the Pod."""
    pod = copy.deepcopy(api.find("pods", "gpu-pod", "default"))
    assert pod is not None
    pod["status"] |= {"phase": "Running", "containerStatuses": list(containers), **status}
    return api.put("pods", pod)


def at(moment: str) -> datetime:
    return datetime.fromisoformat(moment)


def looks(api: FakeApi) -> int:
    return len(api.requests("get", plural="pods"))


@pytest.fixture
def drifted(scene: Scene) -> Scene:
    """Return the scene with a node whose names do not resolve."""
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    return scene


# A container that fails by itself afterwards ----------------------------------------------------


async def test_a_pod_that_crashes_by_itself_after_the_repair_is_restored(
    drifted: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    async with start() as operator:
        drifted.failing_pod("gpu-pod", "n1")
        await eventually(lambda: operator.pods.failing == 1)
        shows(api, crashes(FIRST))
        drifted.agent_says("n1", node_status(drifted=False))
        await eventually(lambda: drifted.events(RESTORED))
        await eventually(lambda: not operator.pods.tracks)


async def test_a_pod_that_crashes_by_itself_after_the_repair_is_not_evicted(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", fresh(drifted=True))
    chosen = {"namespaces": ["default"], "perMinute": 10, "afterSeconds": 1}
    scene.policy("p", restartWaitingPods=chosen)
    async with start(restart_settle_s=0.1, restart_later_s=0.3) as operator:
        scene.failing_pod("gpu-pod", "n1", owner="ReplicaSet")
        scene.failing_pod("waits-on", "n1", owner="ReplicaSet")
        await eventually(lambda: operator.pods.failing == 2)
        shows(api, crashes(FIRST))
        scene.agent_says("n1", fresh(drifted=False))
        await eventually(lambda: scene.events(EVICTED) and scene.events(RESTORED))
    evicted = [event["involvedObject"]["name"] for event in scene.events(EVICTED)]
    assert evicted == ["waits-on"]
    assert api.find("pods", "gpu-pod", "default") is not None


@pytest.mark.parametrize("moment", [None, SECOND])
async def test_a_pod_that_fails_over_cdi_again_after_it_has_crashed_by_itself_is_told_again(
    drifted: Scene, api: FakeApi, start: Start, eventually: Eventually, moment: str | None
) -> None:
    async with start(event_again_s=0.0) as operator:
        pod = drifted.failing_pod("gpu-pod", "n1")
        await eventually(lambda: operator.pods.failing == 1)
        shows(api, crashes(FIRST))
        drifted.agent_says("n1", node_status(drifted=False))
        await eventually(lambda: drifted.events(RESTORED) and operator.pods.failing == 0)
        drifted.agent_says("n1", node_status(drifted=True))
        await eventually(lambda: operator.store.statuses["n1"].is_drifted)
        # The status still shows how it has ended before: kubelet's Event comes first.
        told = EventText(MESSAGE, (GPU,), at(moment)) if moment else None
        operator.pods.saw_event(key_of(pod), MESSAGE, told)
        await eventually(lambda: drifted.events(EXPLAINED)[0].get("series"))
        assert operator.pods.failing == 1
        shows(api, crashes(THIRD))
        drifted.agent_says("n1", node_status(drifted=False))
        await eventually(lambda: drifted.events(RESTORED)[0].get("series"))


async def test_a_start_before_the_pod_failed_does_not_restore_it(
    drifted: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    drifted.failing_pod("gpu-pod", "n1", event=False)
    # While kubelet backs off, only the Event tells that no container could be made.
    pod = shows(api, crashes(EARLIER))
    async with start(pod_resync_s=0.3) as operator:
        drifted.warn(pod, NATIVE)
        await eventually(lambda: operator.pods.failing == 1)
        shows(api, waits("CreateContainerError", message=NATIVE) | {"lastState": {}})
        drifted.agent_says("n1", node_status(drifted=False))
        seen = looks(api)
        await eventually(lambda: looks(api) >= seen + 2)
        shows(api, crashes(EARLIER))
        seen = looks(api)
        await eventually(lambda: looks(api) >= seen + 2)
        assert operator.pods.failing == 1
        assert not drifted.events(RESTORED)
        shows(api, crashes(SECOND))
        await eventually(lambda: drifted.events(RESTORED))


async def test_an_old_event_that_is_heard_again_says_nothing_of_a_later_crash(
    drifted: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    drifted.failing_pod("gpu-pod", "n1", event=False)
    pod = shows(api, crashes(SECOND))
    async with start(pod_resync_s=HOUR_S) as operator:
        operator.pods.saw_event(key_of(pod), MESSAGE, EventText(MESSAGE, (GPU,), at(FIRST)))
        await eventually(lambda: looks(api) == 1 and not operator.pods.tracks)
        assert drifted.events_of_ours() == []
        operator.pods.saw_event(key_of(pod), MESSAGE, EventText(MESSAGE, (GPU,), at(THIRD)))
        await eventually(lambda: operator.pods.failing == 1)


async def test_a_new_leader_restores_a_pod_at_its_next_start(
    drifted: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    drifted.failing_pod("gpu-pod", "n1", event=False)
    async with start() as operator:
        await eventually(lambda: operator.pods.failing == 1)
    drifted.agent_says("n1", node_status(drifted=False))
    shows(api, crashes(FIRST))
    async with start("replica-2") as operator:
        await eventually(lambda: looks(api) and operator.pods.failing == 1)
        seen = looks(api)
        await eventually(lambda: looks(api) >= seen + 2)
        # It may have failed after this start.
        assert not drifted.events(RESTORED)
        shows(api, crashes(SECOND))
        await eventually(lambda: drifted.events(RESTORED) and operator.pods.failing == 0)


# Other containers -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [crashes(FIRST, "sidecar"), waits("CrashLoopBackOff", "sidecar"), waits("A", "sidecar")],
)
async def test_a_pod_is_restored_by_the_container_that_failed_and_not_by_the_others(
    drifted: Scene,
    api: FakeApi,
    start: Start,
    eventually: Eventually,
    other: dict[str, Any],
) -> None:
    async with start() as operator:
        drifted.failing_pod("gpu-pod", "n1")
        await eventually(lambda: operator.pods.failing == 1)
        shows(api, runs(SECOND), other)
        drifted.agent_says("n1", node_status(drifted=False))
        await eventually(lambda: drifted.events(RESTORED))
        await eventually(lambda: operator.pods.failing == 0)


async def test_a_pod_is_not_restored_before_all_have_started_that_failed(
    drifted: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    async with start(pod_resync_s=0.3) as operator:
        pod = drifted.failing_pod("gpu-pod", "n1")
        failed = pod["status"]["containerStatuses"][0]
        shows(api, failed, failed | {"name": "other"})
        await eventually(lambda: any("other" in item.failed for item in _tracks(operator)))
        drifted.agent_says("n1", node_status(drifted=False))
        shows(api, runs(FIRST), waits("CrashLoopBackOff", "other"))
        seen = looks(api)
        await eventually(lambda: looks(api) >= seen + 2)
        assert not drifted.events(RESTORED)
        shows(api, runs(FIRST), crashes(SECOND, "other"))
        await eventually(lambda: drifted.events(RESTORED))


def _tracks(operator: Any) -> list[Track]:
    return list(operator.pods.tracks.values())


async def test_an_init_container_that_failed_restores_the_pod_by_its_start(
    drifted: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    pod = drifted.failing_pod("gpu-pod", "n1", event=False)
    failed = pod["status"]["containerStatuses"][0] | {"name": "init"}
    main = waits("PodInitializing")
    pod = shows(api, main, phase="Pending", initContainerStatuses=[failed])
    async with start() as operator:
        drifted.warn(pod, MESSAGE)
        await eventually(lambda: operator.pods.failing == 1)
        drifted.agent_says("n1", node_status(drifted=False))
        # As one does that is restarted and runs beside the others.
        shows(api, main, phase="Pending", initContainerStatuses=[runs(FIRST, "init")])
        await eventually(lambda: drifted.events(RESTORED))


@pytest.mark.parametrize("text", [SANDBOX + MESSAGE.removeprefix("Error: "), NATIVE])
async def test_a_pod_whose_container_nobody_names_is_restored_once_its_containers_start(
    drifted: Scene, api: FakeApi, start: Start, eventually: Eventually, text: str
) -> None:
    pod = drifted.pending_pod("gpu-pod", "n1", reason="ContainerCreating")
    async with start(pod_resync_s=0.3) as operator:
        drifted.warn(pod, text, reason="FailedCreatePodSandBox")
        await eventually(lambda: operator.pods.failing == 1)
        drifted.agent_says("n1", node_status(drifted=False))
        seen = looks(api)
        await eventually(lambda: looks(api) >= seen + 2)
        assert not drifted.events(RESTORED)
        shows(api, crashes(FIRST), waits("ImagePullBackOff", "sidecar"))
        await eventually(lambda: drifted.events(RESTORED) and operator.pods.failing == 0)


# Debug containers -------------------------------------------------------------------------------


def debugged(scene: Scene, api: FakeApi) -> dict[str, Any]:
    """Return a Pod that runs, and of which a debug container could not start."""
    pod = scene.failing_pod("gpu-pod", "n1", event=False)
    last = pod["status"]["containerStatuses"][0]["lastState"]
    failed = {"name": "debugger-x", "state": last, "lastState": {}}
    return shows(api, runs(FIRST), ephemeralContainerStatuses=[failed])


async def test_a_debug_container_that_failed_is_told_once_and_does_not_count(
    drifted: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    debugged(drifted, api)
    async with start(pod_resync_s=0.3) as operator:
        await eventually(lambda: drifted.events(EXPLAINED))
        assert drifted.events(EXPLAINED)[0]["involvedObject"]["fieldPath"] == (
            "spec.ephemeralContainers{debugger-x}"
        )
        before = len(api.requests("list", plural="pods"))
        await eventually(lambda: len(api.requests("list", plural="pods")) >= before + 3)
        assert operator.pods.failing == 0
        assert len(api.requests("create", plural="events")) == 1
        drifted.agent_says("n1", node_status(drifted=False))
        await eventually(lambda: not operator.pods.tracks)
    assert [event["reason"] for event in drifted.events_of_ours()] == [EXPLAINED]
    assert api.requests("patch", plural="events") == []


async def test_a_debug_container_that_failed_does_not_hinder_that_its_pod_is_restored(
    drifted: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    async with start(pod_resync_s=0.3) as operator:
        failed = drifted.failing_pod("gpu-pod", "n1")["status"]["containerStatuses"][0]
        debug = {"name": "debugger-x", "state": failed["lastState"], "lastState": {}}
        drifted.warn(shows(api, failed, ephemeralContainerStatuses=[debug]), MESSAGE)
        await eventually(lambda: operator.pods.failing == 1)
        shows(api, runs(FIRST), ephemeralContainerStatuses=[debug])
        await eventually(lambda: drifted.events(RESTORED) and operator.pods.failing == 0)
        before = len(api.requests("list", plural="pods"))
        await eventually(lambda: len(api.requests("list", plural="pods")) >= before + 3)
        assert operator.pods.failing == 0
    # It runs, and was not told again that it fails.
    assert api.requests("patch", plural="events") == []


async def test_a_new_leader_does_not_count_a_pod_for_its_debug_container(
    drifted: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    debugged(drifted, api)
    async with start() as operator:
        await eventually(lambda: drifted.events(EXPLAINED))
    async with start("replica-2") as operator:
        await eventually(lambda: looks(api) and operator.pod_queue.is_idle)
        await eventually(lambda: operator.pods.failing == 0)
    assert drifted.events(RESTORED) == []


# What is remembered of an Event -----------------------------------------------------------------


def heard(*events: EventText, budget: int = 2**20) -> tuple[Texts, Track, list[EventText]]:
    texts, track = Texts(budget), Track(0.0)
    key = key_of({"metadata": {"namespace": "default", "name": "p", "uid": "u"}})
    for event in events:
        texts.add(key, track, event.text, event)
    return texts, track, list(track.events())


def test_the_same_text_was_told_when_it_was_told_last() -> None:
    older, newer = (EventText("a", ("c",), at(moment)) for moment in (FIRST, SECOND))
    assert heard(older, newer)[2] == heard(newer, older)[2] == [newer]


def test_a_text_whose_time_is_not_known_once_is_not_known_to_be_older() -> None:
    known = EventText("a", ("c",), at(FIRST))
    assert heard(known, replace(known, since=None))[2] == [replace(known, since=None)]


def test_a_text_about_two_containers_is_about_none_that_is_known() -> None:
    both = [EventText("a", (name,), at(FIRST)) for name in ("c", "d")]
    assert heard(*both)[2] == heard(*both, both[0])[2] == [EventText("a", (), at(FIRST))]


def test_what_is_forgotten_of_a_text_goes_with_it() -> None:
    _, track, _ = heard(*(EventText(text, ("c",), at(FIRST)) for text in "abcde"))
    assert list(track.told) == list(track.texts) == ["c", "d", "e"]


def test_a_text_that_is_shortened_stays_about_its_container() -> None:
    long = EventText("x " * 4_000, ("c",), at(FIRST))
    (kept,) = heard(long, budget=100)[2]
    assert kept == replace(long, text=kept.text)
    assert len(kept.text) < len(long.text)


def test_an_event_that_names_no_container_is_about_those_that_were_seen_to_fail() -> None:
    _, track, _ = heard(EventText("a"))
    track.failed = {"c": at(SECOND), "": at(FIRST)}
    assert list(track.events()) == [EventText("a", ("c",), at(SECOND))]
    track.heard_again()
    assert list(track.events()) == [EventText("a", ("c",), None)]


def test_an_older_status_does_not_make_a_later_start_unseen() -> None:
    track = Track(0.0, failed={"c": at(SECOND)})
    pod = {"status": {"phase": "Running", "containerStatuses": [crashes(FIRST, "c")]}}
    track.saw_waiting(pod)
    assert track.failed == {"c": at(SECOND)}
