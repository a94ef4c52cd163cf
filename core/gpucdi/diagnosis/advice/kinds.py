"""Advice where a kind lacks a name: who can stop asking for it, and who can provide it.

Owns the remedies of the management kind and of missing specs, valid for the versions found.
Sources: NVIDIA/gpu-operator ``controllers/object_controls.go``, NVIDIA/nvidia-container-toolkit
``cmd/nvidia-ctk/cdi/generate``, Project-HAMi/HAMi ``charts/hami/values.yaml``.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from gpucdi.api.names import LABEL_REPAIR
from gpucdi.diagnosis.advice.claims import lost_claim
from gpucdi.diagnosis.case import DEVICE_PLUGIN_VENDOR, DRA_VENDORS, MANAGEMENT_KIND, Case
from gpucdi.diagnosis.model import Advice, BlastRadius
from gpucdi.engines.versions import Release, release
from gpucdi.failures import RequesterName
from gpucdi.findings import Cause, Who

JIT_SINCE: Release = (1, 18, 0)
HOOK_PATH_SINCE: Release = (1, 16, 0)
NO_ALL_SINCE: Release = (1, 19, 0)
UUID_AND_INDEX_SINCE: Release = (1, 15, 0)
REPLACE_WARNING = (
    "Do not regenerate over management.nvidia.com-gpu.yaml: the new `all` loses the management "
    "device nodes, and the toolkit container overwrites the file at its next start."
)
MANAGEMENT_MODE_WARNING = (
    "`nvidia-ctk cdi generate --mode=management --device-name-strategy uuid` does not help: that "
    "mode writes the one device `all`, whatever the strategy."
)
SECOND_ALL_WARNING = (
    "Do not write a second `all` of the same kind into the same directory: both would be dropped."
)
NO_DRAIN_WARNING = (
    "Draining, rebooting or replacing the node does not help: this is a fault of configuration."
)


def only_all(case: Case) -> Iterator[Advice]:
    """Return the ways out when a kind has the one device ``all``."""
    yield repair(case)
    yield from runtime_class(case)
    yield from requester(case)
    if case.by_nvidia_runtime:
        yield from toolkit_mode(case)
        yield default_kind(case)
    yield from by_hand(case, beside=True)


def lacks_device(case: Case) -> Iterator[Advice]:
    """Return the ways out when the kind's spec exists and lacks the name."""
    if "none" in case.devices:
        yield void(case)
        if not foreign(case):
            yield none_device(case)
        return
    if foreign(case):
        yield from component(case)
    else:
        yield repair(case)
        yield from by_hand(case)
    yield from runtime_class(case)
    yield from requester(case)


def no_spec(case: Case) -> Iterator[Advice]:
    """Return the ways out when no file defines the kind."""
    if foreign(case):
        yield from component(case)
        return
    if MANAGEMENT_KIND in case.failure.kinds and set(case.devices) <= {"all"}:
        yield from component(case)
    yield repair(case)
    yield from by_hand(case)
    yield from runtime_class(case)


def foreign(case: Case) -> bool:
    """Tell whether the kind belongs to a component that writes its specs itself."""
    vendors = (DEVICE_PLUGIN_VENDOR, *DRA_VENDORS)
    return any(kind.partition("/")[0] in vendors for kind in case.failure.kinds)


def repair(case: Case) -> Advice:
    """Return the advice to let gpucdi add the names."""
    node = (case.pod.node if case.pod else "") or "NODE"
    kind = next(iter(case.failure.kinds), "the kind")
    return Advice(
        f"let gpucdi add the missing names of {kind} in a file of its own",
        BlastRadius.NEW_FILE,
        Who.GPUCDI,
        command=f"kubectl label node {node} {LABEL_REPAIR}=auto --overwrite",
    )


def runtime_class(case: Case) -> Iterator[Advice]:
    """Return what another RuntimeClass, or none, would change."""
    legacy = case.node.handler("nvidia-legacy") if case.node else None
    if not case.by_nvidia_runtime:
        return
    if case.node is None or legacy is not None:
        yield Advice(
            "set runtimeClassName: nvidia-legacy, which never asks CDI",
            BlastRadius.POD,
            Who.USER,
            valid_for="nodes with the handler nvidia-legacy (GPU Operator with cdi.enabled)",
        )
    if case.asked_by(RequesterName.DEVICE_PLUGIN) and not case.asked_by(RequesterName.HAMI):
        yield Advice(
            "drop runtimeClassName: the engine itself injects what NVIDIA's device plugin hands "
            "over by cdi-cri or cdi-annotations",
            BlastRadius.POD,
            Who.USER,
            valid_for="containerd 2.0 and newer, 1.7 with enable_cdi=true, or CRI-O",
        )


