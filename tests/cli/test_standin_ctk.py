"""The stand-in for nvidia-ctk, held against the captured output of the real one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.running import OTHER_UUID, UUID

from gpucdi.cdi import SUPPORTED, Accepted, Spec, decode_spec
from gpucdi.host import HostTree
from gpucdi_cli.standin_ctk import main, write_script

HOOK = "/usr/local/nvidia/toolkit/nvidia-cdi-hook"


def generated(tree: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> Spec:
    assert main(["--tree", str(tree), "cdi", "generate", *flags]) == 0
    return accepted(capsys.readouterr().out.encode())


def accepted(content: bytes) -> Spec:
    outcomes = [decode_spec(content, "", library) for library in SUPPORTED]
    assert all(isinstance(outcome, Accepted) for outcome in outcomes), outcomes
    assert isinstance(outcomes[-1], Accepted)
    return outcomes[-1].spec


def test_it_names_the_same_devices_as_the_real_generator_did(
    c00: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    real = accepted(HostTree(c00).read("/etc/cdi/nvidia.yaml"))
    spec = generated(c00, capsys)
    assert [device.name for device in spec.devices] == [device.name for device in real.devices]
    for ours, theirs in zip(spec.devices, real.devices, strict=True):
        assert {node.path for node in ours.edits.device_nodes} == {
            node.path for node in theirs.edits.device_nodes
        }


def test_it_mounts_the_same_files_as_the_real_generator_did(
    c00: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    real = accepted(HostTree(c00).read("/etc/cdi/nvidia.yaml"))
    spec = generated(c00, capsys)
    assert {mount.host_path for mount in spec.edits.mounts} == {
        mount.host_path for mount in real.edits.mounts
    }
    assert {node.path for node in spec.edits.device_nodes} == {
        node.path for node in real.edits.device_nodes
    }


def test_kind_names_and_hook_follow_the_flags(
    c00: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--vendor", "management.nvidia.com", "--class", "gpu"]
    flags += ["--device-name-strategy", "uuid", "--nvidia-cdi-hook-path", HOOK]
    spec = generated(c00, capsys, *flags)
    assert spec.kind == "management.nvidia.com/gpu"
    assert [device.name for device in spec.devices] == [UUID, OTHER_UUID, "all"]
    assert {hook.path for hook in spec.edits.hooks} == {HOOK}
    assert spec.cdi_version == "0.3.0"


def test_a_flag_of_a_later_release_is_refused_as_the_real_one_refuses_it(
    c00: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--tree", str(c00), "cdi", "generate", "--no-all-device"])
    assert end.value.code == 1
    assert "flag provided but not defined: -no-all-device" in capsys.readouterr().err


def test_without_a_driver_it_fails_and_prints_no_spec(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for information in (copy / "proc/driver/nvidia/gpus").glob("*/information"):
        information.unlink()
    with pytest.raises(SystemExit) as end:
        main(["--tree", str(copy), "cdi", "generate"])
    captured = capsys.readouterr()
    assert end.value.code == 1
    assert captured.out == ""
    assert "failed to initialize NVML: Driver Not Loaded" in captured.err


def test_its_script_is_a_program_that_says_what_it_is(c00: Path, tmp_path: Path) -> None:
    script = write_script(tmp_path / "nvidia-ctk", c00)
    # The agent gives a bare environment.
    environment = {"PATH": "/usr/bin:/bin"}
    told = subprocess.run(
        [script, "--version"], capture_output=True, text=True, env=environment, check=True
    )
    assert "stand-in" in told.stdout
    ran = subprocess.run(
        [script, "cdi", "generate", "--format", "json"],
        capture_output=True,
        env=environment,
        check=True,
    )
    assert accepted(ran.stdout).kind == "nvidia.com/gpu"
    assert sys.executable in script.read_text()
