"""Rules for what a spec names and the host lacks: nodes, mounts, hooks, the driver itself.

Owns the join of a path or hook with the node's finding about it.
"""

from __future__ import annotations

import re

from gpucdi.diagnosis import details, programs
from gpucdi.diagnosis.case import Case
from gpucdi.diagnosis.clues import quoted, seen, told
from gpucdi.diagnosis.model import Confidence, Evidence, Verdict
from gpucdi.findings import Cause

HIGH, MEDIUM, LOW = Confidence.HIGH, Confidence.MEDIUM, Confidence.LOW

_VERSIONED = re.compile(r"\.so\.[0-9]+\.[0-9.]+$")
# `libcuda.so.570.86.15`, not `libnvidia-egl-gbm.so.1.1.1`: a driver's version has three digits.
_DRIVER_VERSION = re.compile(r"\.so\.([0-9]{3}\.[0-9]+(?:\.[0-9]+)?)$")
_PROGRAM = re.compile(r"/s?bin/[^/]+$")
_DRIVER_ROOTS = ("/run/nvidia/driver/", "/var/run/nvidia/driver/")
_CAPS = "/dev/nvidia-caps/"


def node_missing(case: Case) -> Verdict:
    """Judge a device node that is not there."""
    failure = case.failure
    path = failure.path or "a device node"
    if "mismatch" in failure.detail:
        return Verdict(
            Cause.DEVICE_NUMBER_CHANGED,
            f"{path} is another type of device than the spec says.",
            HIGH,
            (Evidence(failure.detail, failure.path),),
        )
    finding = seen(case, Cause.DEVICE_NODE_MISSING, about=path)
    driver = seen(case, Cause.DRIVER_NOT_READY)
    contributing = [Cause.MIG_LAYOUT_CHANGED] if path.startswith(_CAPS) else []
    contributing += [Cause.DRIVER_NOT_READY] if driver else []
    return Verdict(
        Cause.DEVICE_NODE_MISSING,
        f"A spec lists the device node {path}, and the host has no such node.",
        HIGH,
        (*told(finding), *told(driver), *quoted(case)),
        contributing=tuple(contributing),
        not_seen=() if finding else ("which spec file lists the node",),
    )


def mount_failed(case: Case) -> Verdict:
    """Judge a mount whose source is not there."""
    failure = case.failure
    path = failure.path or ""
    if not failure.is_cdi:
        return programs.not_cdi(case)
    finding = seen(case, Cause.MOUNT_SOURCE_MISSING, about=path)
    not_seen = () if finding else ("which spec file lists the path",)
    version = _DRIVER_VERSION.search(path)
    elsewhere = seen(case, Cause.DRIVER_ROOT_WRONG, about=path) if path else None
    if elsewhere is not None:
        return Verdict(
            Cause.DRIVER_ROOT_WRONG,
            f"A spec mounts {path}, and the driver is installed below another root.",
            HIGH,
            (*told(elsewhere), *quoted(case)),
            contributing=(Cause.MOUNT_SOURCE_MISSING,),
        )
    if version is None and _PROGRAM.search(path) and not path.startswith(_DRIVER_ROOTS):
        return Verdict(
            Cause.DRIVER_ROOT_WRONG,
            f"A spec mounts {path}, which a driver under this root would have in every version: "
            "the spec was written for another driver root.",
            MEDIUM,
            (*told(finding), *quoted(case)),
            contributing=(Cause.MOUNT_SOURCE_MISSING,),
            not_seen=not_seen,
        )
    now = case.node.gpus.driver if case.node else ""
    other = f"; the driver is {now} now" if now and version and now != version[1] else ""
    written = f", of driver {version[1]}{other}" if version else ""
    return Verdict(
        Cause.MOUNT_SOURCE_MISSING,
        f"A spec mounts {path}{written}, and the host has no such file.",
        HIGH,
        (*told(finding), *quoted(case)),
        contributing=(Cause.FOREIGN_SPEC_STALE,) if _VERSIONED.search(path) else (),
        not_seen=not_seen,
    )


def idmap_failed(case: Case) -> Verdict:
    """Judge a mount into a user namespace."""
    path = case.failure.path
    is_plain = case.failure.format == "S13"
    # runc says of a node that the host lacks what it says of one that cannot be bound.
    if not is_plain and path and seen(case, Cause.DEVICE_NODE_MISSING, about=path):
        return node_missing(case)
    host_users = case.pod.host_users if case.pod else None
    shown = (Evidence("hostUsers: false", key="spec.hostUsers"),) if host_users is False else ()
    return Verdict(
        Cause.USER_NAMESPACE_IDMAP,
        f"The container has a user namespace, and {path} cannot be mounted into it.",
        HIGH if is_plain or shown else MEDIUM,
        (*shown, *quoted(case)),
        candidates=() if is_plain or shown else (Cause.DEVICE_NODE_MISSING,),
    )