def requester(case: Case) -> Iterator[Advice]:
    """Return what the party that asked can hand over instead."""
    if case.asked_by(RequesterName.HAMI):
        yield Advice(
            "HAMi: set devicePlugin.deviceListStrategy=cdi-annotations, with nvidiaDriverRoot and "
            "nvidiaHookPath as on the nodes, so that it hands over qualified names",
            BlastRadius.STACK,
            Who.ADMIN,
            command="helm upgrade hami hami-charts/hami -n kube-system --reuse-values "
            "--set devicePlugin.deviceListStrategy=cdi-annotations",
            valid_for="HAMi chart 2.8.0 and newer",
        )
    elif case.asked_by(RequesterName.KAI):
        yield Advice(
            "KAI Scheduler: set binder.cdiEnabled=true, so that it hands over qualified names",
            BlastRadius.STACK,
            Who.ADMIN,
            valid_for="KAI Scheduler 0.13 and newer",
        )
    elif case.asked_by(RequesterName.VOLCANO):
        yield Advice(
            "Volcano vGPU plugin: set DEVICE_LIST_STRATEGY=cdi-annotations",
            BlastRadius.STACK,
            Who.ADMIN,
            valid_for="volcano-vgpu-device-plugin 1.12 and newer",
        )
    elif case.asked_by(RequesterName.GPUSTACK):
        yield Advice(
            "GPUStack asks by index: names by UUID alone are not enough, the kind needs both",
            BlastRadius.NOTHING,
            Who.ADMIN,
        )
    elif case.asked_by(RequesterName.DEVICE_PLUGIN) and case.by_nvidia_runtime:
        yield Advice(
            "device plugin: remove an override of DEVICE_LIST_STRATEGY (volume-mounts or envvar), "
            "so that it is cdi-annotations,cdi-cri",
            BlastRadius.STACK,
            Who.ADMIN,
            valid_for="GPU Operator 25.10 and newer",
        )


def toolkit_mode(case: Case) -> Iterator[Advice]:
    """Return what ``mode=auto`` would do with the toolkit of the handler."""
    found = release(case.handler.toolkit) if case.handler else None
    if found is not None and found < JIT_SINCE:
        text = "run the runtime in mode auto, which is legacy with this toolkit: no CDI at all"
        valid = "toolkit up to 1.17"
    else:
        text = "run the runtime in mode auto, which asks the driver and no file (jit-cdi)"
        valid = "toolkit 1.18 and newer"
    yield Advice(
        f"GPU Operator: {text}",
        BlastRadius.FLEET,
        Who.ADMIN,
        command="kubectl patch clusterpolicies.nvidia.com/cluster-policy --type=json -p "
        '\'[{"op":"add","path":"/spec/toolkit/env/-","value":'
        '{"name":"NVIDIA_CONTAINER_RUNTIME_MODE","value":"auto"}}]\'',
        valid_for=f"{valid}, where the ClusterPolicy has a list toolkit.env",
    )


def default_kind(case: Case) -> Advice:
    """Return the advice to qualify bare requests with a kind that has them."""
    config = case.handler.config if case.handler and case.handler.config else "config.toml"
    return Advice(
        f"set nvidia-container-runtime.modes.cdi.default-kind to nvidia.com/gpu in {config} "
        "(GPU Operator: toolkit.env NVIDIA_CONTAINER_RUNTIME_MODES_CDI_DEFAULT_KIND), and see to "
        "it that nvidia.com/gpu has every GPU and `all`",
        BlastRadius.FLEET,
        Who.ADMIN,
    )


