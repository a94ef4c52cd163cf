"""Asking NVML through a short-lived child, and telling its failures apart.

Owns: the seam :class:`Nvml`, the child's deadline, and the meaning of each way in which NVML can
fail. Must not know: what else can count GPUs (``inventory``).
"""

from __future__ import annotations

import enum
import errno
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gpucdi.api import fields
from gpucdi.api.status import GpuDevice, MigDevice
from gpucdi_agent.commands import HOST_PATH, kill_group

DEADLINE_SECONDS = 10.0
_LIBRARY_NAME = "libnvidia-ml.so.1"

# nvml.h, nvmlReturn_t
_NO_PERMISSION, _DRIVER_NOT_LOADED, _LIBRARY_NOT_FOUND = 4, 9, 12
_GPU_IS_LOST, _RESET_REQUIRED, _VERSION_MISMATCH = 15, 16, 18
_CONTROL = "/dev/nvidiactl"


class NvmlFailure(enum.StrEnum):
    """The classes of failure that call for different help."""

    NO_LIBRARY = "no library"
    DRIVER_NOT_LOADED = "driver not loaded"
    VERSION_MISMATCH = "version mismatch"
    NO_PERMISSION = "no permission"
    GPU_LOST = "GPU lost"
    TIMEOUT = "timeout"
    UNKNOWN = "unknown"


_BY_CODE: Mapping[int, NvmlFailure] = {
    _NO_PERMISSION: NvmlFailure.NO_PERMISSION,
    _DRIVER_NOT_LOADED: NvmlFailure.DRIVER_NOT_LOADED,
    _LIBRARY_NOT_FOUND: NvmlFailure.NO_LIBRARY,
    _GPU_IS_LOST: NvmlFailure.GPU_LOST,
    _RESET_REQUIRED: NvmlFailure.GPU_LOST,
    _VERSION_MISMATCH: NvmlFailure.VERSION_MISMATCH,
}


@dataclass(frozen=True, slots=True)
class FailedGpu:
    """A GPU that NVML counts but cannot describe."""

    index: int
    failure: NvmlFailure
    message: str


@dataclass(frozen=True, slots=True)
class NvmlReading:
    """NVML's answer. ``failure`` is set when it gave none; then ``message`` says why.

    ``mig_pending`` lists the UUIDs of GPUs whose MIG mode changes at their next reset.
    """

    driver: str = ""
    cuda: str = ""
    devices: tuple[GpuDevice, ...] = ()
    failed: tuple[FailedGpu, ...] = ()
    mig_pending: tuple[str, ...] = ()
    failure: NvmlFailure | None = None
    message: str = ""


class Nvml(Protocol):
    """Counts the node's GPUs through the driver's management library."""

    def read(self, library: str | None) -> NvmlReading:
        """Ask once; ``library`` is the host path of libnvidia-ml, ``None`` for the default."""


