"""Compare this package with the real Go library on made-up trees.

``python -m tests.differential.cdi --n 20000 --seed 7`` tries the trees of the seeds 7, 8, …, prints
how far it is, each difference with its seed and the smallest tree that still shows it, and, last,
``N passed, M failed`` counted in trees and versions; the exit status is 1 when M is above 0.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

from tests.differential.compare import Bench, Difference
from tests.differential.oracle import reason_to_skip
from tests.differential.trees import Tree, seeded_tree
from tests.lab.oracle.build import VERSIONS

ROUND = 500
CHUNKS = (256, 64, 16, 4, 1)


def smaller(tree: Tree) -> Iterator[Tree]:
    """Yield trees with a little less in them."""
    for name in tree.files:
        yield replace(tree, files={key: data for key, data in tree.files.items() if key != name})
    for name in tree.links:
        yield replace(tree, links={key: to for key, to in tree.links.items() if key != name})
    if len(tree.asked) > 1:
        yield replace(tree, asked=tree.asked[:1])
    for name, data in tree.files.items():
        for size in CHUNKS:
            for start in range(0, len(data), size):
                yield replace(tree, files={**tree.files, name: data[:start] + data[start + size :]})


def shrunk(bench: Bench, difference: Difference, seconds: float = 60) -> Difference:
    """Return the difference on the smallest tree found in the time given."""
    until = time.monotonic() + seconds
    progress = True
    while progress and time.monotonic() < until:
        progress = False
        for tree in smaller(difference.tree):
            same = [d for d in bench.differences(tree) if d.library == difference.library]
            if same:
                difference, progress = same[0], True
                break
            if time.monotonic() > until:
                break
    return difference


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Compare gpucdi.cdi with the Go library.")
    parser.add_argument("--n", type=int, default=2000, help="trees, each for every version")
    parser.add_argument("--seed", type=int, default=0, help="the first tree's seed")
    parser.add_argument("--library", action="append", choices=VERSIONS, help="only these versions")
    options = parser.parse_args(arguments)
    absent = reason_to_skip()
    if absent:
        print(absent)
        return 2
    versions = tuple(options.library or VERSIONS)
    began = time.monotonic()
    failed = 0
    with Bench(versions) as bench:
        for number in range(options.n):
            seed = options.seed + number
            found = bench.differences(seeded_tree(seed))
            failed += len(found)
            if found:
                print(f"seed {seed}: libraries {', '.join(d.library for d in found)}")
                print(shrunk(bench, found[0]), flush=True)
            if (number + 1) % ROUND == 0:
                seconds = time.monotonic() - began
                print(f"seeds {options.seed} to {seed}: {seconds:.0f} s", flush=True)
    print(f"{options.n * len(versions) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
