"""What the operator counts of a fleet: repairs, time to repair, its own requests; and its probes."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import aiohttp
import pytest
from tests.controller.conftest import PATIENCE_S, QUICK, WATCHED, Eventually, Start, waiting
from tests.controller.scene import Scene, fresh
from tests.fakeapi.server import FakeApi
from tests.scale.bench import grown, written

from gpucdi.api import Condition, ConditionStatus, Intent, NodeStatus, RepairRecord
from gpucdi_kube import Credentials, RequestRecord, SystemClock, paths
from gpucdi_kube.clock import rfc3339
from gpucdi_operator.app import BEAT_S, STUCK_S, Operator
from gpucdi_operator.metrics import OTHER, REPAIR_RESULTS, REQUESTS, Metrics, resource_of
from gpucdi_operator.options import Options
from gpucdi_operator.repairs import REMEMBERED, Repairs, drifted_s
from gpucdi_operator.store import StatusRecord

BEGAN = datetime(2026, 7, 29, 8, 0, tzinfo=UTC)
KIND = "management.nvidia.com/gpu"
Values: TypeAlias = dict[tuple[str, str], float]


def repair(after_s: float, result: str = "Succeeded", file: str = "a.yaml") -> RepairRecord:
    """Return a repair made so long after the operator's start."""
    return RepairRecord(rfc3339(BEGAN + timedelta(seconds=after_s)), KIND, file, result)


def record(*made: RepairRecord, node: str = "n1", has_status: bool = True) -> StatusRecord:
    return StatusRecord(node, "uid", Intent(), NodeStatus(repairs=made), has_status=has_status)


def resolvable(status: str, since: str) -> StatusRecord:
    condition = Condition("Resolvable", ConditionStatus(status), "Why", "", since)
    status_ = NodeStatus(conditions=(condition,))
    return StatusRecord("n1", "uid", Intent(), status_, has_status=True)


def counting(*, counts: bool = True) -> Repairs:
    return Repairs(Metrics(), lambda: counts, BEGAN)


def values(metrics: Metrics, name: str, label: str) -> dict[str, float]:
    """Return what is not 0 of a metric, by one label."""
    found: dict[str, float] = {}
    for metric in metrics.registry.collect():
        for sample in metric.samples:
            if sample.name == name and sample.value:
                key = sample.labels[label]
                found[key] = found.get(key, 0.0) + sample.value
    return found


def counted(repairs: Repairs) -> dict[str, float]:
    return values(repairs.metrics, "gpucdi_repairs_observed_total", "result")


def times(*operators: Operator) -> tuple[float, float]:
    """Return how many times to repair were observed, and their sum in seconds."""
    name = "gpucdi_time_to_repair_seconds"
    registries = [operator.metrics.registry for operator in operators]
    count, total = (
        sum(registry.get_sample_value(f"{name}_{part}") or 0.0 for registry in registries)
        for part in ("count", "sum")
    )
    return count, total


def test_each_repair_is_counted_once_however_often_it_is_published() -> None:
    repairs = counting()
    one = record(repair(10))
    two = record(repair(10), repair(20, "Failed"), repair(20, "Failed", "b.yaml"))
    repairs.saw(record(), one)
    repairs.saw(one, one)
    repairs.saw(one, two)
    repairs.saw(two, record(repair(20, "Failed", "b.yaml"), repair(30, "RolledBack")))
    assert counted(repairs) == {"Succeeded": 1, "Failed": 2, "RolledBack": 1}


def test_the_history_of_a_node_that_was_not_known_is_no_news_before_our_start() -> None:
    repairs = counting()
    repairs.saw(None, record(repair(-60), repair(-1), repair(1, "Failed")))
    assert counted(repairs) == {"Failed": 1}


def test_a_node_whose_clock_is_slow_is_counted_as_well() -> None:
    repairs = counting()
    repairs.saw(record(), record(repair(-3600)))
    assert counted(repairs) == {"Succeeded": 1}


@pytest.mark.parametrize("between", [None, record(has_status=False)], ids=["deleted", "emptied"])
def test_an_object_that_was_made_anew_is_not_counted_again(between: StatusRecord | None) -> None:
    repairs = counting()
    kept = record(repair(-60), repair(10))
    repairs.saw(record(repair(-60)), kept)
    repairs.saw(between, kept)
    assert counted(repairs) == {"Succeeded": 1}


def test_the_same_repair_on_two_nodes_is_two_repairs() -> None:
    repairs = counting()
    for node in ("n1", "n2"):
        repairs.saw(record(node=node), record(repair(10), node=node))
    assert counted(repairs) == {"Succeeded": 2}


def test_a_time_that_cannot_be_read_counts_where_the_history_is_known_only() -> None:
    repairs = counting()
    odd = RepairRecord("soon", KIND, "a.yaml", "Failed")
    repairs.saw(None, record(odd))
    assert counted(repairs) == {}
    repairs.saw(record(node="n2"), record(odd, node="n2"))
    assert counted(repairs) == {"Failed": 1}


