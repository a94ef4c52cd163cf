"""Who may lead, and that a replica that leads anew believes nothing from when it led before."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.controller.conftest import Eventually, Start, quick
from tests.controller.scene import Scene, node_status
from tests.fakeapi.server import FakeApi

from gpucdi_kube import Credentials, HttpKubeApi, SystemClock
from gpucdi_kube.clock import rfc3339_micro
from gpucdi_operator.leader import LONGEST_S, Elector
from gpucdi_operator.options import Timing

NAME, NAMESPACE = "gpucdi-operator", "gpucdi-system"
INT32_MAX = 2**31 - 1
USUAL_S = Timing().lease_s


def lease(api: FakeApi, holder: str, **spec: Any) -> None:
    now = rfc3339_micro(datetime.now(UTC))
    usual = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": now}
    meta = {"name": NAME, "namespace": NAMESPACE}
    api.put("leases", {"metadata": meta, "spec": {**usual, **spec}})


def lease_spec(api: FakeApi) -> dict[str, Any]:
    found: dict[str, Any] = (api.find("leases", NAME, NAMESPACE) or {"spec": {}})["spec"]
    return found


def reason(scene: Scene, node: str) -> str:
    return str((scene.condition(node) or {}).get("reason", ""))


async def test_a_replica_whose_first_lists_are_refused_leaves_the_lease_to_others(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    refused = api.faults.add(403, verbs=["list"], plurals=["gpucdistatuses"])
    cold = quick(api, "pod-a")
    task = asyncio.create_task(cold.run())
    # Of the same name as the replica before it: it would take the Lease back at once.
    lease(api, "pod-a")
    await eventually(lambda: refused.met >= 3)
    assert not cold.elector.is_leader
    lease(api, "")
    refused.times = 0
    async with start("pod-b"):
        await eventually(lambda: scene.condition("n1"))
    cold.stop()
    await asyncio.wait_for(task, 120)


async def test_who_leads_again_does_not_take_an_agent_that_died_meanwhile_for_alive(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=False))
    async with start("pod-a") as operator:
        await eventually(lambda: reason(scene, "n1") == "AllNamesResolve")
        lease(api, "pod-b", leaseDurationSeconds=500)
        await eventually(lambda: operator.metrics.leader._value.get() == 0)
        # While another led, the agent renewed its Lease once more and died.
        scene.lease("n1", age_s=600, duration_s=60)
        lease(api, "")
        await eventually(lambda: reason(scene, "n1") == "AgentSilent")


async def test_a_leader_that_may_not_list_leases_leaves_silent_nodes_as_it_found_them(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    for name in ("n1", "n2"):
        scene.node(name)
        scene.agent_says(name, node_status(drifted=False))
    scene.lease("n1", duration_s=1)
    async with start("pod-a"):
        await eventually(lambda: reason(scene, "n1") == "AgentSilent")
    refused = api.faults.add(403, verbs=["list"], plurals=["leases"])
    async with start("pod-b") as operator:
        scene.agent_says("n2", node_status(drifted=True))
        await eventually(lambda: reason(scene, "n2") == "OnlyAllDevice")
        await eventually(lambda: refused.met >= 2 and operator.node_queue.is_idle)
        assert reason(scene, "n1") == "AgentSilent"


class Turned(SystemClock):
    """A clock that the test turns."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.mark.parametrize(
    ("told_s", "held_s"),
    [(15, 15), (INT32_MAX, LONGEST_S), (0, USUAL_S), (-5, USUAL_S), (None, USUAL_S)],
)
async def test_a_lease_of_another_holds_for_as_long_as_it_says_within_reason(
    api: FakeApi, told_s: int | None, held_s: float
) -> None:
    lease(api, "dead", leaseDurationSeconds=told_s)
    clock, client = Turned(), HttpKubeApi(Credentials(api.url))
    elector = Elector(client, clock, Timing(), "alive", NAMESPACE)
    for seconds, leads in ((0.0, False), (held_s, False), (1.0, True)):
        clock.seconds += seconds
        await elector._step()
        assert elector.is_leader is leads
    await client.close()


async def test_a_lease_that_has_changed_hands_too_often_to_count_is_taken_all_the_same(
    api: FakeApi,
) -> None:
    lease(api, "", leaseTransitions=INT32_MAX)
    client = HttpKubeApi(Credentials(api.url))
    elector = Elector(client, SystemClock(), Timing(), "alive", NAMESPACE)
    await elector._step()
    await client.close()
    assert elector.is_leader
    assert lease_spec(api)["leaseTransitions"] == 0


async def test_an_admission_policy_that_protects_a_node_says_nothing_of_our_rights(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    for name in ("n1", "n2"):
        scene.node(name)
        scene.agent_says(name, node_status(drifted=False))
    breaker = {"percent": 100, "minNodes": 100}
    scene.policy("p", taint="NoSchedule", repair={"mode": "Observe", "breaker": breaker})
    fault = api.faults.add(403, verbs=["patch"], plurals=["nodes"], times=1)
    async with start(right_asked_again_s=6000.0) as operator:
        scene.agent_says("n1", node_status(drifted=True))
        await eventually(lambda: fault.met == 1)
        scene.agent_says("n2", node_status(drifted=True))
        await eventually(lambda: "taints" in (api.find("nodes", "n2") or {})["spec"])
        assert operator.metrics.rights_missing.labels("taints")._value.get() == 0
