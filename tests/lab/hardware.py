"""The GPUs of an imaginary machine, and the driver that speaks for them.

Owns: the declarative description that tests write, and its rendering as the file that the stub
``libnvidia-ml.so.1`` reads and as the files that a real driver shows under ``/proc``. Must not
know: toolkits, engines, mount namespaces.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

# Dynamic majors differ from machine to machine; these are those of a driver 570 on Ubuntu.
NVIDIA_MAJOR = 195
CONTROL_MINOR = 255
MODESET_MINOR = 254
UVM_MAJOR = 506
CAPS_MAJOR = 237


class Fault(enum.Enum):
    """What ``nvmlInit`` answers instead of success."""

    DRIVER_NOT_LOADED = "driver-not-loaded"
    VERSION_MISMATCH = "version-mismatch"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Mig:
    """One MIG compute instance that fills its GPU instance."""

    uuid: str
    gpu_instance: int
    compute_instance: int = 0
    slices: int = 1
    memory_mib: int = 4864


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU. ``mig`` None: MIG is disabled; a tuple: enabled, with these instances.

    A GPU that can do MIG has the capabilities ``config`` and ``monitor`` even while MIG is disabled.
    ``in_nvml`` False is a GPU that the kernel shows and NVML does not (a driver half up).
    """

    uuid: str
    minor: int
    pci: str
    name: str = "NVIDIA A100-SXM4-40GB"
    memory_mib: int = 40960
    mig_capable: bool = True
    mig: tuple[Mig, ...] | None = None
    lost: bool = False
    in_nvml: bool = True


@dataclass(frozen=True, slots=True)
class Hardware:
    """A machine: its GPUs in NVML order, the driver's versions, and what is wrong with it."""

    gpus: tuple[Gpu, ...] = ()
    driver_version: str = "570.86.15"
    nvml_version: str = "12.570.86.15"
    cuda_version: int = 12080
    fault: Fault | None = None
    hang_seconds: int = 0


UUID_0 = "GPU-4044aeb5-b7e4-8cb0-69a8-40490ce01a2f"
UUID_1 = "GPU-2bd7f9eb-5916-6dc2-dea4-1d97d1fb848e"
MIG_UUID_0 = "MIG-5b1f2c9a-0000-5000-8000-000000000001"
MIG_UUID_1 = "MIG-5b1f2c9a-0000-5000-8000-000000000002"

