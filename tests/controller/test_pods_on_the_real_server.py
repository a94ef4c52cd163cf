"""What the operator does for Pods, on a real API server and with the rights that are shipped.

The same deeds are tested one by one on the fake; here nothing of ours answers the operator. A storm
of Events is in ``test_storm_real``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.controller.conftest import Eventually, Grant, Run
from tests.controller.readings import reads_of_pods
from tests.controller.scene import KIND, MESSAGE, UUID, Scene, fresh, node_status
from tests.fakeapi.controlplane import ControlPlane

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]
WITHIN_S = 60.0
HOUR_S = 3600.0
EXPLAINED, RESTORED, RESTARTED = "CdiDeviceUnresolvable", "CdiDeviceRestored", "CdiPodRestarted"
CLAIM_FAILS = (
    "Failed to prepare dynamic resources: prepare dynamic resources: NodePrepareResources failed for "
    'ResourceClaim gpu: failed to write CDI spec "k8s.gpu.nvidia.com-claim_7.yaml": failed to create '
    "Spec file: open /var/run/cdi/spec.1.tmp: read-only file system"
)
RESTARTS_QUICKLY = {"restart_settle_s": 0.0, "restart_later_s": 0.3, "right_asked_again_s": 0.3}


@pytest.fixture
def budget(apiserver: ControlPlane) -> Iterator[Grant]:
    """Return what lifts the disruption budget that protects the Pods of app=trainer."""
    name = ("pdb", "trainer", "--namespace=default")
    apiserver.kubectl("create", *name, "--selector=app=trainer", "--min-available=1")

    def lift() -> None:
        apiserver.kubectl("delete", *name, "--ignore-not-found")

    yield lift
    lift()


def node(stage: Scene, *, drifted: bool = True) -> None:
    stage.node("r1")
    stage.agent_says("r1", fresh(drifted=drifted))


def count(stage: Scene, reason: str) -> int:
    """Return how often something was told: an Event counts as one, a series as its count."""
    return sum((event.get("series") or {}).get("count", 1) for event in stage.events(reason))


def going(stage: Scene) -> set[str]:
    pods = stage.api.all("pods")
    return {pod["metadata"]["name"] for pod in pods if "deletionTimestamp" in pod["metadata"]}


# What kubelet says ------------------------------------------------------------------------------


async def test_a_failure_that_kubelet_has_folded_into_similar_ones_is_explained(
    stage: Scene, run: Run, eventually: Eventually
) -> None:
    node(stage)
    async with run(pod_resync_s=HOUR_S):
        pod = stage.pending_pod("folded", "r1", reason="ContainerCreating")
        text = (
            "(combined from similar events): Failed to create pod sandbox: rpc error: code = "
            'Unknown desc = failed to start sandbox "f00": failed to create containerd task: '
            "failed to create shim task: OCI runtime create failed: could not apply required "
            "modification to OCI specification: error modifying OCI spec: failed to inject CDI "
            f"devices: unresolvable CDI devices {KIND}={UUID}"
        )
        stage.warn(pod, text, "FailedCreatePodSandBox")
        await eventually(lambda: stage.events(EXPLAINED), WITHIN_S)
    (event,) = stage.events(EXPLAINED)
    assert event["message"].startswith("[OnlyAllDevice]")


async def test_a_claim_that_cannot_be_prepared_is_explained(
    stage: Scene, run: Run, eventually: Eventually
) -> None:
    node(stage, drifted=False)
    async with run(pod_resync_s=HOUR_S):
        pod = stage.pending_pod("claims", "r1", reason="ContainerCreating")
        stage.warn(pod, CLAIM_FAILS, "FailedPrepareDynamicResources")
        await eventually(lambda: stage.events(EXPLAINED), WITHIN_S)
    assert "/var/run/cdi" in stage.events(EXPLAINED)[0]["message"]


async def test_a_container_that_the_engine_itself_cannot_create_is_explained(
    stage: Scene, run: Run, eventually: Eventually
) -> None:
    node(stage)
    async with run(pod_resync_s=HOUR_S):
        text = (
            "failed to create containerd container: CDI device injection failed: "
            f"unresolvable CDI devices {KIND}={UUID}"
        )
        pod = stage.pending_pod("native", "r1", reason="CreateContainerError", message=text)
        stage.warn(pod, f"Error: {text}")
        await eventually(lambda: stage.events(EXPLAINED), WITHIN_S)
    (event,) = stage.events(EXPLAINED)
    assert event["message"].startswith("[OnlyAllDevice]")


async def test_a_pod_whose_events_were_missed_is_found_on_its_drifted_node(
    stage: Scene, run: Run, eventually: Eventually
) -> None:
    node(stage)
    stage.failing_pod("silent", "r1", event=False)
    async with run(pod_resync_s=0.5):
        await eventually(lambda: stage.events(EXPLAINED), WITHIN_S)
    assert stage.events(EXPLAINED)[0]["involvedObject"]["name"] == "silent"


# What the operator says and asks ----------------------------------------------------------------


async def test_the_event_is_short_and_the_agent_is_asked_for_the_names(
    stage: Scene, run: Run, eventually: Eventually
) -> None:
    node(stage)
    pod = stage.failing_pod("gpu-pod", "r1")
    async with run():
        await eventually(lambda: stage.spec("r1").get("requests"), WITHIN_S)
        await eventually(lambda: stage.events(EXPLAINED), WITHIN_S)
    assert stage.spec("r1")["requests"] == [{"kind": KIND, "names": [UUID]}]
    (event,) = stage.events(EXPLAINED)
    assert event["involvedObject"]["uid"] == pod["metadata"]["uid"]
    assert event["reportingComponent"] == "gpucdi.io/operator"
    assert len(event["message"].encode()) <= 1024


async def test_a_pod_that_runs_and_fails_again_is_told_in_a_series(
    stage: Scene, run: Run, eventually: Eventually
) -> None:
    node(stage)
    async with run(event_again_s=0.0, pod_resync_s=0.5):
        pod = stage.failing_pod("gpu-pod", "r1")
        await eventually(lambda: count(stage, EXPLAINED) == 1, WITHIN_S)
        stage.pod_runs("gpu-pod")
        await eventually(lambda: count(stage, RESTORED) == 1, WITHIN_S)
        known = stage.api.find("pods", "gpu-pod", "default") or {}
        stage.warn(stage.api.put("pods", {**known, "status": pod["status"]}), MESSAGE)
        await eventually(lambda: count(stage, EXPLAINED) == 2, WITHIN_S)
        stage.pod_runs("gpu-pod")
        await eventually(lambda: count(stage, RESTORED) == 2, WITHIN_S)
    assert len(stage.events_of_ours()) == 2


async def test_a_pod_is_read_once_in_its_interval_however_many_events_come(
    stage: Scene, run: Run, eventually: Eventually
) -> None:
    # No list of the node's Pods answers for it: the node has not drifted.
    node(stage, drifted=False)
    async with run(pod_get_s=HOUR_S, pod_resync_s=HOUR_S) as operator:
        pod = stage.pending_pod("claims", "r1", reason="ContainerCreating")
        for _ in range(100):
            stage.warn(pod, CLAIM_FAILS, "FailedPrepareDynamicResources")
        seen = operator.metrics.events_seen.labels("true")
        await eventually(lambda: seen._value.get() >= 100, WITHIN_S)
        await eventually(lambda: stage.events(EXPLAINED), WITHIN_S)
        assert reads_of_pods(operator) == 1
    assert count(stage, EXPLAINED) == 1


async def test_pods_that_fail_and_go_leave_nothing_behind(
    stage: Scene, run: Run, eventually: Eventually
) -> None:
    node(stage)
    names = [f"gpu-pod-{number}" for number in range(20)]
    async with run(pod_resync_s=0.5) as operator:
        for name in names:
            stage.failing_pod(name, "r1")
        await eventually(lambda: operator.pods.failing == len(names), WITHIN_S)
        for name in names:
            stage.api.remove("pods", name, "default")
        await eventually(lambda: not operator.pods.tracks and not operator.pods.on_node, WITHIN_S)
        assert not operator.pods.aliases
        assert operator.pods.texts.kept_bytes == 0


async def test_running_pods_that_would_not_start_again_are_counted(
    stage: Scene, run: Run, eventually: Eventually
) -> None:
    node(stage)
    for name in ("runs", "fails"):
        stage.failing_pod(name, "r1", event=False)
    stage.pod_runs("runs")

    def at_risk() -> object:
        return (stage.api.find("gpucdistatuses", "r1") or {})["status"].get("podsAtRisk")

    async with run(pod_resync_s=0.5):
        await eventually(lambda: at_risk() == 1, WITHIN_S)
        stage.agent_says("r1", node_status(drifted=False))
        await eventually(lambda: at_risk() is None, WITHIN_S)


# Pods that wait for a new start -----------------------------------------------------------------


async def test_a_waiting_pod_is_evicted_when_the_right_is_granted_and_its_budget_allows_it(
    stage: Scene, run: Run, optional_rights: Grant, budget: Grant, eventually: Eventually
) -> None:
    def allowed() -> str:
        status = (stage.api.find("gpucdipolicies", "p") or {}).get("status", {})
        told: list[dict[str, Any]] = status.get("conditions", [])
        return "".join(item["reason"] for item in told if item["type"] == "PodRestartsAllowed")

    node(stage)
    chosen = {"namespaces": ["default"], "perMinute": 100, "afterSeconds": 0}
    stage.policy("p", restartWaitingPods=chosen)
    waits = stage.failing_pod("waits", "r1", owner="ReplicaSet", labels={"app": "trainer"})
    stage.failing_pod("bare", "r1")
    async with run(**RESTARTS_QUICKLY) as operator:
        await eventually(lambda: len(stage.events(EXPLAINED)) == 2, WITHIN_S)
        stage.agent_says("r1", fresh(drifted=False))
        await eventually(lambda: allowed() == "RightMissing", WITHIN_S)
        optional_rights()
        # What was refused is tried again after a minute, or when something new is heard of it.
        refused = operator.metrics.restarts_refused.labels("DisruptionBudget")

        def refused_when_heard_of() -> bool:
            stage.warn(waits, MESSAGE)
            return bool(refused._value.get() >= 1)

        await eventually(refused_when_heard_of, WITHIN_S)
        assert going(stage) == set()
        assert stage.events(RESTARTED) == []
        budget()
        await eventually(lambda: stage.events(RESTARTED), WITHIN_S)
    assert going(stage) == {"waits"}
    (event,) = stage.events(RESTARTED)
    assert event["involvedObject"]["name"] == "waits"
    assert "ReplicaSet trainer makes it anew" in event["message"]
