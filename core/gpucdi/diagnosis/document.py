"""A diagnosis as JSON for programs. Owns field names; ``docs/explain.md`` documents them.

Fields are never renamed or removed; new ones may come.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpucdi.api.fields import Json
from gpucdi.diagnosis.model import Diagnosis
from gpucdi.findings import Cause


def as_document(diagnosis: Diagnosis, others: Sequence[Diagnosis] = ()) -> dict[str, Json]:
    """Return the document of one diagnosis, with further ones of the same Pod or text."""
    failure = diagnosis.failure
    near = diagnosis.near_miss
    return {
        "is_cdi": failure.is_cdi and diagnosis.cause is not Cause.NOT_CDI,
        "stage": failure.stage.value,
        "engine": failure.engine.value if failure.engine else None,
        "format": failure.format,
        "names": list(failure.names),
        "malformed": list(failure.malformed),
        "kinds": list(failure.kinds),
        "path": failure.path,
        "hook": failure.hook,
        "truncated": failure.truncated,
        "cause": diagnosis.cause.value,
        "summary": diagnosis.summary,
        "confidence": diagnosis.confidence.value,
        "contributing": [cause.value for cause in diagnosis.contributing],
        "candidates": [cause.value for cause in diagnosis.candidates],
        "evidence": [
            {"text": item.text, "file": item.file, "key": item.key} for item in diagnosis.evidence
        ],
        "near_miss": {"kind": near.kind, "count": near.count} if near else None,
        "advice": [
            {
                "rank": rank,
                "text": item.text,
                "command": item.command,
                "blast_radius": item.blast_radius.value,
                "who": item.who.value,
                "valid_for": item.valid_for,
            }
            for rank, item in enumerate(diagnosis.advice, start=1)
        ],
        "warnings": list(diagnosis.warnings),
        "repairable": diagnosis.repairable,
        "resolved_now": diagnosis.resolved_now,
        "not_seen": list(diagnosis.not_seen),
        "message": failure.text,
        "others": [as_document(other) for other in others],
    }
