"""The recorded answers of the real library, version by version."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.conformance.run_vectors import checks, main

DATA = Path(__file__).parent / "data"
FILES = sorted(DATA.glob("*.json"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_vector_gives_what_the_library_gave(file: Path) -> None:
    results = list(checks(json.loads(file.read_text(encoding="utf-8"))))

    assert results
    assert [each for each in results if not each.passed] == []


def test_the_runner_counts_differences_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right = {"lib": ["v1.1.0"], "result": {"err": "", "r": ["vendor.com", "gpu", "0"]}}
    wrong = {"lib": ["v1.1.1"], "result": {"err": "no", "r": ["", "", ""]}}
    vectors = {"parse_qualified_name": [{"input": "vendor.com/gpu=0", "expect": [right, wrong]}]}
    file = tmp_path / "vectors.json"
    file.write_text(json.dumps(vectors))

    status = main([str(file)])

    lines = capsys.readouterr().out.splitlines()
    assert status == 1
    assert lines[0] == "parse_qualified_name 'vendor.com/gpu=0' with v1.1.1"
    assert lines[-1] == "1 passed, 1 failed"


def test_a_section_that_the_runner_does_not_know_is_no_silent_pass(tmp_path: Path) -> None:
    file = tmp_path / "vectors.json"
    file.write_text(json.dumps({"something_new": []}))

    with pytest.raises(ValueError, match="something_new"):
        main([str(file)])
