"""A hold that a person sets: it stands above every wish of ours, and ends when the person says so."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest
from tests.controller.accounts import operators
from tests.controller.conftest import Eventually, Start
from tests.controller.scene import Scene, fresh
from tests.fakeapi.realapi import RealApi
from tests.fakeapi.server import FakeApi, serving

from gpucdi.api import Hold
from gpucdi_kube import Credentials, HttpKubeApi, KubeApi, KubeObject, paths
from gpucdi_kube.api import MERGE_PATCH
from gpucdi_operator import specs
from gpucdi_operator.app import Operator
from gpucdi_operator.policies import Ruling
from gpucdi_operator.store import NodeRecord, StatusRecord

UPGRADE = {"nvidia.com/gpu-driver-upgrade-state": "drain-required"}
PERSONS = {"reason": "Maintenance", "message": "until Monday"}
# Over a hold of ours a merge patch keeps what it does not name.
PATCH = {**PERSONS, "since": None}
Person: TypeAlias = Callable[[str, object], Awaitable[None]]


@pytest.fixture
async def person(api: FakeApi) -> AsyncIterator[Person]:
    """Sets the hold of a node as `kubectl patch --type=merge` does."""
    client = HttpKubeApi(Credentials(api.url), user_agent="kubectl")

    async def patch(name: str, hold: object) -> None:
        body = {"spec": {"repair": {"hold": hold}}}
        await client.patch(paths.gpu_cdi_status(name), body, content_type=MERGE_PATCH)

    yield patch
    await client.close()


def hold(scene: Scene, name: str = "n1") -> dict[str, Any]:
    found: dict[str, Any] = scene.spec(name)["repair"].get("hold", {})
    return found


def counted(api: FakeApi) -> dict[str, int]:
    status = (api.find("gpucdipolicies", "p") or {}).get("status", {})
    found: dict[str, int] = status.get("nodes", {})
    return found


async def seen(operator: Operator, eventually: Eventually, name: str, reason: str) -> None:
    """Wait until the operator knows a node's hold, and has done all that it would do about it."""

    def known() -> bool:
        found = operator.store.statuses[name].intent.hold
        return (found.reason if found else "") == reason

    await eventually(known)
    await operator.governor.look()
    operator.node_queue.add(name)
    await eventually(lambda: operator.node_queue.is_idle)


