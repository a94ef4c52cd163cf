"""The node's GPUs from every source that can count them: NVML, the kernel module, the PCI bus.

Owns: where the driver's library lies, the order of the sources, and what their disagreement means.
Must not know: how NVML is called (``nvml``), nor what the inventory is used for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from gpucdi.api.status import GpuStatus
from gpucdi.findings import Cause, Finding, Severity, Who
from gpucdi.host import HostTree
from gpucdi.node import Inventory, proc_inventory
from gpucdi_agent.nvml import Nvml, NvmlFailure, NvmlReading, kernel_bus_id

DRIVER_READY = "/run/nvidia/validations/driver-ready"
PCI_DEVICES = "/sys/bus/pci/devices"
_NVIDIA_VENDOR = "0x10de"
# PCI base class 03: display controllers (a GPU is 0x0300 VGA or 0x0302 3D); audio functions and
# NVSwitches of the same vendor have other classes.
_DISPLAY_CLASS = "0x03"
_LIBRARY = "libnvidia-ml.so.1"
# GPU Operator's driver container, the host, Talos, GKE, NixOS (``stacks`` of the documentation).
_ROOTS = (
    "/run/nvidia/driver",
    "/",
    "/usr/local",
    "/home/kubernetes/bin/nvidia",
    "/run/opengl-driver",
)
_MULTIARCH = ("x86_64-linux-gnu", "aarch64-linux-gnu")
_LIBRARY_DIRS = (
    "usr/lib64",
    *(f"usr/lib/{arch}" for arch in _MULTIARCH),
    *(f"usr/lib/{arch}/nvidia/current" for arch in _MULTIARCH),
    "lib64",
    *(f"lib/{arch}" for arch in _MULTIARCH),
    "usr/lib/wsl/lib",
    "lib",
)
_ASSIGNMENT = re.compile(r"^\s*(?:export\s+)?([A-Z_]+)=\"?([^\"\n]*)\"?\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Count:
    """The inventory, with what NVML said of GPUs that are not or not yet sound.

    ``failed`` is the number of GPUs that NVML lists but cannot describe; ``mig_pending`` the UUIDs
    of those whose MIG mode changes at their next reset.
    """

    inventory: Inventory
    failed: int = 0
    mig_pending: tuple[str, ...] = ()


def take_inventory(host: HostTree, nvml: Nvml | None, driver_roots: Iterable[str] = ()) -> Count:
    """Count the GPUs. ``driver_roots`` are roots that the toolkits' configuration names.

    NVML is preferred because it alone knows index and MIG; without it the kernel module's list
    still gives every UUID. What the sources disagree about is a finding. In a captured tree there
    is no NVML to ask, and that is no problem of the node's.
    """
    if nvml is None:
        return Count(replace(proc_inventory(host), pci_count=_count(pci_addresses(host))))
    library = find_library(host, driver_roots)
    reading = nvml.read(library)
    kernel = proc_inventory(host)
    pci = pci_addresses(host)
    if reading.failure is not None:
        problem = replace(_nvml_problem(reading, kernel), file=library or _LIBRARY)
        if not kernel.is_known:
            # Who may not ask NVML still sees that no driver is loaded.
            if reading.failure is NvmlFailure.NO_PERMISSION:
                problem = kernel.problem or problem
            return Count(
                Inventory(problem=problem, pci_count=_count(pci), findings=_unbound(pci, ()))
            )
        return Count(replace(kernel, problem=problem, pci_count=_count(pci)))
    known = [kernel_bus_id(device.pci) for device in reading.devices]
    driven = [kernel_bus_id(device.pci) for device in kernel.gpus.devices]
    inventory = Inventory(
        gpus=GpuStatus(
            source="nvml", driver=reading.driver, cuda=reading.cuda, devices=reading.devices
        ),
        kernel_count=kernel.kernel_count,
        pci_count=_count(pci),
        findings=(*_lost(reading, known, driven, pci or ()), *_pending(reading)),
    )
    return Count(inventory, failed=len(reading.failed), mig_pending=reading.mig_pending)


def find_library(host: HostTree, driver_roots: Iterable[str] = ()) -> str | None:
    """Return the host path of the driver's libnvidia-ml, in the first root that has it.

    ``None`` leaves the search to the dynamic linker.
    """
    for root in dict.fromkeys((*ready_roots(host), *driver_roots, *_ROOTS)):
        for directory in _LIBRARY_DIRS:
            path = f"{root.rstrip('/')}/{directory}/{_LIBRARY}"
            if host.exists(path):
                return path
    return None


def ready_roots(host: HostTree) -> tuple[str, ...]:
    """Return the driver root that GPU Operator's validator published, if it did.

    ``driver-ready`` is a shell file since about 24.6 (NVIDIA/gpu-operator cmd/nvidia-validator).
    """
    try:
        text = host.read(DRIVER_READY, limit_bytes=65536).decode("utf-8", "replace")
    except OSError:
        return ()
    found = dict(_ASSIGNMENT.findall(text)).get("NVIDIA_DRIVER_ROOT", "")
    return (found,) if found.startswith("/") else ()


def pci_addresses(host: HostTree) -> tuple[str, ...] | None:
    """Return the PCI addresses of NVIDIA display devices; ``None`` where sysfs cannot be read."""
    try:
        addresses = host.listdir(PCI_DEVICES)
    except OSError:
        return None
    return tuple(
        address
        for address in addresses
        if _sysfs(host, address, "vendor") == _NVIDIA_VENDOR
        and _sysfs(host, address, "class").startswith(_DISPLAY_CLASS)
    )


def _sysfs(host: HostTree, address: str, name: str) -> str:
    try:
        content = host.read(f"{PCI_DEVICES}/{address}/{name}", limit_bytes=4096)
    except OSError:
        return ""
    return content.decode("ascii", "replace").strip().lower()


def _count(pci: tuple[str, ...] | None) -> int | None:
    return None if pci is None else len(pci)


def _lost(
    reading: NvmlReading, known: list[str], driven: list[str], pci: tuple[str, ...]
) -> Iterator[Finding]:
    for gpu in reading.failed:
        # The bus id can only be told when one single GPU is left over.
        rest = [address for address in driven if address not in known]
        where = f" ({rest[0]})" if len(rest) == 1 else ""
        yield Finding(
            cause=Cause.GPU_LOST,
            severity=Severity.ERROR,
            message=f"NVML cannot describe GPU {gpu.index}{where}: {gpu.message}",
            advice="look for Xid in dmesg, drain the node and reset or replace the GPU",
            who=Who.ADMIN,
        )
    missing = [address for address in driven if address not in known]
    if missing and not reading.failed:
        counts = f"PCI {len(pci)}, kernel {len(driven)}, NVML {len(known)}"
        yield Finding(
            cause=Cause.GPU_LOST,
            severity=Severity.ERROR,
            message=f"{counts}: NVML does not list {', '.join(missing)}",
            advice="look for Xid in dmesg, drain the node and reset or replace the GPU",
            who=Who.ADMIN,
        )
    yield from _unbound(pci, driven or known)


def _unbound(pci: tuple[str, ...] | None, driven: Iterable[str]) -> tuple[Finding, ...]:
    unbound = sorted(set(pci or ()) - set(driven))
    if not unbound:
        return ()
    return (
        Finding(
            cause=Cause.DRIVER_NOT_READY,
            severity=Severity.WARNING,
            message=f"on the PCI bus but not driven by the NVIDIA module: {', '.join(unbound)}",
            advice="see which driver holds the device (lspci -k); vfio-pci is right for passthrough",
            who=Who.ADMIN,
            file=PCI_DEVICES,
        ),
    )


def _pending(reading: NvmlReading) -> Iterator[Finding]:
    for uuid in reading.mig_pending:
        yield Finding(
            cause=Cause.MIG_LAYOUT_CHANGED,
            severity=Severity.WARNING,
            message=f"the MIG mode of {uuid} changes at its next reset",
            advice="let the MIG manager finish, or reset the GPU (nvidia-smi --gpu-reset)",
            who=Who.ADMIN,
            names=(uuid,),
        )


_PROBLEMS: dict[NvmlFailure, tuple[Cause, str]] = {
    NvmlFailure.NO_LIBRARY: (
        Cause.DRIVER_NOT_READY,
        "install the driver, or name its root in nvidia-container-cli.root of config.toml",
    ),
    NvmlFailure.DRIVER_NOT_LOADED: (
        Cause.DRIVER_NOT_READY,
        "load the kernel module (modprobe nvidia), or look at the driver container of this node",
    ),
    NvmlFailure.VERSION_MISMATCH: (
        Cause.DRIVER_MISMATCH,
        "the loaded module is of another release than the libraries: reload it or reboot",
    ),
    NvmlFailure.NO_PERMISSION: (
        Cause.DRIVER_NOT_READY,
        "let gpucdi open /dev/nvidiactl, or accept the kernel module's list (no index, no MIG)",
    ),
    NvmlFailure.GPU_LOST: (
        Cause.GPU_LOST,
        "look for Xid in dmesg, drain the node and reset or replace the GPU",
    ),
    NvmlFailure.TIMEOUT: (
        Cause.DRIVER_NOT_READY,
        "the driver does not answer: look for Xid and hung tasks in dmesg",
    ),
    NvmlFailure.UNKNOWN: (
        Cause.DRIVER_NOT_READY,
        "run nvidia-smi on the host and look for Xid in dmesg",
    ),
}


# The module's list under /proc shows that it is loaded, whatever NVML says.
_LOADED_ADVICE = (
    "the kernel module is loaded: make its device nodes (nvidia-modprobe -c 0 -u, or nvidia-smi as "
    "root), and look in dmesg for what it says of the GPUs"
)


def _nvml_problem(reading: NvmlReading, kernel: Inventory) -> Finding:
    failure = reading.failure or NvmlFailure.UNKNOWN
    cause, advice = _PROBLEMS[failure]
    if failure is NvmlFailure.DRIVER_NOT_LOADED and kernel.is_known:
        advice = _LOADED_ADVICE
    return Finding(
        cause=cause,
        severity=Severity.WARNING,
        message=f"NVML does not answer ({failure.value}): {reading.message}",
        advice=advice,
        who=Who.ADMIN,
    )
