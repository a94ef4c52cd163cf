"""Why a container failed and what to do: failure, Pod and node joined.

Owns: the rules, the ranked advice and the texts for people. Must not know: how a text is parsed
(``gpucdi.failures``) nor how a node is assessed (``gpucdi.node``): the node's verdicts are taken.
"""

from gpucdi.diagnosis.document import as_document
from gpucdi.diagnosis.join import diagnose, diagnose_all, diagnose_nothing, diagnose_silent
from gpucdi.diagnosis.model import Advice, BlastRadius, Confidence, Diagnosis, Evidence
from gpucdi.diagnosis.render import as_markdown, as_text, condition_message, event_note

__all__ = [
    "Advice",
    "BlastRadius",
    "Confidence",
    "Diagnosis",
    "Evidence",
    "as_document",
    "as_markdown",
    "as_text",
    "condition_message",
    "diagnose",
    "diagnose_all",
    "diagnose_nothing",
    "diagnose_silent",
    "event_note",
]