def test_a_result_that_no_agent_of_today_writes_makes_no_series_of_its_own() -> None:
    repairs = counting()
    repairs.saw(record(), record(repair(1, "Postponed"), repair(2, "Perhaps")))
    assert counted(repairs) == {OTHER: 2}


def test_what_a_standby_saw_is_not_counted_when_it_begins_to_lead() -> None:
    leading = False
    repairs = Repairs(Metrics(), lambda: leading, BEGAN)
    one, two = record(repair(1)), record(repair(1), repair(2))
    repairs.saw(record(), one)
    assert counted(repairs) == {}
    leading = True
    repairs.saw(None, one)
    repairs.saw(one, two)
    assert counted(repairs) == {"Succeeded": 1}


def test_no_more_than_so_many_repairs_are_remembered() -> None:
    repairs = counting()
    for number in range(REMEMBERED + 50):
        repairs.saw(record(), record(repair(number)))
    assert len(repairs._seen) == REMEMBERED


@pytest.mark.parametrize(
    ("before", "after", "took_s"),
    [
        (("False", "2026-07-29T08:00:00Z"), ("True", "2026-07-29T08:01:30Z"), 90.0),
        # The node's clock was set back meanwhile.
        (("False", "2026-07-29T08:00:00Z"), ("True", "2026-07-29T07:59:00Z"), 0.0),
        (("True", "2026-07-29T08:00:00Z"), ("True", "2026-07-29T08:00:00Z"), None),
        (("False", "2026-07-29T08:00:00Z"), ("False", "2026-07-29T08:00:00Z"), None),
        (("True", "2026-07-29T08:00:00Z"), ("False", "2026-07-29T08:01:00Z"), None),
        (("Unknown", "2026-07-29T08:00:00Z"), ("True", "2026-07-29T08:01:00Z"), None),
        (("False", ""), ("True", "2026-07-29T08:01:00Z"), None),
        (("False", "2026-07-29T08:00:00Z"), ("True", "soon"), None),
    ],
)
def test_the_time_to_repair_is_from_drift_to_resolving_by_the_clock_of_the_node(
    before: tuple[str, str], after: tuple[str, str], took_s: float | None
) -> None:
    assert drifted_s(resolvable(*before), resolvable(*after)) == took_s


def test_a_node_that_was_not_known_has_taken_no_time() -> None:
    assert drifted_s(None, resolvable("True", "2026-07-29T08:00:00Z")) is None
    assert drifted_s(record(), resolvable("True", "2026-07-29T08:00:00Z")) is None


async def test_two_replicas_see_a_repair_and_their_sum_is_one(
    scene: Scene, start: Start, eventually: Eventually
) -> None:
    began = datetime.now(UTC) - timedelta(seconds=100)
    old = RepairRecord(rfc3339(began), KIND, "a.yaml", "Failed")
    new = RepairRecord(rfc3339(datetime.now(UTC)), KIND, "a.yaml", "Succeeded")
    drifted = replace(fresh(drifted=True, since=began), repairs=(old,))
    well = fresh(drifted=False, since=began + timedelta(seconds=40))
    scene.node("n1")
    scene.agent_says("n1", drifted)
    async with start() as first, start("replica-2") as second:
        both = (first, second)
        await eventually(lambda: any(one.elector.is_leader for one in both))
        scene.agent_says("n1", replace(well, repairs=(old, new)))

        def told(one: Operator) -> bool:
            return one.store.statuses["n1"].status.repairs == (old, new)

        await eventually(lambda: all(told(one) for one in both))
        sums = [counted(one.fleet.repairs) for one in both]
        assert sorted(sums, key=len) == [{}, {"Succeeded": 1}]
        assert times(*both) == (1.0, 40.0)


def test_results_of_repairs_begin_with_zero() -> None:
    registry = Metrics().registry
    name = "gpucdi_repairs_observed_total"
    assert {registry.get_sample_value(name, {"result": item}) for item in REPAIR_RESULTS} == {0.0}


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        (paths.NODES, "nodes"),
        (paths.node_status("namespaces"), "nodes"),
        (paths.gpu_cdi_status("n1"), "gpucdistatuses"),
        (paths.gpu_cdi_status_status("n1"), "gpucdistatuses"),
        (paths.policy_status("p"), "gpucdipolicies"),
        (paths.PODS, "pods"),
        (paths.pod("default", "eviction"), "pods"),
        (paths.pod_eviction("default", "p"), "evictions"),
        (paths.event("default", "e"), "events"),
        ("/apis/events.k8s.io/v1/events", "events"),
        (paths.RUNTIME_CLASSES, "runtimeclasses"),
        (paths.namespace("pods"), "namespaces"),
        (paths.lease("gpucdi-operator"), "leases"),
        (paths.CRDS, OTHER),
        ("/version", OTHER),
        ("/", OTHER),
        ("", OTHER),
    ],
)
def test_a_request_counts_for_the_resource_of_its_path(path: str, resource: str) -> None:
    assert resource_of(path) == resource


