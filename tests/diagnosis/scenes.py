"""Scenes for the diagnosis: a captured node that differs from the first incident's where told to.

A scene is declared as data (in a case's YAML or in a test): files to write, to change and to
remove, device nodes, modes, the user that reads, the GPUs.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.trees import c00

from gpucdi.api import GpuStatus, Intent, MigDevice, NameRequest, NodeStatus
from gpucdi.failures import Failure
from gpucdi.failures.names import device_of, kind_of
from gpucdi.host import CAPTURE_NAME, HostTree
from gpucdi.node import Inventory, PassContext, assess, node_status, observe
from gpucdi.programs import CapturedPrograms

TOOLKIT_CONFIG = "/usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml"
MANAGEMENT_SPEC = "/run/cdi/management.nvidia.com-gpu.yaml"
PLUGIN_SPEC = "/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"
HOST_SPEC = "/etc/cdi/nvidia.yaml"


@dataclass(frozen=True, slots=True)
class Scene:
    """What differs from the first incident's node."""

    files: Mapping[str, str] = field(default_factory=dict)
    remove: Sequence[str] = ()
    modes: Mapping[str, str] = field(default_factory=dict)
    modified: Mapping[str, int] = field(default_factory=dict)
    engines: Mapping[str, str] = field(default_factory=dict)
    toolkit_version: str | None = None
    read_as_uid: int = 0
    rename_gpu: str | None = None
    replace: Mapping[str, Sequence[str]] = field(default_factory=dict)
    device_numbers: Mapping[str, Sequence[int]] = field(default_factory=dict)
    gpus: GpuStatus = c00.GPUS
    driver: str | None = None
    mig: str | None = None


def build(scene: Scene, place: Path) -> HostTree:
    """Copy the node and change what the scene says."""
    root = c00.copy(place).root
    for path in scene.remove:
        target = root / path.lstrip("/")
        shutil.rmtree(target) if target.is_dir() else target.unlink()
    for path, content in scene.files.items():
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8")
    for path, (old, new) in scene.replace.items():
        content = (root / path.lstrip("/")).read_text(encoding="utf-8")
        assert old in content, f"{path} has no {old}"
        (root / path.lstrip("/")).write_text(content.replace(old, new), encoding="utf-8")
    if scene.rename_gpu:
        _rename(root, c00.UUIDS[0], scene.rename_gpu)
    capture = json.loads((root / CAPTURE_NAME).read_text(encoding="utf-8"))
    capture["devices"] = _numbered(capture["devices"], scene.device_numbers)
    capture |= {"modes": dict(scene.modes), "readAsUid": scene.read_as_uid}
    capture["modified"] = dict(scene.modified)
    capture["engines"] = capture.get("engines", {}) | dict(scene.engines)
    capture["programs"] = {
        path: text
        for path, text in capture["programs"].items()
        if not any(path == gone or path.startswith(f"{gone}/") for gone in scene.remove)
    }
    if scene.toolkit_version:
        capture["programs"] = {
            path: text.replace("1.18.1", scene.toolkit_version)
            for path, text in capture["programs"].items()
        }
    (root / CAPTURE_NAME).write_text(json.dumps(capture), encoding="utf-8")
    return HostTree(root)


def _numbered(
    devices: list[dict[str, object]], numbers: Mapping[str, Sequence[int]]
) -> list[dict[str, object]]:
    """Give nodes other numbers, make new ones, and take away those without a number."""
    kept = [device for device in devices if device["path"] not in numbers]
    return kept + [
        {"path": path, "type": "c", "major": pair[0], "minor": pair[1], "mode": "0666"}
        for path, pair in numbers.items()
        if pair
    ]


def look(scene: Scene, place: Path, failures: Sequence[Failure] = ()) -> NodeStatus:
    """Return the node's status as the agent would publish it, the failures' names asked for."""
    host = build(scene, place)
    requests: dict[str, list[str]] = {}
    for failure in failures:
        for name in failure.names:
            requests.setdefault(kind_of(name), []).append(device_of(name))
    intent = Intent(requests=tuple(NameRequest(kind, tuple(v)) for kind, v in requests.items()))
    gpus = scene.gpus
    if scene.rename_gpu:
        first = replace(gpus.devices[0], uuid=scene.rename_gpu)
        gpus = replace(gpus, devices=(first, *gpus.devices[1:]))
    if scene.driver:
        gpus = replace(gpus, driver=scene.driver)
    if scene.mig:
        first = replace(gpus.devices[0], mig_enabled=True, mig=(MigDevice(scene.mig, 0),))
        gpus = replace(gpus, devices=(first, *gpus.devices[1:]))
    observation = observe(host, CapturedPrograms.of(host), Inventory(gpus), intent)
    return node_status(assess(observation, host), PassContext(now="2026-01-01T00:00:00Z"))


def spec(kind: str, *names: str, version: str = "0.5.0", node: str = "/dev/nvidia0") -> str:
    """Return a spec whose devices all have one node."""
    devices = "".join(
        f'- name: "{name}"\n  containerEdits:\n    deviceNodes:\n    - path: {node}\n'
        for name in names
    )
    return f'cdiVersion: "{version}"\nkind: {kind}\ndevices:\n{devices}'


CHECKPOINT = "/var/lib/kubelet/plugins/gpu.nvidia.com/checkpoint.json"
BOOT_FILES = {
    "/proc/stat": "cpu  1 2 3\nbtime 1773748800\nprocesses 7\n",
    "/proc/sys/kernel/random/boot_id": "0b1f3e4e-58a5-4b43-9c5e-6d1a4f0c9d11\n",
}
BOOT_S = 1773748800
BOOT_ID = "0b1f3e4e-58a5-4b43-9c5e-6d1a4f0c9d11"


def checkpoint(
    uid: str, *names: str, state: str = "PrepareCompleted", boot_id: str | None = None
) -> str:
    """Return a DRA driver's checkpoint with one claim, as v25.8 and newer write it."""
    devices = [{"gpu": {"device": {"DeviceName": "gpu-0", "CDIDeviceIDs": list(names)}}}]
    prepared = {"preparedDevices": [{"devices": devices}], "status": {"allocation": {}}}
    second: dict[str, object] = {
        "preparedClaims": {uid: {"checkpointState": state, **prepared}},
    }
    second |= {"nodeBootID": boot_id} if boot_id else {}
    return json.dumps({"checksum": 1, "v1": {"preparedClaims": {uid: prepared}}, "v2": second})


def config(
    mode: str = "cdi",
    default_kind: str = "nvidia.com/gpu",
    spec_dirs: Sequence[str] = ("/etc/cdi", "/var/run/cdi"),
) -> str:
    """Return a config.toml of the NVIDIA runtime."""
    return (
        f'[nvidia-container-runtime]\nmode = "{mode}"\nruntimes = ["runc", "crun"]\n\n'
        f'[nvidia-container-runtime.modes.cdi]\ndefault-kind = "{default_kind}"\n'
        f"spec-dirs = {json.dumps(list(spec_dirs))}\n"
    )


def _rename(root: Path, old: str, new: str) -> None:
    for path in root.rglob("*"):
        if path.is_symlink() or not path.is_file():
            continue
        content = path.read_bytes()
        if old.encode() in content:
            path.write_bytes(content.replace(old.encode(), new.encode()))
