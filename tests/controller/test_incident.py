"""The first incident as the cluster sees it: the real operator and kopf over real HTTP."""

from __future__ import annotations

import asyncio

from tests.controller.conftest import Eventually, Start
from tests.controller.scene import KIND, MESSAGE, UUID, Scene, node_status
from tests.fakeapi.server import FakeApi


async def test_a_failing_pod_is_explained_asked_for_and_told_when_it_runs_again(
    scene: Scene, start: Start, eventually: Eventually
) -> None:
    scene.node("gpu-17")
    scene.agent_says("gpu-17", node_status(drifted=True))
    async with start():
        scene.failing_pod("gpu-pod", "gpu-17")
        await eventually(lambda: scene.events("CdiDeviceUnresolvable"))
        event = scene.events("CdiDeviceUnresolvable")[0]
        for told in ("OnlyAllDevice", KIND, UUID, "gpu-17", "/var/run/cdi/management"):
            assert told in event["message"]
        assert len(event["message"].encode()) <= 1024
        assert event["involvedObject"]["name"] == "gpu-pod"
        assert event["involvedObject"]["fieldPath"] == "spec.containers{ubuntu-container}"
        assert event["related"]["name"] == "gpu-17"
        await eventually(lambda: scene.spec("gpu-17").get("requests"))
        assert scene.spec("gpu-17")["requests"] == [{"kind": KIND, "names": [UUID]}]
        assert scene.spec("gpu-17")["repair"] == {"mode": "Observe"}
        await eventually(lambda: scene.condition("gpu-17"))
        assert (scene.condition("gpu-17") or {})["status"] == "True"

        scene.agent_says("gpu-17", node_status(drifted=False))
        await eventually(lambda: (scene.condition("gpu-17") or {})["status"] == "False")
        await asyncio.sleep(1)
        assert scene.events("CdiDeviceRestored") == []
        scene.pod_runs("gpu-pod")
        await eventually(lambda: scene.events("CdiDeviceRestored"))
    assert len(scene.events("CdiDeviceUnresolvable")) == 1
    assert len(scene.events("CdiDeviceRestored")) == 1


async def test_a_pod_waits_for_its_nodes_first_status_so_that_the_note_can_name_the_file(
    scene: Scene, start: Start, eventually: Eventually
) -> None:
    scene.node("gpu-17")
    async with start():
        scene.failing_pod("gpu-pod", "gpu-17")
        await asyncio.sleep(0.5)
        assert scene.events("CdiDeviceUnresolvable") == []
        scene.agent_says("gpu-17", node_status(drifted=True))
        await eventually(lambda: scene.events("CdiDeviceUnresolvable"))
    assert "/var/run/cdi/management" in scene.events("CdiDeviceUnresolvable")[0]["message"]


