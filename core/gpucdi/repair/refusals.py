"""What is said of a repair that is not made. Owns the words, not the decision."""

from __future__ import annotations

from gpucdi.findings import Cause, Finding, Severity, Who


def refusal(kind: str, reason: str) -> Finding:
    """Say that nothing is written for the kind."""
    return Finding(
        cause=Cause.REPAIR_REFUSED,
        severity=Severity.ERROR,
        message=f"{kind} was not repaired: {reason}",
        advice="mend the cause named for this kind; gpucdi tries again at every change",
        who=Who.ADMIN,
        kind=kind,
    )


def lacking(kind: str, name: str) -> Finding:
    """Say that the generator left one device out."""
    return Finding(
        cause=Cause.GENERATOR_FAILED,
        severity=Severity.WARNING,
        message=f"nvidia-ctk generated no device {name!r} for {kind}",
        advice="run the node's nvidia-ctk cdi generate by hand and read its warnings",
        kind=kind,
        names=(name,),
    )


def without_node(kind: str, name: str) -> Finding:
    """Say that the generated device would start a container without its GPU."""
    return Finding(
        cause=Cause.DEVICE_WITHOUT_NODE,
        severity=Severity.ERROR,
        message=f"{kind}={name} was generated without a /dev/nvidia node and is not written",
        advice="create the device node: nvidia-smi on the host, or nvidia-modprobe -c <minor>",
        kind=kind,
        names=(name,),
    )


def of_another_gpu(kind: str, name: str, given: int, own: int) -> Finding:
    """Say that the generated device would start a container with somebody else's GPU."""
    return Finding(
        cause=Cause.REPAIR_REFUSED,
        severity=Severity.ERROR,
        message=f"{kind}={name} was generated with /dev/nvidia{given}, but its GPU is "
        f"/dev/nvidia{own}; it is not written",
        advice="run the node's nvidia-ctk cdi generate by hand; compare with nvidia-smi -q (Minor)",
        kind=kind,
        names=(name,),
    )


def unsound(kind: str, name: str, problem: str) -> Finding:
    """Say that the generated device names something the host does not have."""
    return Finding(
        cause=Cause.REPAIR_REFUSED,
        severity=Severity.ERROR,
        message=f"{kind}={name} would not start a container and is not written: {problem}",
        advice="mend what is named; gpucdi tries again at the next change",
        kind=kind,
        names=(name,),
    )
