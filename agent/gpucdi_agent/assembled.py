"""Specs put together from what a generator printed.

Owns: joining the devices of several runs, and the device ``none`` that no run makes beside others.
Must not know: how a generator is run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpucdi.cdi import NEWEST, Accepted, ContainerEdits, Device, Spec, decode_spec, dump_spec
from gpucdi.node.kinds import ALL, NONE

# An empty device is illegal; NVIDIA/nvidia-container-toolkit (1.19, pkg/nvcdi) uses this edit.
_EMPTY = ContainerEdits(env=("NVCT_EMPTY_DEVICE=",))


def merge(specs: Sequence[bytes], program: str) -> bytes | None:
    """Return one spec with the devices of all, ``None`` if there is none.

    The edits beside the devices are the same in each: they depend on the driver alone. ``all`` is
    left out, for each run's covers just its own device.
    """
    found = [spec for spec in (_spec(content, program) for content in specs) if spec is not None]
    if not found:
        return None
    devices = {device.name: device for spec in found for device in spec.devices}
    devices.pop(ALL, None)
    return dump_spec(replace(found[0], devices=tuple(devices.values())))


def with_none(content: bytes, program: str) -> bytes:
    """Return the spec with a device ``none``: a request for no GPU, as the env value asks it."""
    spec = _spec(content, program)
    if spec is None or any(device.name == NONE for device in spec.devices):
        return content
    return dump_spec(replace(spec, devices=(*spec.devices, Device(name=NONE, edits=_EMPTY))))


def _spec(content: bytes, program: str) -> Spec | None:
    outcome = decode_spec(content, program, NEWEST)
    return outcome.spec if isinstance(outcome, Accepted) else None
