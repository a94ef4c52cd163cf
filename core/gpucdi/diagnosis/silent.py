"""Pods that run and lack their GPU: no text tells, so the node and the Pod must.

Owns the causes that leave no error: nobody read the request, or what was injected does not fit the
host. What the node says of a kind counts only where the Pod asks for that kind. Must not know texts.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from gpucdi.api import KindStatus
from gpucdi.diagnosis.case import DEVICE_PLUGIN_VENDOR, Case
from gpucdi.diagnosis.claims import running_with_lost_claim
from gpucdi.diagnosis.clues import seen, told
from gpucdi.diagnosis.mixed import mixed_request
from gpucdi.diagnosis.model import Confidence, Evidence, Verdict
from gpucdi.diagnosis.pod_requests import NOTHING, PodRequests, pod_requests
from gpucdi.failures import Failure, RequesterName, Stage, Symptom
from gpucdi.findings import Cause, Finding, Severity

SILENT = frozenset(
    {
        Cause.DEVICE_NODE_MISSING,
        Cause.DEVICE_NUMBER_CHANGED,
        Cause.DEVICE_WITHOUT_NODE,
        Cause.FOREIGN_SPEC_STALE,
        Cause.ENGINE_CDI_DISABLED,
        Cause.REQUEST_NOT_READ,
        Cause.SPEC_DIR_NOT_READ,
        Cause.DEVICE_ACCESS_DENIED,
        Cause.DRIVER_MISMATCH,
        Cause.GPU_LOST,
    }
)
# Findings about the engine's own injection: they are a Pod's only where it asks that way.
_OF_ENGINE = frozenset({Cause.ENGINE_CDI_DISABLED, Cause.REQUEST_NOT_READ, Cause.SPEC_DIR_NOT_READ})
NO_TEXT = Failure(
    format="M00",
    symptom=Symptom.NOT_INJECTED,
    stage=Stage.RUNNING,
    text="the Pod's status and Events carry no failure",
)
HIGH, MEDIUM, LOW = Confidence.HIGH, Confidence.MEDIUM, Confidence.LOW


def decide(case: Case) -> Verdict | None:
    """Return the likeliest cause of a missing GPU without an error; ``None`` if nothing is wrong."""
    asked = pod_requests(case)
    if asked is None:
        return None
    return (
        mixed_request(asked)
        or _switched_off(case, asked)
        or _modes_exclude(case, asked)
        or _annotation_unread(asked)
        or _variable_unread(case, asked)
        or _variable_refused(case, asked)
        or _mig_management(case)
        or running_with_lost_claim(case, asked)
        or _of_findings(case, asked)
        or _of_kinds(case, asked)
    )


def _switched_off(case: Case, asked: PodRequests) -> Verdict | None:
    """Judge requests that only the engine itself reads, where it does not inject."""
    engine = asked.engine
    if engine is None or engine.cdi_enabled is not False:
        return None
    by_plugin = _plugin_relies_on_engine(case, asked)
    if not asked.by_claim and not by_plugin:
        return None
    what = "a ResourceClaim" if asked.by_claim else "the device plugin's CDI devices"
    annotated = asked.pod.asked_by(RequesterName.CDI_ANNOTATION) is not None
    return Verdict(
        Cause.ENGINE_CDI_DISABLED,
        f"The Pod asks by {what}, which {engine.name} {engine.version} has to inject, and its CDI "
        "support is off: the request is dropped without an error.",
        HIGH if asked.by_claim else MEDIUM,
        (
            *told(seen(case, Cause.ENGINE_CDI_DISABLED)),
            Evidence(f"{engine.name} {engine.version} does not inject CDI devices"),
        ),
        contributing=(Cause.REQUEST_NOT_READ,) if annotated else (),
    )


def _plugin_relies_on_engine(case: Case, asked: PodRequests) -> bool:
    # An NVIDIA runtime reads the plugin's annotations and its variable by itself.
    if not asked.by_plugin or asked.handler is None or asked.handler.is_nvidia is not False:
        return False
    return seen(case, Cause.ENGINE_CDI_DISABLED, about=DEVICE_PLUGIN_VENDOR) is not None


def _modes_exclude(case: Case, asked: PodRequests) -> Verdict | None:
    """Judge a plugin that hands over annotations to a handler whose mode reads none."""
    handler = asked.handler
    if handler is None or not handler.is_nvidia or not asked.by_plugin:
        return None
    finding = seen(case, Cause.MODE_CONFLICT, about=f"handler {handler.name} runs in mode")
    if finding is None or any(item.visible_devices for item in asked.pod.containers):
        return None
    return Verdict(
        Cause.MODE_CONFLICT,
        f"The Pod asks the device plugin for a GPU, and {finding.message}.",
        MEDIUM,
        told(finding),
        candidates=(Cause.REQUEST_NOT_READ,),
        not_seen=("whether the device plugin has the strategy envvar as well",),
        kind=finding.kind,
    )


def _annotation_unread(asked: PodRequests) -> Verdict | None:
    """Judge the Pod's own ``cdi.k8s.io/`` annotation, which no engine reads by itself."""
    handler = asked.handler
    others = {item.name for item in asked.pod.requesters} - {RequesterName.CDI_ANNOTATION}
    found = asked.pod.asked_by(RequesterName.CDI_ANNOTATION)
    if found is None or handler is None or handler.is_nvidia is None or others:
        return None
    key = found.key.removeprefix("metadata.annotations[").removesuffix("]")
    handed = any(fnmatchcase(key, glob) for glob in handler.pod_annotations)
    wanted = any(key.startswith(prefix) for prefix in handler.annotation_prefixes)
    if handler.is_nvidia and handed and wanted:
        return None
    name = handler.name or "the default handler"
    why = (
        f"{name} is no NVIDIA runtime"
        if not handler.is_nvidia
        else f"the engine hands no such annotation of a Pod to {name}"
        if not handed
        else f"{name} looks for other prefixes: {', '.join(handler.annotation_prefixes) or 'none'}"
    )
    return Verdict(
        Cause.REQUEST_NOT_READ,
        f"The Pod's annotation {key} is read by nobody: engines read those of containers, which "
        f"device plugins set, and {why}.",
        HIGH,
        (Evidence(f"{key}: {found.value}", key=found.key),),
    )


