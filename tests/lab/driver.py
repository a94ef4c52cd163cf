"""The NVIDIA driver of an imaginary machine: the stub library and the files of a driver root.

Owns: compiling ``tests/lab/nvml`` once into the cache, and laying a driver root as the real
``nvidia-ctk`` wants to find it (NVIDIA/nvidia-container-toolkit internal/lookup/root/root.go,
pkg/nvcdi/driver-nvml.go). Device nodes are the node's. Must not know: toolkits, engines.
"""

from __future__ import annotations

import hashlib
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.lab.hardware import Hardware, smi_listing, stub_config
from tests.lab.programs import HERE, ProgramMissingError, cache_folder, publish

STUB_CONFIG_PATH = "/etc/nvml-stub.conf"
STUB_CONFIG_VARIABLE = "NVML_STUB_CONFIG"
_SOURCES = ("config.c", "nvml.c")
_FLAGS = ("-std=gnu11", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra")
_NVML = "libnvidia-ml.so.1"
# These are looked up and mounted, never loaded; nvidia-ctk reads their soname to plan its links.
_FILLERS = ("libcuda.so.1", "libnvidia-ptxjitcompiler.so.1")


def library_folder() -> str:
    """Return the folder of libraries below a driver root on this machine, without leading slash."""
    return f"usr/lib/{platform.machine()}-linux-gnu"


def compile_stub() -> Path:
    """Return the folder with the driver's libraries, compiling them if their source is new.

    Raises ProgramMissingError without gcc, subprocess.CalledProcessError if one does not compile.
    """
    sources = [HERE / "nvml" / name for name in _SOURCES]
    digest = hashlib.sha256("\0".join([*_FLAGS, *_FILLERS, platform.machine()]).encode())
    for source in (HERE / "nvml" / "stub.h", *sources):
        digest.update(source.read_bytes())
    folder = cache_folder() / f"nvml-{digest.hexdigest()[:12]}"
    if folder.is_dir():
        return folder
    if shutil.which("gcc") is None:
        raise ProgramMissingError("the stub of NVML is not compiled (needs gcc)")
    cache_folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_folder(), prefix=".building-") as scratch:
        made = Path(scratch) / "libraries"
        made.mkdir()
        _compile(made / _NVML, sources)
        for name in _FILLERS:
            _compile(made / name, [])
        publish(made, folder)
    return folder


def lay_driver_root(root: Path, hardware: Hardware) -> Path:
    """Lay libraries and nvidia-smi of the driver below ``root``; return the library folder."""
    libraries = root / library_folder()
    libraries.mkdir(parents=True, exist_ok=True)
    version = hardware.driver_version
    compiled = compile_stub()
    for name in (_NVML, *_FILLERS):
        # The suffix must be the version that NVML reports, or nvidia-ctk finds no driver library.
        versioned = f"{name.removesuffix('.1')}.{version}"
        shutil.copyfile(compiled / name, libraries / versioned)
        (libraries / name).unlink(missing_ok=True)
        (libraries / name).symlink_to(versioned)
    (root / "usr/bin").mkdir(parents=True, exist_ok=True)
    smi = root / "usr/bin/nvidia-smi"
    smi.write_text(f"#!/bin/sh\ncat <<'END'\n{smi_listing(hardware)}END\n")
    smi.chmod(0o755)
    return libraries


def remove_driver_root(root: Path) -> None:
    """Remove what ``lay_driver_root`` laid, of whatever version."""
    for name in (_NVML, *_FILLERS):
        for path in (root / library_folder()).glob(f"{name.removesuffix('.1')}.*"):
            path.unlink()
    (root / "usr/bin/nvidia-smi").unlink(missing_ok=True)


def write_stub_config(path: Path, hardware: Hardware) -> None:
    """Write the file that the stub reads, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(stub_config(hardware))
    temporary.rename(path)


def _compile(library: Path, sources: list[Path]) -> None:
    """Make one shared library with its file name as soname; without sources an empty one."""
    inputs = [str(source) for source in sources] or ["-x", "c", "/dev/null"]
    soname = f"-Wl,-soname,{library.name}"
    subprocess.run(["gcc", *_FLAGS, soname, "-o", str(library), *inputs, "-lpthread"], check=True)
