"""The bytes of one of our own spec files.

Owns: which devices of a generated spec are kept, and what is left out of them so that the file
outlives a reboot and every reader on the node parses it. Must not know: where the file goes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from dataclasses import replace

from gpucdi.api.names import OWN_FILE_MARK
from gpucdi.cdi import ContainerEdits, Device, DeviceNode, Spec, dump_spec

_FINGERPRINT = "# inputs "
_GPU_NODE = re.compile(r"/dev/nvidia([0-9]{1,9})")


def sha256_text(content: bytes) -> str:
    """Return ``sha256:<hex>`` of a file's content."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def own_content(spec: Spec, fingerprint: str) -> bytes:
    """Return our file for ``spec``: the mark that makes it ours, what it was made from, the spec."""
    head = f"{OWN_FILE_MARK} Do not edit; `gpucdi-agent revert` removes it.\n"
    return (head + f"{_FINGERPRINT}{fingerprint}\n").encode() + dump_spec(spec)


def own_fingerprint(content: bytes) -> str | None:
    """Return the fingerprint that :func:`own_content` put into a file, ``None`` without one."""
    for line in content[:4096].decode("utf-8", "replace").splitlines()[:5]:
        if line.startswith(_FINGERPRINT):
            return line.removeprefix(_FINGERPRINT).strip()
    return None


def narrowed(spec: Spec, kind: str, names: Collection[str], *, plain: bool) -> Spec:
    """Return ``spec`` under ``kind`` with just the devices called ``names``.

    ``plain`` also leaves out what libraries below 0.7.0 reject: ``additionalGids`` and annotations.
    """
    devices = tuple(
        Device(name=device.name, edits=_lasting(device.edits, plain=plain))
        for device in spec.devices
        if device.name in names
    )
    return Spec(kind=kind, devices=devices, edits=_lasting(spec.edits, plain=plain))


def _lasting(edits: ContainerEdits, *, plain: bool) -> ContainerEdits:
    nodes = tuple(_without_numbers(node) for node in edits.device_nodes)
    gids = () if plain else edits.additional_gids
    return replace(edits, device_nodes=nodes, additional_gids=gids)


def _without_numbers(node: DeviceNode) -> DeviceNode:
    """Drop the device numbers of a node, so that each reader asks the host for today's.

    A node with type and major is taken as it stands (container-device-interface
    ``pkg/cdi/container-edits_unix.go``); the majors of nvidia-uvm and nvidia-caps are dynamic.
    """
    return replace(node, type="", major=0, minor=0, file_mode=None)


def gpu_minors(device: Device) -> frozenset[int]:
    """Return the N of the nodes ``/dev/nvidiaN`` that a device gives.

    None is a fault of its own: from toolkit 1.20.1 on a GPU whose ``/dev/nvidiaN`` is missing is generated without error and
    without node; such a device would resolve and start a container without a GPU.
    """
    found = (_GPU_NODE.fullmatch(node.path) for node in device.edits.device_nodes)
    return frozenset(int(match[1]) for match in found if match)
