"""The GPUs of one node, whoever counted them.

Owns: the inventory value and the fallback that needs no NVML
(``/proc/driver/nvidia/gpus/*/information``, written by the kernel module). Must not know: NVML.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gpucdi.api.status import GpuDevice, GpuStatus
from gpucdi.findings import Cause, Finding, Severity, Who
from gpucdi.host import HostTree

PROC_GPUS = "/proc/driver/nvidia/gpus"
PROC_VERSION = "/proc/driver/nvidia/version"
_VERSION = re.compile(r"Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)")


@dataclass(frozen=True, slots=True)
class Inventory:
    """What was counted. ``problem`` says why NVML did not answer; the fallback may still have.

    ``kernel_count`` is the number of GPUs the kernel module drives, ``pci_count`` the number of
    NVIDIA display devices on the bus; ``None`` where that could not be seen.
    """

    gpus: GpuStatus = field(default_factory=GpuStatus)
    problem: Finding | None = None
    kernel_count: int | None = None
    pci_count: int | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def is_known(self) -> bool:
        """True when somebody who can count GPUs has answered, be the answer zero."""
        return self.gpus.source != "none"


def proc_inventory(host: HostTree) -> Inventory:
    """Read the kernel module's own list.

    It knows UUIDs, minors and bus ids, but neither NVML's index nor MIG: those stay unknown, so
    names that would need them are not expected of anybody.
    """
    try:
        folders = host.listdir(PROC_GPUS)
    except OSError as error:
        return Inventory(problem=_no_driver(error))
    devices: list[GpuDevice] = []
    findings: list[Finding] = []
    for folder in folders:
        path = f"{PROC_GPUS}/{folder}/information"
        try:
            devices.append(_device(host.read(path).decode("utf-8", "replace"), folder))
        except (OSError, ValueError) as error:
            findings.append(_unreadable(path, error))
    devices.sort(key=lambda device: device.pci)
    return Inventory(
        gpus=GpuStatus(source="proc", driver=_driver_version(host), devices=tuple(devices)),
        kernel_count=len(folders),
        findings=tuple(findings),
    )


def _device(text: str, folder: str) -> GpuDevice:
    found = dict(_split(line) for line in text.splitlines() if ":" in line)
    uuid = found.get("GPU UUID", "")
    if not uuid.startswith("GPU-") or "?" in uuid:
        # The module prints question marks until the GPU has been initialised once.
        raise ValueError(f"GPU UUID is {uuid or 'absent'}")
    minor = found.get("Device Minor", "")
    return GpuDevice(
        uuid=uuid,
        minor=int(minor) if minor.isdigit() else None,
        pci=found.get("Bus Location", folder),
        model=found.get("Model", ""),
    )


def _split(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip(), value.strip()


def _driver_version(host: HostTree) -> str:
    try:
        found = _VERSION.search(host.read(PROC_VERSION).decode("utf-8", "replace"))
    except OSError:
        return ""
    return found.group(1) if found else ""


def _no_driver(error: OSError) -> Finding:
    return Finding(
        cause=Cause.DRIVER_NOT_READY,
        severity=Severity.WARNING,
        message=f"the kernel module lists no GPUs: {error.strerror}",
        advice="load the NVIDIA driver, or look at the driver container of this node",
        who=Who.ADMIN,
        file=PROC_GPUS,
    )


def _unreadable(path: str, error: Exception) -> Finding:
    return Finding(
        cause=Cause.DRIVER_NOT_READY,
        severity=Severity.WARNING,
        message=f"a GPU of the kernel module has no usable description: {error}",
        advice="run nvidia-smi on the host once; if the GPU stays unnamed, look for Xid in dmesg",
        who=Who.ADMIN,
        file=path,
    )
