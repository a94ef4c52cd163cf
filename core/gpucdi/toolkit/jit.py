"""Just-in-time requests: what is asked for beside the GPUs, and which ids can be generated.

Owns: the gated and IMEX parts of a request, the MIG management rules, and the judgement of ids
against an inventory. Must not know: spec files.

Sources: NVIDIA/nvidia-container-toolkit ``internal/modifier/cdi.go``, ``pkg/nvcdi/lib-nvml.go``;
NVIDIA/go-nvlib ``pkg/nvlib/device/identifier.go``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpucdi.cdi import split_device
from gpucdi.cdi.gotext import quote
from gpucdi.toolkit.model import ToolkitConfig
from gpucdi.toolkit.request import ContainerRequest
from gpucdi.toolkit.rules import Rules
from gpucdi.toolkit.sources import imex_channels

_GATES = ("GDS", "MOFED", "GDRCOPY", "NVSWITCH")
_MIG_VARIABLES = {"config": "NVIDIA_MIG_CONFIG_DEVICES", "monitor": "NVIDIA_MIG_MONITOR_DEVICES"}
_HEX = r"[0-9A-Fa-f]"
_DASHED = rf"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"
# The forms that google/uuid's Parse takes: plain, urn, braced (any two end characters), bare hex.
_UUID = re.compile(rf"{_DASHED}|[uU][rR][nN]:[uU][uU][iI][dD]:{_DASHED}|.{_DASHED}.|{_HEX}{{32}}")
_INDEX = re.compile(r"[0-9]+")
_INDEX_LIMIT = 2**64


@dataclass(frozen=True, slots=True)
class JitGpu:
    """One GPU as NVML counts it; ``mig`` maps the slots of its MIG devices to their UUIDs."""

    index: int
    uuid: str
    mig_enabled: bool = False
    mig: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JitInventory:
    """What NVML would answer at the moment of the start.

    ``problem`` is why it cannot be initialised, as the runtime prints it (``Driver Not Loaded``).
    """

    gpus: tuple[JitGpu, ...] = ()
    problem: str | None = None


class JitError(Exception):
    """The specification cannot be generated; the text is the runtime's own cause."""


def extra_requests(
    config: ToolkitConfig, request: ContainerRequest, rules: Rules
) -> tuple[str, ...]:
    """Return what is generated beside the GPUs; the MIG part is checked by :func:`mig_problem`."""
    variables = request.variables()
    extra = [
        f"mode={gate.lower()}" for gate in _GATES if variables.get(f"NVIDIA_{gate}") == "enabled"
    ]
    extra += [f"mode=imex,id={one}" for one in imex_channels(config, request, variables)]
    if rules.reads_mig_capabilities:
        asked = [name for name, variable in _MIG_VARIABLES.items() if variables.get(variable)]
        extra += [f"mode=mig-caps,id={name}" for name in asked]
    return tuple(dict.fromkeys(extra))


def mig_problem(request: ContainerRequest, visible: Sequence[str], rules: Rules) -> str | None:
    """Return why the request for MIG management devices is refused, ``None`` when it is not."""
    variables = request.variables()
    asked = {v: variables[v] for v in _MIG_VARIABLES.values() if variables.get(v)}
    if not asked or not rules.reads_mig_capabilities:
        return None
    for variable, value in asked.items():
        if value.lower() != "all":
            return f'invalid {variable} {quote(value)}: only "all" is supported'
    if not request.privileged:
        names = " or ".join(_MIG_VARIABLES.values())
        return f"cannot set {names} in a non-privileged container"
    if "all" not in visible and any(_is_mig(split_device(name)[2]) for name in visible):
        return "cannot request MIG config/monitor devices for a container scoped to specific MIG devices"
    return None


def generated(ids: Sequence[str], inventory: JitInventory, rules: Rules) -> tuple[str, ...]:
    """Return the UUIDs that a just-in-time specification for ``ids`` holds, in its order.

    The first ``none`` or ``all`` decides alone. Raises :class:`JitError` with the text behind
    ``failed to construct device spec generators: ``.
    """
    if inventory.problem is not None:
        raise JitError(f"failed to initialize NVML: {inventory.problem}")
    words = {"none", "all"} if rules.knows_none_device else {"all"}
    special = next((one for one in ids if one in words), None)
    if special == "none":
        return ()
    if special == "all" or not ids:
        full = [gpu.uuid for gpu in inventory.gpus if not gpu.mig_enabled]
        return (*full, *(uuid for gpu in inventory.gpus for uuid in gpu.mig.values()))
    uuids = [_normalized(one, inventory) for one in ids]
    known = {gpu.uuid for gpu in inventory.gpus}
    known |= {uuid for gpu in inventory.gpus for uuid in gpu.mig.values()}
    if any(uuid not in known for uuid in uuids):
        raise JitError("failed to get device handle from UUID: Not Found")
    return tuple(uuids)


def _normalized(identifier: str, inventory: JitInventory) -> str:
    if is_uuid(identifier):
        return identifier
    gpus = {gpu.index: gpu for gpu in inventory.gpus}
    if _is_index(identifier):
        gpu = gpus.get(_atoi(identifier))
        if gpu is None:
            raise JitError("failed to get device handle from index: Invalid Argument")
        return gpu.uuid
    if _is_mig_index(identifier):
        parent, slot = (_atoi(part) for part in identifier.split(":"))
        if parent not in gpus:
            raise JitError("failed to get parent device handle: Invalid Argument")
        if slot not in gpus[parent].mig:
            raise JitError("failed to get MIG handle by index: Not Found")
        return gpus[parent].mig[slot]
    raise JitError(f"identifier is not a valid UUID or index: {quote(identifier)}")


def is_uuid(identifier: str) -> bool:
    """Tell whether NVML would be asked by UUID: full GPU or MIG UUIDs, old MIG form included."""
    if identifier.startswith("GPU-"):
        return bool(_UUID.fullmatch(identifier[4:]))
    return _is_mig_uuid(identifier)


def _is_mig(identifier: str) -> bool:
    return _is_mig_uuid(identifier) or _is_mig_index(identifier)


def _is_mig_uuid(identifier: str) -> bool:
    if not identifier.startswith("MIG-"):
        return False
    rest = identifier.removeprefix("MIG-")
    if _UUID.fullmatch(rest):
        return True
    gpu, *instances = rest.split("/")
    is_gpu = gpu.startswith("GPU-") and bool(_UUID.fullmatch(gpu[4:]))
    return is_gpu and len(instances) == len(("gi", "ci")) and all(map(_is_index, instances))


def _is_mig_index(identifier: str) -> bool:
    parts = identifier.split(":")
    return len(parts) == len(("gpu", "slot")) and all(map(_is_index, parts))


def _is_index(identifier: str) -> bool:
    return bool(_INDEX.fullmatch(identifier)) and int(identifier[:40]) < _INDEX_LIMIT


def _atoi(text: str) -> int:
    number = int(text)
    if number >= _INDEX_LIMIT // 2:
        raise JitError(
            f"failed to convert device index to an int: strconv.Atoi: parsing {quote(text)}: "
            "value out of range"
        )
    return number
