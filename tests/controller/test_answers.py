"""What an answer to a write of ours, or a write of somebody else, may do to what the operator knows.

Between a write and its answer, everything may happen to the object that it was about.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from tests.controller.conftest import Eventually, Start
from tests.controller.scene import Scene, fresh, node_status
from tests.fakeapi.server import FakeApi

from gpucdi.api import Hold
from gpucdi_kube import Credentials, HttpKubeApi, KubeApi, KubeObject, SystemClock
from gpucdi_operator.app import Operator
from gpucdi_operator.metrics import Metrics
from gpucdi_operator.nodes import NodeReconciler
from gpucdi_operator.policies import Ruling
from gpucdi_operator.rights import Rights
from gpucdi_operator.store import NodeRecord, StatusRecord, Store
from gpucdi_operator.taints import Tainter

PERSONS = {"reason": "Maintenance", "message": "until Monday"}


@dataclass
class Late:
    """Lets something happen after a write to ``path`` was done, and answers then."""

    real: KubeApi
    path: str
    deed: Callable[[], Awaitable[None]]
    happened: bool = False

    async def apply(
        self, path: str, body: KubeObject, *, field_manager: str, force: bool = False
    ) -> KubeObject:
        answer = await self.real.apply(path, body, field_manager=field_manager, force=force)
        return await self._late(path, answer)

    async def patch(self, path: str, body: object, *, content_type: str) -> KubeObject:
        answer = await self.real.patch(path, body, content_type=content_type)
        return await self._late(path, answer)

    async def _late(self, path: str, answer: KubeObject) -> KubeObject:
        if path.endswith(self.path) and not self.happened:
            await self.deed()
            self.happened = True
        return answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


@dataclass
class Broken:
    """Fails, as nobody foresaw, at every write to a path that ends so."""

    real: KubeApi
    path: str

    async def apply(
        self, path: str, body: KubeObject, *, field_manager: str, force: bool = False
    ) -> KubeObject:
        if path.endswith(self.path):
            raise ZeroDivisionError(path)
        return await self.real.apply(path, body, field_manager=field_manager, force=force)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


def instead(operator: Operator, api: Any) -> None:
    """Let the governor write through ``api``."""
    operator.governor.api = api


def status(api: FakeApi, name: str = "p") -> dict[str, Any]:
    found: dict[str, Any] = (api.find("gpucdipolicies", name) or {}).get("status", {})
    return found


def governed(api: FakeApi, name: str = "p") -> int:
    count: int = status(api, name).get("nodes", {}).get("governed", -1)
    return count


# Late answers -------------------------------------------------------------------------------


@pytest.mark.parametrize("again", [False, True])
async def test_a_policy_that_was_deleted_does_not_come_back_with_a_late_answer(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually, *, again: bool
) -> None:
    scene.node("n1")
    scene.agent_says("n1", fresh(drifted=False))
    scene.policy("p")
    async with start() as operator:
        await eventually(lambda: scene.spec("n1")["repair"] == {"mode": "Auto"})
        old = operator.store.policies["p"].uid

        def handled() -> bool:
            known = operator.store.policies.get("p")
            return known is not None and known.uid != old if again else known is None

        async def deleted() -> None:
            api.remove("gpucdipolicies", "p")
            if again:
                scene.policy("p", repair={"mode": "Observe"})
            await eventually(handled)

        late = Late(operator.governor.api, "/gpucdipolicies/p/status", deleted)
        instead(operator, late)
        scene.agent_says("n1", fresh(drifted=True))
        await eventually(lambda: late.happened)
        await operator.governor.look()
        assert handled()
        await eventually(lambda: scene.spec("n1")["repair"] == {"mode": "Observe"})
        assert handled()
        # What was said of the old one is not said of the new one.
        if again:
            await eventually(lambda: governed(api) == 1)


async def test_an_end_that_is_told_late_ends_no_other_object_of_the_name(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.policy("p")
    async with start() as operator:
        store, fleet = operator.store, operator.fleet
        olds = [api.find("nodes", "n1") or {}, api.find("gpucdipolicies", "p") or {}]
        for plural, name in (("nodes", "n1"), ("gpucdipolicies", "p")):
            api.remove(plural, name)
        scene.node("n1")
        scene.policy("p")
        uids = [(api.find("nodes", "n1") or {})["metadata"]["uid"]]
        uids.append((api.find("gpucdipolicies", "p") or {})["metadata"]["uid"])

        def known() -> list[str]:
            kept = (store.nodes.get("n1"), store.policies.get("p"))
            return [record.uid for record in kept if record is not None]

        await eventually(lambda: known() == uids)
        fleet.saw_node(olds[0], deleted=True)
        fleet.saw_policy(olds[1], deleted=True)
        assert known() == uids


@dataclass
class Bench:
    """One node, reconciled without an operator around it."""

    api: FakeApi
    store: Store
    client: HttpKubeApi

    def watch(self) -> None:
        """Take what stands there, as the watches do."""
        self.store.put_node(NodeRecord.of(self.api.find("nodes", "n1") or {}))
        self.store.put_status(StatusRecord.of(self.api.find("gpucdistatuses", "n1") or {}))

    async def reconcile(self, api: Any, ruling: Ruling) -> None:
        clock, metrics = SystemClock(), Metrics()
        tainter = Tainter(api, metrics, Rights(clock, metrics))
        nodes = NodeReconciler(api, self.store, clock, metrics, tainter)
        nodes.rulings = {"n1": ruling}
        await nodes.reconcile("n1")


@pytest.fixture
async def bench(api: FakeApi, scene: Scene) -> AsyncIterator[Bench]:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    client = HttpKubeApi(Credentials(api.url))
    made = Bench(api, Store(), client)
    made.watch()
    yield made
    await client.close()


async def test_a_watch_that_is_quicker_than_an_answer_knows_better(
    bench: Bench, api: FakeApi
) -> None:
    async def changed() -> None:
        body = api.find("gpucdistatuses", "n1") or {}
        spec = {**body["spec"], "repair": {"mode": "Auto", "hold": PERSONS}}
        api.put("gpucdistatuses", {**body, "spec": spec})
        bench.watch()

    late = Late(bench.client, "/gpucdistatuses/n1", changed)
    await bench.reconcile(late, Ruling(hold=Hold("MigChange")))
    assert late.happened
    hold = bench.store.statuses["n1"].intent.hold
    assert hold == Hold("Maintenance", message="until Monday")


async def test_a_node_of_the_same_name_is_not_taken_for_the_one_that_was_tainted(
    bench: Bench, api: FakeApi, scene: Scene
) -> None:
    async def made_anew() -> None:
        api.remove("nodes", "n1")
        del bench.store.nodes["n1"]
        scene.node("n1")
        bench.watch()

    late = Late(bench.client, "/nodes/n1", made_anew)
    await bench.reconcile(late, Ruling(taint=True))
    assert late.happened
    assert not bench.store.nodes["n1"].tainted


async def test_a_node_that_is_gone_does_not_come_back_with_a_late_answer(
    bench: Bench, api: FakeApi, scene: Scene
) -> None:
    async def gone() -> None:
        api.remove("nodes", "n1")
        bench.store.nodes.clear()
        bench.store.statuses.clear()

    for path, ruling in (("/nodes/n1/status", Ruling()), ("/gpucdistatuses/n1", Ruling())):
        bench.api.put("nodes", {"metadata": {"name": "n1"}, "spec": {}, "status": {}})
        bench.watch()
        late = Late(bench.client, path, gone)
        await bench.reconcile(late, ruling)
        assert late.happened
        assert (bench.store.nodes, bench.store.statuses) == ({}, {})
        # Its owner has gone, and it with it.
        scene.agent_says("n1", node_status(drifted=True))


# One policy and the others ------------------------------------------------------------------


async def test_a_policy_that_breaks_what_nobody_foresaw_breaks_nothing_for_the_others(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    for name in ("n1", "n2"):
        scene.node(name, labels={"pool": name})
        scene.agent_says(name, fresh(drifted=False))
    async with start() as operator:
        instead(operator, Broken(operator.governor.api, "/gpucdipolicies/bad/status"))
        for name, pool in (("bad", "n1"), ("good", "n2")):
            scene.policy(name, nodeSelector={"matchLabels": {"pool": pool}})
        await eventually(lambda: governed(api, "good") == 1)
        await eventually(lambda: scene.spec("n1")["repair"]["mode"] == "Auto")
        await eventually(lambda: scene.spec("n2")["repair"]["mode"] == "Auto")
        await operator.governor.look()
        assert status(api, "bad") == {}
        assert b'failures_total{queue="fleet"} 0.0' not in operator.metrics.text()


async def test_a_window_that_an_older_schema_let_pass_stops_no_policy(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", fresh(drifted=True))
    wild = {"windowMinutes": 2**31 - 1, "pauseMinutes": 2**31 - 1, "percent": 0, "minNodes": 0}
    scene.policy("wild", repair={"breaker": wild, "maxConcurrent": -1})
    scene.policy("tame", priority=-5)
    async with start() as operator:
        await eventually(lambda: governed(api, "tame") == 0)
        await eventually(lambda: scene.spec("n1")["repair"]["mode"] == "Auto")
        assert b'failures_total{queue="fleet"} 0.0' in operator.metrics.text()
