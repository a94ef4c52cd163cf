"""A spec as typed values, independent of the file that it came from.

Owns: the fields of ``specs-go/config.go`` and the order they are written in. Must not know: YAML,
versions, what is legal.

A field's metadata names it as the file does. ``None`` stands for what the Go structs can tell from
an empty value: an absent pointer, and ``schemata`` that is absent rather than empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from .names import split_kind

_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device node for the container; ``host_path`` is the node's path on the host if different.

    ``major`` and ``minor`` are 0 where the file gives none, ``file_mode`` holds permission bits.
    """

    path: str = ""
    host_path: str = ""
    type: str = ""
    major: int = 0
    minor: int = 0
    file_mode: int | None = None
    permissions: str = ""
    uid: int | None = None
    gid: int | None = None


@dataclass(frozen=True, slots=True)
class NetDevice:
    """A network interface to move into the container (since spec version 1.1.0)."""

    host_interface_name: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Hook:
    """A program that the runtime calls; ``timeout`` is in seconds."""

    hook_name: str = ""
    path: str = ""
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    timeout: int | None = None


@dataclass(frozen=True, slots=True)
class Mount:
    """A mount of a host path into the container."""

    host_path: str = ""
    container_path: str = ""
    options: tuple[str, ...] = ()
    type: str = ""


@dataclass(frozen=True, slots=True)
class IntelRdt:
    """Cache and memory bandwidth control; the two ``enable`` flags left the format in 1.1.0."""

    clos_id: str = ""
    l3_cache_schema: str = ""
    mem_bw_schema: str = ""
    enable_cmt: bool = False
    enable_mbm: bool = False
    schemata: tuple[str, ...] | None = None
    enable_monitoring: bool = False


@dataclass(frozen=True, slots=True)
class ContainerEdits:
    """What injecting a device changes in a container."""

    env: tuple[str, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    net_devices: tuple[NetDevice, ...] = ()
    hooks: tuple[Hook, ...] = ()
    mounts: tuple[Mount, ...] = ()
    intel_rdt: IntelRdt | None = None
    additional_gids: tuple[int, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True when a device with these edits alone would be rejected."""
        return self == _NO_EDITS

    def __add__(self, other: ContainerEdits) -> ContainerEdits:
        """Append ``other``; its ``intel_rdt`` wins where it has one."""
        return ContainerEdits(
            env=self.env + other.env,
            device_nodes=self.device_nodes + other.device_nodes,
            net_devices=self.net_devices + other.net_devices,
            hooks=self.hooks + other.hooks,
            mounts=self.mounts + other.mounts,
            intel_rdt=other.intel_rdt or self.intel_rdt,
            additional_gids=self.additional_gids + other.additional_gids,
        )


_NO_EDITS = ContainerEdits()


@dataclass(frozen=True, slots=True)
class Device:
    """One device of a spec; ``name`` is the part behind the ``=``."""

    name: str = ""
    annotations: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    edits: ContainerEdits = _NO_EDITS


@dataclass(frozen=True, slots=True)
class Spec:
    """The content of one spec file; ``edits`` apply once for any of its devices."""

    cdi_version: str = ""
    kind: str = ""
    annotations: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    devices: tuple[Device, ...] = ()
    edits: ContainerEdits = _NO_EDITS

    @property
    def vendor(self) -> str:
        """The part of the kind before the ``/``, empty for what is no kind."""
        return split_kind(self.kind)[0]

    @property
    def class_(self) -> str:
        """The part of the kind behind the ``/``; the whole kind where there is none."""
        return split_kind(self.kind)[1]

    def qualified(self, name: str) -> str:
        """Return the full name of the device ``name`` of this spec."""
        return f"{self.kind}={name}"


# A null item of a list is a nil pointer to Go, and most versions of the library die of it. The
# decoder has to carry it as far as validation; these never leave the package in an accepted spec.
NIL_DEVICE_NODE = DeviceNode(path="\0nil")
NIL_NET_DEVICE = NetDevice(name="\0nil")
NIL_HOOK = Hook(path="\0nil")
NIL_MOUNT = Mount(host_path="\0nil")
