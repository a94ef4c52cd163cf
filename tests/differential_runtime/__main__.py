"""Compare predictions with the real runtimes: ``python -m tests.differential_runtime --n 500``.

Prints every difference with the seed that makes it again, then ``N passed, M failed``; ends with 1
if anything differs. Needs root and the lab's programs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.differential_runtime.bench import Bench
from tests.differential_runtime.cases import make_case
from tests.differential_runtime.compare import difference
from tests.lab.programs import ProgramMissingError

SEEDS_A_RUN = 1_000_000


def main(arguments: list[str] | None = None) -> int:
    """Run the comparison; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential_runtime")
    parser.add_argument("--n", type=int, default=200, help="how many cases")
    parser.add_argument("--seed", type=int, default=0, help="which run of cases")
    parser.add_argument("--only", type=int, help="the seed of one case, to see it whole")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="gpucdi-differential-") as base:
        bench = Bench(Path(base))
        try:
            bench.start()
        except ProgramMissingError as missing:
            print(f"not run: {missing}", file=sys.stderr)
            return 2
        try:
            if options.only is not None:
                return show(bench, options.only)
            first = options.seed * SEEDS_A_RUN
            return compare_all(bench, range(first, first + options.n))
        finally:
            bench.node.close()


def compare_all(bench: Bench, seeds: range) -> int:
    """Compare every case, print differences and counts."""
    failed = 0
    seen: Counter[str] = Counter()
    for seed in seeds:
        case = make_case(seed)
        bench.lay(case)
        predicted = bench.predict(case)
        found = difference(case, predicted, bench.run(case))
        seen[f"{case.version} {predicted.verdict}"] += 1
        if found is not None:
            failed += 1
            print(f"seed {seed} ({case.version} {case.handler}): {found}")
    for what, count in sorted(seen.items()):
        print(f"  {count:5} {what}")
    print(f"{len(seeds) - failed} passed, {failed} failed")
    return 1 if failed else 0


def show(bench: Bench, seed: int) -> int:
    """Print one case, its prediction and what happened."""
    case = make_case(seed)
    bench.lay(case)
    predicted, observed = bench.predict(case), bench.run(case)
    for what in (case, predicted, observed):
        print(what, end="\n\n")
    print(case.config)
    found = difference(case, predicted, observed)
    print(found or "they agree")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
