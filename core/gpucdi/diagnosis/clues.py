"""What rules quote: the text's own words and the node's findings. Owns no verdict."""

from __future__ import annotations

from gpucdi.diagnosis.case import Case
from gpucdi.diagnosis.model import Evidence
from gpucdi.findings import Cause, Finding

WORDS_SHOWN = 240


def innermost(words: str, limit: int = WORDS_SHOWN) -> str:
    """Return the last links of a chain ``outer: inner: innermost``, whole, at most ``limit`` long."""
    links = words.split(": ")
    kept = links[-1][-limit:]
    for link in reversed(links[:-1]):
        longer = f"{link}: {kept}"
        if len(longer) > limit:
            break
        kept = longer
    return kept


def quoted(case: Case) -> tuple[Evidence, ...]:
    """Return the innermost words of the failure."""
    words = case.failure.detail or case.failure.text
    return (Evidence(f"the text says: {innermost(words)}"),) if words else ()


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
