"""The child that asks NVML, against the stub library of the lab."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.lab import driver, hardware, incident
from tests.lab.fixtures import MakeNode
from tests.lab.hardware import Fault, Hardware
from tests.lab.programs import ProgramMissingError
from tests.nodeagent import resident

from gpucdi_agent.nvml import NvmlChild, NvmlFailure, NvmlReading, kernel_bus_id, read_answer

LOST = replace(hardware.TWO_GPUS.gpus[1], lost=True)


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """Return a function that describes a machine to the stub and asks it through the child."""
    try:
        library = driver.compile_stub() / "libnvidia-ml.so.1"
    except ProgramMissingError as missing:
        pytest.skip(str(missing))
    config = tmp_path / "nvml.conf"
    monkeypatch.setenv("NVML_STUB_CONFIG", str(config))

    def ask_machine(machine: Hardware, deadline_seconds: float = 10.0) -> NvmlReading:
        driver.write_stub_config(config, machine)
        return NvmlChild(deadline_seconds=deadline_seconds).read(str(library))

    return ask_machine


def reading(ask: object, machine: Hardware, deadline_seconds: float = 10.0) -> NvmlReading:
    assert callable(ask)
    found = ask(machine, deadline_seconds)
    assert isinstance(found, NvmlReading)
    return found


def test_gpus_and_mig_instances_are_read(ask: object) -> None:
    found = reading(ask, hardware.MIG_GPU)

    first, second = found.devices
    assert (found.failure, found.driver, found.cuda) == (None, "570.86.15", "12.8")
    assert (first.uuid, first.index, first.minor, first.pci) == (
        hardware.UUID_0,
        0,
        0,
        "0000:3b:00.0",
    )
    assert first.mig_enabled is None
    assert second.mig_enabled is True
    assert [(mig.uuid, mig.index, mig.gpu_instance) for mig in second.mig] == [
        (hardware.MIG_UUID_0, 0, 1),
        (hardware.MIG_UUID_1, 1, 2),
    ]


@pytest.mark.parametrize(
    ("fault", "failure"),
    [
        (Fault.DRIVER_NOT_LOADED, NvmlFailure.DRIVER_NOT_LOADED),
        (Fault.VERSION_MISMATCH, NvmlFailure.VERSION_MISMATCH),
        (Fault.UNKNOWN, NvmlFailure.UNKNOWN),
    ],
)
def test_each_way_to_fail_has_its_class(ask: object, fault: Fault, failure: NvmlFailure) -> None:
    found = reading(ask, replace(hardware.ONE_GPU, fault=fault))

    assert found.failure is failure
    assert found.message


def test_a_lost_gpu_leaves_the_others_described(ask: object) -> None:
    found = reading(ask, replace(hardware.TWO_GPUS, gpus=(hardware.TWO_GPUS.gpus[0], LOST)))

    assert [device.uuid for device in found.devices] == [hardware.UUID_0]
    assert [(gpu.index, gpu.failure) for gpu in found.failed] == [(1, NvmlFailure.GPU_LOST)]


def test_a_driver_that_hangs_does_not_hang_us(ask: object) -> None:
    started = time.monotonic()

    found = reading(ask, replace(hardware.ONE_GPU, hang_seconds=600), deadline_seconds=0.7)

    assert found.failure is NvmlFailure.TIMEOUT
    assert time.monotonic() - started < 5


def test_no_library_is_told_apart() -> None:
    found = NvmlChild().read("/nonexistent/libnvidia-ml.so.1")

    assert found.failure is NvmlFailure.NO_LIBRARY
    assert "cannot open shared object" in found.message


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("0000:3b:00.0", "0000:3b:00.0"),
        ("00000001:3B:00.0", "0001:3b:00.0"),
        ("00010000:3B:00.0", "00010000:3b:00.0"),
        ("", ""),
    ],
)
def test_bus_ids_are_written_as_the_kernel_does(text: str, kernel: str) -> None:
    assert kernel_bus_id(text) == kernel


@pytest.mark.parametrize(
    ("control", "outside", "failure"),
    [
        (errno.EACCES, False, NvmlFailure.NO_PERMISSION),
        (errno.EPERM, True, NvmlFailure.NO_PERMISSION),
        (errno.ENOENT, True, NvmlFailure.NO_PERMISSION),
        (errno.ENOENT, False, NvmlFailure.DRIVER_NOT_LOADED),
        (errno.ENXIO, False, NvmlFailure.DRIVER_NOT_LOADED),
        (0, False, NvmlFailure.DRIVER_NOT_LOADED),
    ],
)
def test_a_missing_right_is_not_a_driver_that_is_not_loaded(
    control: int, failure: NvmlFailure, *, outside: bool
) -> None:
    error = {"code": 9, "message": "Driver Not Loaded"}
    said = json.dumps({"error": error, "control": control, "outside": outside})

    assert read_answer(said.encode(), "", 0).failure is failure


@pytest.fixture(scope="module")
def powerless() -> list[str]:
    """Return the command that runs another one as the same user without any capability."""
    command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    try:
        subprocess.run([*command, sys.executable, "-c", "import gpucdi_agent"], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"needs setpriv, and a Python that is readable without capabilities: {error}")
    return command


@pytest.mark.lab
def test_without_the_right_to_the_device_the_finding_says_so(
    make_node: MakeNode, powerless: list[str]
) -> None:
    node = make_node(incident.description())
    node.set_nvml(replace(hardware.TWO_GPUS, fault=Fault.DRIVER_NOT_LOADED))
    node.path("/dev/nvidiactl").chmod(0)

    done = node.run([*powerless, *resident.AGENT, "inspect", "-o", "json"])

    assert done.stdout, done.stderr
    findings = json.loads(done.stdout)["status"]["findings"]
    (found,) = [item for item in findings if "NVML does not answer" in item["message"]]
    assert "/dev/nvidiactl cannot be opened: Permission denied" in found["message"]
    assert "modprobe" not in found["advice"]


def test_from_outside_of_the_hosts_root_the_child_says_so(
    tmp_path: Path, powerless: list[str]
) -> None:
    child = [sys.executable, "-m", "gpucdi_agent.nvml_child", "--root", str(tmp_path)]
    try:
        library = driver.compile_stub() / "libnvidia-ml.so.1"
    except ProgramMissingError as missing:
        pytest.skip(str(missing))
    shutil.copy(library, tmp_path)
    config = tmp_path / "nvml.conf"
    driver.write_stub_config(config, replace(hardware.ONE_GPU, fault=Fault.DRIVER_NOT_LOADED))

    done = subprocess.run(
        [*powerless, *child, "--library", f"/{library.name}"],
        env={**os.environ, "NVML_STUB_CONFIG": str(config)},
        capture_output=True,
        check=True,
    )

    said = json.loads(done.stdout)
    assert (said["outside"], said["error"]["code"]) == (True, 9)
