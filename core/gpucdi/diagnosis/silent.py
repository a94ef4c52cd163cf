"""Pods that run and lack their GPU: no text tells, so the node and the Pod must.

Owns the causes that leave no error: nobody read the request, or what was injected does not fit the
host. Must not know texts.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpucdi.api import HandlerStatus, NodeStatus
from gpucdi.diagnosis.case import Case
from gpucdi.diagnosis.clues import told
from gpucdi.diagnosis.model import Confidence, Evidence, Verdict
from gpucdi.failures import Failure, PodView, Stage, Symptom
from gpucdi.findings import Cause, Finding

SILENT = frozenset(
    {
        Cause.DEVICE_NUMBER_CHANGED,
        Cause.DEVICE_WITHOUT_NODE,
        Cause.ENGINE_CDI_DISABLED,
        Cause.REQUEST_NOT_READ,
        Cause.ENV_REQUEST_REFUSED,
        Cause.DEVICE_ACCESS_DENIED,
        Cause.DRIVER_MISMATCH,
        Cause.GPU_LOST,
    }
)
NO_TEXT = Failure(
    format="M00",
    symptom=Symptom.NOT_INJECTED,
    stage=Stage.RUNNING,
    text="the Pod's status and Events carry no failure",
)
# Values of NVIDIA_VISIBLE_DEVICES that ask for nothing.
_NOTHING = frozenset({"", "void", "none"})


def decide(case: Case) -> Verdict | None:
    """Return the likeliest cause of a missing GPU without an error; ``None`` if nothing is wrong."""
    if case.node is None or case.pod is None:
        return None
    return _unread(case.pod, case.handler) or _of_findings(case.node) or _of_kinds(case.node)


def _unread(pod: PodView, handler: HandlerStatus | None) -> Verdict | None:
    asking = [item for item in pod.containers if (item.visible_devices or "") not in _NOTHING]
    if not asking or handler is None or handler.is_nvidia is not False:
        return None
    name = handler.name or "the default handler"
    return Verdict(
        Cause.REQUEST_NOT_READ,
        f"Container {asking[0].name} asks by NVIDIA_VISIBLE_DEVICES, and {name} is no NVIDIA "
        "runtime: nobody reads that variable, and the container starts without a GPU.",
        Confidence.HIGH,
        (
            Evidence(
                f"NVIDIA_VISIBLE_DEVICES={asking[0].visible_devices}",
                key=f"spec.containers[{asking[0].name}].env",
            ),
            Evidence(f"handler {name} runs {handler.binary or 'the runtime of the engine'}"),
        ),
    )


def _of_findings(node: NodeStatus) -> Verdict | None:
    finding = _first(item for item in node.findings if item.cause in SILENT)
    if finding is None:
        return None
    return Verdict(finding.cause, f"{finding.message}.", Confidence.MEDIUM, told(finding))


def _first(findings: Iterable[Finding]) -> Finding | None:
    return next(iter(findings), None)


def _of_kinds(node: NodeStatus) -> Verdict | None:
    kind = next((item for item in node.kinds if item.cause is not None), None)
    if kind is None or kind.cause is None:
        return None
    return Verdict(
        kind.cause,
        f"{kind.missing.count} of {kind.expected} names of {kind.kind} do not resolve on this "
        "node; the Pod itself shows no failure.",
        Confidence.LOW,
        tuple(Evidence(f"defines {file.devices} devices", file.path) for file in kind.files),
        near_miss=kind.near_miss,
    )
