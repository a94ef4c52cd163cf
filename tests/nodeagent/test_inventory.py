"""The inventory from all sources, and what their disagreement means."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpucdi.api import GpuDevice
from gpucdi.findings import Cause
from gpucdi.host import HostTree
from gpucdi_agent.inventory import find_library, pci_addresses, take_inventory
from gpucdi_agent.nvml import FailedGpu, NvmlFailure, NvmlReading

FIRST = GpuDevice("GPU-1", 0, 0, "0000:3b:00.0", "A100")
SECOND = GpuDevice("GPU-2", 1, 1, "0000:86:00.0", "A100")


@dataclass
class GivenNvml:
    """Answers what it is given and remembers what it was asked."""

    answer: NvmlReading
    asked: list[str | None] = field(default_factory=list)

    def read(self, library: str | None) -> NvmlReading:
        self.asked.append(library)
        return self.answer


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for gpu in (FIRST, SECOND):
        folder = tmp_path / "proc/driver/nvidia/gpus" / gpu.pci
        folder.mkdir(parents=True)
        (folder / "information").write_text(
            f"Model: \t\t A100\nGPU UUID: \t {gpu.uuid}\nBus Location: \t {gpu.pci}\n"
            f"Device Minor: \t {gpu.minor}\n"
        )
        add_pci(tmp_path, gpu.pci)
    return tmp_path


def add_pci(root: Path, address: str, vendor: str = "0x10de", kind: str = "0x030200") -> None:
    folder = root / "sys/bus/pci/devices" / address
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(vendor + "\n")
    (folder / "class").write_text(kind + "\n")


def test_nvml_is_preferred_and_agreement_finds_nothing(root: Path) -> None:
    count = take_inventory(HostTree(root), GivenNvml(NvmlReading(devices=(FIRST, SECOND))))

    inventory = count.inventory
    assert inventory.gpus.source == "nvml"
    assert (inventory.kernel_count, inventory.pci_count) == (2, 2)
    assert inventory.findings == ()
    assert inventory.problem is None


@pytest.mark.parametrize("failure", list(NvmlFailure))
def test_without_nvml_the_kernels_list_counts_and_the_problem_says_what_to_do(
    root: Path, failure: NvmlFailure
) -> None:
    answer = NvmlReading(failure=failure, message="it said so")

    inventory = take_inventory(HostTree(root), GivenNvml(answer)).inventory

    assert inventory.gpus.source == "proc"
    assert inventory.gpus.uuids == {"GPU-1", "GPU-2"}
    assert inventory.problem is not None
    assert "it said so" in inventory.problem.message
    assert inventory.problem.advice


def test_a_gpu_that_nvml_does_not_list_is_named_by_its_bus_id(root: Path) -> None:
    inventory = take_inventory(HostTree(root), GivenNvml(NvmlReading(devices=(FIRST,)))).inventory

    (finding,) = inventory.findings
    assert finding.cause is Cause.GPU_LOST
    assert finding.message.startswith("PCI 2, kernel 2, NVML 1")
    assert SECOND.pci in finding.message


def test_a_lost_gpu_is_named_once(root: Path) -> None:
    failed = (FailedGpu(1, NvmlFailure.GPU_LOST, "GPU is lost"),)

    count = take_inventory(HostTree(root), GivenNvml(NvmlReading(devices=(FIRST,), failed=failed)))

    (finding,) = count.inventory.findings
    assert count.failed == 1
    assert finding.cause is Cause.GPU_LOST
    assert SECOND.pci in finding.message


def test_a_device_on_the_bus_that_the_module_does_not_drive_is_a_warning(root: Path) -> None:
    add_pci(root, "0000:af:00.0")

    inventory = take_inventory(
        HostTree(root), GivenNvml(NvmlReading(devices=(FIRST, SECOND)))
    ).inventory

    (finding,) = inventory.findings
    assert (finding.cause, "0000:af:00.0" in finding.message) == (Cause.DRIVER_NOT_READY, True)


def test_only_display_devices_of_the_vendor_are_counted(root: Path) -> None:
    add_pci(root, "0000:01:00.1", kind="0x040300")  # the audio function of a GPU
    add_pci(root, "0000:02:00.0", vendor="0x8086")
    add_pci(root, "0000:03:00.0", kind="0x068000")  # an NVSwitch

    assert pci_addresses(HostTree(root)) == (FIRST.pci, SECOND.pci)


def test_without_sysfs_the_bus_is_not_counted(tmp_path: Path) -> None:
    assert pci_addresses(HostTree(tmp_path)) is None


def library(root: Path, path: str) -> str:
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.touch()
    return path


def test_the_driver_root_that_the_validator_published_comes_first(root: Path) -> None:
    library(root, "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1")
    wanted = library(root, "/opt/driver/usr/lib64/libnvidia-ml.so.1")
    ready = root / "run/nvidia/validations/driver-ready"
    ready.parent.mkdir(parents=True)
    ready.write_text("IS_HOST_DRIVER=false\nNVIDIA_DRIVER_ROOT=/opt/driver\n")

    assert find_library(HostTree(root)) == wanted


def test_a_root_from_the_configuration_comes_before_the_usual_ones(root: Path) -> None:
    library(root, "/usr/lib64/libnvidia-ml.so.1")
    wanted = library(root, "/srv/driver/lib64/libnvidia-ml.so.1")
    nvml = GivenNvml(NvmlReading())

    take_inventory(HostTree(root), nvml, ("/srv/driver",))

    assert nvml.asked == [wanted]


def test_without_any_library_the_linker_decides(root: Path) -> None:
    assert find_library(HostTree(root)) is None


def test_a_captured_tree_has_no_nvml_and_that_is_no_problem(root: Path) -> None:
    inventory = take_inventory(HostTree(root), None).inventory

    assert inventory.problem is None
    assert inventory.gpus.source == "proc"


def test_a_loaded_module_is_never_to_be_loaded_again(root: Path) -> None:
    answer = NvmlReading(failure=NvmlFailure.DRIVER_NOT_LOADED, message="Driver Not Loaded")

    inventory = take_inventory(HostTree(root), GivenNvml(answer)).inventory

    assert inventory.problem is not None
    assert "modprobe nvidia" not in inventory.problem.advice
    assert "is loaded" in inventory.problem.advice


def test_without_module_and_without_the_right_to_ask_the_module_is_what_lacks(
    tmp_path: Path,
) -> None:
    answer = NvmlReading(failure=NvmlFailure.NO_PERMISSION, message="no /dev/nvidiactl")

    inventory = take_inventory(HostTree(tmp_path), GivenNvml(answer)).inventory

    assert inventory.problem is not None
    assert "load the NVIDIA driver" in inventory.problem.advice
