"""The labels of Namespaces that restarts are chosen by: kept for a minute, and never without bound."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

import pytest
from tests.controller.scene import owned_by
from tests.fakeapi.server import FakeApi

from gpucdi.api.policy import Policy
from gpucdi_kube import Credentials, HttpKubeApi, KubeObject, SystemClock
from gpucdi_operator.events import Recorder
from gpucdi_operator.metrics import Metrics
from gpucdi_operator.nodes import NodeReconciler
from gpucdi_operator.options import Timing
from gpucdi_operator.policies import Ruling
from gpucdi_operator.restarter import NAMESPACE_KEPT_S, NAMESPACES_KEPT, Restarter
from gpucdi_operator.rights import Rights
from gpucdi_operator.store import PolicyRecord, Store
from gpucdi_operator.taints import Tainter

CHOSEN = {"restartWaitingPods": {"namespaceSelector": {"matchLabels": {"team": "research"}}}}


class MovedClock(SystemClock):
    """The machine's clock, whose monotonic time is moved on by hand."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_s


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
async def restarter(api: FakeApi, clock: MovedClock) -> AsyncIterator[Restarter]:
    """Return one that has a policy for the Pods of a node, without an operator around it."""
    client, store, metrics = HttpKubeApi(Credentials(api.url)), Store(), Metrics()
    record = PolicyRecord.of({"metadata": {"name": "p", "uid": "u"}, "spec": CHOSEN})
    assert record.policy == Policy.from_json("p", CHOSEN)
    store.policies["p"] = record
    rights = Rights(clock, metrics)
    nodes = NodeReconciler(client, store, clock, metrics, Tainter(client, metrics, rights))
    nodes.rulings = {"n1": Ruling(policy="p")}
    recorder = Recorder(client, clock, metrics, "replica-1")
    yield Restarter(client, store, clock, metrics, Timing(), recorder, nodes, rights)
    await client.close()


def pod(namespace: str) -> KubeObject:
    meta = {"name": "waits", "namespace": namespace, "uid": "u"}
    owners = [owned_by("ReplicaSet")]
    return {"metadata": {**meta, "ownerReferences": owners}, "spec": {"nodeName": "n1"}}


async def considered(restarter: Restarter, namespaces: Iterable[str]) -> None:
    for name in namespaces:
        await restarter.consider(pod(name), ())


async def test_a_namespace_is_read_once_a_minute(
    restarter: Restarter, api: FakeApi, clock: MovedClock
) -> None:
    api.put("namespaces", {"metadata": {"name": "a", "labels": {"team": "research"}}})
    await considered(restarter, ["a"] * 5)
    assert len(api.requests("get", plural="namespaces")) == 1
    clock.ahead_s += NAMESPACE_KEPT_S
    await considered(restarter, ["a"] * 5)
    assert len(api.requests("get", plural="namespaces")) == 2


async def test_namespaces_that_nobody_asks_about_any_more_are_dropped(
    restarter: Restarter, clock: MovedClock
) -> None:
    await considered(restarter, (f"gone-{number}" for number in range(50)))
    assert len(restarter._labels) == 50
    clock.ahead_s += NAMESPACE_KEPT_S
    await considered(restarter, ["new"])
    assert set(restarter._labels) == {"new"}


async def test_of_more_namespaces_than_are_kept_the_oldest_goes(restarter: Restarter) -> None:
    await considered(restarter, (f"ns-{number}" for number in range(NAMESPACES_KEPT + 3)))
    assert len(restarter._labels) == NAMESPACES_KEPT
    assert "ns-2" not in restarter._labels
    assert "ns-3" in restarter._labels