async def test_a_hold_of_a_person_stays_when_one_of_ours_is_due_and_gives_way_to_it_when_removed(
    scene: Scene, api: FakeApi, person: Person, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", fresh(drifted=True))
    scene.policy("p")
    async with start() as operator:
        await eventually(lambda: scene.spec("n1")["repair"] == {"mode": "Auto"})
        await person("n1", PERSONS)
        await seen(operator, eventually, "n1", "Maintenance")
        scene.node("n1", labels=UPGRADE)
        await eventually(lambda: (ruled := operator.nodes.rulings["n1"].hold) and ruled.reason)
        await seen(operator, eventually, "n1", "Maintenance")
        assert hold(scene) == PERSONS
        # Something else has to be written meanwhile.
        scene.policy("p", kinds={"extra": ["nvidia.com/gpu"]})
        await eventually(lambda: scene.spec("n1")["kinds"]["extra"])
        assert hold(scene) == PERSONS
        assert counted(api)["held"] == 1
        await person("n1", None)
        await eventually(lambda: hold(scene).get("reason") == "DriverUpgrade")
        scene.node("n1", labels={})
        await eventually(lambda: hold(scene) == {})


async def test_a_person_may_write_over_a_hold_of_ours_which_does_not_end_theirs(
    scene: Scene, person: Person, start: Start, eventually: Eventually
) -> None:
    scene.node("n1", labels=UPGRADE)
    scene.agent_says("n1", fresh(drifted=True))
    scene.policy("p")
    async with start() as operator:
        await eventually(lambda: hold(scene).get("reason") == "DriverUpgrade")
        await person("n1", PATCH)
        await seen(operator, eventually, "n1", "Maintenance")
        assert hold(scene) == PERSONS
        scene.node("n1", labels={})
        scene.policy("p", kinds={"extra": ["nvidia.com/gpu"]})
        await eventually(lambda: scene.spec("n1")["kinds"]["extra"])
        await seen(operator, eventually, "n1", "Maintenance")
        assert hold(scene) == PERSONS
        await person("n1", None)
        await seen(operator, eventually, "n1", "")
        assert hold(scene) == {}


async def test_a_hold_of_a_person_outlives_a_change_of_the_leader_and_the_policy(
    scene: Scene, api: FakeApi, person: Person, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", fresh(drifted=True))
    scene.policy("p")
    async with start():
        await eventually(lambda: scene.spec("n1")["repair"] == {"mode": "Auto"})
    await person("n1", PERSONS)
    async with start("replica-2") as operator:
        await eventually(lambda: operator.nodes.rulings)
        await seen(operator, eventually, "n1", "Maintenance")
        assert scene.spec("n1")["repair"] == {"mode": "Auto", "hold": PERSONS}
        api.remove("gpucdipolicies", "p")
        await eventually(lambda: scene.spec("n1")["repair"]["mode"] == "Observe")
        assert hold(scene) == PERSONS


async def test_a_node_that_a_person_holds_takes_no_turn_from_others_and_gives_its_own_back(
    scene: Scene, api: FakeApi, person: Person, start: Start, eventually: Eventually
) -> None:
    for name in ("n1", "n2", "n3"):
        scene.node(name)
        scene.agent_says(name, fresh(drifted=True))
    scene.policy("p", repair={"maxConcurrent": 1, "breaker": {"minNodes": 50}})

    def reasons() -> list[str]:
        return [hold(scene, name).get("reason", "") for name in ("n1", "n2", "n3")]

    async with start():
        await eventually(lambda: reasons() == ["", "AwaitingTurn", "AwaitingTurn"])
        await person("n1", PERSONS)
        await eventually(lambda: reasons() == ["Maintenance", "", "AwaitingTurn"])
        await eventually(lambda: counted(api)["held"] == 2)
        await person("n2", PERSONS)
        await eventually(lambda: reasons() == ["Maintenance", "Maintenance", ""])
        await person("n1", None)
        await eventually(lambda: reasons() == ["AwaitingTurn", "Maintenance", ""])


async def test_a_node_that_a_person_holds_is_not_tried_by_the_breaker(
    scene: Scene, api: FakeApi, person: Person, start: Start, eventually: Eventually
) -> None:
    names = [f"n{number}" for number in range(6)]
    for name in names:
        scene.node(name)
        scene.agent_says(name, fresh(drifted=True))
    scene.policy("p", repair={"breaker": {"percent": 20, "minNodes": 5}})
    await person("n0", PERSONS)
    body = api.find("gpucdipolicies", "p") or {}
    opened = {"state": "Open", "since": "2026-01-01T00:00:00Z", "kind": "k", "nodes": 6}
    api.put("gpucdipolicies", {**body, "status": {"breaker": opened}})

    def trial() -> str:
        status = (api.find("gpucdipolicies", "p") or {})["status"]
        return str(status["breaker"].get("trial", ""))

    async with start():
        await eventually(lambda: trial() == "n1")
        await eventually(lambda: hold(scene, "n2").get("reason") == "BreakerOpen")
        await person("n1", PERSONS)
        await eventually(lambda: trial() == "n2")
        assert [hold(scene, name)["reason"] for name in ("n0", "n1")] == ["Maintenance"] * 2


# Without an operator, on both API servers -----------------------------------------------------


@dataclass
class Meanwhile:
    """Does something right before our first apply, which knows nothing of it."""

    real: KubeApi
    deed: Callable[[], Awaitable[object]]
    applied: int = 0

    async def apply(
        self, path: str, body: KubeObject, *, field_manager: str, force: bool = False
    ) -> KubeObject:
        self.applied += 1
        if self.applied == 1:
            await self.deed()
        return await self.real.apply(path, body, field_manager=field_manager, force=force)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


@dataclass
class Bench:
    """One Node with its GpuCdiStatus, which is written to as the operator and a person do."""

    kube: KubeApi
    record: StatusRecord
    node: NodeRecord

    async def person(self, hold: object) -> None:
        body = {"spec": {"repair": {"hold": hold}}}
        path = paths.gpu_cdi_status(self.node.name)
        await self.kube.patch(path, body, content_type=MERGE_PATCH)

    async def operator(self, reason: str, kube: Any = None) -> Hold | None:
        """Apply the spec with what was known after the last time; return the hold that stands."""
        ruling = Ruling(hold=Hold(reason) if reason else None)
        now = "2026-01-01T00:00:00Z"
        self.record = await specs.write(
            kube or self.kube, self.node, self.record, (), ruling, now=now
        )
        return self.record.intent.hold


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.lab)])
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    async with AsyncExitStack() as stack:
        where: RealApi | FakeApi
        if request.param == "real":
            real: RealApi = request.getfixturevalue("real")
            where, credentials = real, operators(real.plane)
        else:
            where = await stack.enter_async_context(serving())
            credentials = Credentials(where.url)
        name = f"held-{uuid.uuid4().hex[:8]}"
        scene = Scene(where)
        scene.node(name)
        scene.agent_says(name, fresh(drifted=True))
        client = HttpKubeApi(credentials)
        stack.push_async_callback(client.close)
        record = StatusRecord.of(where.find("gpucdistatuses", name) or {})
        yield Bench(client, record, NodeRecord.of(where.find("nodes", name) or {}))


THEIRS = Hold("Maintenance", message="until Monday")


async def test_what_we_apply_leaves_a_hold_that_a_person_set(bench: Bench) -> None:
    assert await bench.operator("") is None
    await bench.person(PERSONS)
    for reason in ("MigChange", ""):
        assert await bench.operator(reason) == THEIRS
    await bench.person(None)
    found = await bench.operator("MigChange")
    assert found is not None
    assert found.reason == "MigChange"
    assert await bench.operator("") is None


@pytest.mark.parametrize("first", ["", "MigChange"])
async def test_a_person_who_is_faster_by_a_moment_is_not_overwritten(
    bench: Bench, first: str
) -> None:
    await bench.operator(first)
    beaten = Meanwhile(bench.kube, lambda: bench.person(PATCH))
    assert await bench.operator("DriverUpgrade", beaten) == THEIRS
    assert beaten.applied == 2
    assert await bench.operator("") == THEIRS


async def test_an_agent_that_is_faster_costs_a_look_and_no_hold(bench: Bench) -> None:
    path = paths.gpu_cdi_status_status(bench.node.name)

    async def says() -> object:
        body = {"status": {"missing": 1}}
        return await bench.kube.patch(path, body, content_type=MERGE_PATCH)

    found = await bench.operator("DriverUpgrade", Meanwhile(bench.kube, says))
    assert found is not None
    assert found.reason == "DriverUpgrade"