async def test_the_condition_leaves_the_conditions_of_others_alone(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("gpu-17")
    scene.agent_says("gpu-17", node_status(drifted=True))
    async with start():
        await eventually(lambda: scene.condition("gpu-17"))
    node = api.find("nodes", "gpu-17")
    assert node is not None
    assert [item["type"] for item in node["status"]["conditions"]] == [
        "Ready",
        "GpuCdiUnresolvable",
    ]
    assert "annotations" not in node["metadata"]
    assert "finalizers" not in node["metadata"]


async def test_nothing_is_written_while_nothing_changes(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("gpu-17")
    scene.agent_says("gpu-17", node_status(drifted=True))
    async with start() as operator:
        await eventually(lambda: scene.condition("gpu-17"))
        await eventually(lambda: operator.node_queue.is_idle)
        await asyncio.sleep(0.5)
        api.log.clear()
        for _ in range(3):
            scene.lease("gpu-17")
            await asyncio.sleep(0.4)
        writes = [entry.title for entry in api.requests("create", "update", "patch", "apply")]
    assert set(writes) == {"update leases"}


async def test_a_restarted_operator_writes_nothing_anew(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("gpu-17")
    scene.agent_says("gpu-17", node_status(drifted=True))
    scene.failing_pod("gpu-pod", "gpu-17")
    async with start():
        await eventually(lambda: scene.events("CdiDeviceUnresolvable"))
        await eventually(lambda: scene.spec("gpu-17").get("requests"))
        await eventually(lambda: scene.condition("gpu-17"))
    api.log.clear()
    async with start("replica-2") as operator:
        await eventually(lambda: api.requests("get", plural="pods"))
        await eventually(lambda: operator.pod_queue.is_idle and operator.node_queue.is_idle)
        await asyncio.sleep(0.5)
    changed = [
        entry.title
        for entry in api.requests("create", "patch", "apply")
        if entry.code < 400 and entry.plural != "leases"
    ]
    assert changed == []
    assert len(scene.events("CdiDeviceUnresolvable")) == 1


async def test_a_pod_that_was_explained_by_an_earlier_operator_is_told_when_it_runs(
    scene: Scene, start: Start, eventually: Eventually
) -> None:
    scene.node("gpu-17")
    scene.agent_says("gpu-17", node_status(drifted=True))
    scene.failing_pod("gpu-pod", "gpu-17")
    async with start():
        await eventually(lambda: scene.events("CdiDeviceUnresolvable"))
    scene.agent_says("gpu-17", node_status(drifted=False))
    scene.pod_runs("gpu-pod")
    async with start("replica-2"):
        await eventually(lambda: scene.events("CdiDeviceRestored"))


async def test_a_wiped_condition_is_written_again(
    scene: Scene, start: Start, eventually: Eventually
) -> None:
    scene.node("gpu-17")
    scene.agent_says("gpu-17", node_status(drifted=True))
    async with start():
        await eventually(lambda: scene.condition("gpu-17"))
        scene.node("gpu-17")
        assert scene.condition("gpu-17") is None
        await eventually(lambda: scene.condition("gpu-17"))


async def test_a_silent_agent_makes_the_condition_unknown_and_a_renewal_ends_that(
    scene: Scene, start: Start, eventually: Eventually
) -> None:
    scene.node("gpu-17")
    scene.agent_says("gpu-17", node_status(drifted=False))
    scene.lease("gpu-17", duration_s=1)
    async with start():
        await eventually(lambda: (scene.condition("gpu-17") or {}).get("status") == "Unknown")
        assert (scene.condition("gpu-17") or {})["reason"] == "AgentSilent"
        scene.lease("gpu-17")
        await eventually(lambda: (scene.condition("gpu-17") or {}).get("status") == "False")


async def test_a_node_that_loses_its_status_object_loses_the_condition(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("gpu-17")
    scene.agent_says("gpu-17", node_status(drifted=True))
    async with start():
        await eventually(lambda: scene.condition("gpu-17"))
        api.remove("gpucdistatuses", "gpu-17")
        await eventually(lambda: scene.condition("gpu-17") is None)


async def test_events_that_do_not_tell_of_cdi_cost_no_request(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("gpu-17")
    async with start() as operator:
        pod = scene.failing_pod("gpu-pod", "gpu-17", event=False)
        for number in range(200):
            scene.warn(pod, f'Failed to pull image "registry/app:{number}": not found')
        seen = operator.metrics.events_seen.labels("false")
        await eventually(lambda: seen._value.get() == 200)
    assert api.requests("get", plural="pods") == []


async def test_an_event_that_only_tells_of_a_failed_sandbox_is_explained_too(
    scene: Scene, start: Start, eventually: Eventually
) -> None:
    scene.node("gpu-17")
    scene.agent_says("gpu-17", node_status(drifted=True))
    async with start():
        pod = scene.pending_pod("gpu-pod", "gpu-17", reason="ContainerCreating")
        text = (
            "(combined from similar events): Failed to create pod sandbox: "
            'rpc error: code = Unknown desc = failed to start sandbox "f00": failed to create '
            "containerd task: failed to create shim task: OCI runtime create failed: could not "
            "apply required modification to OCI specification: error modifying OCI spec: failed "
            f"to inject CDI devices: unresolvable CDI devices {KIND}={UUID}"
        )
        scene.warn(pod, text, "FailedCreatePodSandBox")
        await eventually(lambda: scene.events("CdiDeviceUnresolvable"))
    assert "fieldPath" not in scene.events("CdiDeviceUnresolvable")[0]["involvedObject"]


async def test_a_claim_that_cannot_be_prepared_is_explained(
    scene: Scene, start: Start, eventually: Eventually
) -> None:
    scene.node("gpu-17")
    scene.agent_says("gpu-17", node_status(drifted=False))
    async with start():
        pod = scene.pending_pod("gpu-pod", "gpu-17", reason="ContainerCreating")
        text = (
            "Failed to prepare dynamic resources: prepare dynamic resources: NodePrepareResources "
            "failed for ResourceClaim gpu: failed to write CDI spec "
            '"k8s.gpu.nvidia.com-claim_7.yaml": failed to create Spec file: open '
            "/var/run/cdi/spec.1.tmp: read-only file system"
        )
        scene.warn(pod, text, "FailedPrepareDynamicResources")
        await eventually(lambda: scene.events("CdiDeviceUnresolvable"))
    assert "/var/run/cdi" in scene.events("CdiDeviceUnresolvable")[0]["message"]


async def test_a_container_that_the_engine_itself_cannot_create_is_explained(
    scene: Scene, start: Start, eventually: Eventually
) -> None:
    scene.node("gpu-17")
    scene.agent_says("gpu-17", node_status(drifted=True))
    async with start():
        text = (
            "failed to create containerd container: CDI device injection failed: "
            f"unresolvable CDI devices {KIND}={UUID}"
        )
        pod = scene.pending_pod("gpu-pod", "gpu-17", reason="CreateContainerError", message=text)
        scene.warn(pod, f"Error: {text}")
        await eventually(lambda: scene.events("CdiDeviceUnresolvable"))
    (event,) = scene.events("CdiDeviceUnresolvable")
    assert event["message"].startswith("[OnlyAllDevice]")


async def test_a_pod_whose_events_were_missed_is_found_on_its_drifted_node(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    for name in ("gpu-17", "gpu-18"):
        scene.node(name)
    scene.agent_says("gpu-17", node_status(drifted=True))
    scene.agent_says("gpu-18", node_status(drifted=False))
    scene.failing_pod("gpu-pod", "gpu-17", event=False)
    async with start():
        await eventually(lambda: scene.events("CdiDeviceUnresolvable"))
    assert len(api.requests("list", plural="pods")) == 1


async def test_running_pods_that_would_not_start_again_are_counted_on_their_node(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("gpu-17")
    scene.agent_says("gpu-17", node_status(drifted=True))
    for name in ("runs", "fails"):
        scene.failing_pod(name, "gpu-17", event=False)
    scene.pod_runs("runs")

    def at_risk() -> object:
        return (api.find("gpucdistatuses", "gpu-17") or {})["status"].get("podsAtRisk")

    async with start(pod_resync_s=0.5):
        await eventually(lambda: at_risk() == 1)
        state = (api.find("gpucdistatuses", "gpu-17") or {})["status"]["state"]
        assert state == "Drifted"
        scene.agent_says("gpu-17", node_status(drifted=False))
        await eventually(lambda: at_risk() is None)


async def test_a_pod_is_read_once_in_its_interval_however_many_events_come(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("gpu-17")
    scene.agent_says("gpu-17", node_status(drifted=True))
    async with start(pod_get_s=5.0) as operator:
        pod = scene.failing_pod("gpu-pod", "gpu-17")
        for _ in range(100):
            scene.warn(pod, MESSAGE)
        seen = operator.metrics.events_seen.labels("true")
        await eventually(lambda: seen._value.get() == 101)
        await asyncio.sleep(1)
    assert len(api.requests("get", plural="pods")) == 1
    assert len(scene.events("CdiDeviceUnresolvable")) == 1
