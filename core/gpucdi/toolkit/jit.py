"""Just-in-time requests: for which ids the runtime can generate a specification.

Owns: identifiers, and their judgement against an inventory. Must not know: spec files, what else a
just-in-time request holds (``extras``).

Sources: NVIDIA/nvidia-container-toolkit ``pkg/nvcdi/lib-nvml.go``; NVIDIA/go-nvlib
``pkg/nvlib/device/identifier.go``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpucdi.cdi.gotext import quote
from gpucdi.toolkit.rules import Rules

_HEX = r"[0-9A-Fa-f]"
_DASHED = rf"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"
# The forms that google/uuid's Parse takes: plain, urn, braced (any two end characters), bare hex.
_UUID = re.compile(rf"{_DASHED}|[uU][rR][nN]:[uU][uU][iI][dD]:{_DASHED}|.{_DASHED}.|{_HEX}{{32}}")
_INDEX = re.compile(r"[0-9]+")
_INDEX_LIMIT = 2**64


@dataclass(frozen=True, slots=True)
class JitGpu:
    """One GPU as NVML counts it; ``mig`` maps the slots of its MIG devices to their UUIDs.

    ``index`` is NVML's, ``None`` where NVML has not been asked.
    """

    index: int | None
    uuid: str
    mig_enabled: bool = False
    mig: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JitInventory:
    """What NVML would answer at the moment of the start.

    ``problem`` is why it cannot be initialised, as the runtime prints it (``Driver Not Loaded``).
    What the inventory does not know for certain makes requests for it unknown.
    """

    gpus: tuple[JitGpu, ...] = ()
    problem: str | None = None
    knows_all_gpus: bool = True
    knows_mig: bool = True


class JitError(Exception):
    """The specification cannot be generated; the text is the runtime's own cause."""

    def __init__(self, cause: str, mode: str = "auto", action: str = "generate CDI spec") -> None:
        super().__init__(f'failed to {action} for mode "{mode}": {cause}')


class JitUnknownError(Exception):
    """The inventory does not tell; the text says what is missing."""


class JitCrash(Exception):  # noqa: N818 - the runtime dies here, which is not its error
    """The runtime panics over a part of the request."""


def generated(ids: Sequence[str], inventory: JitInventory, rules: Rules) -> tuple[str, ...]:
    """Return the UUIDs that a just-in-time specification for ``ids`` holds, in its order.

    The first ``none`` or ``all`` decides alone. Raises :class:`JitError`, or
    :class:`JitUnknownError` when the inventory does not know enough.
    """
    if inventory.problem is not None:
        raise _generator_error(f"failed to initialize NVML: {inventory.problem}")
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
    for missing in (uuid for uuid in uuids if uuid not in known):
        _must_know(missing, inventory)
        raise _generator_error("failed to get device handle from UUID: Not Found")
    return tuple(uuids)


def _must_know(uuid: str, inventory: JitInventory) -> None:
    if _is_mig_uuid(uuid) and not inventory.knows_mig:
        raise JitUnknownError("MIG devices are known to NVML only, which has not been asked")
    if not inventory.knows_all_gpus:
        raise JitUnknownError("not every GPU of the node is known")


def _normalized(identifier: str, inventory: JitInventory) -> str:
    if is_uuid(identifier):
        return identifier
    is_index = _is_index(identifier) or _is_mig_index(identifier)
    if is_index and any(gpu.index is None for gpu in inventory.gpus):
        raise JitUnknownError("indices are NVML's, which has not been asked")
    gpus = {gpu.index: gpu for gpu in inventory.gpus}
    if _is_index(identifier):
        gpu = gpus.get(_atoi(identifier))
        if gpu is None:
            raise _generator_error("failed to get device handle from index: Invalid Argument")
        return gpu.uuid
    if _is_mig_index(identifier):
        parent, slot = (_atoi(part) for part in identifier.split(":"))
        if parent not in gpus:
            raise _generator_error("failed to get parent device handle: Invalid Argument")
        if slot not in gpus[parent].mig:
            raise _generator_error("failed to get MIG handle by index: Not Found")
        return gpus[parent].mig[slot]
    raise _generator_error(f"identifier is not a valid UUID or index: {quote(identifier)}")


def _generator_error(cause: str) -> JitError:
    return JitError(f"failed to construct device spec generators: {cause}")


def is_uuid(identifier: str) -> bool:
    """Tell whether NVML would be asked by UUID: full GPU or MIG UUIDs, old MIG form included."""
    if identifier.startswith("GPU-"):
        return bool(_UUID.fullmatch(identifier[4:]))
    return _is_mig_uuid(identifier)


def is_mig(identifier: str) -> bool:
    """Tell whether an identifier names a MIG device: UUID, or GPU and slot."""
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
        raise _generator_error(
            f"failed to convert device index to an int: strconv.Atoi: parsing {quote(text)}: "
            "value out of range"
        )
    return number
