"""What a replica keeps and shows while another leads, and what it does once it leads."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tests.controller.conftest import QUICK, Eventually, Start
from tests.controller.scene import MESSAGE, Scene, node_status
from tests.fakeapi.server import FakeApi

from gpucdi_kube import Credentials, HttpKubeApi, KubeObject
from gpucdi_kube.clock import rfc3339_micro
from gpucdi_operator.app import Operator
from gpucdi_operator.options import Options
from gpucdi_operator.podfacts import PodKey
from gpucdi_operator.pods import HEARD_S, TRACKED_LIMIT
from gpucdi_operator.tracks import Track


def another_leads(api: FakeApi) -> None:
    """Give the Lease to somebody else, for long."""
    spec = {
        "holderIdentity": "another",
        "leaseDurationSeconds": 3600,
        "renewTime": rfc3339_micro(datetime.now(UTC)),
    }
    meta = {"name": "gpucdi-operator", "namespace": "gpucdi-system"}
    api.put("leases", {"metadata": meta, "spec": spec})


def shown(operator: Operator, series: str) -> float:
    lines = operator._exposition().decode().splitlines()
    return float(next(line for line in lines if line.startswith(f"{series} ")).split()[-1])


async def test_a_replica_that_leads_no_more_shows_nothing_that_only_a_leader_learns(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    for name in ("n1", "n2"):
        scene.node(name)
        scene.agent_says(name, node_status(drifted=True))
    scene.lease("n2", duration_s=1)
    scene.failing_pod("gpu-pod", "n1")
    async with start() as operator:
        await eventually(lambda: shown(operator, "gpucdi_pods_failing") == 1)
        await eventually(lambda: shown(operator, "gpucdi_nodes_silent") == 1)
        another_leads(api)
        await eventually(lambda: shown(operator, "gpucdi_operator_leader") == 0)
        # Else an alert on either would go on for as long as this process lives.
        await eventually(lambda: shown(operator, "gpucdi_nodes_silent") == 0)
        assert shown(operator, "gpucdi_pods_failing") == 0


async def test_a_new_leader_does_not_take_silent_nodes_for_well(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    for name in ("expired", "absent"):
        scene.node(name)
        scene.agent_says(name, node_status(drifted=False))
    scene.lease("expired", duration_s=1)
    api.remove("leases", "gpucdi-agent-absent", "gpucdi-system")

    def silent(name: str) -> bool:
        return (scene.condition(name) or {}).get("reason") == "AgentSilent"

    async with start(missing_lease_s=0.5):
        await eventually(lambda: silent("expired") and silent("absent"))
    scene.lease("expired", age_s=600, duration_s=1)
    api.log.clear()
    async with start("replica-2", missing_lease_s=600.0) as operator:
        await eventually(lambda: operator.metrics.leader._value.get() == 1)
        await eventually(lambda: len(api.requests("list", plural="leases")) >= 3)
        await eventually(lambda: operator.node_queue.is_idle)
    assert api.requests("apply", plural="nodes") == []


async def test_a_standby_keeps_a_bounded_number_of_pods(api: FakeApi, start: Start) -> None:
    another_leads(api)
    async with start() as operator:
        for number in range(TRACKED_LIMIT + 50):
            operator.pods.saw_event(PodKey("default", f"p{number}", f"u{number}"), MESSAGE)
        assert len(operator.pods.tracks) == TRACKED_LIMIT
        assert len(operator.pod_queue) == TRACKED_LIMIT
        assert api.requests("get", plural="pods") == []


async def test_who_begins_to_lead_asks_for_no_pod_that_was_heard_of_long_ago(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    another_leads(api)
    async with start() as operator:
        long_ago = operator.clock.monotonic() - HEARD_S - 1
        for number in range(50):
            key = PodKey("default", f"gone-{number}", f"u{number}")
            operator.pods.saw_event(key, MESSAGE)
            operator.pods.tracks[key] = Track(long_ago, long_ago)
        scene.failing_pod("gpu-pod", "n1")
        await eventually(lambda: len(operator.pods.tracks) == 51)
        api.remove("leases", "gpucdi-operator", "gpucdi-system")
        await eventually(lambda: scene.events("CdiDeviceUnresolvable"))
    assert {entry.name for entry in api.requests("get", plural="pods")} == {"gpu-pod"}


async def test_a_storm_of_events_that_are_not_cdi_leaves_nothing_behind(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    async with start() as operator:
        await eventually(lambda: operator.elector.is_leader)
        about = {"kind": "Pod", "namespace": "default", "uid": "u"}
        for number in range(10_000):
            event = {
                "involvedObject": {**about, "name": f"p{number}"},
                "reason": "Failed",
                "message": f'Failed to pull image "registry/app:{number}": not found',
            }
            operator.fleet.saw_event(event)
        assert operator.metrics.events_seen.labels("false")._value.get() == 10_000
        assert len(operator.pod_queue) == 0
        assert not operator.pods.tracks
    assert api.requests("get", plural="pods") == []


class Stumbling(HttpKubeApi):
    """A connection whose first lists end in an error that nobody foresaw."""

    def __init__(self, url: str, times: int) -> None:
        super().__init__(Credentials(url))
        self.times = times

    async def list(self, path: str, **options: Any) -> AsyncIterator[KubeObject]:
        """Fail so often, then list."""
        if self.times > 0:
            self.times -= 1
            raise LookupError(path)
        async for body in super().list(path, **options):
            yield body


async def test_an_error_that_nobody_foresaw_is_told_and_ends_no_work(
    scene: Scene, api: FakeApi, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    scene.node("n2")
    scene.agent_says("n2", node_status(drifted=False))
    scene.lease("n2", duration_s=1)
    operator = Operator(Options(http="127.0.0.1:0", timing=QUICK), Credentials(api.url))
    stumbling = Stumbling(api.url, 1)
    sweeping = Stumbling(api.url, 2)
    operator.fleet = replace(operator.fleet, api=stumbling)
    operator.silence = replace(operator.silence, api=sweeping)
    running = asyncio.create_task(operator.run())
    try:
        # The first lists failed: without another try it would never be ready, and never lead.
        await eventually(lambda: scene.condition("n1"))
        await eventually(lambda: (scene.condition("n2") or {}).get("reason") == "AgentSilent")
        assert shown(operator, 'gpucdi_operator_failures_total{queue="fleet"}') == 3
        assert not running.done()
    finally:
        operator.stop()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait_for(running, 120)
        await stumbling.close()
        await sweeping.close()
