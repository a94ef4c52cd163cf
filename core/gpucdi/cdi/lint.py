"""Whether what a spec names is there on the host, before a container finds out.

Owns: the checks of device nodes, mount sources and hook binaries, and the library's own error when
edits are applied. Must not know: whether the spec is legal (:mod:`gpucdi.cdi.validation` does).

Source: ``cncf-tags/container-device-interface`` pkg/cdi/container-edits_unix.go
``fillMissingInfo``; runc rootfs_linux.go for mounts and hooks.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from gpucdi.host import FileKind, FileStat, HostTree

from .gotext import quote
from .model import ContainerEdits, DeviceNode, Spec
from .view import go_text

_FIFO = "p"
_TYPE_OF = {"u": "c"}
_EXECUTE_BITS = 0o111


class LintRule(enum.Enum):
    """What is wrong with something that a spec names."""

    DEVICE_MISSING = "device node missing"
    NOT_A_DEVICE = "not a device node"
    TYPE_MISMATCH = "device type differs"
    NUMBER_MISMATCH = "device number differs"
    MOUNT_SOURCE_MISSING = "mount source missing"
    HOOK_MISSING = "hook binary missing"
    HOOK_NOT_EXECUTABLE = "hook binary not executable"
    UNREADABLE = "cannot be looked at"


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One thing that does not fit the host.

    ``device`` is the device's name, empty for edits of the whole spec; ``key`` is the place in the
    file, such as ``devices[0].containerEdits.mounts[2].hostPath``; ``fails`` tells whether a
    container cannot start, as opposed to starting with the wrong device.
    """

    rule: LintRule
    device: str
    key: str
    path: str
    message: str
    fails: bool = True


def lint_spec(
    spec: Spec, host: HostTree, *, mounts: bool = True, hooks: bool = True
) -> tuple[LintFinding, ...]:
    """Compare every device node, mount source and hook binary of ``spec`` with the host."""
    found: list[LintFinding] = []
    scopes = [("", "containerEdits", spec.edits)]
    for index, device in enumerate(spec.devices):
        scopes.append((device.name, f"devices[{index}].containerEdits", device.edits))
    for name, key, edits in scopes:
        found.extend(_device_nodes(name, key, edits, host))
        if mounts:
            found.extend(_mounts(name, key, edits, host))
        if hooks:
            found.extend(_hooks(name, key, edits, host))
    return tuple(found)


def injection_error(edits: ContainerEdits, host: HostTree) -> str | None:
    """Return the library's error when it applies ``edits`` on ``host``, ``None`` without one."""
    for node in edits.device_nodes:
        text = _stat_error(node, host)
        if text is not None:
            return f"failed to inject devices: {text}"
    return None


def _stat_error(node: DeviceNode, host: HostTree) -> str | None:
    if _is_complete(node):
        return None
    path = node.host_path or node.path
    try:
        found = host.lstat(path)
    except OSError as error:
        return f"failed to stat CDI host device {quote(path)}: {go_text(error)}"
    if not found.is_device:
        return f"failed to stat CDI host device {quote(path)}: not a device node"
    if node.type and node.type != found.kind.value:
        return (
            f"CDI device ({quote(node.path)}, {quote(path)}), "
            f"host type mismatch ({node.type}, {found.kind.value})"
        )
    return None


def _is_complete(node: DeviceNode) -> bool:
    """Tell whether the library takes the node as written, without a look at the host."""
    return bool(node.type) and (node.major != 0 or node.type == _FIFO)


def _device_nodes(
    device: str, key: str, edits: ContainerEdits, host: HostTree
) -> Iterator[LintFinding]:
    for index, node in enumerate(edits.device_nodes):
        path = node.host_path or node.path
        where = f"{key}.deviceNodes[{index}]"
        fails = not _is_complete(node)
        try:
            found = host.lstat(path)
        except FileNotFoundError:
            text = f"{path} does not exist on the host"
            yield LintFinding(LintRule.DEVICE_MISSING, device, where, path, text, fails)
            continue
        except OSError as error:
            text = f"{path} cannot be looked at: {go_text(error)}"
            yield LintFinding(LintRule.UNREADABLE, device, where, path, text, fails)
            continue
        finding = _compare(node, found, device, where, path)
        if finding is not None:
            yield finding


def _compare(
    node: DeviceNode, found: FileStat, device: str, where: str, path: str
) -> LintFinding | None:
    fails = not _is_complete(node)
    if not found.is_device:
        text = f"{path} is a {found.kind.value}, not a device node"
        return LintFinding(LintRule.NOT_A_DEVICE, device, where, path, text, fails)
    declared = _TYPE_OF.get(node.type, node.type)
    if declared and declared != found.kind.value:
        text = f"{path} is of type {found.kind.value}, the spec says {node.type}"
        return LintFinding(LintRule.TYPE_MISMATCH, device, where, path, text, fails)
    if found.kind is FileKind.FIFO or node.major == 0:
        return None
    if (node.major, node.minor) != (found.major, found.minor):
        text = (
            f"{path} is device {found.major}:{found.minor}, the spec says {node.major}:{node.minor}"
        )
        return LintFinding(LintRule.NUMBER_MISMATCH, device, where, path, text, fails=False)
    return None


def _mounts(device: str, key: str, edits: ContainerEdits, host: HostTree) -> Iterator[LintFinding]:
    for index, mount in enumerate(edits.mounts):
        bind = mount.type in {"", "bind", "rbind"} or {"bind", "rbind"} & set(mount.options)
        if not bind or not mount.host_path.startswith("/"):
            continue
        where = f"{key}.mounts[{index}].hostPath"
        try:
            host.stat(mount.host_path)
        except FileNotFoundError:
            text = f"{mount.host_path} does not exist on the host"
            yield LintFinding(LintRule.MOUNT_SOURCE_MISSING, device, where, mount.host_path, text)
        except OSError as error:
            text = f"{mount.host_path} cannot be looked at: {go_text(error)}"
            yield LintFinding(LintRule.UNREADABLE, device, where, mount.host_path, text)


def _hooks(device: str, key: str, edits: ContainerEdits, host: HostTree) -> Iterator[LintFinding]:
    for index, hook in enumerate(edits.hooks):
        where = f"{key}.hooks[{index}].path"
        try:
            found = host.stat(hook.path)
        except FileNotFoundError:
            text = f"{hook.path} does not exist on the host"
            yield LintFinding(LintRule.HOOK_MISSING, device, where, hook.path, text)
            continue
        except OSError as error:
            text = f"{hook.path} cannot be looked at: {go_text(error)}"
            yield LintFinding(LintRule.UNREADABLE, device, where, hook.path, text)
            continue
        if found.kind is not FileKind.FILE or not found.mode & _EXECUTE_BITS:
            text = f"{hook.path} is no executable file"
            yield LintFinding(LintRule.HOOK_NOT_EXECUTABLE, device, where, hook.path, text)
