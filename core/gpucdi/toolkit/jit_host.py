"""The GPUs for just-in-time requests as the kernel module lists them, where nobody asks NVML.

Owns: reading ``/proc/driver/nvidia/gpus``. Must not know: what is requested.
"""

from __future__ import annotations

from gpucdi.host import HostTree
from gpucdi.toolkit.jit import JitGpu, JitInventory

PROC_GPUS = "/proc/driver/nvidia/gpus"


def kernel_inventory(host: HostTree) -> JitInventory | None:
    """Return the kernel module's list, ``None`` where it cannot be read.

    It knows UUIDs, but neither NVML's indices nor MIG devices: requests for those stay unknown, and
    so does every request when a GPU does not tell its UUID yet.
    """
    try:
        folders = host.listdir(PROC_GPUS)
    except OSError:
        return None
    uuids = [_uuid(host, f"{PROC_GPUS}/{folder}/information") for folder in folders]
    gpus = tuple(JitGpu(None, uuid) for uuid in uuids if uuid is not None)
    return JitInventory(gpus, knows_all_gpus=None not in uuids, knows_mig=False)


def _uuid(host: HostTree, path: str) -> str | None:
    try:
        text = host.read(path).decode("utf-8", "replace")
    except OSError:
        return None
    for line in text.splitlines():
        name, _, value = line.partition(":")
        # The module prints question marks until the GPU has been initialised once.
        if name.strip() == "GPU UUID" and "?" not in value:
            return value.strip() or None
    return None
