"""The captured node of the first incident, copied so that a test may change it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from gpucdi.api import GpuDevice, GpuStatus, Intent, NodeStatus, RepairMode
from gpucdi.cdi import ContainerEdits, Device, DeviceNode, Spec, dump_spec
from gpucdi.host import CAPTURE_NAME, HostTree
from gpucdi.node import Assessment, Inventory, PassContext, assess, node_status, observe
from gpucdi.programs import CapturedPrograms

EXAMPLE = Path(__file__).parents[2] / "examples" / "c00"
MANAGEMENT = "management.nvidia.com/gpu"
UUIDS = (
    "GPU-4044aeb5-b7e4-8cb0-69a8-40490ce01a2f",
    "GPU-9c1d2f60-3a57-1e84-b0c6-5d7e81f2a943",
)
GPUS = GpuStatus(
    source="nvml",
    driver="570.86.15",
    devices=tuple(
        GpuDevice(uuid, index, index, f"00000000:{bus}:00.0", "A100", mig_enabled=False)
        for index, (uuid, bus) in enumerate(zip(UUIDS, ("3b", "86"), strict=True))
    ),
)
AUTO = Intent(mode=RepairMode.AUTO)


def copy(to: Path) -> HostTree:
    """Copy the tree with its links as they are."""
    shutil.copytree(EXAMPLE, to, symlinks=True)
    return HostTree(to)


def without_toolkit(host: HostTree) -> HostTree:
    """Take the toolkit's folder away, as its container does at each start, and look anew."""
    shutil.rmtree(host.outside("/usr/local/nvidia/toolkit"))
    capture = host.root / CAPTURE_NAME
    facts = json.loads(capture.read_text())
    del facts["programs"]
    capture.write_text(json.dumps(facts))
    return HostTree(host.root)


def judge(host: HostTree, inventory: Inventory | None = None, intent: Intent = AUTO) -> Assessment:
    """Make one pass over the tree."""
    programs = CapturedPrograms.of(host)
    return assess(observe(host, programs, inventory or Inventory(GPUS), intent), host)


def status(host: HostTree, inventory: Inventory | None = None) -> NodeStatus:
    """Make one pass over the tree and return what the API would show."""
    return node_status(judge(host, inventory), PassContext(now="2026-01-01T00:00:00Z"))


def _edits(minor: int) -> ContainerEdits:
    node = DeviceNode(path=f"/dev/nvidia{minor}", type="c", major=195, minor=minor)
    return ContainerEdits(device_nodes=(node,))


def generated(names: Sequence[str], kind: str = MANAGEMENT, gpu: int | None = None) -> bytes:
    """Return a generator's spec with these devices, majors baked in.

    Each is on its own GPU (what is no GPU's name on the first), or all of them on ``gpu``.
    """
    minors = {name: gpu.minor or 0 for gpu in GPUS.devices for name in (gpu.uuid, str(gpu.index))}
    devices = tuple(
        Device(name=name, edits=_edits(minors.get(name, 0) if gpu is None else gpu))
        for name in names
    )
    return dump_spec(Spec(kind=kind, devices=devices, edits=ContainerEdits(env=("A=b",))))
