"""Two operator processes on a real API server: paused, killed or told to stop, the leader hands over.

Nothing is told twice, and who was paused writes nothing when it wakes.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.controller.accounts import NAMESPACE, kubeconfig
from tests.controller.conftest import Eventually
from tests.controller.replicas import Replica, Spawn, replicas
from tests.controller.scene import Scene, fresh, node_status
from tests.fakeapi.controlplane import ControlPlane
from tests.fakeapi.realapi import RealApi

from gpucdi_kube.clock import rfc3339_micro

pytestmark = pytest.mark.lab
PODS = 50
READS = ("get", "list", "watch")
EXPLAINED, RESTORED = "CdiDeviceUnresolvable", "CdiDeviceRestored"


@dataclass(slots=True)
class Stage:
    """The server of a test, what its two replicas log and show, and the Pods that it made."""

    real: RealApi
    scene: Scene
    folder: Path
    pods: set[str] = field(default_factory=set)

    def leader(self) -> str:
        lease = self.real.find("leases", "gpucdi-operator", NAMESPACE) or {"spec": {}}
        return str(lease["spec"].get("holderIdentity", ""))

    def lines(self, identity: str) -> list[dict[str, Any]]:
        text = (self.folder / f"{identity}.log").read_text()
        # The last line may be half written.
        return [json.loads(line) for line in text.splitlines() if line.endswith("}")]

    def logged(self, identity: str, message: str) -> bool:
        return any(line["message"] == message for line in self.lines(identity))

    def fails(self, number: int, node: str) -> None:
        """Let one more Pod fail."""
        pod = self.scene.failing_pod(f"pod-{number}", node)
        self.pods.add(pod["metadata"]["uid"])

    def told(self, reason: str) -> list[str]:
        """Return the uids of this test's Pods, once for each Event; the server is everybody's."""
        about = (event["involvedObject"]["uid"] for event in self.scene.events(reason))
        return [uid for uid in about if uid in self.pods]

    def each_was_told_once(self) -> None:
        for reason in (EXPLAINED, RESTORED):
            assert Counter(self.told(reason)) == Counter(self.pods)
        events = self.scene.events_of_ours()
        ours = [event for event in events if event["involvedObject"]["uid"] in self.pods]
        assert all("series" not in event for event in ours)

    def samples(self, identity: str) -> list[tuple[str, dict[str, str], float]]:
        """Return what a replica shows to a scrape."""
        (port,) = (line["http"] for line in self.lines(identity) if line["message"] == "started")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            families = text_string_to_metric_families(answer.read().decode())
            return [
                (sample.name, sample.labels, sample.value)
                for family in families
                for sample in family.samples
            ]

    def versions(self) -> dict[str, str]:
        """Return the version of each object that the operator may write, its own Lease excepted."""
        return {
            f"{plural} {body['metadata']['name']}": body["metadata"]["resourceVersion"]
            for plural in ("nodes", "gpucdistatuses", "gpucdipolicies", "pods", "events")
            for body in self.real.all(plural)
        }


def writes(samples: list[tuple[str, dict[str, str], float]]) -> float:
    """Return how many writes were answered, however, those of the Lease excepted."""
    return sum(
        value
        for name, labels, value in samples
        if name == "gpucdi_operator_api_requests_total"
        and labels["verb"] not in READS
        and labels["resource"] != "leases"
    )


@pytest.fixture
async def spawn(apiserver: ControlPlane, real: RealApi, tmp_path: Path) -> AsyncIterator[Spawn]:
    """Start replicas with the shipped rights, and end them."""
    async with replicas(tmp_path, lambda _: kubeconfig(apiserver)) as started:
        yield started
    real.remove("leases", "gpucdi-operator", NAMESPACE)


@pytest.fixture
def stage(real: RealApi, tmp_path: Path) -> Stage:
    scene = Scene(real)
    scene.runtime_class()
    return Stage(real, scene, tmp_path)


@pytest.fixture
async def both(stage: Stage, spawn: Spawn, eventually: Eventually) -> tuple[Replica, Replica]:
    """Start replica-1, which leads, and replica-2, which is ready to."""
    first = await spawn("replica-1")
    await eventually(lambda: stage.leader() == "replica-1" and stage.logged("replica-1", "ready"))
    second = await spawn("replica-2")
    await eventually(lambda: stage.logged("replica-2", "ready"))
    return first, second


async def test_a_paused_and_a_killed_leader_leave_each_pod_told_once_on_a_real_server(
    stage: Stage, both: tuple[Replica, Replica], eventually: Eventually
) -> None:
    first, second = both
    stage.scene.node("gpu-17")
    stage.scene.agent_says("gpu-17", node_status(drifted=True))
    for number in range(PODS):
        stage.fails(number, "gpu-17")
        if number == PODS // 2:
            await eventually(lambda: stage.told(EXPLAINED))
            os.kill(first.pid, signal.SIGSTOP)
    await eventually(lambda: stage.leader() == "replica-2")
    await eventually(lambda: set(stage.told(EXPLAINED)) == stage.pods)
    os.kill(first.pid, signal.SIGCONT)
    await eventually(lambda: stage.logged("replica-1", "no longer leading"))

    stage.scene.agent_says("gpu-17", node_status(drifted=False))
    for number in range(PODS):
        stage.scene.pod_runs(f"pod-{number}")
    await eventually(lambda: stage.told(RESTORED))
    second.kill()
    await eventually(lambda: stage.leader() == "replica-1")
    await eventually(lambda: set(stage.told(RESTORED)) == stage.pods)
    first.terminate()
    assert await asyncio.wait_for(first.wait(), 120) == 0
    stage.each_was_told_once()


async def test_a_leader_that_is_told_to_stop_among_failing_pods_leaves_each_told_once(
    stage: Stage, both: tuple[Replica, Replica], eventually: Eventually
) -> None:
    first, second = both
    stage.scene.node("gpu-17")
    stage.scene.agent_says("gpu-17", node_status(drifted=True))
    for number in range(10):
        stage.fails(number, "gpu-17")
        if number == 4:
            await eventually(lambda: stage.told(EXPLAINED))
            first.terminate()
    assert await asyncio.wait_for(first.wait(), 120) == 0
    assert stage.logged("replica-1", "the Lease is given back")
    await eventually(lambda: stage.leader() == "replica-2")
    await eventually(lambda: set(stage.told(EXPLAINED)) == stage.pods)
    stage.scene.agent_says("gpu-17", node_status(drifted=False))
    for number in range(10):
        stage.scene.pod_runs(f"pod-{number}")
    await eventually(lambda: set(stage.told(RESTORED)) == stage.pods)
    second.terminate()
    assert await asyncio.wait_for(second.wait(), 120) == 0
    stage.each_was_told_once()


async def test_nothing_that_a_woken_leader_would_write_reaches_the_server(
    stage: Stage, both: tuple[Replica, Replica], eventually: Eventually
) -> None:
    """Its successor is stopped too, so that every write that comes after it wakes is its own."""
    first, second = both
    nodes = [f"gpu-{number}" for number in range(20)]
    for name in nodes:
        stage.scene.node(name)
        stage.scene.agent_says(name, fresh(drifted=False))
    # The condition of each Node and the owner of each status, and then there is nothing to do.
    await eventually(lambda: writes(stage.samples("replica-1")) >= 2 * len(nodes))
    assert all(stage.scene.condition(name) for name in nodes)
    sent = writes(stage.samples("replica-1"))
    os.kill(first.pid, signal.SIGSTOP)
    await eventually(lambda: stage.leader() == "replica-2")
    os.kill(second.pid, signal.SIGSTOP)
    for name in nodes:
        stage.scene.agent_says(name, fresh(drifted=True))
        stage.scene.failing_pod(f"pod-{name}", name)
    before = stage.versions()

    def woken() -> bool:
        """Tell whether replica-1 has taken in what happened; its successor's Lease goes on."""
        spec = {"holderIdentity": "replica-2", "renewTime": rfc3339_micro(datetime.now(UTC))}
        meta = {"name": "gpucdi-operator", "namespace": NAMESPACE}
        stage.real.put("leases", {"metadata": meta, "spec": spec})
        seen = [
            value
            for name, labels, value in stage.samples("replica-1")
            if name == "gpucdi_nodes" and labels == {"state": "Drifted"}
        ]
        return seen == [len(nodes)] and stage.logged("replica-1", "no longer leading")

    os.kill(first.pid, signal.SIGCONT)
    await eventually(woken)
    assert stage.versions() == before
    assert writes(stage.samples("replica-1")) == sent
    # It was all there to be written.
    os.kill(second.pid, signal.SIGCONT)

    def marked() -> bool:
        return all((stage.scene.condition(name) or {})["status"] == "True" for name in nodes)

    await eventually(marked)
    await eventually(lambda: len(stage.scene.events(EXPLAINED)) == len(nodes))
