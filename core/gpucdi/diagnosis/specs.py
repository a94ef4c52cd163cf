"""Rules for failures of the request's names and of those who read or write spec files.

Owns which cause each wording names; the words themselves are in ``details``.
"""

from __future__ import annotations

from gpucdi.diagnosis import details
from gpucdi.diagnosis.case import Case
from gpucdi.diagnosis.clues import innermost, quoted
from gpucdi.diagnosis.model import Confidence, Evidence, Verdict
from gpucdi.findings import Cause

HIGH, MEDIUM, LOW = Confidence.HIGH, Confidence.MEDIUM, Confidence.LOW


def malformed_name(case: Case) -> Verdict:
    """Judge a request that is no list of names."""
    failure = case.failure
    asked = ", ".join(failure.names) or failure.subject or failure.detail
    return Verdict(
        Cause.MALFORMED_REQUEST,
        f"The request is no list of CDI names: {asked}.",
        HIGH,
        quoted(case),
    )


def mixed_automatic(case: Case) -> Verdict:
    """Judge a mix of the automatic kind with another."""
    return Verdict(
        Cause.MIXED_AUTOMATIC_KIND,
        "One request mixes runtime.nvidia.com devices, which are made in memory, with devices of "
        "spec files; the runtime refuses both.",
        HIGH,
        quoted(case),
    )


def name_conflict(case: Case) -> Verdict:
    """Judge a name that two files define."""
    name = next(iter(case.failure.names), "A name")
    return Verdict(
        Cause.SAME_DIR_CONFLICT,
        f"{name} is defined in two files of one directory, so that every reader drops it.",
        HIGH,
        (Evidence(innermost(case.failure.text), case.failure.path),),
    )


def spec_load_failed(case: Case) -> Verdict:
    """Judge a spec file that a reader did not take."""
    failure = case.failure
    cause = details.load_cause(failure.detail)
    field = details.rejected_field(failure.detail)
    where = failure.path or "a spec file"
    if cause is Cause.SPEC_TOO_NEW_FOR_READER and field:
        since = details.FIELD_SINCE.get(field, "a newer version")
        summary = (
            f"{where} uses {field}, which needs CDI {since}: the older reader drops the whole file."
        )
    elif cause is Cause.SPEC_NOT_READABLE:
        summary = f"{where} cannot be read by the engine's user, so nothing in it resolves."
    else:
        summary = f"{where} is not a valid spec, so that nothing in it resolves."
    return Verdict(cause, summary, HIGH, (Evidence(innermost(failure.detail), failure.path),))


def spec_write_failed(case: Case) -> Verdict:
    """Judge a spec file that could not be written."""
    failure = case.failure
    cause = details.first(failure.detail, details.WRITE_WORDS) or Cause.GENERATOR_FAILED
    if cause is Cause.SPEC_DIR_MISSING:
        summary = f"The spec directory cannot be written: {failure.detail}."
    else:
        summary = f"The program that writes the spec failed: {failure.detail}."
    return Verdict(cause, summary, HIGH, (Evidence(innermost(failure.text), failure.path),))


def generate_failed(case: Case) -> Verdict:
    """Judge a generator, in memory or not, that gave up."""
    failure = case.failure
    mechanism = Cause.JIT_GENERATION_FAILED if failure.format == "S07" else Cause.GENERATOR_FAILED
    words = failure.detail or failure.text
    root = details.first(words, details.REQUEST_WORDS, details.DRIVER_WORDS)
    return Verdict(
        root or mechanism,
        f"Devices could not be described: {innermost(words)}.",
        HIGH,
        quoted(case),
        contributing=(mechanism,) if root else (),
    )


def generate_warning(case: Case) -> Verdict:
    """Judge a spec that was written without a device node."""
    return Verdict(
        Cause.DEVICE_WITHOUT_NODE,
        f"The spec was written without {case.failure.path}, which did not exist at that time: a "
        "container starts and lacks it.",
        MEDIUM,
        quoted(case),
    )


def unit_failed(case: Case) -> Verdict:
    """Judge a failed refresh unit."""
    return Verdict(
        Cause.REFRESH_UNIT_FAILED,
        f"{case.failure.subject} failed, so that the specs it writes are missing or old.",
        HIGH,
        quoted(case),
    )


def plugin_disabled(case: Case) -> Verdict:
    """Judge a device plugin that writes no spec."""
    return Verdict(
        Cause.GENERATOR_FAILED,
        "The device plugin finds no driver in its own container and writes no spec: its kind will "
        "never resolve.",
        HIGH,
        quoted(case),
        contributing=(Cause.DRIVER_ROOT_WRONG,),
    )


def generator_absent(case: Case) -> Verdict:
    """Judge a node without nvidia-ctk."""
    return Verdict(
        Cause.GENERATOR_MISSING,
        "nvidia-ctk is not installed here, so that no spec can be generated.",
        HIGH,
        quoted(case),
    )


def prepare_failed(case: Case) -> Verdict:
    """Judge a claim that could not be prepared."""
    failure = case.failure
    if failure.subject:
        return Verdict(
            Cause.GENERATOR_MISSING,
            f"The DRA driver {failure.subject} is not running on this node, so that no claim of it "
            "gets a spec.",
            HIGH,
            quoted(case),
        )
    cause = details.first(
        failure.detail, details.CLAIM_WORDS, details.DRIVER_WORDS, details.WRITE_WORDS
    )
    return Verdict(
        cause or Cause.UNDETERMINED,
        f"The DRA driver could not prepare the claim: {innermost(failure.detail)}.",
        MEDIUM if cause else LOW,
        quoted(case),
    )


def no_spec(case: Case) -> Verdict:
    """Judge an engine that found no spec of a kind."""
    kind = next(iter(case.failure.kinds), "the kind")
    return Verdict(
        Cause.KIND_HAS_NO_SPEC, f"The engine found no spec file of {kind}.", HIGH, quoted(case)
    )
