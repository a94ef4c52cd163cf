"""The custom resource survives its JSON, and any JSON survives being read."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from gpucdi.api import (
    Condition,
    ConditionStatus,
    EngineStatus,
    GpuDevice,
    GpuStatus,
    HandlerStatus,
    Hold,
    Intent,
    KindStatus,
    MigDevice,
    MissingNames,
    NameRequest,
    NearMiss,
    NodeState,
    NodeStatus,
    RepairMode,
    read_status,
    write_status,
)
from gpucdi.api.conditions import stamp
from gpucdi.findings import Cause, Finding, Severity, Who

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
KEYS = ["state", "kinds", "gpus", "devices", "missing", "names", "repair", "mode", "hold"]


def full_status() -> NodeStatus:
    return NodeStatus(
        state=NodeState.DRIFTED,
        observed_generation=3,
        cause=Cause.ONLY_ALL_DEVICE,
        mode="Observe",
        hold=Hold("DriverUpgrade", "2026-07-29T01:02:03Z"),
        gpus=GpuStatus(
            "nvml", "570.86.15", "12.8", (GpuDevice("GPU-1", 0, 0, "p", "m", mig_enabled=False),)
        ),
        engines=(
            EngineStatus("containerd", "1.7.24", cdi_enabled=False, spec_dirs=("/etc/cdi",)),
            EngineStatus("docker", "", cdi_enabled=None, library="0.8.1"),
        ),
        handlers=(
            HandlerStatus(
                "nvidia",
                "containerd",
                driver_root="/run/nvidia/driver",
                annotation_prefixes=("cdi.k8s.io/",),
                pod_annotations=("cdi.k8s.io/*",),
                accept_env=False,
                accept_mounts=True,
            ),
            HandlerStatus("runc", "containerd", is_nvidia=False),
        ),
        kinds=(
            KindStatus(
                "management.nvidia.com/gpu",
                ("nvidia",),
                managed=True,
                expected=3,
                resolvable=1,
                missing=MissingNames(2, ("0", "GPU-1")),
                cause=Cause.ONLY_ALL_DEVICE,
                near_miss=NearMiss("nvidia.com/gpu", 2),
            ),
        ),
        findings=(
            Finding(Cause.SPEC_REJECTED, Severity.ERROR, "bad", "mend it", Who.ADMIN, "/f", "k"),
        ),
        conditions=(Condition("Resolvable", ConditionStatus.FALSE, "OnlyAllDevice", "m", "t", 3),),
    )


def test_a_status_comes_back_from_its_json_as_it_was() -> None:
    status = full_status()
    assert read_status(json.loads(json.dumps(write_status(status)))) == status


def test_a_spec_comes_back_from_its_json_as_it_was() -> None:
    intent = Intent(
        node_name="gpu-17",
        mode=RepairMode.AUTO,
        hold=Hold("MigChange", "t", "why"),
        extra_kinds=("a.com/b",),
        none_device=True,
        requests=(NameRequest("a.com/b", ("x",)),),
    )
    assert Intent.from_json(json.loads(json.dumps(intent.to_json()))) == intent


def test_a_kind_that_was_requested_twice_is_one_request() -> None:
    twice = [{"kind": "a/b", "names": ["x", "x"]}, {"kind": "a/b", "names": ["y", "x"]}]
    assert Intent.from_json({"requests": twice}).requests == (NameRequest("a/b", ("x", "y")),)


def test_a_node_without_a_spec_is_only_observed() -> None:
    assert Intent.from_json(None).mode is RepairMode.OBSERVE


@given(JSON | st.dictionaries(st.sampled_from(KEYS), JSON))
def test_no_json_makes_the_reader_of_a_status_or_spec_fail(source: object) -> None:
    read_status(source)
    Intent.from_json(source)


def test_a_cause_of_a_newer_agent_is_undetermined_and_not_lost() -> None:
    assert read_status({"cause": "InventedLater"}).cause is Cause.UNDETERMINED


def test_the_status_of_the_largest_node_stays_below_32_kilobytes() -> None:
    mig = tuple(MigDevice(f"MIG-aaaaaaaa-0000-5000-8000-{n:012}", n, n, 0) for n in range(7))
    gpus = tuple(
        GpuDevice(
            f"GPU-11111111-2222-3333-4444-{n:012}",
            n,
            n,
            f"00000000:{n:02x}:00.0",
            "NVIDIA A100-SXM4-40GB",
            mig_enabled=True,
            mig=mig,
        )
        for n in range(16)
    )
    names = tuple(item.uuid for gpu in gpus for item in gpu.mig)
    kinds = tuple(
        KindStatus(f"kind-{n}.nvidia.com/gpu", missing=MissingNames(len(names), names))
        for n in range(4)
    )
    finding = Finding(Cause.SPEC_REJECTED, Severity.ERROR, "m" * 500, "a" * 200, names=names)
    status = NodeStatus(gpus=GpuStatus("nvml", devices=gpus), kinds=kinds, findings=(finding,) * 8)
    assert len(json.dumps(write_status(status))) < 32 * 1024


def test_many_long_findings_are_cut_by_size_and_counted() -> None:
    many = tuple(
        Finding(Cause.SPEC_REJECTED, Severity.ERROR, f"{n}" + "m" * 900, "a" * 300)
        for n in range(30)
    )

    written = write_status(NodeStatus(findings=many))

    assert len(json.dumps(written)) < 12 * 1024
    again = read_status(written).findings
    assert again[:-1] == many[: len(again) - 1]
    assert again[-1].message == f"{len(many) - len(again) + 1} more findings are left out here"


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    old = Condition("Resolvable", ConditionStatus.FALSE, "A", "", "then")
    same = Condition("Resolvable", ConditionStatus.FALSE, "B")
    other = Condition("Resolvable", ConditionStatus.TRUE, "B")
    assert stamp([same], [old], "now")[0].last_transition_time == "then"
    assert stamp([other], [old], "now")[0].last_transition_time == "now"
