"""What anybody who may create Events can bring about with them: nothing beyond their own Pods."""

from __future__ import annotations

import sys
import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.controller.conftest import Eventually, Start
from tests.controller.scene import MESSAGE, Scene, node_status
from tests.fakeapi.server import FakeApi

from gpucdi_kube import Credentials, HttpKubeApi, KubeObject, paths
from gpucdi_operator.app import Operator
from gpucdi_operator.options import Options
from gpucdi_operator.podfacts import PodKey
from gpucdi_operator.pods import TRACKED_LIMIT
from gpucdi_operator.texts import BUDGET_BYTES, LEAST_BYTES, TEXT_CHARACTERS, TEXTS_KEPT, Texts
from gpucdi_operator.tracks import Track

# What Python adds to a text, at most.
OVERHEAD_BYTES = 80
ODD = (
    ("tenant", "../../default/pods/victim"),
    ("tenant", ".."),
    ("tenant", ""),
    ("", "pod"),
    ("..", "pod"),
    ("a.b", "pod"),
    ("tenant/pods", "pod"),
    ("tenant", "a%2fb"),
    ("tenant", "pod?watch=1"),
    ("tenant", "pod\n"),
    ("tenant", "Pod"),
    ("tenant", "-pod"),
    ("tenant", "pod."),
    ("tenant", "a" * 254),
    ("a" * 64, "pod"),
)

# Names ------------------------------------------------------------------------------------------


async def test_events_about_what_can_be_no_pod_cost_nothing(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    victim = scene.failing_pod("victim", "n1", event=False)
    async with start(pod_resync_s=600.0) as operator:
        looked = len(api.requests("get", plural="pods"))
        for namespace, name in ODD:
            about = {"namespace": namespace, "name": name, "uid": ""}
            told = {"kind": "Event", "reason": "Failed", "message": MESSAGE}
            operator.fleet.saw_event({**told, "involvedObject": about})
        long = {**victim["metadata"], "uid": "u" * 1000}
        scene.warn({"metadata": long}, MESSAGE)
        seen = operator.metrics.events_seen.labels("false")
        await eventually(lambda: seen._value.get() == len(ODD) + 1)
        await eventually(lambda: operator.pod_queue.is_idle)
        about_odd = [key for key in operator.pods.tracks if key.name != "victim"]
        assert about_odd == []
        assert operator.metrics.events_seen.labels("true")._value.get() == 0
        read = api.requests("get", plural="pods")[looked:]
    assert {entry.name for entry in read} <= {"victim"}


@pytest.mark.parametrize("name", ["a", "a-b.c", "0", "a" * 253])
def test_names_of_pods_are_taken(name: str) -> None:
    assert PodKey("a" * 63, name, str(uuid.uuid4())).can_exist


async def test_a_new_leader_takes_no_pod_from_an_event_that_can_be_about_none(
    api: FakeApi, start: Start, eventually: Eventually
) -> None:
    for number, (namespace, name) in enumerate(ODD):
        about = {"kind": "Pod", "namespace": namespace, "name": name, "uid": f"u{number}"}
        meta = {"name": f"forged-{number}", "namespace": "tenant"}
        told = {"type": "Warning", "reason": "CdiDeviceUnresolvable", "message": "m"}
        api.put("events", {"metadata": meta, "involvedObject": about, **told})
    async with start() as operator:
        await eventually(lambda: operator.pods.restarter.warm)
        assert operator.pods.tracks == {}
    assert api.requests("get", plural="pods") == []


class Elsewhere(HttpKubeApi):
    """A connection on which every Pod that is asked for is the same one."""

    async def get(self, path: str) -> KubeObject | None:
        """Return the victim for any Pod."""
        asks_for_pod = "/pods/" in path
        return await super().get(paths.pod("default", "victim") if asks_for_pod else path)


@pytest.mark.parametrize("asked", [PodKey("tenant", "victim", ""), PodKey("default", "pod", "")])
async def test_a_pod_that_was_not_asked_for_is_told_nothing(
    scene: Scene, api: FakeApi, start: Start, asked: PodKey
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=False))
    async with start(pod_resync_s=600.0) as operator:
        scene.failing_pod("victim", "n1", event=False)
        connection = Elsewhere(Credentials(api.url))
        pods = replace(operator.pods, api=connection)
        pods.texts.add(asked, pods.track(asked), MESSAGE)
        await pods.reconcile(asked)
        await connection.close()
        assert pods.tracks == {}
        assert pods.aliases == {}
    assert scene.events_of_ours() == []


