"""Predictions against the real runtimes of three releases; more cases: ``make``'s differential."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.differential_runtime.bench import Bench, Observed
from tests.differential_runtime.cases import make_case
from tests.differential_runtime.compare import difference
from tests.lab.programs import ProgramMissingError

from gpucdi.toolkit import Mode, Outcome, Verdict

CASES = int(os.environ.get("GPUCDI_DIFFERENTIAL_N", "240"))
BATCH = 60


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("bench"))
    try:
        made.start()
    except ProgramMissingError as missing:
        pytest.skip(str(missing))
    yield made
    made.node.close()


@pytest.mark.lab
@pytest.mark.parametrize("first", range(0, CASES, BATCH))
def test_generated_cases_end_as_predicted(bench: Bench, first: int) -> None:
    differences = []
    for seed in range(first, min(first + BATCH, CASES)):
        case = make_case(seed)
        bench.lay(case)
        predicted = bench.predict(case)
        found = difference(case, predicted, bench.run(case))
        if found is not None:
            differences.append(f"seed {seed}: {found}")
    assert differences == []


@pytest.mark.lab
def test_a_prediction_of_another_case_is_found_out(bench: Bench) -> None:
    caught = 0
    for seed in range(20):
        case, other = make_case(seed), make_case(seed + 1000)
        bench.lay(other)
        wrong = bench.predict(other)
        bench.lay(case)
        caught += difference(case, wrong, bench.run(case)) is not None
    assert caught > 10


STARTED = Observed(code=0, error=None, stderr="", ran=True, debug="")


@pytest.mark.parametrize(
    ("predicted", "observed"),
    [
        (Outcome(Verdict.FAILS, text="x"), STARTED),
        (Outcome(Verdict.FAILS, text="x"), replace(STARTED, code=1, error="y")),
        (Outcome(Verdict.FAILS, crashes=True), replace(STARTED, code=1, error="y")),
        (Outcome(Verdict.FAILS), replace(STARTED, code=1, error="y")),
        (Outcome(Verdict.WITHOUT_GPU), replace(STARTED, code=1, error="y")),
        (Outcome(Verdict.WITHOUT_GPU), replace(STARTED, nodes=("/dev/nvidia0",))),
        (Outcome(Verdict.WITHOUT_GPU), replace(STARTED, is_changed=True)),
        (Outcome(Verdict.WITHOUT_GPU), replace(STARTED, has_prestart_hook=True)),
        (Outcome(Verdict.OTHER_MECHANISM, Mode.LEGACY), STARTED),
        (Outcome(Verdict.DEVICES, nodes=("/dev/nvidia0",)), STARTED),
        (Outcome(Verdict.DEVICES, environment=("D_1=1",)), STARTED),
        (Outcome(Verdict.UNKNOWN), STARTED),
        (
            Outcome(Verdict.WITHOUT_GPU, Mode.CDI),
            replace(STARTED, debug="Auto-detected mode as 'legacy'"),
        ),
    ],
)
def test_the_comparison_sees_every_kind_of_difference(
    predicted: Outcome, observed: Observed
) -> None:
    assert difference(make_case(0), predicted, observed) is not None
