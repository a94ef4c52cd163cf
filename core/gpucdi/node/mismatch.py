"""What a valid spec says that does not fit this host, although nothing fails when it is read.

Owns: the driver version and root that a spec was written for, GPUs without their own device nodes,
hooks older than the spec that runs them. Must not know: which names are expected, nor gpucdi's own
files, which every repair compares with the host anyway.

Sources: NVIDIA/nvidia-container-toolkit ``pkg/nvcdi`` (what a generated device holds),
``cmd/nvidia-cdi-hook`` (1.18.0 and newer ignore a sub-command that they do not know).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator

from gpucdi.cdi import ContainerEdits, Spec, SpecFile
from gpucdi.engines.versions import Release, release
from gpucdi.findings import Cause, Finding, Severity
from gpucdi.host import FileKind, HostTree
from gpucdi.node.files import advice_for, unique_files, who_mends
from gpucdi.node.kinds import is_nvidia
from gpucdi.node.observation import Observation
from gpucdi.node.owners import GPUCDI, file_owner

UVM = "/dev/nvidia-uvm"
MIG_MINORS = "/proc/driver/nvidia-caps/mig-minors"
_DRIVER_LIBRARY = re.compile(r"\.so\.([0-9]{3,4}\.[0-9]+(?:\.[0-9]+)?)$")
_GPU_NODE = re.compile(r"/dev/nvidia[0-9]+")
_DRIVER_ROOTS = ("/", "/run/nvidia/driver", "/home/kubernetes/bin/nvidia")
_IGNORES_UNKNOWN: Release = (1, 18, 0)
_SUB_COMMANDS: dict[str, Release] = {
    "enable-cuda-compat": (1, 17, 5),
    "disable-device-node-modification": _IGNORES_UNKNOWN,
    "update-application-profile": _IGNORES_UNKNOWN,
    "apply-cuda-memory-limits": _IGNORES_UNKNOWN,
}


def mismatch_findings(
    observation: Observation, host: HostTree, wanted: Collection[str]
) -> Iterator[Finding]:
    """Yield what does not fit in every NVIDIA spec that others wrote."""
    for file in unique_files(observation):
        spec = file.spec
        if spec is None or not is_nvidia(spec.kind) or file_owner(file.path, spec.kind) == GPUCDI:
            continue
        for cause, message, names in (
            *_stale(observation, spec),
            *_wrong_root(observation, host, spec),
            *_without_own_node(observation, spec),
            *_without_uvm(host, spec),
            *_dead_numbers(host, spec),
            *_old_hooks(observation, spec),
        ):
            fails = cause is Cause.HOOK_TOO_OLD and spec.kind in wanted
            yield _finding(file, spec.kind, cause, message, names, fails=fails)


def mig_management_findings(observation: Observation, host: HostTree) -> Iterator[Finding]:
    """Yield for each default kind which of the nodes that manage MIG its specs do not have.

    Only the management kind has them by design, so this is no fault but worth knowing where a
    container asks to manage MIG. The kernel's list says which nodes those are.
    """
    if not any(gpu.mig_enabled for gpu in observation.inventory.gpus.devices):
        return
    nodes = [path for path in _management_nodes(host) if host.exists(path)]
    kinds = {
        runtime.config.default_kind.value: runtime.config.file
        for runtime in observation.runtimes
        if runtime.resolves_through_files and runtime.config is not None
    }
    for kind, config in kinds.items():
        specs = [file.spec for file in unique_files(observation) if file.spec]
        edits = [each for spec in specs if spec.kind == kind for each in _all_edits(spec)]
        lacking = [path for path in nodes if path not in _node_paths(*edits)]
        if edits and lacking:
            yield Finding(
                cause=Cause.DEVICE_ACCESS_DENIED,
                severity=Severity.INFO,
                message=f"no spec of {kind} has {' and '.join(lacking)}, so a container that "
                "manages MIG may not open them",
                advice="ask for management.nvidia.com/gpu=all where MIG is managed",
                file=config,
                kind=kind,
            )


def _management_nodes(host: HostTree) -> list[str]:
    try:
        lines = host.read(MIG_MINORS).decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    found = (line.split() for line in lines if line.startswith(("config ", "monitor ")))
    return [f"/dev/nvidia-caps/nvidia-cap{number}" for _, *rest in found for number in rest[:1]]


_Mismatch = tuple[Cause, str, tuple[str, ...]]


def _finding(
    file: SpecFile, kind: str, cause: Cause, message: str, names: tuple[str, ...], *, fails: bool
) -> Finding:
    return Finding(
        cause=cause,
        severity=Severity.ERROR if fails else Severity.WARNING,
        message=message,
        advice=advice_for(file.path, kind),
        who=who_mends(file.path, kind),
        file=file.path,
        kind=kind,
        names=names,
    )


def _all_edits(spec: Spec) -> Iterable[ContainerEdits]:
    return (spec.edits, *(device.edits for device in spec.devices))


def _stale(observation: Observation, spec: Spec) -> Iterator[_Mismatch]:
    """Compare the driver version in the mounts with the driver that runs."""
    running = observation.inventory.gpus.driver
    found = {
        match[1]
        for edits in _all_edits(spec)
        for mount in edits.mounts
        if (match := _DRIVER_LIBRARY.search(mount.host_path)) is not None
    }
    if running and found and running not in found:
        versions = ", ".join(sorted(found))
        text = f"mounts libraries of driver {versions}, and the driver that runs is {running}"
        yield Cause.FOREIGN_SPEC_STALE, text, ()


def _wrong_root(observation: Observation, host: HostTree, spec: Spec) -> Iterator[_Mismatch]:
    """Look for a missing mount source below another driver root: there, the root is wrong."""
    configured = (
        runtime.config.driver_root.value for runtime in observation.runtimes if runtime.config
    )
    roots = tuple(dict.fromkeys((*_DRIVER_ROOTS, *configured)))
    for edits in _all_edits(spec):
        for mount in edits.mounts:
            path = mount.host_path
            if not path.startswith("/") or host.exists(path):
                continue
            other = next((each for each in _elsewhere(path, roots) if host.exists(each)), None)
            if other is not None:
                text = f"mounts {path}, which is not there, and {other} is: wrong driver root"
                yield Cause.DRIVER_ROOT_WRONG, text, ()
                return


def _elsewhere(path: str, roots: tuple[str, ...]) -> Iterator[str]:
    inner = {
        path.removeprefix(root.rstrip("/"))
        for root in roots
        if path.startswith(root.rstrip("/") + "/")
    }
    for rest in sorted(inner):
        for root in roots:
            candidate = root.rstrip("/") + rest
            if candidate != path:
                yield candidate


def _without_own_node(observation: Observation, spec: Spec) -> Iterator[_Mismatch]:
    """Demand of each GPU's device the node of that very GPU, and of an instance its GPU's."""
    minors: dict[str, int] = {}
    for gpu in observation.inventory.gpus.devices:
        if gpu.minor is None:
            continue
        names = [gpu.uuid, *(mig.uuid for mig in gpu.mig)]
        if gpu.index is not None:
            names += [str(gpu.index), *(f"{gpu.index}:{mig.index}" for mig in gpu.mig)]
        minors |= dict.fromkeys(names, gpu.minor)
    lacking = tuple(
        device.name
        for device in spec.devices
        if device.name in minors
        and f"/dev/nvidia{minors[device.name]}" not in _node_paths(spec.edits, device.edits)
    )
    if lacking:
        first = lacking[0]
        text = f"{first} has no /dev/nvidia{minors[first]}: a container starts without that GPU"
        yield Cause.DEVICE_WITHOUT_NODE, text, lacking


def _node_paths(*edits: ContainerEdits) -> frozenset[str]:
    return frozenset(node.path for each in edits for node in each.device_nodes)


def _without_uvm(host: HostTree, spec: Spec) -> Iterator[_Mismatch]:
    """Find specs written before the node that CUDA needs was made."""
    paths = _node_paths(*_all_edits(spec))
    if UVM in paths or not any(_GPU_NODE.fullmatch(path) for path in paths):
        return
    if host.exists(UVM):
        text = f"the spec lacks {UVM}, which exists now: CUDA does not start in the container"
        yield Cause.DEVICE_WITHOUT_NODE, text, ()


def _dead_numbers(host: HostTree, spec: Spec) -> Iterator[_Mismatch]:
    """Find nodes whose major number 0 no driver has; a reader takes them as they are."""
    for node in (node for edits in _all_edits(spec) for node in edits.device_nodes):
        path = node.host_path or node.path
        try:
            found = host.lstat(path)
        except OSError:
            continue
        if found.kind is FileKind.CHAR_DEVICE and found.major == 0:
            text = f"{path} is device 0:{found.minor} on the host, which no driver has"
            yield Cause.DEVICE_NUMBER_CHANGED, text, ()
            return


def _old_hooks(observation: Observation, spec: Spec) -> Iterator[_Mismatch]:
    """Compare the hooks' sub-commands with the toolkit that the hook program belongs to."""
    for hook in (hook for edits in _all_edits(spec) for hook in edits.hooks):
        arguments = [item for item in hook.args[1:] if item != "hook"]
        command = arguments[0] if arguments else ""
        version = _hook_version(observation, hook.path)
        known = release(version)
        if command in _SUB_COMMANDS and known is not None and known < _SUB_COMMANDS[command]:
            text = f"runs {command} of {hook.path}, which version {version} does not know"
            yield Cause.HOOK_TOO_OLD, text, ()
            return


def _hook_version(observation: Observation, path: str) -> str | None:
    for runtime in observation.runtimes:
        toolkit = runtime.toolkit
        if toolkit is None:
            continue
        own = {toolkit.hook, toolkit.ctk}
        if path in own or posixpath.dirname(path) == toolkit.directory:
            return toolkit.version.value
    return None
