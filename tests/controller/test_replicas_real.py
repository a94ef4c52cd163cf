"""Two operator processes on a real API server: one is paused, the other killed, nothing is told twice."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.controller.accounts import NAMESPACE, kubeconfig
from tests.controller.conftest import Eventually
from tests.controller.replicas import Spawn, replicas
from tests.controller.scene import Scene, node_status
from tests.fakeapi.controlplane import ControlPlane
from tests.fakeapi.realapi import RealApi

PODS = 50


@pytest.fixture
async def spawn(apiserver: ControlPlane, real: RealApi, tmp_path: Path) -> AsyncIterator[Spawn]:
    """Start replicas with the shipped rights, and end them."""
    async with replicas(tmp_path, lambda _: kubeconfig(apiserver)) as started:
        yield started
    real.remove("leases", "gpucdi-operator", NAMESPACE)


@pytest.mark.lab
async def test_a_paused_and_a_killed_leader_leave_each_pod_told_once_on_a_real_server(
    real: RealApi, spawn: Spawn, eventually: Eventually, tmp_path: Path
) -> None:
    def leader() -> str:
        lease = real.find("leases", "gpucdi-operator", NAMESPACE) or {"spec": {}}
        return str(lease["spec"].get("holderIdentity", ""))

    def logged(identity: str, message: str) -> bool:
        return f'"{message}"' in (tmp_path / f"{identity}.log").read_text()

    pods: set[str] = set()

    def told(reason: str) -> list[str]:
        """Return the uids of this test's Pods, once for each Event; the server is everybody's."""
        about = (event["involvedObject"]["uid"] for event in scene.events(reason))
        return [uid for uid in about if uid in pods]

    scene = Scene(real)
    scene.runtime_class()
    scene.node("gpu-17")
    scene.agent_says("gpu-17", node_status(drifted=True))
    first = await spawn("replica-1")
    await eventually(lambda: leader() == "replica-1" and logged("replica-1", "ready"))
    second = await spawn("replica-2")
    await eventually(lambda: logged("replica-2", "ready"))

    for number in range(PODS):
        pod = scene.failing_pod(f"pod-{number}", "gpu-17")
        pods.add(pod["metadata"]["uid"])
        if number == PODS // 2:
            await eventually(lambda: told("CdiDeviceUnresolvable"))
            os.kill(first.pid, signal.SIGSTOP)
    await eventually(lambda: leader() == "replica-2")
    await eventually(lambda: set(told("CdiDeviceUnresolvable")) == pods)
    os.kill(first.pid, signal.SIGCONT)
    await eventually(lambda: logged("replica-1", "no longer leading"))

    scene.agent_says("gpu-17", node_status(drifted=False))
    for number in range(PODS):
        scene.pod_runs(f"pod-{number}")
    await eventually(lambda: told("CdiDeviceRestored"))
    second.kill()
    await eventually(lambda: leader() == "replica-1")
    await eventually(lambda: set(told("CdiDeviceRestored")) == pods)
    first.terminate()
    assert await asyncio.wait_for(first.wait(), 120) == 0
    for reason in ("CdiDeviceUnresolvable", "CdiDeviceRestored"):
        assert Counter(told(reason)) == Counter(pods)
    ours = [event for event in scene.events_of_ours() if event["involvedObject"]["uid"] in pods]
    assert all("series" not in event for event in ours)
