"""A node of the lab on which the real runtimes and the prediction meet the same files.

Owns: writing a case onto the node, running the real runtime with a recording low-level runtime, and
predicting from the node's own root. Must not know: how the two are compared.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.differential_runtime.cases import Case, toolkit_folder
from tests.differential_runtime.containers import SPEC_DIRS
from tests.lab import hardware
from tests.lab.hardware import Fault, Hardware
from tests.lab.node import Node, NodeDescription
from tests.lab.programs import TOOLKIT_VERSIONS
from tests.lab.toolkits import MODULES_STAND_IN, OperatorToolkit, PackageToolkit

from gpucdi.engines import discover_engines
from gpucdi.host import HostTree
from gpucdi.programs import CapturedPrograms
from gpucdi.toolkit import (
    ContainerRequest,
    JitGpu,
    JitInventory,
    Outcome,
    RequestMount,
    predict,
    resolve_runtime,
)

LOW_LEVEL = "#!/bin/sh\necho ran > /run/case/ran\n"
BUNDLE = "/run/case/bundle"
LOG = "/run/case/log.json"
ETC_CONFIG = "/etc/nvidia-container-runtime/config.toml"
ENGINE_CONFIG = "/etc/containerd/config.toml"
MODULE_LINE = "nvidia 60000000 2 nvidia_uvm, Live 0x0000000000000000 (POE)\n"
NVML_TEXTS = {
    Fault.DRIVER_NOT_LOADED: "Driver Not Loaded",
    Fault.VERSION_MISMATCH: "Driver/library version mismatch",
}


@dataclass(frozen=True)
class Observed:
    """What the real runtime did: its end, its last error, and what it changed."""

    code: int
    error: str | None
    stderr: str
    ran: bool
    debug: str
    nodes: tuple[str, ...] = ()
    added_environment: tuple[str, ...] = ()
    has_prestart_hook: bool = False
    is_changed: bool = False


class Bench:
    """One node for many cases."""

    def __init__(self, base: Path) -> None:
        """Describe the node; ``start`` it through :attr:`node`."""
        self.node = Node(_description(), base)
        self.versions: dict[str, str] = {}

    def start(self) -> None:
        """Start the node and ask every toolkit for its version, as a live agent would."""
        self.node.start()
        for version in TOOLKIT_VERSIONS:
            for wrapped in (True, False):
                program = f"{toolkit_folder(version, wrapped=wrapped)}/nvidia-ctk"
                self.versions[program] = self.node.run([program, "--version"], check=True).stdout
        self.node.write("/run/case/low-level", LOW_LEVEL, 0o755)

    def lay(self, case: Case) -> None:
        """Put a case's files onto the node, in place of the last one's."""
        for directory in SPEC_DIRS:
            shutil.rmtree(self.node.path(directory), ignore_errors=True)
            self.node.path(directory).mkdir()
        for path, text in case.specs.items():
            self.node.write(path, text)
        self.node.write(ENGINE_CONFIG, case.engine)
        own = f"{toolkit_folder(case.version, wrapped=True)}/.config/nvidia-container-runtime/config.toml"
        in_force, other = (own, ETC_CONFIG) if case.wrapped else (ETC_CONFIG, own)
        self.node.write(in_force, case.config)
        self.node.path(other).unlink(missing_ok=True)
        if case.decoy is not None:
            self.node.write(other, case.decoy)
        modules = MODULE_LINE if case.has_module else "other 1 0 - Live 0x0\n"
        for path in ("/proc/modules", MODULES_STAND_IN):
            if self.node.path(path).exists():
                self.node.path(path).write_text(modules)
        self.node.set_nvml(replace(hardware.MIG_GPU, fault=case.fault))

    def run(self, case: Case) -> Observed:
        """Let the real runtime create the container."""
        bundle = self.node.path(BUNDLE)
        shutil.rmtree(bundle, ignore_errors=True)
        for name in ("ran", "log.json", "debug.log"):
            self.node.path(f"/run/case/{name}").unlink(missing_ok=True)
        before = _specification(case)
        self.node.write(f"{BUNDLE}/config.json", json.dumps(before))
        program = f"{toolkit_folder(case.version, wrapped=case.wrapped)}/nvidia-container-runtime"
        program += case.handler.removeprefix("nvidia").replace("-", ".")
        arguments = ["--log", LOG, "--log-format", "json", "create", "--bundle", BUNDLE, "c"]
        done = self.node.run([program, *arguments], cwd=BUNDLE)
        after = json.loads((bundle / "config.json").read_text())
        return Observed(
            code=done.returncode,
            error=_last_error(self._text("log.json")),
            stderr=done.stderr,
            ran=bool(self._text("ran")),
            debug=self._text("debug.log"),
            nodes=tuple(each["path"] for each in after["linux"].get("devices", ())),
            added_environment=_added(before, after),
            has_prestart_hook="prestart" in after.get("hooks", {}),
            is_changed=_without_noise(after) != _without_noise(before),
        )

    def predict(self, case: Case) -> Outcome:
        """Predict the same container from the node's files."""
        host = HostTree(self.node.root)
        programs = CapturedPrograms(self.versions, {"containerd": case.engine_version})
        [engine] = discover_engines(host, programs)
        handler = engine.handler(case.handler)
        assert handler is not None, engine
        runtime = resolve_runtime(host, programs, handler)
        mounts = tuple(RequestMount(*mount) for mount in case.mounts)
        request = ContainerRequest(
            tuple(case.environment), case.annotations, mounts, privileged=case.privileged
        )
        return predict(host, runtime, request, inventory(hardware.MIG_GPU, case.fault))

    def _text(self, name: str) -> str:
        path = self.node.path(f"/run/case/{name}")
        return path.read_text() if path.exists() else ""