ONE_GPU = Hardware((Gpu(UUID_0, 0, "00000000:3b:00.0"),))
TWO_GPUS = Hardware((Gpu(UUID_0, 0, "00000000:3b:00.0"), Gpu(UUID_1, 1, "00000000:86:00.0")))
MIG_GPU = Hardware(
    (
        Gpu(UUID_0, 0, "00000000:3b:00.0", "NVIDIA L4", 23034, mig_capable=False),
        Gpu(
            UUID_1,
            1,
            "00000000:86:00.0",
            mig=(Mig(MIG_UUID_0, 1), Mig(MIG_UUID_1, 2, slices=3, memory_mib=19968)),
        ),
    )
)


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A character device of the driver: path below ``/dev``, major and minor number."""

    path: str
    major: int
    minor: int


@dataclass(frozen=True, slots=True)
class _Capability:
    """A MIG capability: its line in ``mig-minors``, its file below ``capabilities``, its minor."""

    line: str
    path: str
    minor: int


def stub_config(hardware: Hardware) -> str:
    """The text that ``tests/lab/nvml/config.c`` reads."""
    lines = [
        f"driver {hardware.driver_version}",
        f"nvml {hardware.nvml_version}",
        f"cuda {hardware.cuda_version}",
    ]
    if hardware.fault:
        lines.append(f"fault {hardware.fault.value}")
    if hardware.hang_seconds:
        lines.append(f"hang {hardware.hang_seconds}")
    for gpu in hardware.gpus:
        if gpu.in_nvml:
            lines.extend(_gpu_lines(gpu))
    return "\n".join(lines) + "\n"


def device_nodes(hardware: Hardware) -> tuple[DeviceNode, ...]:
    """The device nodes that the driver of this machine has made."""
    nodes = [
        DeviceNode("nvidiactl", NVIDIA_MAJOR, CONTROL_MINOR),
        DeviceNode("nvidia-modeset", NVIDIA_MAJOR, MODESET_MINOR),
        DeviceNode("nvidia-uvm", UVM_MAJOR, 0),
        DeviceNode("nvidia-uvm-tools", UVM_MAJOR, 1),
        *(DeviceNode(f"nvidia{gpu.minor}", NVIDIA_MAJOR, gpu.minor) for gpu in hardware.gpus),
        *(
            DeviceNode(f"nvidia-caps/nvidia-cap{capability.minor}", CAPS_MAJOR, capability.minor)
            for capability in _capabilities(hardware)
        ),
    ]
    return tuple(nodes)


def proc_files(hardware: Hardware) -> Mapping[str, str]:
    """What the driver shows below ``/proc``: path relative to ``/proc``, text."""
    files = {
        "driver/nvidia/version": (
            f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {hardware.driver_version}  "
            "Thu Jan 23 03:22:45 UTC 2025\nGCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n"
        )
    }
    for gpu in hardware.gpus:
        bus_id = gpu.pci[-12:].lower()
        files[f"driver/nvidia/gpus/{bus_id}/information"] = (
            f"Model: \t\t {gpu.name}\nIRQ:   \t\t 38\nGPU UUID: \t {gpu.uuid}\n"
            "Video BIOS: \t 92.00.45.00.03\nBus Type: \t PCIe\nDMA Size: \t 47 bits\n"
            f"DMA Mask: \t 0x7fffffffffff\nBus Location: \t {bus_id}\n"
            f"Device Minor: \t {gpu.minor}\nGPU Excluded:\t No\n"
        )
    capabilities = tuple(_capabilities(hardware))
    if capabilities:
        files["driver/nvidia-caps/mig-minors"] = "".join(
            f"{capability.line} {capability.minor}\n" for capability in capabilities
        )
    for capability in capabilities:
        files[f"driver/nvidia/capabilities/{capability.path}"] = (
            f"DeviceFileMinor: {capability.minor}\nDeviceFileMode: 292\nDeviceFileModify: 1\n"
        )
    return files


def proc_devices() -> str:
    """The driver's lines of ``/proc/devices``, to be put among the character devices."""
    return (
        f"{NVIDIA_MAJOR:3} nvidia\n{NVIDIA_MAJOR:3} nvidia-modeset\n{NVIDIA_MAJOR:3} nvidiactl\n"
        f"{CAPS_MAJOR:3} nvidia-caps\n{UVM_MAJOR:3} nvidia-uvm\n"
    )


def smi_listing(hardware: Hardware) -> str:
    """What ``nvidia-smi -L`` prints."""
    lines = []
    for index, gpu in enumerate(gpu for gpu in hardware.gpus if gpu.in_nvml):
        lines.append(f"GPU {index}: {gpu.name} (UUID: {gpu.uuid})\n")
        for slot, mig in enumerate(gpu.mig or ()):
            profile = f"MIG {mig.slices}g.{-(-mig.memory_mib // 1024)}gb"
            lines.append(f"  {profile:<17}Device {slot:>2}: (UUID: {mig.uuid})\n")
    return "".join(lines)


def _gpu_lines(gpu: Gpu) -> Iterator[str]:
    line = f'gpu uuid={gpu.uuid} minor={gpu.minor} pci={gpu.pci} name="{gpu.name}"'
    line += f" memory={gpu.memory_mib}"
    if gpu.mig_capable:
        line += f" mig={int(gpu.mig is not None)}"
    if gpu.lost:
        line += " lost=1"
    yield line
    for mig in gpu.mig or ():
        yield (
            f"mig uuid={mig.uuid} gi={mig.gpu_instance} ci={mig.compute_instance}"
            f" slices={mig.slices} memory={mig.memory_mib}"
        )


def _capabilities(hardware: Hardware) -> Iterator[_Capability]:
    """Every MIG capability, numbered the way the driver does: config, monitor, then instances."""
    if not any(gpu.mig_capable for gpu in hardware.gpus):
        return
    yield _Capability("config", "mig/config", 1)
    yield _Capability("monitor", "mig/monitor", 2)
    minor = 3
    for gpu in hardware.gpus:
        base = f"gpu{gpu.minor}/mig"
        for mig in gpu.mig or ():
            instance, compute = f"gi{mig.gpu_instance}", f"ci{mig.compute_instance}"
            name = f"gpu{gpu.minor}/{instance}"
            yield _Capability(f"{name}/access", f"{base}/{instance}/access", minor)
            yield _Capability(
                f"{name}/{compute}/access", f"{base}/{instance}/{compute}/access", minor + 1
            )
            minor += 2