class NvmlChild:
    """Runs ``gpucdi_agent.nvml_child`` for each reading.

    A child that hangs in the driver cannot even be killed. It is left behind, and no second one is
    started while it lives, so that a wedged driver does not collect processes.
    """

    def __init__(self, root: Path = Path("/"), deadline_seconds: float = DEADLINE_SECONDS) -> None:
        self._root = root
        self._deadline_seconds = deadline_seconds
        self._stuck: subprocess.Popen[bytes] | None = None

    def read(self, library: str | None) -> NvmlReading:
        """Ask NVML in a child process."""
        if self._stuck is not None and self._stuck.poll() is None:
            pid = self._stuck.pid
            return _failed(NvmlFailure.TIMEOUT, f"an earlier call still hangs (process {pid})")
        self._stuck = None
        arguments = [sys.executable, "-m", "gpucdi_agent.nvml_child", "--root", str(self._root)]
        if library is not None:
            arguments += ["--library", library]
        # Whatever the agent's own Pod is given to see must not narrow what NVML sees.
        environment = {"PATH": HOST_PATH, **os.environ}
        environment.pop("CUDA_VISIBLE_DEVICES", None)
        try:
            process = subprocess.Popen(  # noqa: S603 - our own module
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            return _failed(NvmlFailure.UNKNOWN, f"the child did not start: {error}")
        return self._collect(process)

    def _collect(self, process: subprocess.Popen[bytes]) -> NvmlReading:
        try:
            stdout, stderr = process.communicate(timeout=self._deadline_seconds)
        except subprocess.TimeoutExpired:
            kill_group(process)
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
            if process.returncode is None:
                self._stuck = process
            return _failed(NvmlFailure.TIMEOUT, f"no answer within {self._deadline_seconds:g} s")
        return read_answer(stdout, stderr.decode("utf-8", "replace"), process.returncode)


def _failed(failure: NvmlFailure, message: str) -> NvmlReading:
    return NvmlReading(failure=failure, message=message)


def read_answer(stdout: bytes, stderr: str, code: int) -> NvmlReading:
    """Return what the child's output and exit code mean."""
    try:
        answer = json.loads(stdout)
    except ValueError:
        last = (stderr.strip().splitlines() or ["no output"])[-1]
        return _failed(NvmlFailure.UNKNOWN, f"the child ended with code {code}: {last}")
    error = fields.mapping(answer, "error")
    if error:
        failure = _BY_CODE.get(fields.integer(error, "code"), NvmlFailure.UNKNOWN)
        message = fields.text(error, "message")
        lacking = _lacking_right(answer) if failure is NvmlFailure.DRIVER_NOT_LOADED else ""
        if lacking:
            return _failed(NvmlFailure.NO_PERMISSION, f"{lacking} (NVML itself says: {message})")
        return _failed(failure, message)
    devices = tuple(_device(item) for item in fields.objects(answer, "devices"))
    return NvmlReading(
        driver=fields.text(answer, "driver"),
        cuda=fields.text(answer, "cuda"),
        devices=devices,
        failed=tuple(
            FailedGpu(
                fields.integer(item, "index"),
                _BY_CODE.get(fields.integer(item, "code"), NvmlFailure.UNKNOWN),
                fields.text(item, "message"),
            )
            for item in fields.objects(answer, "failed")
        ),
        mig_pending=tuple(
            fields.text(item, "uuid")
            for item in fields.objects(answer, "devices")
            if item.get("migEnabled") != item.get("migPending")
        ),
    )


def _lacking_right(answer: Mapping[str, object]) -> str:
    """Return which right kept NVML from asking the driver, empty where none did."""
    refused = fields.integer(answer, "control")
    if refused in {errno.EACCES, errno.EPERM}:
        return f"{_CONTROL} cannot be opened: {os.strerror(refused)}"
    if refused == errno.ENOENT and answer.get("outside") is True:
        return f"the host's root cannot be entered, and there is no {_CONTROL} outside of it"
    return ""


def _device(source: Mapping[str, object]) -> GpuDevice:
    enabled = source.get("migEnabled")
    return GpuDevice(
        uuid=fields.text(source, "uuid"),
        index=fields.optional_integer(source, "index"),
        minor=fields.optional_integer(source, "minor"),
        pci=kernel_bus_id(fields.text(source, "pci")),
        model=fields.text(source, "model"),
        mig_enabled=enabled if isinstance(enabled, bool) else None,
        mig=tuple(
            MigDevice(
                uuid=fields.text(item, "uuid"),
                index=fields.optional_integer(item, "index"),
                gpu_instance=fields.optional_integer(item, "gi"),
                compute_instance=fields.optional_integer(item, "ci"),
            )
            for item in fields.objects(source, "mig")
        ),
    )


def kernel_bus_id(text: str) -> str:
    """Return a PCI address as the kernel writes it: ``0000:3b:00.0``, lower case.

    NVML gives the domain eight digits and the proc file upper case.
    """
    domain, colon, rest = text.strip().lower().partition(":")
    if not colon or len(domain) != len("00000000") or not domain.startswith("0000"):
        return text.strip().lower()
    return f"{domain[4:]}:{rest}"
