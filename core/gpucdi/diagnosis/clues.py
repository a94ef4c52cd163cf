"""What rules quote: the text's own words and the node's findings. Owns no verdict."""

from __future__ import annotations

from gpucdi.diagnosis.case import Case
from gpucdi.diagnosis.model import Evidence
from gpucdi.findings import Cause, Finding

WORDS_SHOWN = 240


def quoted(case: Case) -> tuple[Evidence, ...]:
    """Return the innermost words of the failure."""
    words = case.failure.detail or case.failure.text
    return (Evidence(f"the text says: {words[-WORDS_SHOWN:]}"),) if words else ()


def seen(case: Case, *causes: Cause, about: str | None = None) -> Finding | None:
    """Return the node's finding with one of ``causes`` that mentions ``about``."""
    for finding in case.node.findings if case.node else ():
        if finding.cause in causes and (about is None or about in finding.message):
            return finding
    return None


def told(finding: Finding | None) -> tuple[Evidence, ...]:
    """Return a finding as evidence."""
    if finding is None:
        return ()
    return (Evidence(finding.message, finding.file, finding.key),)
