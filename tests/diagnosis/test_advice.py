"""Advice fits the versions found, the party that asked, and the owner of the kind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpucdi.api import FileStatus, HandlerStatus, KindStatus, MissingNames, NodeState, NodeStatus
from gpucdi.diagnosis import BlastRadius, Diagnosis, diagnose
from gpucdi.failures import PodView, Requester, RequesterName, extract
from gpucdi.findings import Cause, Who

KIND = "management.nvidia.com/gpu"
UUID = "GPU-4044aeb5-b7e4-8cb0-69a8-40490ce01a2f"
CNA = "error modifying OCI spec: failed to inject CDI devices: unresolvable CDI devices "
HANDLER = HandlerStatus(
    name="nvidia",
    binary="/usr/local/nvidia/toolkit/nvidia-container-runtime",
    config="/usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml",
    toolkit="1.18.1",
    mode="cdi",
    default_kind=KIND,
    spec_dirs=("/etc/cdi", "/var/run/cdi"),
)


def node(kind: str = KIND, **handler: object) -> NodeStatus:
    status = KindStatus(
        kind,
        managed=True,
        expected=1,
        missing=MissingNames(1, (UUID,)),
        cause=Cause.ONLY_ALL_DEVICE,
    )
    changed = replace(HANDLER, **handler)  # type: ignore[arg-type]
    return NodeStatus(state=NodeState.DRIFTED, handlers=(changed,), kinds=(status,))


def asked(name: RequesterName) -> PodView:
    return PodView(
        node="gpu-17", runtime_class="nvidia", requesters=(Requester(name, "metadata", "x"),)
    )


def tell(
    text: str = f"{CNA}{KIND}={UUID}",
    pod: PodView | None = None,
    status: NodeStatus | None = None,
) -> Diagnosis:
    return diagnose(extract(text)[0], pod=pod, node=status, handler="nvidia")


def command(diagnosis: Diagnosis, part: str) -> str:
    (found,) = [item.command for item in diagnosis.advice if item.command and part in item.command]
    return found


@pytest.mark.parametrize(
    ("version", "present", "absent"),
    [
        ("1.14.6", "--device-name-strategy uuid", "--device-name-strategy index"),
        ("1.15.0", "--device-name-strategy index", "--nvidia-cdi-hook-path"),
        ("1.16.2", "--nvidia-cdi-hook-path /usr/local/nvidia/toolkit/", "--no-all-device"),
        ("1.18.1", "--output /etc/cdi/", "--no-all-device"),
    ],
)
def test_the_command_by_hand_has_only_flags_that_the_toolkit_knows(
    version: str, present: str, absent: str
) -> None:
    found = command(tell(status=node(toolkit=version)), "cdi generate")
    assert present in found
    assert absent not in found


@pytest.mark.parametrize(
    ("version", "flag", "note"),
    [("1.19.0", "--no-all-device", False), ("1.18.1", "", True)],
)
def test_a_second_all_in_one_directory_is_avoided(version: str, flag: str, *, note: bool) -> None:
    taken = node(spec_dirs=("/var/run/cdi",), toolkit=version)
    file = FileStatus("/var/run/cdi/management.nvidia.com-gpu.yaml", "toolkit", 1)
    found = tell(status=replace(taken, kinds=(replace(taken.kinds[0], files=(file,)),)))
    assert flag in command(found, "cdi generate")
    assert any("take its device `all` out" in item.text for item in found.advice) is note


@pytest.mark.parametrize(
    ("version", "meaning"), [("1.17.8", "which is legacy"), ("1.18.0", "jit-cdi")]
)
def test_mode_auto_means_what_it_means_in_that_version(version: str, meaning: str) -> None:
    texts = [item.text for item in tell(status=node(toolkit=version)).advice]
    assert any(meaning in text for text in texts)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        (RequesterName.HAMI, "devicePlugin.deviceListStrategy=cdi-annotations"),
        (RequesterName.KAI, "binder.cdiEnabled=true"),
        (RequesterName.VOLCANO, "DEVICE_LIST_STRATEGY=cdi-annotations"),
        (RequesterName.GPUSTACK, "asks by index"),
        (RequesterName.DEVICE_PLUGIN, "remove an override of DEVICE_LIST_STRATEGY"),
    ],
)
def test_who_asked_is_told_what_to_hand_over_instead(name: RequesterName, part: str) -> None:
    texts = [item.text for item in tell(pod=asked(name), status=node()).advice]
    assert any(part in text for text in texts)


def test_only_a_handler_that_exists_is_recommended() -> None:
    texts = [item.text for item in tell(status=node()).advice]
    assert not any("nvidia-legacy" in text for text in texts)


@pytest.mark.parametrize(
    "name",
    [
        f"k8s.device-plugin.nvidia.com/gpu={UUID}",
        "k8s.gpu.nvidia.com/claim=973c9807-4b59-a216-7e46-f5733c39173f-gpu-0",
        "runtime.nvidia.com/gpu=all",
    ],
)
def test_a_kind_that_others_own_is_never_ours_to_repair(name: str) -> None:
    found = tell(f"CDI device injection failed: unresolvable CDI devices {name}")
    assert not found.repairable
    assert not any(item.who is Who.GPUCDI for item in found.advice)


def test_the_automatic_kind_is_never_to_be_written_to_a_file() -> None:
    warnings = tell(f"{CNA}runtime.nvidia.com/gpu=all").warnings
    assert any("Do not write a spec file" in text for text in warnings)


def test_nothing_wider_ranks_before_what_touches_this_pod() -> None:
    order = [item.blast_radius for item in tell(pod=asked(RequesterName.HAMI)).advice]
    assert order.index(BlastRadius.POD) < order.index(BlastRadius.STACK)
    assert order.index(BlastRadius.STACK) < order.index(BlastRadius.FLEET)


def test_every_advice_says_who_and_how_far_it_reaches() -> None:
    for item in tell(pod=asked(RequesterName.HAMI), status=node()).advice:
        assert item.text
        assert item.valid_for
        assert isinstance(item.blast_radius, BlastRadius)
