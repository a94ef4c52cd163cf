"""How long it takes to know a node's CDI devices, ours beside the Go library's.

``python -m tests.bench.cdi_load`` lays a node with eight GPUs, lets the real ``nvidia-ctk`` write
real-size specs of three kinds, and prints one table. Needs the lab (``make lab``).
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.differential.oracle import Oracle, reason_to_skip
from tests.lab import driver, programs
from tests.lab.hardware import Gpu, Hardware
from tests.lab.node import Node, NodeDescription
from tests.lab.oracle.build import path_of
from tests.lab.toolkits import PackageToolkit

from gpucdi import cdi
from gpucdi.host import HostTree

VERSION = "1.1.0"
TOOLKIT = "1.18.2"
ROUNDS = 25
DRIVER = "570.86.15"
GPUS = tuple(
    Gpu(
        f"GPU-{number:08x}-b7e4-8cb0-69a8-40490ce01a2f",
        number,
        f"00000000:{0x18 + 9 * number:02x}:00.0",
    )
    for number in range(8)
)
# The user space libraries of a 570 driver that nvidia-ctk mounts besides the lab's own three.
LIBRARIES = (
    "libEGL_nvidia", "libGLESv1_CM_nvidia", "libGLESv2_nvidia", "libGLX_nvidia", "libcudadebugger",
    "libnvcuvid", "libnvidia-allocator", "libnvidia-cfg", "libnvidia-eglcore", "libnvidia-encode",
    "libnvidia-fbc", "libnvidia-glcore", "libnvidia-glsi", "libnvidia-glvkspirv",
    "libnvidia-gpucomp", "libnvidia-ngx", "libnvidia-nvvm", "libnvidia-opencl",
    "libnvidia-opticalflow", "libnvidia-pkcs11-openssl3", "libnvidia-rtcore",
    "libnvidia-sandboxutils", "libnvidia-tls", "libnvidia-vksc-core", "libnvoptix",
)  # fmt: skip
KINDS: Mapping[str, tuple[str, ...]] = {
    "etc/cdi/nvidia.yaml": ("--mode", "nvml"),
    "var/run/cdi/management.nvidia.com-gpu.yaml": (
        "--mode", "management", "--vendor", "management.nvidia.com",
    ),
    "var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json": (
        "--mode", "nvml", "--vendor", "k8s.device-plugin.nvidia.com",
        "--device-name-strategy", "uuid", "--format", "json",
    ),
}  # fmt: skip
DIRS = ("/etc/cdi", "/var/run/cdi")
# A fresh interpreter, so that nothing is warm but the page cache; the import is not counted.
COLD = """
import sys, time
from gpucdi import cdi
from gpucdi.host import HostTree
reader = cdi.Reader(("/etc/cdi", "/var/run/cdi"), cdi.Library(sys.argv[2]))
began = time.perf_counter()
answer = reader.load(HostTree(sys.argv[1])).resolve(sys.argv[3:])
print(time.perf_counter() - began)
assert answer.resolved
"""
# A whole process: starting Python, the import, the load.
WHOLE = """
import sys
from gpucdi import cdi
from gpucdi.host import HostTree
reader = cdi.Reader(("/etc/cdi", "/var/run/cdi"), cdi.Library(sys.argv[2]))
assert reader.load(HostTree(sys.argv[1])).resolve(sys.argv[3:]).resolved
"""
# PyYAML is part of what the library costs.
IMPORT = """
import time
began = time.perf_counter()
import gpucdi.cdi
print(time.perf_counter() - began)
"""


def lay_specs(root: Path, scratch: Path) -> None:
    """Let nvidia-ctk write the specs of the three kinds below ``root``."""
    folder = f"/{driver.library_folder()}"
    filler = driver.compile_stub() / "libcuda.so.1"
    copies = {f"{folder}/{name}.so.{DRIVER}": filler for name in LIBRARIES}
    description = NodeDescription(
        hardware=Hardware(GPUS, driver_version=DRIVER),
        toolkits=[PackageToolkit(TOOLKIT)],
        copies=copies,
    )
    with Node(description, scratch) as node:
        for name, options in KINDS.items():
            written = node.run(["/usr/bin/nvidia-ctk", "cdi", "generate", *options])
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(written.stdout)


def milliseconds(call: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the median time of one call."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1000


def rows(root: Path) -> list[tuple[str, float]]:
    """Measure everything on the tree."""
    host = HostTree(root)
    reader = cdi.Reader(DIRS, cdi.Library(VERSION))
    names = sorted(reader.load(host).devices)
    cached = cdi.CachedReader(reader)
    dirs = [f"{root}{path}" for path in DIRS]
    question = json.dumps({"op": "cache", "dirs": dirs, "devices": names}).encode()
    ctk = programs.toolkit(TOOLKIT) / "nvidia-ctk"
    list_command = [str(ctk), "cdi", "list", *(f"--spec-dir={path}" for path in dirs)]

    def measured(program: str) -> float:
        command = [sys.executable, "-c", program, str(root), VERSION, *names]
        return float(subprocess.run(command, capture_output=True, check=True).stdout)

    def median(program: str) -> float:
        return statistics.median(measured(program) for _ in range(ROUNDS)) * 1000

    def run(command: list[str], data: bytes | None = None) -> None:
        subprocess.run(command, input=data, capture_output=True, check=True)

    with Oracle(VERSION) as oracle:
        asked = oracle.ask({"op": "bench", "dirs": dirs, "devices": names, "count": 200})
    in_process = asked["ns"]
    assert isinstance(in_process, int)
    return [
        ("gpucdi.cdi in process, cold", median(COLD)),
        (
            "gpucdi.cdi in process, unchanged tree",
            milliseconds(lambda: cached.load(host).resolve(names), 200),
        ),
        ("gpucdi.cdi, its import and PyYAML's", median(IMPORT)),
        (
            "gpucdi.cdi, cold with import in a new process",
            milliseconds(lambda: run([sys.executable, "-c", WHOLE, str(root), VERSION, *names])),
        ),
        (
            "Python that does nothing, whole process",
            milliseconds(lambda: run([sys.executable, "-c", ""])),
        ),
        ("Go library in process", in_process / 1e6),
        ("Go program, whole process", milliseconds(lambda: run([str(path_of(VERSION))], question))),
        (f"nvidia-ctk {TOOLKIT} cdi list, whole process", milliseconds(lambda: run(list_command))),
    ]


def main() -> int:
    absent = reason_to_skip()
    if absent:
        print(absent)
        return 2
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory) / "tree"
        lay_specs(root, Path(directory) / "node")
        sizes = ", ".join(f"{(root / name).stat().st_size / 1024:.0f} KiB" for name in KINDS)
        devices = len(cdi.Reader(DIRS, cdi.Library(VERSION)).load(HostTree(root)).devices)
        print(f"{devices} devices in {len(KINDS)} files ({sizes}), library {VERSION}")
        print(f"{'load and resolve all':<50} {'median ms':>10}")
        for name, value in rows(root):
            print(f"{name:<50} {value:>10.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
