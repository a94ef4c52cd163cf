"""The first incident joined with its node: cause, near miss, evidence, advice, texts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpucdi.api import (
    FileStatus,
    GpuDevice,
    GpuStatus,
    HandlerStatus,
    KindStatus,
    MissingNames,
    NearMiss,
    NodeState,
    NodeStatus,
)
from gpucdi.diagnosis import Confidence, condition_message, diagnose, event_note
from gpucdi.failures import Failure, extract, pod_view
from gpucdi.findings import Cause, Who

KIND = "management.nvidia.com/gpu"
UUID = "GPU-4044aeb5-b7e4-8cb0-69a8-40490ce01a2f"
CONFIG = "/usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml"
SPEC = "/var/run/cdi/management.nvidia.com-gpu.yaml"
CHAIN = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
    "could not apply required modification to OCI specification: error modifying OCI spec: "
    "failed to inject CDI devices: unresolvable CDI devices "
)
POD = pod_view(
    {
        "metadata": {
            "name": "gpu-pod",
            "annotations": {"hami.io/vgpu-devices-allocated": f"{UUID},NVIDIA,1024,0:;"},
        },
        "spec": {"nodeName": "gpu-17", "runtimeClassName": "nvidia"},
    }
)
NODE = NodeStatus(
    state=NodeState.DRIFTED,
    cause=Cause.ONLY_ALL_DEVICE,
    gpus=GpuStatus("nvml", "570.86.15", devices=(GpuDevice(UUID, 0, 0),)),
    handlers=(
        HandlerStatus(
            name="nvidia",
            engine="containerd 2.2.7",
            binary="/usr/local/nvidia/toolkit/nvidia-container-runtime",
            config=CONFIG,
            toolkit="1.18.0",
            mode="cdi",
            default_kind=KIND,
            spec_dirs=("/etc/cdi", "/var/run/cdi"),
            is_nvidia=True,
        ),
        HandlerStatus(name="nvidia-legacy", is_nvidia=True, mode="legacy"),
    ),
    kinds=(
        KindStatus(
            kind=KIND,
            referenced_by=("nvidia",),
            managed=True,
            expected=3,
            resolvable=1,
            missing=MissingNames(2, (UUID, "0")),
            cause=Cause.ONLY_ALL_DEVICE,
            near_miss=NearMiss("nvidia.com/gpu", 2),
            files=(FileStatus(SPEC, "toolkit", 1),),
        ),
    ),
)


def the_failure(*devices: str) -> Failure:
    (failure,) = extract(CHAIN + ", ".join(f"{KIND}={device}" for device in devices or (UUID,)))
    return failure


def test_the_nodes_verdict_on_the_kind_is_the_cause() -> None:
    found = diagnose(the_failure(), pod=POD, node=NODE, handler="nvidia")
    assert found.cause is Cause.ONLY_ALL_DEVICE
    assert found.confidence is Confidence.HIGH
    assert found.repairable
    assert found.near_miss == NearMiss("nvidia.com/gpu", 2)
    assert found.not_seen == ()
    places = {(item.file, item.key) for item in found.evidence}
    assert (SPEC, None) in places
    assert (CONFIG, "nvidia-container-runtime.mode") in places
    assert (CONFIG, "nvidia-container-runtime.modes.cdi.default-kind") in places


def test_without_a_node_the_design_of_the_management_kind_still_tells() -> None:
    found = diagnose(the_failure())
    assert found.cause is Cause.ONLY_ALL_DEVICE
    assert found.confidence is Confidence.MEDIUM
    assert any("node" in item for item in found.not_seen)


def test_a_uuid_that_the_node_does_not_have_is_stale_and_no_file_would_help() -> None:
    gone = "GPU-aaaaaaaa-b7e4-8cb0-69a8-40490ce01a2f"
    found = diagnose(the_failure(gone), pod=POD, node=NODE, handler="nvidia")
    assert found.cause is Cause.STALE_UUID
    assert found.contributing == (Cause.ONLY_ALL_DEVICE,)
    assert not found.repairable


def test_a_kind_that_resolves_by_now_is_not_blamed() -> None:
    healed = replace(NODE.kinds[0], resolvable=3, missing=MissingNames(), cause=None)
    node = replace(NODE, state=NodeState.RESOLVED, cause=None, kinds=(healed,))
    found = diagnose(the_failure(), pod=POD, node=node, handler="nvidia")
    assert found.resolved_now
    assert found.cause is Cause.UNDETERMINED
    assert not found.repairable


def test_gpucdis_own_repair_ranks_first_and_the_fleet_wide_change_behind_the_pods_own() -> None:
    advice = diagnose(the_failure(), pod=POD, node=NODE, handler="nvidia").advice
    assert advice[0].who is Who.GPUCDI
    assert advice[0].command == "kubectl label node gpu-17 gpucdi.io/repair=auto --overwrite"
    texts = [item.text for item in advice]
    legacy = next(i for i, text in enumerate(texts) if "nvidia-legacy" in text)
    fleet = next(i for i, text in enumerate(texts) if "mode auto" in text)
    assert legacy < fleet
    assert any(text.startswith("HAMi: ") for text in texts)


def test_the_way_by_hand_stays_out_of_the_management_files_directory() -> None:
    advice = diagnose(the_failure(), pod=POD, node=NODE, handler="nvidia").advice
    commands = [item.command or "" for item in advice]
    (by_hand,) = (item for item in commands if "cdi generate" in item)
    assert by_hand.startswith("/usr/local/nvidia/toolkit/nvidia-ctk cdi generate --mode nvml ")
    assert " --output /etc/cdi/" in by_hand
    assert "--no-all-device" not in by_hand


@pytest.mark.parametrize("count", [1, 8, 16])
@pytest.mark.parametrize("node_name", ["gpu-17", "ノード" * 80])
def test_the_event_note_names_everything_in_1024_bytes(count: int, node_name: str) -> None:
    uuids = [f"GPU-4044aeb5-b7e4-8cb0-69a8-40490ce01a{number:02x}" for number in range(count)]
    gpus = tuple(GpuDevice(uuid, number) for number, uuid in enumerate(uuids))
    drifted = replace(NODE.kinds[0], missing=MissingNames(count, tuple(uuids)))
    node = replace(NODE, gpus=GpuStatus("nvml", devices=gpus), kinds=(drifted,))
    found = diagnose(the_failure(*uuids), pod=POD, node=node, handler="nvidia")
    note = event_note(found, node=node_name, resource=node_name)
    assert len(note.encode()) <= 1024
    for wanted in (KIND, uuids[0], node_name[:4], SPEC, "Fix: let gpucdi add"):
        assert wanted in note
    assert len(condition_message(found).encode()) <= 512
