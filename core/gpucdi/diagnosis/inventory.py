"""Names against the node's GPUs: whether the device that a name means exists at all.

Owns what a name can mean (NVML index, ``gpu:mig``, UUID, the aggregates). Must not know specs.
Source: NVIDIA/nvidia-container-toolkit ``pkg/nvcdi/namer.go``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpucdi.api import GpuDevice
from gpucdi.failures.names import UUID
from gpucdi.findings import Cause

_INDEX = re.compile(r"[0-9]+")
_MIG_INDEX = re.compile(r"([0-9]+):([0-9]+)")
# `GPU-…::0` (time-slicing) and `GPU-…-3` (HAMi) are kubelet's ids of a share, never CDI names.
_REPLICA = re.compile(rf"{UUID.pattern}(?:::[0-9]+|-[0-9]+)")
_SHORT_UUID = re.compile(r"(?:GPU|MIG)-[0-9a-fA-F-]{1,39}")


def is_replica(device: str) -> bool:
    """Tell whether ``device`` is a plugin's id of a shared GPU."""
    return _REPLICA.fullmatch(device) is not None


def is_short_uuid(device: str) -> bool:
    """Tell whether ``device`` is the beginning of a UUID, which only legacy mode understands."""
    return UUID.fullmatch(device) is None and _SHORT_UUID.fullmatch(device) is not None


def names_of(gpus: Sequence[GpuDevice]) -> frozenset[str]:
    """Return every name that the driver itself gives to these GPUs and their MIG instances."""
    found = {gpu.uuid for gpu in gpus} | {mig.uuid for gpu in gpus for mig in gpu.mig}
    found |= {str(gpu.index) for gpu in gpus if gpu.index is not None}
    found |= {f"{gpu.index}:{mig.index}" for gpu in gpus for mig in gpu.mig}
    return frozenset(found)


def absent(device: str, gpus: Sequence[GpuDevice]) -> Cause | None:
    """Return why ``device`` cannot exist on a node with these GPUs; ``None`` when it can.

    Names that are not the driver's own (``all``, ``none``, other vendors' names) are never judged.
    """
    by_uuid = {gpu.uuid: gpu for gpu in gpus}
    if UUID.fullmatch(device):
        if device.startswith("MIG-"):
            known = any(mig.uuid == device for gpu in gpus for mig in gpu.mig)
            return None if known or not _sees_mig(gpus) else Cause.MIG_LAYOUT_CHANGED
        gpu = by_uuid.get(device)
        if gpu is None:
            return Cause.STALE_UUID
        return Cause.MIG_PARENT_HIDDEN if gpu.mig_enabled else None
    if _INDEX.fullmatch(device):
        return _absent_index(int(device), gpus)
    mig_index = _MIG_INDEX.fullmatch(device)
    if mig_index is not None:
        return _absent_mig(int(mig_index[1]), int(mig_index[2]), gpus)
    return None


def _absent_index(index: int, gpus: Sequence[GpuDevice]) -> Cause | None:
    if any(gpu.index is None for gpu in gpus):
        return None
    gpu = next((gpu for gpu in gpus if gpu.index == index), None)
    if gpu is None:
        return Cause.UNKNOWN_DEVICE
    return Cause.MIG_PARENT_HIDDEN if gpu.mig_enabled else None


def _absent_mig(index: int, slot: int, gpus: Sequence[GpuDevice]) -> Cause | None:
    gpu = next((gpu for gpu in gpus if gpu.index == index), None)
    if gpu is None:
        return Cause.UNKNOWN_DEVICE
    known = any(mig.index == slot for mig in gpu.mig)
    return None if known or not _sees_mig(gpus) else Cause.MIG_LAYOUT_CHANGED


def _sees_mig(gpus: Sequence[GpuDevice]) -> bool:
    # The kernel module's own list tells nothing about MIG; NVML does.
    return all(gpu.mig_enabled is not None for gpu in gpus)
