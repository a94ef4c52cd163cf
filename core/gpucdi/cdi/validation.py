"""Whether a decoded spec is legal, in the library's order and words.

Owns: the versions of the format, the features each needs, the rules for edits and devices. Must
not know: YAML, files.

Source: ``cncf-tags/container-device-interface`` pkg/cdi/{spec,device,container-edits}.go,
specs-go/version.go (up to 0.8.1 pkg/cdi/version.go).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .gotext import quote, to_bytes
from .library import NEWEST, Library
from .model import (
    NIL_DEVICE_NODE,
    NIL_HOOK,
    NIL_MOUNT,
    NIL_NET_DEVICE,
    ContainerEdits,
    Device,
    DeviceNode,
    Hook,
    IntelRdt,
    Mount,
    NetDevice,
    Spec,
)
from .names import ReaderCrash, validate_class, validate_device_name, validate_vendor

EARLIEST_VERSION = "0.3.0"
NIL_PANIC = "runtime error: invalid memory address or nil pointer dereference"

_NODE_TYPES = frozenset(("", "b", "c", "u", "p"))
_HOOK_NAMES = frozenset(
    ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
)
_CLOS_ID_LIMIT_BYTES = 4096


class InvalidSpecError(ValueError):
    """The spec breaks a rule; the message is the library's text."""


def validate(spec: Spec, library: Library) -> None:
    """Raise :class:`InvalidSpecError`, :class:`InvalidNameError` or :class:`ReaderCrash`."""
    _validate_version(spec, library)
    validate_vendor(spec.vendor, library)
    validate_class(spec.class_, library)
    validate_edits(spec.edits, library)
    seen: set[str] = set()
    for device in spec.devices:
        try:
            _validate_device(device, library)
        except ValueError as error:
            raise InvalidSpecError(f"failed add device {quote(device.name)}: {error}") from None
        if device.name in seen:
            raise InvalidSpecError(f"invalid spec, multiple device {quote(device.name)}")
        seen.add(device.name)
    if not seen and library.behaviour.needs_devices:
        raise InvalidSpecError("invalid spec, no devices")


def _validate_version(spec: Spec, library: Library) -> None:
    declared = spec.cdi_version.removeprefix("v")
    known = library.behaviour.known_versions
    if declared not in known:
        raise InvalidSpecError(f"invalid version {quote(spec.cdi_version)}")
    needed = minimum_version(spec, library)
    if known.index(needed) > known.index(declared):
        raise InvalidSpecError(f"the spec version must be at least v{needed}")


def minimum_version(spec: Spec, library: Library = NEWEST) -> str:
    """Return the lowest ``cdiVersion`` that ``library`` lets this spec declare.

    Raises :class:`ReaderCrash` for null items in lists that are looked through for features.
    """
    behaviour = library.behaviour
    checks = [
        ("1.1.0", _needs_110),
        ("0.7.0", _needs_070),
        ("0.6.0", _needs_060),
        ("0.5.0", _needs_050),
        ("0.4.0", _needs_040),
    ]
    known = [(text, needs) for text, needs in checks if text in behaviour.known_versions]
    if behaviour.decodes_with_yaml3:
        return next((text for text, needs in known if needs(spec, library)), EARLIEST_VERSION)
    # Older releases ask every question, in no order; a null item that any of them meets kills.
    found = [text for text, needs in known if needs(spec, library)]
    return found[0] if found else EARLIEST_VERSION


def _all_edits(spec: Spec) -> Iterator[ContainerEdits]:
    yield from (device.edits for device in spec.devices)
    yield spec.edits


def _edits_asked_for_old_features(spec: Spec) -> Iterator[ContainerEdits]:
    """Yield what the checks for 0.4.0 and 0.5.0 look at: the last device, then the whole spec.

    They collect ``&d.ContainerEdits`` in a loop over the devices, in modules that declare a Go
    before 1.22, where each of these pointers ends up at the last device.
    """
    if spec.devices:
        yield spec.devices[-1].edits
    yield spec.edits


def _needs_110(spec: Spec, library: Library) -> bool:
    del library
    return any(
        edits.net_devices
        or (
            edits.intel_rdt is not None
            and (edits.intel_rdt.schemata is not None or edits.intel_rdt.enable_monitoring)
        )
        for edits in _all_edits(spec)
    )


def _needs_070(spec: Spec, library: Library) -> bool:
    del library
    return any(edits.intel_rdt is not None or edits.additional_gids for edits in _all_edits(spec))


def _needs_060(spec: Spec, library: Library) -> bool:
    if spec.annotations or any(device.annotations for device in spec.devices):
        return True
    if library.behaviour.digit_needs_050:
        return "." in spec.kind.partition("/")[2]
    return bool(spec.vendor) and "." in spec.class_


def _needs_050(spec: Spec, library: Library) -> bool:
    for device in spec.devices:
        first = device.name[:1]
        if library.behaviour.digit_needs_050:
            if first.isascii() and first.isdigit():
                return True
        elif first and not (first.isascii() and first.isalpha()):
            return True
    for edits in _edits_asked_for_old_features(spec):
        for node in edits.device_nodes:
            if node is NIL_DEVICE_NODE:
                raise ReaderCrash(NIL_PANIC)
            if node.host_path:
                return True
    return False


