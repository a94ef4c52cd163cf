"""The taint on drifted nodes: who gets it, that others' taints stay, and that it always goes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.controller.conftest import Eventually, Start
from tests.controller.scene import Scene, node_status
from tests.fakeapi.server import FakeApi

from gpucdi.api.policy import BreakerState, Policy
from gpucdi.api.taint import is_tainted, taints_with
from gpucdi_kube import Credentials, HttpKubeApi
from gpucdi_kube.errors import Forbidden
from gpucdi_operator.taints import chosen, most
from gpucdi_operator.uninstall import uninstall

KEY = "gpucdi.io/unresolvable"
OURS = {"key": KEY, "effect": "NoSchedule"}
PERSONS = {"key": KEY, "value": "by-hand", "effect": "NoSchedule"}
OTHER = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def policy(percent: int = 20, taint: str = "NoSchedule") -> Policy:
    return Policy.from_json("p", {"taint": taint, "repair": {"breaker": {"percent": percent}}})


def since(*names: str) -> dict[str, datetime]:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    return {name: start + timedelta(minutes=number) for number, name in enumerate(names)}


def test_never_more_than_the_percent_of_the_breaker_is_tainted() -> None:
    drifted = since(*(f"n{number:02d}" for number in range(30)))
    assert len(chosen(policy(20), BreakerState.CLOSED, 100, drifted, frozenset())) == 20
    assert chosen(policy(20), BreakerState.CLOSED, 4, drifted, frozenset()) == frozenset()


def test_of_too_many_those_that_drifted_first_are_chosen_and_keep_their_taint() -> None:
    found = chosen(policy(20), BreakerState.CLOSED, 10, since("b", "a", "c"), frozenset())
    assert found == {"b", "a"}
    found = chosen(policy(20), BreakerState.CLOSED, 10, since("b", "a", "c"), frozenset("c"))
    assert found == {"b", "c"}


@pytest.mark.parametrize("state", [BreakerState.OPEN, BreakerState.HALF_OPEN])
def test_a_breaker_that_stops_repairs_takes_every_taint(state: BreakerState) -> None:
    assert chosen(policy(), state, 100, since("a"), frozenset("a")) == frozenset()


def test_without_being_asked_nothing_is_tainted() -> None:
    found = chosen(policy(taint="None"), BreakerState.CLOSED, 100, since("a"), frozenset("a"))
    assert found == frozenset()


@given(st.integers(1, 100), st.integers(0, 300), st.sets(st.integers(0, 299)))
def test_whatever_drifts_the_bound_holds(percent: int, governed: int, who: set[int]) -> None:
    drifted = since(*(f"n{number}" for number in sorted(who) if number < governed))
    found = chosen(policy(percent), BreakerState.RECOVERING, governed, drifted, frozenset())
    assert len(found) == min(len(drifted), most(policy(percent), governed))
    assert len(found) * 100 <= percent * governed


@pytest.mark.parametrize(
    ("before", "ours", "after"),
    [
        (None, True, [OURS]),
        ([OTHER], True, [OTHER, OURS]),
        ([OTHER, OURS], True, None),
        ([OURS, OTHER], False, [OTHER]),
        ([OURS], False, []),
        ([OTHER], False, None),
        (None, False, None),
        ([{"key": KEY, "effect": "NoExecute"}], False, None),
        ([{**OURS, "value": ""}], False, []),
        ([PERSONS], False, None),
        # Kubernetes takes no two taints of the same key and effect.
        ([PERSONS], True, None),
    ],
)
def test_no_other_taint_is_touched(before: Any, after: Any, *, ours: bool) -> None:
    node = {"spec": {"taints": before} if before else {}}
    assert taints_with(node, ours=ours) == after


# On the API server --------------------------------------------------------------------------


def taints(api: FakeApi, node: str) -> list[dict[str, Any]]:
    found = api.find("nodes", node)
    assert found is not None
    entries: list[dict[str, Any]] = found["spec"].get("taints", [])
    return entries


def tainted(api: FakeApi) -> set[str]:
    return {body["metadata"]["name"] for body in api.all("nodes") if is_tainted(body)}


def condition(api: FakeApi, kind: str = "TaintsAllowed") -> dict[str, Any]:
    status = (api.find("gpucdipolicies", "p") or {}).get("status", {})
    found = [item for item in status.get("conditions", []) if item["type"] == kind]
    return found[0] if found else {}


def counted(api: FakeApi) -> dict[str, int]:
    counts: dict[str, int] = (api.find("gpucdipolicies", "p") or {})["status"]["nodes"]
    return counts


def nodes(scene: Scene, count: int, drifted: int = 0) -> None:
    for number in range(count):
        name = f"n{number}"
        scene.node(name, labels={"zone": "a"})
        scene.agent_says(name, node_status(drifted=number < drifted))


async def test_a_drifted_node_is_tainted_and_the_taint_goes_when_it_resolves(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    nodes(scene, 5)
    api.put("nodes", {**(api.find("nodes", "n0") or {}), "spec": {"taints": [OTHER]}})
    scene.policy("p", taint="NoSchedule")
    async with start():
        scene.agent_says("n0", node_status(drifted=True))
        await eventually(lambda: tainted(api) == {"n0"})
        assert taints(api, "n0") == [OTHER, OURS]
        await eventually(lambda: condition(api).get("reason") == "Enabled")
        await eventually(lambda: counted(api)["tainted"] == 1)
        scene.agent_says("n0", node_status(drifted=False))
        await eventually(lambda: tainted(api) == set())
        assert taints(api, "n0") == [OTHER]


async def test_a_taint_that_somebody_removed_is_put_again(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    nodes(scene, 5, drifted=1)
    scene.policy("p", taint="NoSchedule")
    async with start():
        await eventually(lambda: tainted(api) == {"n0"})
        scene.node("n0", labels={"zone": "a"})
        assert tainted(api) == set()
        await eventually(lambda: tainted(api) == {"n0"})


@pytest.mark.parametrize("ending", ["dropped", "deleted", "unselected", "status gone"])
async def test_the_taint_goes_with_what_it_rested_on(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually, ending: str
) -> None:
    nodes(scene, 5, drifted=1)
    selector = {"matchLabels": {"zone": "a"}}
    scene.policy("p", taint="NoSchedule", nodeSelector=selector)
    async with start():
        await eventually(lambda: tainted(api) == {"n0"})
        match ending:
            case "dropped":
                scene.policy("p", taint="None", nodeSelector=selector)
            case "deleted":
                api.remove("gpucdipolicies", "p")
            case "unselected":
                body = api.find("nodes", "n0") or {}
                meta = {**body["metadata"], "labels": {"zone": "b"}}
                api.put("nodes", {**body, "metadata": meta})
            case "status gone":
                api.remove("gpucdistatuses", "n0")
        await eventually(lambda: tainted(api) == set())


async def test_a_taint_that_a_person_gave_a_value_stays_and_stands_for_ours(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    nodes(scene, 10, drifted=2)
    api.put("nodes", {**(api.find("nodes", "n0") or {}), "spec": {"taints": [PERSONS, OTHER]}})
    scene.policy("p", taint="NoSchedule")
    async with start() as operator:
        await eventually(lambda: tainted(api) == {"n1"})
        await eventually(lambda: counted(api)["tainted"] == 1)
        scene.agent_says("n0", node_status(drifted=False))
        scene.agent_says("n1", node_status(drifted=False))
        await eventually(lambda: tainted(api) == set())
        await operator.governor.look()
        await eventually(lambda: operator.node_queue.is_idle)
        assert taints(api, "n0") == [PERSONS, OTHER]
        assert {entry.name for entry in api.requests("patch", plural="nodes")} == {"n1"}
    client = HttpKubeApi(Credentials(api.url))
    await uninstall(client)
    await client.close()
    assert taints(api, "n0") == [PERSONS, OTHER]


async def test_a_fleet_that_drifts_as_one_is_tainted_up_to_the_bound_only(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    nodes(scene, 10, drifted=6)
    breaker = {"percent": 20, "minNodes": 50}
    scene.policy("p", taint="NoSchedule", repair={"breaker": breaker})
    async with start():
        await eventually(lambda: condition(api).get("reason") == "LimitReached")
        assert "6 nodes are drifted; at most 2 of 10" in condition(api)["message"]
        await eventually(lambda: tainted(api) == {"n0", "n1"})
        scene.agent_says("n0", node_status(drifted=False))
        await eventually(lambda: tainted(api) == {"n1", "n2"})


async def test_a_writer_who_is_faster_is_not_overwritten(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    nodes(scene, 5)
    scene.policy("p", taint="NoSchedule")
    async with start():
        fault = api.faults.add(409, verbs=["patch"], plurals=["nodes"], times=3)
        scene.agent_says("n0", node_status(drifted=True))
        await eventually(lambda: tainted(api) == {"n0"})
    assert fault.met == 3


async def test_without_the_right_the_policy_says_what_to_grant_and_everything_else_goes_on(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    nodes(scene, 5)
    scene.policy("p", taint="NoSchedule")
    api.authorizer = lambda _user, target: (
        not (
            target.resource.plural == "nodes"
            and not target.subresource
            and target.verb in {"get", "patch"}
        )
    )
    async with start() as operator:
        scene.agent_says("n0", node_status(drifted=True))
        await eventually(lambda: condition(api).get("reason") == "RightMissing")
        assert "--clusterrole=gpucdi-operator-taints" in condition(api)["message"]
        scene.agent_says("n1", node_status(drifted=True))
        await eventually(lambda: (scene.condition("n1") or {}).get("status") == "True")
        await eventually(lambda: (scene.condition("n0") or {}).get("status") == "True")
        assert operator.metrics.rights_missing.labels("taints")._value.get() == 1


async def test_uninstall_takes_condition_and_taint_and_leaves_the_rest(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    nodes(scene, 5, drifted=1)
    scene.policy("p", taint="NoSchedule")
    async with start():
        await eventually(lambda: tainted(api) == {"n0"})
        await eventually(lambda: all(scene.condition(f"n{i}") for i in range(5)))
    body = api.find("nodes", "n0") or {}
    api.put("nodes", {**body, "spec": {"taints": [*taints(api, "n0"), OTHER]}})
    client = HttpKubeApi(Credentials(api.url))
    assert await uninstall(client) == 5
    await client.close()
    assert tainted(api) == set()
    assert taints(api, "n0") == [OTHER]
    assert all(scene.condition(f"n{i}") is None for i in range(5))


async def test_uninstall_without_the_right_to_taints_removes_the_conditions_and_says_so(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    nodes(scene, 5, drifted=1)
    scene.policy("p", taint="NoSchedule")
    async with start():
        await eventually(lambda: tainted(api) == {"n0"})
        await eventually(lambda: all(scene.condition(f"n{i}") for i in range(5)))
    api.authorizer = lambda _user, target: target.verb != "patch" or target.subresource != ""
    client = HttpKubeApi(Credentials(api.url))
    with pytest.raises(Forbidden):
        await uninstall(client)
    await client.close()
    assert all(scene.condition(f"n{i}") is None for i in range(5))
