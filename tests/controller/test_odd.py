"""What nobody would put into a cluster on purpose: odd names, refused writes, wrong clocks."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.controller.conftest import Eventually, Start
from tests.controller.scene import KIND, MESSAGE, Scene, fresh, node_status
from tests.fakeapi.server import FakeApi

from gpucdi.api.policy import BreakerConfig, BreakerState, BreakerStatus, Policy
from gpucdi_kube.clock import rfc3339
from gpucdi_operator.breaker import step
from gpucdi_operator.events import NAME_LIMIT, event_name
from gpucdi_operator.policies import Choice, governing

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)

# Policies -------------------------------------------------------------------------------------

WORDS = st.sampled_from(["a", "b", "c"])
TERM = st.fixed_dictionaries(
    {
        "key": WORDS,
        "operator": st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Odd"]),
        "values": st.lists(WORDS, max_size=2),
    }
)
SELECTOR = st.fixed_dictionaries(
    {
        "matchLabels": st.dictionaries(WORDS, WORDS, max_size=2),
        "matchExpressions": st.lists(TERM, max_size=3),
    }
)


@given(st.lists(SELECTOR, max_size=8), st.dictionaries(WORDS, WORDS))
def test_many_policies_choose_as_each_of_them_would(
    selectors: list[dict[str, Any]], labels: dict[str, str]
) -> None:
    policies = [
        Policy.from_json(f"p{number}", {"nodeSelector": chosen, "priority": number % 3})
        for number, chosen in enumerate(selectors)
    ]
    one_by_one = [policy for policy in policies if policy.selects(labels)]
    expected = sorted(one_by_one, key=lambda policy: (-policy.priority, policy.name))
    assert list(Choice(policies).governing(labels)) == expected
    assert list(governing(policies, labels)) == expected


async def test_a_policy_that_loses_to_hundreds_still_has_a_status(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    for number in range(200):
        zone = f"z{number}"
        scene.node(f"n{number}", labels={"zone": zone})
        name = f"winner-{number}-{'x' * 200}"
        scene.policy(name, priority=1, nodeSelector={"matchLabels": {"zone": zone}})
    scene.policy("loser")

    def governs() -> dict[str, Any]:
        status = (api.find("gpucdipolicies", "loser") or {}).get("status", {})
        found = [item for item in status.get("conditions", ()) if item["type"] == "Governs"]
        return found[0] if found else {}

    async with start():
        await eventually(lambda: governs().get("reason") == "SelectsNoNode" or governs())
        await eventually(lambda: governs()["message"].endswith("and 195 more"))
    assert governs()["status"] == "False"


async def test_a_policy_whose_status_is_refused_stops_no_other_and_governs_all_the_same(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    for zone in ("a", "b"):
        scene.node(f"n-{zone}", labels={"zone": zone})
        scene.agent_says(f"n-{zone}", node_status(drifted=True))
        scene.policy(f"policy-{zone}", nodeSelector={"matchLabels": {"zone": zone}})
    api.faults.add(422, verbs=["apply"], plurals=["gpucdipolicies"], telling=b"policy-a")
    async with start():
        for zone in ("a", "b"):
            await eventually(lambda: scene.spec(f"n-{zone}")["repair"]["mode"] == "Auto")  # noqa: B023  # waited for at once
            await eventually(lambda: scene.condition(f"n-{zone}"))  # noqa: B023  # as above
        await eventually(lambda: (api.find("gpucdipolicies", "policy-b") or {}).get("status"))


async def test_a_breaker_that_cannot_be_stored_or_told_stops_repairs_and_is_told_later(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    for number in range(10):
        scene.node(f"n{number}")
        scene.agent_says(f"n{number}", fresh(drifted=False))
    scene.policy("p", repair={"breaker": {"percent": 20, "minNodes": 5, "windowMinutes": 10}})

    def held() -> int:
        specs = [body["spec"]["repair"] for body in api.all("gpucdistatuses")]
        return sum(spec.get("hold", {}).get("reason") == "BreakerOpen" for spec in specs)

    async with start():
        await eventually(lambda: scene.spec("n9")["repair"]["mode"] == "Auto")
        stored = api.faults.add(422, verbs=["apply"], plurals=["gpucdipolicies"], telling=b"Open")
        told = api.faults.add(500, verbs=["create"], plurals=["events"], telling=b"RepairsStopped")
        for number in range(6):
            scene.agent_says(f"n{number}", fresh(drifted=True))
        await eventually(lambda: held() == 10)
        await eventually(lambda: stored.met and told.met)
        api.faults.clear()
        await eventually(lambda: scene.events("RepairsStopped"))

        def state() -> object:
            status = (api.find("gpucdipolicies", "p") or {})["status"]
            return status["breaker"]["state"]

        await eventually(lambda: state() == "Open")
    assert len(scene.events("RepairsStopped")) == 1


@pytest.mark.parametrize("state", [item for item in BreakerState if item.value != "Closed"])
def test_a_moment_that_a_wrong_clock_wrote_does_not_hold_the_breaker_for_ever(
    state: BreakerState,
) -> None:
    ahead = BreakerStatus(state, rfc3339(NOW + timedelta(days=365)), KIND, "c", "n1", 9, "n1")
    begun = step(ahead, BreakerConfig(), {}, NOW)
    assert (begun.state, begun.since) == (state, rfc3339(NOW))
    assert step(begun, BreakerConfig(), {}, NOW + timedelta(hours=2)).state is not state


def test_clocks_that_differ_by_seconds_are_no_reason_to_begin_anew() -> None:
    before = BreakerStatus(BreakerState.OPEN, rfc3339(NOW + timedelta(seconds=30)))
    assert step(before, BreakerConfig(), {}, NOW) == before


# Pods and Events --------------------------------------------------------------------------------

LABEL = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"


@given(st.from_regex(rf"{LABEL}(\.{LABEL})*", fullmatch=True).filter(lambda name: len(name) < 254))
def test_an_event_has_a_valid_name_whatever_its_pod_is_called(name: str) -> None:
    made = event_name(name, "u", "Reason", "key")
    assert re.fullmatch(rf"{LABEL}(\.{LABEL})*", made)


@pytest.mark.parametrize("cut", [".", "-"])
def test_a_long_name_is_not_cut_behind_a_mark(cut: str) -> None:
    name = f"{'a' * 235}{cut}{'b' * 17}"
    made = event_name(name, "u", "Reason", "key")
    assert re.fullmatch(rf"{LABEL}(\.{LABEL})*", made)
    assert len(made) <= NAME_LIMIT


@pytest.mark.parametrize("uid", ["", "0f0e0d0c0b0a09080706050403020100"])
async def test_events_under_another_uid_reach_the_pod_with_one_get(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually, uid: str
) -> None:
    # kubelet tells of a static Pod under the hash of its file; the API server has the mirror's uid.
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    annotations = {"kubernetes.io/config.mirror": uid or "other"}
    async with start(pod_get_s=30.0, pod_recheck_s=600.0, pod_resync_s=600.0) as operator:
        pod = scene.failing_pod("static", "n1", event=False, annotations=annotations)
        told = {**pod, "metadata": {**pod["metadata"], "uid": uid}}
        for _ in range(5):
            scene.warn(told, MESSAGE)
        await eventually(lambda: scene.events("CdiDeviceUnresolvable"))
        seen = operator.metrics.events_seen.labels("true")
        await eventually(lambda: seen._value.get() == 5)
        await eventually(lambda: operator.pod_queue.is_idle)
        assert operator.pods.failing == 1
    assert len(api.requests("get", plural="pods")) == 1
    event = scene.events("CdiDeviceUnresolvable")[0]
    assert event["involvedObject"]["uid"] == pod["metadata"]["uid"]


async def test_an_event_of_a_pod_that_was_made_anew_is_not_about_the_new_one(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    async with start(pod_resync_s=600.0) as operator:
        pod = scene.failing_pod("again", "n1", event=False)
        scene.warn({**pod, "metadata": {**pod["metadata"], "uid": str(uuid.uuid4())}}, MESSAGE)
        await eventually(lambda: api.requests("get", plural="pods"))
        await eventually(lambda: operator.pod_queue.is_idle and not operator.pods.tracks)
    assert scene.events("CdiDeviceUnresolvable") == []


async def test_a_pod_that_fails_no_more_is_read_once_however_many_events_come(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    async with start(pod_get_s=600.0, pod_resync_s=600.0) as operator:
        pod = scene.failing_pod("runs", "n1", event=False)
        scene.pod_runs("runs")
        seen = operator.metrics.events_seen.labels("true")
        for number in range(1, 6):
            scene.warn(pod, MESSAGE)
            await eventually(lambda: seen._value.get() == number)  # noqa: B023  # waited for at once
            await eventually(lambda: operator.pod_queue.is_idle)
    assert len(api.requests("get", plural="pods")) == 1
    assert scene.events_of_ours() == []
