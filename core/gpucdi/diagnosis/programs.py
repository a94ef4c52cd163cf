"""Rules for engines, handlers, modes and policies, and for what is not about CDI at all.

Owns which cause each wording names.
"""

from __future__ import annotations

from gpucdi.diagnosis import details
from gpucdi.diagnosis.case import Case
from gpucdi.diagnosis.clues import innermost, quoted, seen, told
from gpucdi.diagnosis.model import Confidence, Evidence, Verdict
from gpucdi.failures import Symptom
from gpucdi.findings import Cause

HIGH, MEDIUM, LOW = Confidence.HIGH, Confidence.MEDIUM, Confidence.LOW


def cdi_disabled(case: Case) -> Verdict:
    """Judge an engine whose CDI support is off."""
    engine = case.failure.engine or "The engine"
    return Verdict(
        Cause.ENGINE_CDI_DISABLED,
        f"{engine} was asked for CDI devices, and its CDI support is switched off.",
        HIGH,
        quoted(case),
    )


def not_cdi_aware(case: Case) -> Verdict:
    """Judge a program that does not know CDI names."""
    name = next(iter(case.failure.names), "a CDI name")
    return Verdict(
        Cause.ENGINE_CDI_DISABLED,
        f"{name} was taken for a path: this program or this command of it does not know CDI.",
        HIGH,
        quoted(case),
    )


def build_policy(case: Case) -> Verdict:
    """Judge a builder that forbids devices."""
    return Verdict(
        Cause.ENGINE_CDI_DISABLED,
        "The builder does not allow a build to use devices.",
        MEDIUM,
        quoted(case),
    )


def handler_missing(case: Case) -> Verdict:
    """Judge a handler, its RuntimeClass or its program that is not there."""
    failure = case.failure
    if not failure.is_cdi:
        return not_cdi(case)
    name = failure.subject or "the handler"
    finding = seen(case, Cause.HANDLER_MISSING)
    if failure.symptom is Symptom.RUNTIME_CLASS_MISSING:
        summary = f"The cluster has no RuntimeClass {name}."
    elif failure.symptom is Symptom.BINARY_MISSING:
        summary = f"The handler's program {name} cannot be run on this node."
    else:
        summary = f"The engine of this node has no runtime handler {name}."
    known = ", ".join(item.name for item in case.node.handlers) if case.node else ""
    has = (Evidence(f"the node's handlers are: {known}"),) if known else ()
    return Verdict(Cause.HANDLER_MISSING, summary, HIGH, (*told(finding), *has, *quoted(case)))


def config_refused(case: Case) -> Verdict:
    """Judge a configuration file that is refused."""
    finding = seen(case, Cause.CONFIG_UNREADABLE)
    return Verdict(
        Cause.CONFIG_UNREADABLE,
        f"A configuration file is refused: {innermost(case.failure.detail)}.",
        HIGH,
        (*told(finding), *quoted(case)),
    )


def mode_refused(case: Case) -> Verdict:
    """Judge a mode that the toolkit does not know."""
    mode = case.failure.subject
    said = f"the mode {mode}" if mode else "an empty mode"
    finding = seen(case, Cause.CONFIG_UNREADABLE, Cause.MODE_CONFLICT)
    return Verdict(
        Cause.MODE_CONFLICT,
        f"The runtime's configuration sets {said}, which this toolkit does not know.",
        HIGH,
        (*told(finding), *quoted(case)),
    )


def mode_conflict(case: Case) -> Verdict:
    """Judge two ways of injection that exclude each other."""
    if case.failure.format == "M41":
        summary = (
            "The runtime is in mode cdi, and the legacy hook was added all the same (docker --gpus "
            "without --runtime=nvidia): it refuses to run."
        )
    else:
        summary = "`--gpus` needs NVIDIA's legacy hook, which this engine does not have."
    return Verdict(Cause.MODE_CONFLICT, summary, HIGH, quoted(case))


def env_refused(case: Case) -> Verdict:
    """Judge a request by environment that the node does not accept."""
    return Verdict(
        Cause.ENV_REQUEST_REFUSED,
        "The node accepts NVIDIA_VISIBLE_DEVICES from privileged containers only, and this one is "
        "not.",
        HIGH,
        quoted(case),
    )


def not_injected(case: Case) -> Verdict:
    """Judge a container that got nothing."""
    return Verdict(
        Cause.REQUEST_NOT_READ,
        f"{case.failure.subject} is not in the container: nothing was injected, because nobody "
        "read the request.",
        MEDIUM,
        quoted(case),
        candidates=(Cause.ENGINE_CDI_DISABLED, Cause.ENV_REQUEST_REFUSED),
    )


def not_cdi(case: Case) -> Verdict:
    """Judge what is not about CDI."""
    failure = case.failure
    root = details.first(failure.detail, details.REQUEST_WORDS, details.DRIVER_WORDS)
    what = {
        Symptom.LEGACY: "This container went through NVIDIA's legacy mode, which never asks CDI",
        Symptom.IMAGE: "The image could not be pulled",
    }.get(failure.symptom, "The failure is not about CDI devices")
    return Verdict(
        Cause.NOT_CDI,
        f"{what}: {failure.detail or innermost(failure.text)}.",
        HIGH,
        quoted(case),
        contributing=(root,) if root else (),
    )


def unknown_words(case: Case) -> Verdict:
    """Judge words that no rule knows."""
    return Verdict(
        Cause.UNDETERMINED,
        f"The failure is about CDI, and its words are not known: {innermost(case.failure.text)}",
        LOW,
        quoted(case),
    )
