"""The spec that the stand-in for ``nvidia-ctk`` generates from a captured tree.

Owns: devices from ``/proc/driver/nvidia``, device nodes, driver files and hooks as far as the tree
has them. Must not know: the command line. It knows no MIG: a captured ``/proc`` does not tell.

Source of the shape: NVIDIA/nvidia-container-toolkit ``pkg/nvcdi/{full-gpu-nvml,common-nvml,
driver-nvml}.go`` and ``internal/edits``, v1.18.2.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from gpucdi.api.fields import Json
from gpucdi.api.status import GpuDevice, GpuStatus
from gpucdi.host import HostTree
from gpucdi.node import proc_inventory

_CONTROL_NODES = (
    "/dev/nvidia-modeset",
    "/dev/nvidia-uvm",
    "/dev/nvidia-uvm-tools",
    "/dev/nvidiactl",
)
_LIBRARY_DIRS = ("/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu")
_PROGRAMS = (
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-smi",
)
_FIRMWARE = "/lib/firmware/nvidia"
_MOUNT_OPTIONS = ("ro", "nosuid", "nodev", "rbind", "rprivate")


class GenerateError(Exception):
    """Nothing can be generated; the text is what the real generator says in this case."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What to generate: ``driver_root`` and ``hook`` are host paths."""

    kind: str
    strategies: tuple[str, ...]
    driver_root: str
    hook: str


def generate(host: HostTree, wish: Wish) -> dict[str, Json]:
    """Return the spec for every GPU that the tree's kernel module lists.

    Raises :class:`GenerateError` without a driver or without GPUs.
    """
    gpus = proc_inventory(host).gpus
    if not gpus.devices:
        raise GenerateError(
            "failed to create device CDI specs: failed to construct device spec generators: "
            "failed to initialize NVML: Driver Not Loaded"
        )
    devices = sorted(_devices(host, gpus, wish), key=lambda device: str(device["name"]))
    numbered = any(str(device["name"])[0].isdigit() for device in devices)
    return {
        # The smallest version that has every feature in use, as the real generator computes it.
        "cdiVersion": "0.5.0" if numbered or wish.driver_root != "/" else "0.3.0",
        "kind": wish.kind,
        "devices": [*devices, {"name": "all", "containerEdits": _nodes(host, wish, gpus.devices)}],
        "containerEdits": _common(host, gpus, wish),
    }


def render(spec: dict[str, Json], form: str) -> str:
    """Write a spec as ``json`` (one line) or as ``yaml`` in the order of its fields."""
    if form == "json":
        return json.dumps(spec, separators=(",", ":"))
    return "---\n" + yaml.safe_dump(spec, sort_keys=False, indent=4, width=1 << 20)


def _devices(host: HostTree, gpus: GpuStatus, wish: Wish) -> Iterator[dict[str, Json]]:
    # proc_inventory sorts by bus id, which is the order in which NVML numbers GPUs by default.
    for index, gpu in enumerate(gpus.devices):
        names = {"index": str(index), "uuid": gpu.uuid, "type-index": f"gpu{index}"}
        for strategy in wish.strategies:
            yield {"name": names[strategy], "containerEdits": _nodes(host, wish, (gpu,))}


def _nodes(host: HostTree, wish: Wish, gpus: tuple[GpuDevice, ...]) -> dict[str, Json]:
    found = [f"/dev/nvidia{gpu.minor}" for gpu in gpus if gpu.minor is not None]
    nodes: list[Json] = [_node(path, wish) for path in found if host.exists(_under(wish, path))]
    if not nodes:
        raise GenerateError(
            "failed to write CDI spec to STDOUT: failed to write spec: invalid CDI Spec: "
            'failed add device "all": invalid device, empty device edits'
        )
    return {"deviceNodes": nodes}


def _under(wish: Wish, path: str) -> str:
    return posixpath.join(wish.driver_root, path.lstrip("/"))


def _node(path: str, wish: Wish) -> dict[str, Json]:
    return (
        {"path": path}
        if wish.driver_root == "/"
        else {
            "path": path,
            "hostPath": _under(wish, path),
        }
    )


def _common(host: HostTree, gpus: GpuStatus, wish: Wish) -> dict[str, Json]:
    libraries = _library_dir(host, gpus.driver, wish)
    files = [
        *(f"/usr/bin/{name}" for name in _PROGRAMS),
        *_listed(host, libraries, wish, f".so.{gpus.driver}"),
        *_listed(host, f"{_FIRMWARE}/{gpus.driver}", wish, ".bin"),
    ]
    nodes: list[Json] = [
        _node(path, wish) for path in _CONTROL_NODES if host.exists(_under(wish, path))
    ]
    mounts: list[Json] = [
        {
            "hostPath": _under(wish, path),
            "containerPath": path,
            "options": list(_MOUNT_OPTIONS),
        }
        for path in files
        if host.exists(_under(wish, path))
    ]
    return {
        "env": [f"NVIDIA_CTK_LIBCUDA_DIR={libraries}", "NVIDIA_VISIBLE_DEVICES=void"],
        "deviceNodes": nodes,
        "hooks": [
            _hook(wish, "create-symlinks", "--link", f"libcuda.so.1::{libraries}/libcuda.so"),
            _hook(wish, "update-ldcache", "--folder", libraries),
        ],
        "mounts": mounts,
    }


def _library_dir(host: HostTree, driver: str, wish: Wish) -> str:
    for directory in _LIBRARY_DIRS:
        if host.exists(_under(wish, f"{directory}/libcuda.so.{driver}")):
            return directory
    raise GenerateError(
        "failed to create edits common for entities: failed to get libcuda.so parent path: "
        "failed to locate libcuda.so: pattern libcuda.so not found"
    )


def _listed(host: HostTree, directory: str, wish: Wish, ending: str) -> list[str]:
    try:
        names = host.listdir(_under(wish, directory))
    except OSError:
        return []
    return [f"{directory}/{name}" for name in names if name.endswith(ending)]


def _hook(wish: Wish, name: str, *arguments: str) -> dict[str, Json]:
    return {
        "hookName": "createContainer",
        "path": wish.hook,
        "args": ["nvidia-cdi-hook", name, *arguments],
        "env": ["NVIDIA_CTK_DEBUG=false"],
    }
