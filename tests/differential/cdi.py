"""Compare this package with the real Go library on made-up trees.

``python -m tests.differential.cdi --n 20000 --seed 7`` prints the seed of every round, each
difference (shrunk) and, last, ``N passed, M failed`` counted in trees and versions; the exit
status is 1 when M is above 0.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, given, seed, settings
from tests.differential.compare import Bench, Difference
from tests.differential.oracle import reason_to_skip
from tests.differential.trees import Tree, trees
from tests.lab.oracle.build import VERSIONS

ROUND = 500


class DifferenceError(AssertionError):
    """Raised inside a round so that Hypothesis shrinks the tree."""


@dataclass(slots=True)
class Tally:
    """What a run has seen so far."""

    trees: int = 0
    failures: list[Difference] = field(default_factory=list)


def run_round(bench: Bench, number: int, round_seed: int, tally: Tally, *, shrink: bool) -> None:
    """Try ``number`` trees; a difference ends the round after it has been shrunk."""
    phases = (Phase.generate, Phase.shrink) if shrink else (Phase.generate,)
    last: list[Difference] = []

    @seed(round_seed)
    @settings(
        max_examples=number,
        phases=phases,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(trees())
    def attempt(tree: Tree) -> None:
        found = bench.differences(tree)
        if found:
            last[:] = found
            raise DifferenceError
        tally.trees += 1

    try:
        attempt()
    except DifferenceError:
        tally.failures.extend(last)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Compare gpucdi.cdi with the Go library.")
    parser.add_argument("--n", type=int, default=2000, help="trees, each for every version")
    parser.add_argument("--seed", type=int, default=0, help="the first round's seed")
    parser.add_argument("--library", action="append", choices=VERSIONS, help="only these versions")
    options = parser.parse_args(arguments)
    absent = reason_to_skip()
    if absent:
        print(absent)
        return 2
    versions = tuple(options.library or VERSIONS)
    tally = Tally()
    began = time.monotonic()
    with Bench(versions) as bench:
        for index in range(0, options.n, ROUND):
            round_seed = options.seed + index // ROUND
            before = len(tally.failures)
            run_round(bench, min(ROUND, options.n - index), round_seed, tally, shrink=True)
            print(
                f"seed {round_seed}: {tally.trees} trees, {time.monotonic() - began:.0f} s",
                flush=True,
            )
            for difference in tally.failures[before:]:
                print(difference)
    failed = len(tally.failures)
    print(f"{tally.trees * len(versions)} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
