"""What is documented is what there is: causes, JSON fields, wordings."""

from __future__ import annotations

import re
from pathlib import Path

from gpucdi.diagnosis import BlastRadius, as_document, diagnose_nothing
from gpucdi.diagnosis.advice.standing import STANDING
from gpucdi.failures import EngineFamily, Stage
from gpucdi.failures.catalogue import FORMATS
from gpucdi.failures.extract import _chain
from gpucdi.findings import Cause

DOCS = Path(__file__).parents[2] / "docs"
CAUSES = (DOCS / "causes.md").read_text(encoding="utf-8")
EXPLAIN = (DOCS / "explain.md").read_text(encoding="utf-8")


def test_each_cause_has_its_section_in_the_order_of_the_enum() -> None:
    assert re.findall(r"^## (\w+)$", CAUSES, re.MULTILINE) == [cause.value for cause in Cause]


def test_each_section_says_evidence_who_and_what_to_do() -> None:
    sections = re.split(r"^## \w+$", CAUSES, flags=re.MULTILINE)[1:]
    for section in sections:
        for part in ("**Evidence:**", "**Who can mend it:**", "**What to do:**"):
            assert part in section


def test_each_cause_has_advice() -> None:
    by_case = {
        Cause.ONLY_ALL_DEVICE,
        Cause.SPEC_LACKS_DEVICE,
        Cause.KIND_HAS_NO_SPEC,
        Cause.DRA_CLAIM_SPEC_LOST,
    }
    assert set(STANDING) | by_case == set(Cause)


def test_each_field_of_the_document_is_in_its_table() -> None:
    documented = set(
        re.findall(r"`(\w+)`", "\n".join(re.findall(r"^\| (`.*)$", EXPLAIN, re.MULTILINE)))
    )
    assert set(as_document(diagnose_nothing(""))) <= documented


def test_each_stage_engine_and_blast_radius_is_documented() -> None:
    flat = " ".join(EXPLAIN.split())
    for value in [*Stage, *EngineFamily, *BlastRadius]:
        assert f"`{value.value}`" in flat, value


def test_each_wording_is_documented() -> None:
    known = {row.id for row in FORMATS}
    known |= {name for row in FORMATS for _, name in row.variants}
    known |= set(re.findall(r'"(M\d+\w?)"', Path(_chain.__code__.co_filename).read_text("utf-8")))
    table = EXPLAIN.partition("## The wordings")[2]
    documented = set(re.findall(r"\b[MS]\d\d[a-z]?\b", table))
    assert known <= documented, known - documented
    # No text at all, and three renderings that are read as the wording that they render.
    assert documented - known == {"M00", "M02", "M04", "M06m"}