def inventory(machine: Hardware, fault: Fault | None) -> JitInventory:
    """What NVML says of a machine of the lab."""
    gpus = tuple(
        JitGpu(
            index,
            gpu.uuid,
            mig_enabled=gpu.mig is not None,
            mig=dict(enumerate(mig.uuid for mig in gpu.mig or ())),
        )
        for index, gpu in enumerate(machine.gpus)
    )
    return JitInventory(gpus, NVML_TEXTS[fault] if fault is not None else None)


def _description() -> NodeDescription:
    toolkits: list[OperatorToolkit | PackageToolkit] = []
    for version in TOOLKIT_VERSIONS:
        toolkits.append(OperatorToolkit(version, folder=toolkit_folder(version, wrapped=True)))
        toolkits.append(PackageToolkit(version, folder=toolkit_folder(version, wrapped=False)))
    directories = (*SPEC_DIRS, "/run/case", "/etc/containerd", "/etc/nvidia-container-runtime")
    return NodeDescription(
        hardware.MIG_GPU,
        toolkits=toolkits,
        directories=directories,
        # Where a wrapper finds the low-level runtime while the kernel module is missing.
        executables={"/usr/local/sbin/runc": LOW_LEVEL},
    )


def _specification(case: Case) -> dict[str, object]:
    bounding = ["CAP_CHOWN", *(["CAP_SYS_ADMIN"] if case.privileged else [])]
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": ["true"],
            "cwd": "/",
            "env": list(case.environment),
            "capabilities": {"bounding": bounding},
        },
        "root": {"path": "rootfs"},
        "annotations": dict(case.annotations),
        "mounts": [{"source": s, "destination": d, "type": "bind"} for s, d in case.mounts],
        "linux": {},
    }


def _without_noise(specification: dict[str, object]) -> dict[str, object]:
    """Drop what a plain rewrite adds or loses: empty members."""
    return {name: value for name, value in specification.items() if value}


def _added(before: dict[str, object], after: dict[str, object]) -> tuple[str, ...]:
    old, new = (_environment_of(each) for each in (before, after))
    return tuple(entry for entry in new if entry not in old)


def _environment_of(specification: dict[str, object]) -> Sequence[str]:
    process = specification["process"]
    assert isinstance(process, dict)
    return [str(entry) for entry in process.get("env", ())]


def _last_error(log: str) -> str | None:
    errors = [
        str(entry["msg"])
        for entry in map(json.loads, filter(None, log.splitlines()))
        if entry.get("level") == "error"
    ]
    return errors[-1] if errors else None