# Texts ------------------------------------------------------------------------------------------


def size(texts: tuple[str, ...]) -> int:
    return sum(sys.getsizeof(text) for text in texts)


@pytest.mark.parametrize("letter", ["a", "ж", "\N{GRINNING FACE}"])
async def test_long_texts_of_many_pods_stay_within_the_budget(api: FakeApi, letter: str) -> None:
    operator = Operator(Options(http="127.0.0.1:0"), Credentials(api.url))
    pods = operator.pods
    keys = [PodKey("default", f"p{number}", f"u{number}") for number in range(2_000)]
    for key in keys:
        for number in range(TEXTS_KEPT):
            pods.saw_event(key, f"{key.name} {number} {letter * TEXT_CHARACTERS}")
    kept = {key: size(track.texts) for key, track in pods.tracks.items()}
    assert sum(kept.values()) == pods.texts.kept_bytes
    assert BUDGET_BYTES // 2 < pods.texts.kept_bytes <= BUDGET_BYTES
    assert len(pods.tracks[keys[-1]].texts) == TEXTS_KEPT
    assert all(len(track.texts) >= 1 for track in pods.tracks.values())
    for key in keys:
        pods.forget(key)
    assert pods.texts.kept_bytes == 0
    for client in (operator.api, operator.evicting, operator.elector.api):
        await client.close()


def test_as_many_pods_as_are_followed_keep_some_of_their_last_text_each() -> None:
    texts, tracks = Texts(), dict[PodKey, Track]()
    for number in range(TRACKED_LIMIT):
        key = PodKey("default", f"p{number}", f"u{number}")
        track = tracks[key] = Track(0.0)
        for told in ("first", "last"):
            texts.add(key, track, f"{told} {'ж ' * 2_000}{number}")
    assert sum(size(track.texts) for track in tracks.values()) <= BUDGET_BYTES
    shortened = [track for track in tracks.values() if len(track.texts) == 1]
    assert len(shortened) > TRACKED_LIMIT * 0.8
    assert all(track.texts[-1].startswith("last ж") for track in tracks.values())
    least = LEAST_BYTES - 2 * OVERHEAD_BYTES
    assert all(size(track.texts) >= least for track in shortened)


def test_a_text_is_not_cut_within_a_name() -> None:
    texts, track, key = Texts(budget_bytes=1), Track(0.0), PodKey("default", "p", "u")
    names = [f"vendor.com/gpu=GPU-{number:032}" for number in range(1_000)]
    texts.add(key, track, f"unresolvable CDI devices {', '.join(names)}")
    (kept,) = track.texts
    told = kept.removeprefix("unresolvable CDI devices ").split(", ")
    assert told == names[: len(told)]
    assert len(told) > 1


def test_a_text_that_is_heard_again_is_kept_once() -> None:
    texts, track, key = Texts(), Track(0.0), PodKey("default", "p", "u")
    for told in ("a", "b", "a", "c", "d", "d"):
        texts.add(key, track, told)
    assert track.texts == ("b", "c", "d")


DEEDS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "add", "leave"]),
        st.integers(0, 4),
        st.sampled_from(["a", "é", "ж", "\N{GRINNING FACE}", "word, "]),
        st.integers(0, 9_000),
    )
)


@given(DEEDS, st.integers(1, 50_000))
def test_what_is_counted_is_what_is_kept(
    deeds: list[tuple[str, int, str, int]], budget: int
) -> None:
    texts, tracks = Texts(budget), dict[PodKey, Track]()
    for deed, number, letter, count in deeds:
        key = PodKey("default", f"p{number}", "u")
        if deed == "add":
            texts.add(key, tracks.setdefault(key, Track(0.0)), letter * count)
        elif key in tracks:
            texts.leave(key, tracks.pop(key))
        kept = sum(size(track.texts) for track in tracks.values())
        assert texts.kept_bytes == kept
        assert kept <= max(budget, len(tracks) * (LEAST_BYTES + OVERHEAD_BYTES))
