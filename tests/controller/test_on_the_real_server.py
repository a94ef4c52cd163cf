"""What the operator does for a fleet, on a real API server and with the rights that are shipped.

The same deeds are tested one by one on the fake; here nothing of ours answers the operator.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from tests.controller.accounts import NAMESPACE, kubeconfig, operators
from tests.controller.conftest import QUICK, Eventually
from tests.controller.scene import MESSAGE, Scene, fresh, node_status
from tests.fakeapi.controlplane import ControlPlane
from tests.fakeapi.realapi import RealApi

from gpucdi.api.names import LABEL_REPAIR
from gpucdi_operator.app import Operator
from gpucdi_operator.options import Options
from gpucdi_operator.policies import UPGRADE_LABEL

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]
Run: TypeAlias = Callable[..., AbstractAsyncContextManager[Operator]]
WITHIN_S = 60.0


@pytest.fixture
def stage(real: RealApi) -> Scene:
    """Return a scene on the real server."""
    made = Scene(real)
    made.runtime_class()
    return made


@pytest.fixture
async def run(apiserver: ControlPlane, real: RealApi) -> AsyncIterator[Run]:
    """Start a replica with the token of the shipped service account."""

    @asynccontextmanager
    async def started(**timing: float) -> AsyncIterator[Operator]:
        options = Options(
            http="127.0.0.1:0",
            requests_per_second=500.0,
            burst=500.0,
            timing=replace(QUICK, **timing),
        )
        operator = Operator(options, operators(apiserver))
        task = asyncio.create_task(operator.run())
        watching = asyncio.create_task(operator.watching.wait())
        try:
            async with asyncio.timeout(WITHIN_S):
                await asyncio.wait({task, watching}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
            yield operator
        finally:
            watching.cancel()
            operator.stop()
            await asyncio.wait_for(task, WITHIN_S)

    yield started
    real.remove("leases", "gpucdi-operator", NAMESPACE)


def repair(stage: Scene, node: str) -> dict[str, Any]:
    found: dict[str, Any] = stage.spec(node).get("repair", {})
    return found


def held_by(stage: Scene, node: str) -> str:
    return str(repair(stage, node).get("hold", {}).get("reason", ""))


def policy_status(stage: Scene, name: str) -> dict[str, Any]:
    body = stage.api.find("gpucdipolicies", name) or {}
    found: dict[str, Any] = body.get("status") or {}
    return found


def marked(stage: Scene, node: str) -> str:
    return str((stage.condition(node) or {}).get("status", ""))


def fleet(stage: Scene, *names: str, drifted: bool = True, **meta: Any) -> None:
    for name in names:
        stage.node(name, **meta)
        stage.agent_says(name, fresh(drifted=drifted))


async def test_a_policy_becomes_the_spec_of_the_nodes_that_it_selects(
    stage: Scene, run: Run, eventually: Eventually
) -> None:
    fleet(stage, "r1", labels={"pool": "a"})
    fleet(stage, "r2", labels={"pool": "b"})
    stage.policy(
        "p-a",
        nodeSelector={"matchLabels": {"pool": "a"}},
        kinds={"extra": ["example.com/gpu"], "strategies": ["uuid"], "none": True},
    )
    async with run():
        await eventually(lambda: repair(stage, "r1").get("mode") == "Auto", WITHIN_S)
        await eventually(lambda: policy_status(stage, "p-a").get("nodes"), WITHIN_S)
    kinds = stage.spec("r1")["kinds"]
    assert kinds == {"extra": ["example.com/gpu"], "strategies": ["uuid"], "none": True}
    assert repair(stage, "r2") == {"mode": "Observe"}
    assert "kinds" not in stage.spec("r2")


async def test_the_policy_of_the_highest_priority_rules_and_the_losers_say_so(
    stage: Scene, run: Run, eventually: Eventually
) -> None:
    fleet(stage, "r1")
    stage.policy("p-high", priority=5, repair={"mode": "Off"})
    stage.policy("p-low", priority=1)

    def outvoted() -> object:
        told = policy_status(stage, "p-low").get("conditions", [])
        return [item for item in told if "p-high" in item["message"]]

    async with run():
        await eventually(lambda: repair(stage, "r1").get("mode") == "Off", WITHIN_S)
        await eventually(outvoted, WITHIN_S)
        # When the winner goes, the next one rules.
        stage.api.remove("gpucdipolicies", "p-high")
        await eventually(lambda: repair(stage, "r1").get("mode") == "Auto", WITHIN_S)
        await eventually(lambda: not outvoted(), WITHIN_S)


async def test_labels_of_a_node_hold_and_override_what_a_policy_says(
    stage: Scene, run: Run, eventually: Eventually
) -> None:
    fleet(stage, "r1", labels={UPGRADE_LABEL: "drain-required"})
    fleet(stage, "r2", labels={LABEL_REPAIR: "off"})
    fleet(stage, "r3", labels={LABEL_REPAIR: "nonsense"})
    stage.policy("p-all", repair={"maxConcurrent": 10})
    async with run():
        await eventually(lambda: held_by(stage, "r1") == "DriverUpgrade", WITHIN_S)
        await eventually(lambda: repair(stage, "r2").get("mode") == "Off", WITHIN_S)
        await eventually(lambda: held_by(stage, "r3"), WITHIN_S)
        stage.node("r1", labels={UPGRADE_LABEL: "upgrade-done"})
        await eventually(lambda: held_by(stage, "r1") == "", WITHIN_S)
    assert repair(stage, "r1") == {"mode": "Auto"}


async def test_no_more_nodes_repair_at_a_time_than_the_policy_lets(
    stage: Scene, run: Run, eventually: Eventually
) -> None:
    names = [f"r{number}" for number in range(4)]
    fleet(stage, *names)
    stage.policy(
        "p-all",
        repair={"maxConcurrent": 1, "breaker": {"percent": 100, "minNodes": 100}},
    )

    def may() -> list[str]:
        modes = {name: repair(stage, name) for name in names}
        return [n for n in names if modes[n].get("mode") == "Auto" and not held_by(stage, n)]

    async with run():
        await eventually(
            lambda: all(repair(stage, n).get("mode") == "Auto" for n in names), WITHIN_S
        )
        await eventually(lambda: len(may()) == 1, WITHIN_S)
        (first,) = may()
        others = [name for name in names if name != first]
        assert {held_by(stage, name) for name in others} == {"AwaitingTurn"}
        stage.agent_says(first, node_status(drifted=False))
        await eventually(lambda: any(name in may() for name in others), WITHIN_S)


async def test_many_nodes_that_drift_at_once_open_the_breaker_and_one_event_says_so(
    stage: Scene, run: Run, eventually: Eventually
) -> None:
    names = [f"r{number}" for number in range(6)]
    fleet(stage, *names, drifted=False)
    stage.policy("p-all", repair={"maxConcurrent": 10, "breaker": {"percent": 20, "minNodes": 2}})

    def state() -> str:
        return str(policy_status(stage, "p-all").get("breaker", {}).get("state", ""))

    async with run():
        await eventually(lambda: repair(stage, "r0").get("mode") == "Auto", WITHIN_S)
        for name in names:
            stage.agent_says(name, fresh(drifted=True))
        await eventually(lambda: state() == "Open", WITHIN_S)
        await eventually(
            lambda: {held_by(stage, name) for name in names} == {"BreakerOpen"}, WITHIN_S
        )
        await eventually(lambda: stage.api.all("events"), WITHIN_S)
    about = [
        event for event in stage.api.all("events") if event["involvedObject"]["name"] == "p-all"
    ]
    assert len(about) == 1
    assert "r" in about[0]["message"]


async def test_a_silent_agent_makes_the_condition_unknown_until_it_renews_its_lease(
    stage: Scene, run: Run, eventually: Eventually
) -> None:
    fleet(stage, "r1", drifted=False)
    stage.lease("r1", duration_s=1)
    async with run():
        await eventually(lambda: marked(stage, "r1") == "Unknown", WITHIN_S)
        assert (stage.condition("r1") or {})["reason"] == "AgentSilent"
        stage.lease("r1")
        await eventually(lambda: marked(stage, "r1") == "False", WITHIN_S)


async def test_a_condition_that_kubelet_wiped_is_written_again(
    stage: Scene, run: Run, eventually: Eventually
) -> None:
    fleet(stage, "r1")
    async with run():
        await eventually(lambda: marked(stage, "r1") == "True", WITHIN_S)
        body = stage.api.find("nodes", "r1") or {}
        others = [item for item in body["status"]["conditions"] if item["type"] == "Ready"]
        version = body["metadata"]["resourceVersion"]
        stage.api.put("nodes", {**body, "status": {**body["status"], "conditions": others}})

        def written_since() -> bool:
            now = stage.api.find("nodes", "r1") or {}
            return marked(stage, "r1") == "True" and now["metadata"]["resourceVersion"] != version

        await eventually(written_since, WITHIN_S)


async def test_a_node_that_is_made_anew_under_its_name_is_marked_and_owned_anew(
    stage: Scene, run: Run, eventually: Eventually
) -> None:
    def owners() -> list[str]:
        body = stage.api.find("gpucdistatuses", "r1") or {"metadata": {}}
        return [item["uid"] for item in body["metadata"].get("ownerReferences", [])]

    def uid() -> str:
        return str((stage.api.find("nodes", "r1") or {})["metadata"]["uid"])

    fleet(stage, "r1")
    async with run():
        await eventually(lambda: marked(stage, "r1") == "True", WITHIN_S)
        await eventually(lambda: owners() == [uid()], WITHIN_S)
        # No controller collects garbage here: the status goes as it would.
        stage.api.remove("nodes", "r1")
        stage.api.remove("gpucdistatuses", "r1")
        fleet(stage, "r1", drifted=False)
        await eventually(lambda: marked(stage, "r1") == "False", WITHIN_S)
        await eventually(lambda: owners() == [uid()], WITHIN_S)


async def test_running_pods_that_would_not_start_again_are_counted(
    stage: Scene, run: Run, eventually: Eventually
) -> None:
    fleet(stage, "r1")
    for name in ("runs", "fails"):
        stage.failing_pod(name, "r1", event=False)
    stage.pod_runs("runs")

    def at_risk() -> object:
        return (stage.api.find("gpucdistatuses", "r1") or {})["status"].get("podsAtRisk")

    async with run(pod_resync_s=0.5):
        await eventually(lambda: at_risk() == 1, WITHIN_S)
        stage.agent_says("r1", node_status(drifted=False))
        await eventually(lambda: at_risk() is None, WITHIN_S)


async def test_a_storm_of_events_that_do_not_tell_of_cdi_costs_no_read_of_a_pod(
    stage: Scene, run: Run, eventually: Eventually
) -> None:
    fleet(stage, "r1")
    async with run(pod_resync_s=6000.0) as operator:
        await eventually(lambda: marked(stage, "r1") == "True", WITHIN_S)
        stormy = stage.failing_pod("stormy", "r1", event=False)
        for number in range(100):
            stage.warn(stormy, f'Failed to pull image "registry/app:{number}": not found')
        told = stage.failing_pod("told", "r1", event=False)
        stage.warn(told, MESSAGE)
        await eventually(lambda: stage.events("CdiDeviceUnresolvable"), WITHIN_S)
        seen = operator.metrics.events_seen.labels("false")
        await eventually(lambda: seen._value.get() >= 100, WITHIN_S)
        await eventually(lambda: operator.pod_queue.is_idle, WITHIN_S)
    about = [event["involvedObject"]["name"] for event in stage.events("CdiDeviceUnresolvable")]
    assert about == ["told"]


async def test_uninstall_leaves_the_nodes_as_they_were_found(
    stage: Scene, run: Run, apiserver: ControlPlane, eventually: Eventually, tmp_path: Path
) -> None:
    fleet(stage, "r1", "r2")
    stage.node("r3")
    async with run():
        await eventually(lambda: marked(stage, "r1") and marked(stage, "r2"), WITHIN_S)
    config = tmp_path / "kubeconfig"
    await asyncio.to_thread(lambda: config.write_text(kubeconfig(apiserver)))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gpucdi_operator", "uninstall", "--kubeconfig", str(config)),
        stderr=asyncio.subprocess.PIPE,
    )
    _, told = await asyncio.wait_for(process.communicate(), WITHIN_S)
    assert process.returncode == 0, told.decode()
    assert '"nodes": 2' in told.decode()
    for name in ("r1", "r2", "r3"):
        body = stage.api.find("nodes", name) or {}
        assert [item["type"] for item in body["status"]["conditions"]] == ["Ready"]
        assert "finalizers" not in body["metadata"]
