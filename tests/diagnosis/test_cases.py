"""The public reports, one file each in ``cases/``: what the text says, and why it happened.

Evidence E1 and E2 must give the cause; E3, whose cause was only inferred, must parse.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from tests.diagnosis.scenes import Scene, look

from gpucdi.api import NodeStatus
from gpucdi.diagnosis import Diagnosis, diagnose_all, diagnose_silent
from gpucdi.failures import Failure, PodView, extract, pod_view

CASES = sorted(
    (
        yaml.safe_load(path.read_text(encoding="utf-8"))
        for path in (Path(__file__).parent / "cases").glob("*.yaml")
    ),
    key=lambda case: int(case["id"][1:]),
)
WITH_TEXT = [case for case in CASES if "message" in case and case["expect"]["failure"]["names"]]
# Reports in which nobody saw a text, or in which the seen one is not an engine's.
FORMATLESS = {"M00"}


def ids(cases: list[dict[str, object]]) -> list[str]:
    return [f"{case['id']}-{case['source']}" for case in cases]


@dataclass(frozen=True, slots=True)
class Told:
    failures: tuple[Failure, ...]
    diagnoses: tuple[Diagnosis, ...]


def tell(case: Mapping[str, object], place: Path) -> Told:
    failures = extract(str(case.get("message", "")))
    pod = pod_view(found) if isinstance(found := case.get("pod"), dict) else None
    node = node_of(case, failures, place)
    if "message" in case:
        return Told(failures, diagnose_all(failures, pod=pod, node=node))
    return Told((), silent(pod, node))


def silent(pod: PodView | None, node: NodeStatus | None) -> tuple[Diagnosis, ...]:
    if pod is None or node is None:
        return ()
    found = diagnose_silent(pod=pod, node=node)
    return () if found is None else (found,)


def node_of(
    case: Mapping[str, object], failures: tuple[Failure, ...], place: Path
) -> NodeStatus | None:
    declared = case.get("node")
    if not isinstance(declared, dict):
        return None
    fields = {key: value for key, value in declared.items() if key != "base"}
    return look(Scene(**fields), place / "root", failures)


def test_the_corpus_is_whole() -> None:
    assert len(CASES) == 80
    assert len({case["id"] for case in CASES}) == 80
    # A report that nothing decides would be no passing case: there is none.
    assert not [case["id"] for case in CASES if "undecidable" in case]


@pytest.mark.parametrize(
    "case", [case for case in CASES if "message" in case], ids=lambda case: case["id"]
)
def test_the_text_of_the_report_is_read(case: dict[str, object], tmp_path: Path) -> None:
    told = tell(case, tmp_path)
    assert told.failures, "no failure was found in the text"
    expected = dict(case["expect"]["failure"])  # type: ignore[index]
    main = told.diagnoses[0].failure
    names = [name for failure in told.failures for name in failure.names]
    assert list(dict.fromkeys(names)) == expected.pop("names")
    found = {
        "is_cdi": main.is_cdi,
        "stage": main.stage.value,
        "engine": main.engine and main.engine.value,
        "path": main.path,
        "hook": main.hook,
    }
    assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if "cause" in case["expect"]],
    ids=lambda case: case["id"],
)
def test_the_cause_of_the_report_is_named(case: dict[str, object], tmp_path: Path) -> None:
    told = tell(case, tmp_path)
    expected = case["expect"]
    assert isinstance(expected, dict)
    main = told.diagnoses[0]
    assert main.cause.value == expected["cause"], main.summary
    assert main.evidence
    assert main.advice
    assert set(expected.get("contributing", ())) <= {cause.value for cause in main.contributing}
    if "evidence" in expected:
        assert any(expected["evidence"] in item.text for item in main.evidence)
    if "near_miss" in expected:
        assert main.near_miss is not None
        assert main.near_miss.kind == expected["near_miss"]
    assert main.repairable is expected.get("repairable", main.repairable)
    assert main.advice[0].text.startswith(expected.get("first_advice", ""))


def test_every_report_with_a_proven_cause_has_its_cause_asserted() -> None:
    proven = {case["id"] for case in CASES if case["evidence"] in {"E1", "E2"}}
    asserted = {case["id"] for case in CASES if "cause" in case["expect"]}
    assert not proven - asserted


@pytest.mark.parametrize(
    "case", [case for case in CASES if "findings" in case["expect"]], ids=lambda case: case["id"]
)
def test_the_node_says_by_itself_what_is_wrong(case: dict[str, object], tmp_path: Path) -> None:
    expected = case["expect"]
    assert isinstance(expected, dict)
    node = node_of(case, (), tmp_path)
    assert node is not None
    assert set(expected["findings"]) <= {item.cause.value for item in node.findings}
