"""The text of the first incident, as kubelet, an Event and a Pod show it."""

from __future__ import annotations

from gpucdi.failures import (
    EngineFamily,
    RequesterName,
    Resolver,
    Stage,
    Symptom,
    extract,
    pod_failures,
    pod_view,
)

UUID = "GPU-4044aeb5-b7e4-8cb0-69a8-40490ce01a2f"
NAME = f"management.nvidia.com/gpu={UUID}"
MESSAGE = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
    "could not apply required modification to OCI specification: error modifying OCI spec: "
    f"failed to inject CDI devices: unresolvable CDI devices {NAME}"
)


def a_pod(**status: object) -> dict[str, object]:
    return {
        "metadata": {
            "namespace": "team",
            "name": "gpu-pod",
            "uid": "1",
            "annotations": {"hami.io/vgpu-devices-allocated": f"{UUID},NVIDIA,24576,100:;"},
        },
        "spec": {
            "nodeName": "gpu-17",
            "runtimeClassName": "nvidia",
            "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
        },
        "status": status,
    }


def test_the_events_text_names_stage_engine_kind_and_device() -> None:
    (failure,) = extract(f"Error: {MESSAGE}")
    assert failure.is_cdi
    assert failure.symptom is Symptom.UNRESOLVABLE
    assert failure.stage is Stage.START
    assert failure.engine is EngineFamily.CONTAINERD
    assert failure.resolver is Resolver.NVIDIA_RUNTIME
    assert failure.names == (NAME,)
    assert failure.kinds == ("management.nvidia.com/gpu",)
    assert failure.text == MESSAGE


def test_a_pod_that_backs_off_still_fails_although_only_its_last_state_has_the_text() -> None:
    pod = a_pod(
        phase="Running",
        containerStatuses=[
            {
                "name": "main",
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}},
                "lastState": {
                    "terminated": {
                        "reason": "StartError",
                        "exitCode": 128,
                        "startedAt": "1970-01-01T00:00:00Z",
                        "message": MESSAGE,
                    }
                },
            }
        ],
    )
    (found,) = pod_failures(pod)
    assert (found.container, found.container_list) == ("main", "containerStatuses")
    assert found.reason == "StartError"
    assert found.still_failing
    assert found.failure.names == (NAME,)


def test_a_container_that_runs_again_fails_no_longer() -> None:
    pod = a_pod(
        phase="Running",
        containerStatuses=[
            {
                "name": "main",
                "state": {"running": {}},
                "lastState": {"terminated": {"reason": "StartError", "message": MESSAGE}},
            }
        ],
    )
    (found,) = pod_failures(pod)
    assert not found.still_failing


def test_the_view_of_the_pod_tells_node_class_and_who_asked() -> None:
    view = pod_view(a_pod())
    assert (view.namespace, view.name, view.node) == ("team", "gpu-pod", "gpu-17")
    assert view.runtime_class == "nvidia"
    hami = view.asked_by(RequesterName.HAMI)
    assert hami is not None
    assert hami.key == "metadata.annotations[hami.io/vgpu-devices-allocated]"
