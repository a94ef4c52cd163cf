"""Two operator processes on one API server: who writes, and what a hand-over costs."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.controller.conftest import Eventually
from tests.controller.replicas import Replica, Spawn, replicas
from tests.controller.scene import Scene, node_status
from tests.fakeapi.server import FakeApi, kubeconfig

PODS = 50


@pytest.fixture
async def spawn(api: FakeApi, tmp_path: Path) -> AsyncIterator[Spawn]:
    """Start replicas that speak with a token of their own, and end them."""
    api.tokens = {}

    def config_of(identity: str) -> str:
        api.tokens[identity] = identity
        return kubeconfig(api.url, identity)

    async with replicas(tmp_path, config_of) as started:
        yield started


def leader(api: FakeApi) -> str:
    lease = api.find("leases", "gpucdi-operator", "gpucdi-system")
    return str(lease["spec"]["holderIdentity"]) if lease else ""


def writes(api: FakeApi, user: str) -> list[str]:
    return [
        entry.title
        for entry in api.requests("create", "apply", "patch", "update")
        if entry.user == user and entry.plural != "leases" and entry.code < 400
    ]


async def both_ready(api: FakeApi, spawn: Spawn, eventually: Eventually) -> tuple[Replica, Replica]:
    first = await spawn("replica-1")

    def leads() -> bool:
        assert first.returncode is None, "replica-1 has ended; its log is in the test's folder"
        return leader(api) == "replica-1"

    await eventually(leads)
    second = await spawn("replica-2")

    def standby_watches() -> bool:
        return any(
            entry.user == "replica-2" and entry.plural == "nodes" for entry in api.requests("list")
        )

    await eventually(standby_watches)
    return first, second


async def test_a_killed_leader_is_replaced_once_its_lease_has_run_out(
    api: FakeApi, scene: Scene, spawn: Spawn, eventually: Eventually
) -> None:
    scene.node("gpu-17")
    first, _ = await both_ready(api, spawn, eventually)
    first.kill()
    killed = time.monotonic()
    scene.agent_says("gpu-17", node_status(drifted=True))
    await eventually(lambda: scene.condition("gpu-17"))
    print(f"hand-over after SIGKILL: {time.monotonic() - killed:.1f} s")
    assert leader(api) == "replica-2"


async def test_a_leader_that_is_told_to_stop_gives_its_lease_back(
    api: FakeApi, scene: Scene, spawn: Spawn, eventually: Eventually, tmp_path: Path
) -> None:
    scene.node("gpu-17")
    first, _ = await both_ready(api, spawn, eventually)
    first.terminate()
    told = time.monotonic()
    await eventually(lambda: leader(api) == "replica-2")
    taken = time.monotonic() - told
    print(f"hand-over after SIGTERM: {taken:.1f} s")
    assert await asyncio.wait_for(first.wait(), 120) == 0
    log = await asyncio.to_thread((tmp_path / "replica-1.log").read_text)
    assert "the Lease is given back" in log


async def test_the_standby_writes_nothing(
    api: FakeApi, scene: Scene, spawn: Spawn, eventually: Eventually
) -> None:
    scene.node("gpu-17")
    await both_ready(api, spawn, eventually)
    scene.agent_says("gpu-17", node_status(drifted=True))
    scene.failing_pod("gpu-pod", "gpu-17")
    await eventually(lambda: scene.events("CdiDeviceUnresolvable"))
    await eventually(lambda: scene.condition("gpu-17"))
    assert writes(api, "replica-2") == []


async def test_a_paused_leader_that_wakes_does_not_write_and_no_pod_is_told_twice(
    api: FakeApi, scene: Scene, spawn: Spawn, eventually: Eventually
) -> None:
    scene.node("gpu-17")
    scene.agent_says("gpu-17", node_status(drifted=True))
    first, second = await both_ready(api, spawn, eventually)
    await eventually(lambda: scene.condition("gpu-17"))
    for number in range(PODS):
        scene.failing_pod(f"pod-{number}", "gpu-17")
    await eventually(lambda: len(scene.events("CdiDeviceUnresolvable")) >= PODS // 4)
    os.kill(first.pid, signal.SIGSTOP)
    await eventually(lambda: leader(api) == "replica-2")
    await eventually(lambda: len(scene.events("CdiDeviceUnresolvable")) == PODS)
    before = len(writes(api, "replica-1"))
    os.kill(first.pid, signal.SIGCONT)
    scene.agent_says("gpu-17", node_status(drifted=False))
    for number in range(PODS):
        scene.pod_runs(f"pod-{number}")
    await eventually(lambda: len(scene.events("CdiDeviceRestored")) == PODS)
    second.kill()
    await eventually(lambda: leader(api) == "replica-1")
    await asyncio.sleep(3)
    told = Counter(
        (event["involvedObject"]["name"], event["reason"]) for event in scene.events_of_ours()
    )
    assert len(told) == 2 * PODS
    assert set(told.values()) == {1}
    assert all("series" not in event for event in scene.events_of_ours())
    late = [
        entry
        for entry in api.log
        if entry.user == "replica-1" and entry.plural == "events" and entry.verb == "create"
    ]
    assert len(writes(api, "replica-1")) - before <= 1, late
