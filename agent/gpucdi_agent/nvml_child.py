"""The short-lived child that asks NVML: prints one JSON object and ends.

Owns: every call into the driver. Being a process of its own, it can hang, crash or leak without
the agent doing so, and no handle outlives it (an open handle blocks a driver unload and a MIG
change). Must not know: anything of gpucdi; it imports the standard library and pynvml.

Run as ``python -m gpucdi_agent.nvml_child [--root DIR] [--library PATH]``. With ``--root`` it
enters that root first, so that the driver's own files and devices are the host's.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import pynvml

T = TypeVar("T")
LIBRARY = "libnvidia-ml.so.1"
CONTROL = "/dev/nvidiactl"
# What NVML itself is linked to; loaded before the root changes, lest the host's C library meets ours.
_NEEDED = ("libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1")


def main(arguments: list[str] | None = None) -> int:
    """Print the inventory, or ``{"error": …}``; the exit code is 0 whenever JSON was printed."""
    parser = argparse.ArgumentParser(prog="gpucdi_agent.nvml_child")
    parser.add_argument("--root", default="/")
    parser.add_argument("--library", default=LIBRARY)
    options = parser.parse_args(arguments)
    json.dump(_answer(options.root, options.library), sys.stdout)
    sys.stdout.flush()
    return 0


def _answer(root: str, library: str) -> dict[str, object]:
    outside, problem = _load(root, library)
    if problem is not None:
        return {"error": {"code": pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, "message": problem}}
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return {"error": _error(error), "control": _control(), "outside": outside}
    try:
        return _inventory()
    except pynvml.NVMLError as error:
        return {"error": _error(error)}
    finally:
        pynvml.nvmlShutdown()


def _load(root: str, library: str) -> tuple[bool, str | None]:
    """Load the library; tell whether that was from outside of ``root``, and what went wrong."""
    outside = False
    if root != "/":
        for name in _NEEDED:
            _try_load(name)
        try:
            os.chroot(root)
            os.chdir("/")
        except PermissionError:
            # Without the capability the library is loaded through the mount instead.
            outside = True
            library = root + library if library.startswith("/") else library
    # pynvml asks for the bare soname; a library of that soname that is already loaded answers.
    return outside, _try_load(library)


def _control() -> int:
    """Return the errno with which this process may not open what NVML opens first, 0 if it may.

    NVML says "Driver Not Loaded" of a device that is absent, forbidden or without driver alike.
    """
    try:
        os.close(os.open(CONTROL, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return error.errno or 0
    return 0


def _try_load(library: str) -> str | None:
    try:
        ctypes.CDLL(library, mode=os.RTLD_GLOBAL)
    except OSError as error:
        return str(error)
    return None


def _inventory() -> dict[str, object]:
    devices: list[dict[str, object]] = []
    failed: list[dict[str, object]] = []
    count = pynvml.nvmlDeviceGetCount()
    for index in range(count):
        try:
            devices.append(_device(index))
        except pynvml.NVMLError as error:
            failed.append({"index": index, **_error(error)})
    return {
        "driver": _text(pynvml.nvmlSystemGetDriverVersion()),
        "cuda": _optional(_cuda_version),
        "count": count,
        "devices": devices,
        "failed": failed,
    }


def _cuda_version() -> str:
    number = pynvml.nvmlSystemGetCudaDriverVersion_v2()
    return f"{number // 1000}.{number % 1000 // 10}"


def _device(index: int) -> dict[str, object]:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    mode = _optional(lambda: pynvml.nvmlDeviceGetMigMode(handle))
    return {
        "index": index,
        "uuid": _text(pynvml.nvmlDeviceGetUUID(handle)),
        "minor": _optional(lambda: pynvml.nvmlDeviceGetMinorNumber(handle)),
        "pci": _optional(lambda: _text(pynvml.nvmlDeviceGetPciInfo(handle).busId)),
        "model": _optional(lambda: _text(pynvml.nvmlDeviceGetName(handle))),
        "migEnabled": None if mode is None else mode[0] == pynvml.NVML_DEVICE_MIG_ENABLE,
        "migPending": None if mode is None else mode[1] == pynvml.NVML_DEVICE_MIG_ENABLE,
        "mig": list(_mig_devices(handle)) if mode and mode[0] else [],
    }


def _mig_devices(handle: object) -> Iterator[dict[str, object]]:
    for slot in range(_optional(lambda: pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)) or 0):
        try:
            device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, slot)
        except (
            pynvml.NVMLError_NotFound,
            pynvml.NVMLError_InvalidArgument,
        ):
            continue  # an empty slot
        yield {
            "index": slot,
            "uuid": _text(pynvml.nvmlDeviceGetUUID(device)),
            "gi": _optional(partial(pynvml.nvmlDeviceGetGpuInstanceId, device)),
            "ci": _optional(partial(pynvml.nvmlDeviceGetComputeInstanceId, device)),
        }


def _optional(question: Callable[[], T]) -> T | None:
    """Ask what not every driver or GPU can answer; a lost GPU is no such case."""
    try:
        return question()
    except (
        pynvml.NVMLError_NotSupported,
        pynvml.NVMLError_FunctionNotFound,
        pynvml.NVMLError_InvalidArgument,
        pynvml.NVMLError_NotFound,
        pynvml.NVMLError_NoPermission,
    ):
        return None


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _error(error: pynvml.NVMLError) -> dict[str, object]:
    return {"code": error.value, "message": str(error)}


if __name__ == "__main__":
    sys.exit(main())