def _needs_040(spec: Spec, library: Library) -> bool:
    del library
    for edits in _edits_asked_for_old_features(spec):
        for mount in edits.mounts:
            if mount is NIL_MOUNT:
                raise ReaderCrash(NIL_PANIC)
            if mount.type:
                return True
    return False


def _validate_device(device: Device, library: Library) -> None:
    validate_device_name(device.name, library)
    if device.edits.is_empty:
        raise InvalidSpecError("invalid device, empty device edits")
    try:
        validate_edits(device.edits, library)
    except InvalidSpecError as error:
        raise InvalidSpecError(f"invalid device {quote(device.name)}: {error}") from None


def validate_edits(edits: ContainerEdits, library: Library = NEWEST) -> None:
    """Check edits of a spec or a device; raise :class:`InvalidSpecError` with the first fault."""
    bad = _bad_env(edits.env)
    if bad is not None:
        raise InvalidSpecError(
            f"invalid container edits: invalid environment variable {quote(bad)}"
        )
    for node in edits.device_nodes:
        _validate_device_node(node, library)
    for hook in edits.hooks:
        _validate_hook(hook, library)
    for mount in edits.mounts:
        _validate_mount(mount, library)
    if edits.intel_rdt is not None:
        _validate_intel_rdt(edits.intel_rdt, library)
    _validate_net_devices(edits.net_devices, library)


def _bad_env(env: Iterable[str]) -> str | None:
    return next((each for each in env if each.find("=") <= 0), None)


def _refuse_nil(what: str, library: Library) -> None:
    if library.behaviour.checks_null_and_sign:
        raise InvalidSpecError(f"invalid (nil) {what}")
    raise ReaderCrash(NIL_PANIC)


def _validate_device_node(node: DeviceNode, library: Library) -> None:
    if node is NIL_DEVICE_NODE:
        _refuse_nil("device node", library)
    if not node.path:
        raise InvalidSpecError("invalid (empty) device path")
    where = f"device {quote(node.path)}"
    if node.type not in _NODE_TYPES:
        raise InvalidSpecError(f"{where}: invalid type {quote(node.type)}")
    behaviour = library.behaviour
    if behaviour.checks_null_and_sign and (node.major < 0 or node.minor < 0):
        raise InvalidSpecError(
            f"{where}: invalid (negative) device number {node.major}:{node.minor}"
        )
    permissions = node.permissions
    if behaviour.decodes_with_yaml3 and permissions == "none":
        return
    if permissions.strip("rwm"):
        word = "permissions" if behaviour.has_annotations else "persmissions"
        raise InvalidSpecError(f"{where}: invalid {word} {quote(permissions)}")


def _validate_hook(hook: Hook, library: Library) -> None:
    if hook is NIL_HOOK:
        _refuse_nil("hook", library)
    name = quote(hook.hook_name)
    if hook.hook_name not in _HOOK_NAMES:
        raise InvalidSpecError(f"invalid hook name {name}")
    if not hook.path:
        raise InvalidSpecError(f"invalid hook {name} with empty path")
    bad = _bad_env(hook.env)
    if bad is not None:
        raise InvalidSpecError(f"invalid hook {name}: invalid environment variable {quote(bad)}")


def _validate_mount(mount: Mount, library: Library) -> None:
    if mount is NIL_MOUNT:
        _refuse_nil("mount", library)
    if not mount.host_path:
        raise InvalidSpecError("invalid mount, empty host path")
    if not mount.container_path:
        raise InvalidSpecError("invalid mount, empty container path")


def _validate_intel_rdt(rdt: IntelRdt, library: Library) -> None:
    clos_id = rdt.clos_id
    if clos_id == "/" and library.behaviour.has_net_devices:
        return
    too_long = len(to_bytes(clos_id)) >= _CLOS_ID_LIMIT_BYTES
    if too_long or clos_id in {".", ".."} or "/" in clos_id or "\n" in clos_id:
        raise InvalidSpecError("invalid ClosID")


def _validate_net_devices(devices: Iterable[NetDevice], library: Library) -> None:
    names_by_host: dict[str, str] = {}
    hosts_by_name: dict[str, str] = {}
    for device in devices:
        if device is NIL_NET_DEVICE:
            _refuse_nil("linux net device", library)
        host, name = device.host_interface_name, device.name
        if not host:
            raise InvalidSpecError("invalid linux net device, empty HostInterfaceName")
        if not name:
            raise InvalidSpecError("invalid linux net device, empty Name")
        if host in names_by_host:
            raise InvalidSpecError(
                f"invalid linux net device, duplicate HostInterfaceName {quote(host)} "
                f"with names {quote(name)} and {quote(names_by_host[host])}"
            )
        names_by_host[host] = name
        if name in hosts_by_name:
            raise InvalidSpecError(
                f"invalid linux net device, duplicate Name {quote(name)} "
                f"with HostInterfaceName {quote(host)} and {quote(hosts_by_name[name])}"
            )
        hosts_by_name[name] = host
