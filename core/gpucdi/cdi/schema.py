"""Which fields a version of the library knows, by struct, with Go's names and types.

Owns: the tables of ``specs-go/config.go``. Must not know: how a value is decoded.
"""

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass

from . import model
from .library import Library


class Basic(enum.Enum):
    """Go's scalar types as far as a spec uses them; the value is the name in error texts."""

    STRING = "string"
    BOOL = "bool"
    INT64 = "int64"
    INT = "int"
    UINT32 = "uint32"
    FILE_MODE = "fs.FileMode"

    @property
    def is_unsigned(self) -> bool:
        """True for the two 32-bit types."""
        return self in {Basic.UINT32, Basic.FILE_MODE}

    def holds(self, number: int) -> bool:
        """Tell whether ``number`` fits the integer type."""
        return 0 <= number < 2**32 if self.is_unsigned else -(2**63) <= number < 2**63


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar field; a pointer is ``None`` where the file gives nothing or null."""

    basic: Basic
    pointer: bool = False

    @property
    def go_name(self) -> str:
        """The type's name in error texts."""
        return self.basic.value


@dataclass(frozen=True, slots=True)
class TextMap:
    """``map[string]string``."""

    go_name: str = "map[string]string"


@dataclass(frozen=True, slots=True)
class Sequence:
    """A slice; ``nil`` is what a null item decodes to when the items are pointers."""

    item: Scalar | Struct
    go_name: str
    nil: object = None

    @property
    def of_pointers(self) -> bool:
        """True when a null item becomes a nil pointer."""
        return self.nil is not None


@dataclass(frozen=True, slots=True, eq=False)
class Struct:
    """A struct: fields by their exact name in a file, and the model's class to build from them."""

    name: str
    fields: dict[str, Field]
    build: type
    pointer: bool = False

    @property
    def go_name(self) -> str:
        """The type's name in error texts."""
        return f"specs.{self.name}"

    def find(self, key: str) -> Field | None:
        """Return the field that encoding/json would fill: exact name first, then any case."""
        exact = self.fields.get(key)
        if exact is not None:
            return exact
        folded = _fold(key)
        return next((each for name, each in self.fields.items() if _fold(name) == folded), None)


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its name in a file, its attribute in the model, its type."""

    name: str
    attribute: str
    type: Type


Type = Scalar | TextMap | Sequence | Struct

_STRING = Scalar(Basic.STRING)
_STRINGS = Sequence(_STRING, "[]string")


def _fold(name: str) -> str:
    # encoding/json folds as Unicode's simple folding does: two non-ASCII letters equal k and s.
    return (
        name.replace("\N{KELVIN SIGN}", "k").replace("\N{LATIN SMALL LETTER LONG S}", "s").lower()
    )


def _struct(name: str, build: type, *fields: Field, pointer: bool = False) -> Struct:
    return Struct(name, {each.name: each for each in fields}, build, pointer)


def _device_node() -> Struct:
    return _struct(
        "DeviceNode",
        model.DeviceNode,
        Field("path", "path", _STRING),
        Field("hostPath", "host_path", _STRING),
        Field("type", "type", _STRING),
        Field("major", "major", Scalar(Basic.INT64)),
        Field("minor", "minor", Scalar(Basic.INT64)),
        Field("fileMode", "file_mode", Scalar(Basic.FILE_MODE, pointer=True)),
        Field("permissions", "permissions", _STRING),
        Field("uid", "uid", Scalar(Basic.UINT32, pointer=True)),
        Field("gid", "gid", Scalar(Basic.UINT32, pointer=True)),
        pointer=True,
    )


def _net_device() -> Struct:
    return _struct(
        "LinuxNetDevice",
        model.NetDevice,
        Field("hostInterfaceName", "host_interface_name", _STRING),
        Field("name", "name", _STRING),
        pointer=True,
    )


def _hook() -> Struct:
    return _struct(
        "Hook",
        model.Hook,
        Field("hookName", "hook_name", _STRING),
        Field("path", "path", _STRING),
        Field("args", "args", _STRINGS),
        Field("env", "env", _STRINGS),
        Field("timeout", "timeout", Scalar(Basic.INT, pointer=True)),
        pointer=True,
    )


def _mount() -> Struct:
    return _struct(
        "Mount",
        model.Mount,
        Field("hostPath", "host_path", _STRING),
        Field("containerPath", "container_path", _STRING),
        Field("options", "options", _STRINGS),
        Field("type", "type", _STRING),
        pointer=True,
    )


def _intel_rdt(library: Library) -> Struct:
    flag = Scalar(Basic.BOOL)
    common = (
        Field("closID", "clos_id", _STRING),
        Field("l3CacheSchema", "l3_cache_schema", _STRING),
        Field("memBwSchema", "mem_bw_schema", _STRING),
    )
    if library.behaviour.has_rdt_enable_flags:
        extra = (Field("enableCMT", "enable_cmt", flag), Field("enableMBM", "enable_mbm", flag))
    else:
        extra = (
            Field("schemata", "schemata", _STRINGS),
            Field("enableMonitoring", "enable_monitoring", flag),
        )
    return _struct("IntelRdt", model.IntelRdt, *common, *extra, pointer=True)


def _container_edits(library: Library) -> Struct:
    def pointers(struct: Struct, nil: object) -> Sequence:
        return Sequence(struct, f"[]*{struct.go_name}", nil)

    fields = [
        Field("env", "env", _STRINGS),
        Field("deviceNodes", "device_nodes", pointers(_device_node(), model.NIL_DEVICE_NODE)),
    ]
    if library.behaviour.has_net_devices:
        net = pointers(_net_device(), model.NIL_NET_DEVICE)
        fields.append(Field("netDevices", "net_devices", net))
    fields.append(Field("hooks", "hooks", pointers(_hook(), model.NIL_HOOK)))
    fields.append(Field("mounts", "mounts", pointers(_mount(), model.NIL_MOUNT)))
    if library.behaviour.has_rdt_and_gids:
        gids = Sequence(Scalar(Basic.UINT32), "[]uint32")
        fields.append(Field("intelRdt", "intel_rdt", _intel_rdt(library)))
        fields.append(Field("additionalGids", "additional_gids", gids))
    return _struct("ContainerEdits", model.ContainerEdits, *fields)


@functools.lru_cache(maxsize=64)
def spec_schema(library: Library) -> Struct:
    """Return the root struct as ``library`` knows it; its pointer is the one that null leaves nil."""
    edits = Field("containerEdits", "edits", _container_edits(library))
    annotations = (
        [Field("annotations", "annotations", TextMap())]
        if library.behaviour.has_annotations
        else []
    )
    device = _struct("Device", model.Device, Field("name", "name", _STRING), *annotations, edits)
    return _struct(
        "Spec",
        model.Spec,
        Field("cdiVersion", "cdi_version", _STRING),
        Field("kind", "kind", _STRING),
        *annotations,
        Field("devices", "devices", Sequence(device, f"[]{device.go_name}")),
        edits,
        pointer=True,
    )
