"""The shipped schema against the code that writes: every field there, within bounds."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.controller.scene import node_status
from tests.fakeapi import schema as schemas
from tests.fakeapi.resources import custom_resources

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
    RepairRecord,
    write_status,
)
from gpucdi.api.status import FileStatus
from gpucdi.findings import Cause, Finding, Severity, Who

LONG = "x" * 3000
TIME = "2026-01-01T00:00:00Z"


def schema() -> dict[str, Any]:
    resource = next(item for item in custom_resources() if item.kind == "GpuCdiStatus")
    assert resource.schema is not None
    return resource.schema


def full_status(gpus: int = 16, mig: int = 7) -> NodeStatus:
    """Return a status in which every field says something, of the largest node there is."""
    devices = tuple(
        GpuDevice(
            f"GPU-{number:036x}",
            number,
            number,
            f"0000{number:04x}:00:00.0",
            "NVIDIA H100 80GB HBM3",
            mig_enabled=True,
            mig=tuple(MigDevice(f"MIG-{number:018x}{i:018x}", i, i, 0) for i in range(mig)),
        )
        for number in range(gpus)
    )
    names = tuple(mig.uuid for device in devices for mig in device.mig)
    kind = KindStatus(
        "management.nvidia.com/gpu",
        ("nvidia", "nvidia-cdi"),
        managed=True,
        expected=len(names) * 2,
        resolvable=1,
        missing=MissingNames(len(names), names),
        cause=Cause.ONLY_ALL_DEVICE,
        near_miss=NearMiss("nvidia.com/gpu", 16),
        files=(FileStatus("/etc/cdi/a.yaml", "toolkit container", 1, LONG),),
    )
    return NodeStatus(
        NodeState.HELD,
        3,
        Cause.ONLY_ALL_DEVICE,
        "Auto",
        Hold("DriverUpgrade", TIME, LONG),
        GpuStatus("nvml", "570.86.15", "12.8", devices),
        (EngineStatus("containerd", "2.2.7", True, ("/etc/cdi", "/var/run/cdi"), "1.1.0"),),
        (
            HandlerStatus(
                *("nvidia", "containerd 2.2.7", "/usr/bin/nvidia-container-runtime", "/etc/c.toml"),
                toolkit="1.18.2",
                mode="cdi",
                default_kind=kind.kind,
                spec_dirs=("/etc/cdi", "/var/run/cdi"),
                library="1.0.1",
                is_default=True,
                is_nvidia=True,
                driver_root="/run/nvidia/driver",
                annotation_prefixes=("cdi.k8s.io/",),
                pod_annotations=("cdi.k8s.io/*",),
                accept_env=False,
                accept_mounts=True,
            ),
        ),
        tuple(dataclasses.replace(kind, kind=f"vendor{i}.com/gpu") for i in range(3)),
        tuple(
            Finding(
                *(Cause.SPEC_REJECTED, Severity.ERROR, LONG, LONG, Who.ADMIN),
                *("/etc/cdi/b.yaml", "devices.0", kind.kind, names),
            )
            for _ in range(3)
        ),
        tuple(
            RepairRecord(TIME, kind.kind, "/etc/cdi/c.yaml", "Succeeded", 1, 1, "a", "b", LONG)
            for _ in range(3)
        ),
        (Condition("Resolvable", ConditionStatus.FALSE, "OnlyAllDevice", "told", TIME, 3),),
    )


def unknown_fields(value: Any, schema: dict[str, Any], path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for name, item in value.items():
            inner = schema.get("properties", {}).get(name)
            if inner is None:
                yield f"{path}.{name}"
            else:
                yield from unknown_fields(item, inner, f"{path}.{name}")
    for item in value if isinstance(value, list) else ():
        yield from unknown_fields(item, schema["items"], f"{path}[]")


def test_the_schema_uses_no_keyword_that_the_fake_ignores() -> None:
    assert set(schemas.unknown_keywords(schema())) == set()


def test_every_field_of_a_written_status_is_in_the_schema() -> None:
    assert list(unknown_fields(write_status(full_status()), schema()["properties"]["status"])) == []


def test_the_largest_status_keeps_the_bounds_of_the_schema_and_of_the_object() -> None:
    written = write_status(full_status())
    assert list(schemas.problems(written, schema()["properties"]["status"])) == []
    assert len(json.dumps(written)) <= 32 * 1024


def test_a_usual_status_is_small() -> None:
    usual = node_status(drifted=True)
    gpus = dataclasses.replace(usual.gpus, devices=full_status(8, 0).gpus.devices)
    written = json.dumps(write_status(dataclasses.replace(usual, gpus=gpus)))
    assert len(written) <= 4 * 1024


def test_every_field_of_a_written_intent_is_in_the_schema() -> None:
    intent = Intent(
        "n1",
        RepairMode.AUTO,
        Hold("DriverUpgrade", TIME, "told"),
        ("a.com/b",),
        none_device=True,
        requests=(NameRequest("a.com/b", ("x",)),),
    )
    spec = schema()["properties"]["spec"]
    assert list(unknown_fields(intent.to_json(), spec)) == []
    assert list(schemas.problems(intent.to_json(), spec)) == []


@pytest.mark.parametrize("cause", list(Cause))
def test_every_cause_may_be_published(cause: Cause) -> None:
    status = dataclasses.replace(full_status(1, 0), cause=cause)
    assert list(schemas.problems(write_status(status), schema()["properties"]["status"])) == []


@pytest.mark.parametrize("state", list(NodeState))
def test_every_state_may_be_published(state: NodeState) -> None:
    written = {"state": state.value}
    assert list(schemas.problems(written, schema()["properties"]["status"])) == []