def runtime_died(case: Case) -> Verdict:
    """Judge a low-level runtime that ended before it said why.

    NVIDIA/nvidia-container-toolkit#648: `No such process`, for CDI devices in a user namespace;
    cri-o/cri-o#7509: other words, and no device at all.
    """
    if not case.failure.is_cdi:
        return programs.not_cdi(case)
    pod = case.pod if case.pod and case.pod.is_whole else None
    if pod is not None and pod.host_users is not False:
        return Verdict(
            Cause.UNDETERMINED,
            "The runtime's own process ended before it said why, and the Pod has no user namespace.",
            LOW,
            quoted(case),
            candidates=(Cause.NOT_CDI,),
            not_seen=("the runtime's log of that moment (journalctl -u crio)",),
        )
    shown = (Evidence("hostUsers: false", key="spec.hostUsers"),) if pod else ()
    return Verdict(
        Cause.USER_NAMESPACE_IDMAP,
        "The runtime's own process ended before it said why, as it does where devices are put into "
        "a user namespace.",
        MEDIUM if shown else LOW,
        (*shown, *quoted(case)),
        not_seen=() if shown else ("whether the Pod has a user namespace (hostUsers: false)",),
    )


def hook_missing(case: Case) -> Verdict:
    """Judge a hook that cannot be run."""
    if not case.failure.is_cdi:
        return programs.not_cdi(case)
    hook = case.failure.hook or "the hook"
    finding = seen(case, Cause.HOOK_MISSING, about=hook)
    return Verdict(
        Cause.HOOK_MISSING,
        f"A spec runs the hook {hook}, and the host cannot run that program: "
        f"{case.failure.detail}.",
        HIGH,
        (*told(finding), Evidence(f"{hook}: {case.failure.detail}", hook)),
        not_seen=() if finding else ("which spec file names the hook",),
    )


def hook_failed(case: Case) -> Verdict:
    """Judge a hook that ran and failed."""
    failure = case.failure
    if not failure.is_cdi:
        return programs.not_cdi(case)
    words = f"{failure.detail} {failure.text}"
    cause = details.first(words, details.HOOK_WORDS) or Cause.HOOK_FAILED
    hook = failure.hook or "a hook of the spec"
    if cause is Cause.HOOK_TOO_OLD:
        summary = "The hook program is older than the spec: it does not know what the spec asks for"
    elif cause is Cause.MEMORY_LIMIT_REJECTED:
        summary = "The hook refused the GPU memory limit that the container asks for"
    elif cause is Cause.DRIVER_TOO_OLD:
        summary = "The driver lacks a function that the hook calls"
    else:
        summary = f"{hook} failed"
    return Verdict(
        cause,
        f"{summary}: {failure.detail or 'no reason is given'}.",
        HIGH if failure.detail else MEDIUM,
        quoted(case),
        contributing=() if cause is Cause.HOOK_FAILED else (Cause.HOOK_FAILED,),
    )


def hook_skipped(case: Case) -> Verdict:
    """Judge a hook that the engine does not run."""
    return Verdict(
        Cause.HOOK_FAILED,
        f"The engine does not run the hook {case.failure.hook}: the links and caches that it makes "
        "are missing in the container.",
        HIGH,
        quoted(case),
    )


def driver_state(case: Case) -> Verdict:
    """Judge a driver that does not answer."""
    failure = case.failure
    incomplete = seen(case, Cause.DEVICE_WITHOUT_NODE)
    if incomplete is not None:
        return Verdict(
            Cause.DEVICE_WITHOUT_NODE,
            "The spec lacks the GPU's device nodes, so that the container starts without them.",
            HIGH,
            (*told(incomplete), *quoted(case)),
        )
    cause = details.first(failure.detail, details.DRIVER_WORDS)
    if cause is Cause.DRIVER_MISMATCH and _driver_works(case):
        stale = seen(case, Cause.FOREIGN_SPEC_STALE)
        return Verdict(
            Cause.FOREIGN_SPEC_STALE,
            "The driver works on the node; the container was given the libraries of another "
            "driver version: its spec is older than the driver.",
            HIGH if stale else MEDIUM,
            (*told(stale), *quoted(case)),
            candidates=(Cause.DRIVER_MISMATCH,),
        )
    if cause is None and case.inventory:
        return Verdict(
            Cause.DEVICE_WITHOUT_NODE,
            "The driver works on the node and not in the container: the container lacks the GPU's "
            "device nodes.",
            MEDIUM,
            quoted(case),
        )
    return Verdict(
        cause or Cause.DRIVER_NOT_READY,
        f"The driver does not answer: {failure.detail}.",
        HIGH if cause else LOW,
        quoted(case),
        candidates=() if cause else (Cause.DEVICE_WITHOUT_NODE, Cause.DEVICE_ACCESS_DENIED),
        not_seen=() if case.node else ("whether nvidia-smi works on the node itself",),
    )


def _driver_works(case: Case) -> bool:
    # NVML itself answered the agent, so libraries and module on the host fit together.
    return case.node is not None and case.node.gpus.source == "nvml" and bool(case.inventory)


def gpu_lost(case: Case) -> Verdict:
    """Judge a lost GPU."""
    return Verdict(
        Cause.GPU_LOST, f"A GPU of the node is lost: {case.failure.detail}.", HIGH, quoted(case)
    )


def access_denied(case: Case) -> Verdict:
    """Judge a device that may not be opened."""
    return Verdict(
        Cause.DEVICE_ACCESS_DENIED,
        f"The container may not open the GPU's device nodes: {case.failure.detail}.",
        HIGH if "Permission" in case.failure.detail else MEDIUM,
        quoted(case),
    )