def _variable_unread(case: Case, asked: PodRequests) -> Verdict | None:
    asking = [item for item in asked.pod.containers if (item.visible_devices or "") not in NOTHING]
    handler = asked.handler
    if not asking or handler is None or handler.is_nvidia is not False:
        return None
    if asked.by_claim or _served_by_plugin(case, asked):
        return None
    name = handler.name or "the default handler"
    return Verdict(
        Cause.REQUEST_NOT_READ,
        f"Container {asking[0].name} asks by NVIDIA_VISIBLE_DEVICES, and {name} is no NVIDIA "
        "runtime: nobody reads that variable, and the container starts without a GPU.",
        HIGH,
        (
            Evidence(
                f"NVIDIA_VISIBLE_DEVICES={asking[0].visible_devices}",
                key=f"spec.containers[{asking[0].name}].env",
            ),
            Evidence(f"handler {name} runs {handler.binary or 'the runtime of the engine'}"),
        ),
    )


def _served_by_plugin(case: Case, asked: PodRequests) -> bool:
    # The plugin's kind on the node says that it hands over CDI names beside any variable.
    kinds = case.node.kinds if case.node else ()
    has_kind = any(kind.kind.startswith(f"{DEVICE_PLUGIN_VENDOR}/") for kind in kinds)
    injects = asked.engine is not None and asked.engine.cdi_enabled is True
    return asked.by_plugin and has_kind and injects


def _variable_refused(case: Case, asked: PodRequests) -> Verdict | None:
    handler = asked.handler
    if handler is None or not handler.is_nvidia or handler.accept_env is not False:
        return None
    refused = next(
        (
            item
            for item in asked.pod.containers
            if (item.visible_devices or "") not in NOTHING and not item.privileged
        ),
        None,
    )
    if refused is None or asked.by_claim or asked.by_plugin:
        return None
    key = f"spec.containers[{refused.name}].env"
    return Verdict(
        Cause.ENV_REQUEST_REFUSED,
        f"Container {refused.name} asks by NVIDIA_VISIBLE_DEVICES and is not privileged: handler "
        f"{handler.name} drops such a request, and the container starts without a GPU.",
        HIGH,
        (
            Evidence(f"NVIDIA_VISIBLE_DEVICES={refused.visible_devices}", key=key),
            *told(seen(case, Cause.ENV_REQUEST_REFUSED)),
        ),
    )


def _mig_management(case: Case) -> Verdict | None:
    """Judge a container that manages MIG, where its kind lacks the nodes for that."""
    asking = [item for item in (case.pod.containers if case.pod else ()) if item.manages_mig]
    finding = seen(case, Cause.DEVICE_ACCESS_DENIED, about="/dev/nvidia-caps/")
    if not asking or finding is None:
        return None
    return Verdict(
        Cause.DEVICE_ACCESS_DENIED,
        f"Container {asking[0].name} asks to manage MIG, and {finding.message}.",
        HIGH,
        told(finding),
    )


def _of_findings(case: Case, asked: PodRequests) -> Verdict | None:
    findings = case.node.findings if case.node else ()
    found = [item for item in findings if item.cause in SILENT and _concerns(item, asked)]
    if not found:
        return None
    # A finding about a kind that the Pod asks for says more than one about the whole node.
    finding = min(found, key=lambda item: item.kind is None)
    return Verdict(finding.cause, f"{finding.message}.", MEDIUM, told(finding))


def _concerns(finding: Finding, asked: PodRequests) -> bool:
    if finding.severity is Severity.INFO:
        return False
    if finding.cause is Cause.ENGINE_CDI_DISABLED:
        # An NVIDIA runtime reads what a plugin hands over; a claim only the engine does.
        return asked.by_claim
    if finding.kind is not None:
        return asked.asks(finding.kind)
    return finding.cause not in _OF_ENGINE or asked.by_claim


def _of_kinds(case: Case, asked: PodRequests) -> Verdict | None:
    for kind in case.node.kinds if case.node else ():
        if kind.cause is not None and asked.asks(kind.kind) and _may_lack(kind, asked):
            return Verdict(
                kind.cause,
                f"{kind.missing.count} of {kind.expected} names of {kind.kind} do not resolve on "
                "this node; the Pod itself shows no failure.",
                LOW,
                tuple(
                    Evidence(f"devices that it defines: {file.devices}", file.path)
                    for file in kind.files
                ),
                near_miss=kind.near_miss,
                kind=kind.kind,
            )
    return None


def _may_lack(kind: KindStatus, asked: PodRequests) -> bool:
    devices = asked.devices(kind.kind)
    is_whole = kind.missing.count <= len(kind.missing.names)
    return devices is None or not is_whole or bool(devices & set(kind.missing.names))