def by_hand(case: Case, *, beside: bool = False) -> Iterator[Advice]:
    """Yield the command that does by hand what gpucdi's repair does, where it touches no name.

    Above a file of the same kind it would hide that file's names; beside one it would conflict over
    them, unless that file has nothing but ``all`` (``beside``).
    """
    kind = next(iter(case.failure.kinds), None)
    directory = _directory(case, kind, beside=beside) if kind else None
    if kind is None or directory is None or case.finding(Cause.GENERATOR_MISSING):
        return
    vendor, _, name = kind.partition("/")
    handler = case.handler
    found = release(handler.toolkit) if handler else None
    ctk = _ctk(case)
    words = [ctk, "cdi", "generate", "--mode", "nvml", "--vendor", vendor, "--class", name]
    if found is None or found >= UUID_AND_INDEX_SINCE:
        words += ["--device-name-strategy", "index", "--device-name-strategy", "uuid"]
    else:
        words += ["--device-name-strategy", "uuid"]
    if found is not None and found >= HOOK_PATH_SINCE and "/" in ctk:
        words += [
            "--nvidia-cdi-hook-path",
            posixpath.join(posixpath.dirname(ctk), "nvidia-cdi-hook"),
        ]
    note = ""
    if _is_taken(case, kind, directory):
        if found is not None and found >= NO_ALL_SINCE:
            words.append("--no-all-device")
        else:
            note = ", and take its device `all` out before an engine reads it"
    words += ["--output", posixpath.join(directory, f"{vendor}-{name}-names.yaml")]
    yield Advice(
        f"by hand: generate the names into a file of its own{note}",
        BlastRadius.NEW_FILE,
        Who.ADMIN,
        command=" ".join(words),
        valid_for=f"toolkit {handler.toolkit}" if found and handler else "toolkit 1.15 and newer",
    )


def _ctk(case: Case) -> str:
    binary = case.handler.binary if case.handler else ""
    return (
        posixpath.join(posixpath.dirname(binary), "nvidia-ctk") if "/" in binary else "nvidia-ctk"
    )


def _directory(case: Case, kind: str, *, beside: bool) -> str | None:
    # The lowest directory that the reader reads: it hides nothing.
    read = (case.handler.spec_dirs if case.handler else ()) or ("/etc/cdi", "/var/run/cdi")
    return read[0] if beside or not _is_taken(case, kind, read[0]) else None


def _is_taken(case: Case, kind: str, directory: str) -> bool:
    status = case.node.kind(kind) if case.node else None
    if status is None:
        return kind == MANAGEMENT_KIND and directory == "/var/run/cdi"
    return any(posixpath.dirname(file.path) == directory for file in status.files)


def void(case: Case) -> Advice:
    """Return the advice for containers that want no GPU."""
    return Advice(
        "for a container that wants no GPU set NVIDIA_VISIBLE_DEVICES=void instead of none"
        + (" (HAMi: overwriteEnv=false)" if case.asked_by(RequesterName.HAMI) else ""),
        BlastRadius.POD,
        Who.USER,
    )


def none_device(case: Case) -> Advice:
    """Return the advice to let gpucdi provide a device that holds nothing."""
    kind = next(iter(case.failure.kinds))
    return Advice(
        f"let gpucdi provide {kind}=none: kinds.none in the GpuCdiPolicy of this node",
        BlastRadius.NEW_FILE,
        Who.GPUCDI,
        valid_for="toolkit 1.19 and newer, which can generate it",
        since=NO_ALL_SINCE,
    )


def component(case: Case) -> Iterator[Advice]:
    """Return which component's restart writes the kind's spec again."""
    kind = next(iter(case.failure.kinds))
    vendor = kind.partition("/")[0]
    if kind == MANAGEMENT_KIND:
        yield Advice(
            "restart the toolkit Pod of this node once the driver is ready: it writes the "
            "management spec at each start",
            BlastRadius.NODE,
            Who.COMPONENT,
            command="kubectl -n gpu-operator delete pod -l app=nvidia-container-toolkit-daemonset "
            f"--field-selector spec.nodeName={_node(case)}",
        )
    elif vendor == DEVICE_PLUGIN_VENDOR:
        yield Advice(
            "restart the device plugin of this node: it writes its spec at each start and at no "
            "other time",
            BlastRadius.NODE,
            Who.COMPONENT,
            command="kubectl -n gpu-operator delete pod -l app=nvidia-device-plugin-daemonset "
            f"--field-selector spec.nodeName={_node(case)}",
        )
    else:
        yield from lost_claim(case)


def _node(case: Case) -> str:
    return (case.pod.node if case.pod else "") or "NODE"