def requested(metrics: Metrics, *, answered: bool = True) -> Values:
    """Return the requests that were counted, or with ``answered`` those that succeeded."""
    found: Values = {}
    for metric in metrics.registry.collect():
        for sample in metric.samples:
            if sample.name == "gpucdi_operator_api_requests_total":
                key = (sample.labels["verb"], sample.labels["resource"])
                if sample.labels["code"].startswith("2") or not answered:
                    found[key] = found.get(key, 0.0) + sample.value
    return found


def test_no_request_makes_a_series_that_nobody_bounds() -> None:
    metrics = Metrics()
    before = len(requested(metrics, answered=False))
    for number in range(100):
        metrics.request(RequestRecord("get", f"/apis/else/v1/things{number}", 404, 0.1))
    assert len(requested(metrics, answered=False)) == before + 1
    assert before == sum(len(verbs) for verbs in REQUESTS.values())


def test_the_bench_takes_the_leader_lease_for_no_write_of_an_idle_fleet() -> None:
    metrics = Metrics()
    for verb, path in (("replace", paths.lease("l")), ("apply", paths.node_status("n"))):
        metrics.request(RequestRecord(verb, path, 200, 0.1))
    metrics.request(RequestRecord("get", paths.pod("default", "p"), 200, 0.1))
    shown = re.findall(r"^(gpucdi_\S+) (\S+)$", metrics.text().decode(), re.MULTILINE)
    assert written(grown({}, {name: float(value) for name, value in shown})) == 1


async def test_requests_for_the_leader_lease_are_counted_as_what_they_are(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    async with start() as operator:

        def renewals() -> float:
            return requested(operator.metrics)["replace", "leases"]

        await eventually(lambda: renewals() >= 3)
        # One may have been answered and not been counted yet.
        logged = [entry for entry in api.requests("update", plural="leases") if entry.code < 400]
        assert renewals() <= len(logged) <= renewals() + 1
        assert requested(operator.metrics)["create", "leases"] == 1


class Stuck(SystemClock):
    """A clock by which the main loop does not come to its next beat until it is let go."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self.goes_on = asyncio.Event()

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_s

    async def sleep(self, seconds: float) -> None:
        """Wait; for the next beat until the loop is let go, and not for long then."""
        if seconds == BEAT_S:
            await self.goes_on.wait()
            seconds = 0.05
        await super().sleep(seconds)


@asynccontextmanager
async def starting(api: FakeApi) -> AsyncIterator[Operator]:
    """Run an operator that is not ready yet; it must be watching when the test is done with it."""
    operator = Operator(Options(http="127.0.0.1:0", timing=QUICK), Credentials(api.url))
    task = asyncio.create_task(operator.run())
    try:
        yield operator
        # Stopped in the middle of its discovery, kopf outlives the test.
        await waiting(lambda: all(api.counts[f"watch {plural}"] for plural in WATCHED))
    finally:
        operator.stop()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait_for(task, PATIENCE_S)


async def probe(operator: Operator, page: str) -> tuple[int, str]:
    """Ask as kubelet does."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{operator.port}/{page}") as answer,
    ):
        return answer.status, (await answer.text()).strip()


async def becomes(operator: Operator, page: str, status: int, eventually: Eventually) -> str:
    """Return what a page says once it answers with a status."""
    told: list[tuple[int, str]] = []

    async def ask() -> None:
        while not told or told[-1][0] != status:
            told.append(await probe(operator, page))
            await asyncio.sleep(0.02)

    asking = asyncio.create_task(ask())
    try:
        await eventually(asking.done)
        asking.result()
    finally:
        asking.cancel()
    return told[-1][1]


async def test_liveness_fails_while_the_main_loop_does_not_beat_and_no_longer(
    start: Start, eventually: Eventually
) -> None:
    clock = Stuck()
    async with start(clock=clock) as operator:
        assert await probe(operator, "healthz") == (200, "ok")
        clock.ahead_s = STUCK_S + 1
        status, told = await probe(operator, "healthz")
        assert status == 503
        assert "the loop has been stuck" in told
        clock.goes_on.set()
        assert await becomes(operator, "healthz", 200, eventually) == "ok"


@pytest.mark.parametrize("plural", ["gpucdistatuses", "nodes"])
async def test_readiness_waits_for_the_first_lists_and_liveness_does_not(
    scene: Scene, api: FakeApi, eventually: Eventually, plural: str
) -> None:
    scene.node("n1")
    refusal = api.faults.add(503, verbs=["list"], plurals=[plural])
    async with starting(api) as operator:
        await eventually(lambda: refusal.met >= 2)
        status, told = await probe(operator, "readyz")
        assert status == 503
        assert told
        assert await probe(operator, "healthz") == (200, "ok")
        api.faults.clear()
        assert await becomes(operator, "readyz", 200, eventually) == "ok"


async def test_readiness_waits_for_the_watches_as_well(
    start: Start, eventually: Eventually
) -> None:
    async with start() as operator:
        await becomes(operator, "readyz", 200, eventually)
        operator.watching.clear()
        assert await probe(operator, "readyz") == (503, "the watches are not under way")
