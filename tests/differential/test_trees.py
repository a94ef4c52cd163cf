"""The differential test in small; ``python -m tests.differential.cdi`` runs it at any size.

``GPUCDI_DIFFERENTIAL_N`` sets the number of trees (200), each for all eight versions.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from tests.differential.compare import Bench
from tests.differential.oracle import reason_to_skip
from tests.differential.trees import Tree, seeded_tree, trees

NUMBER = int(os.environ.get("GPUCDI_DIFFERENTIAL_N", "200"))
ABSENT = reason_to_skip()

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(60 + NUMBER)]


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    if ABSENT:
        pytest.skip(ABSENT)
    with Bench() as found:
        yield found


def test_seeded_trees_give_what_the_library_gives(bench: Bench) -> None:
    for seed in range(NUMBER // 2):
        differences = bench.differences(seeded_tree(seed))
        assert differences == [], f"seed {seed}\n{differences[0]}"


@settings(
    max_examples=max(NUMBER // 2, 1),
    deadline=None,
    database=None,
    derandomize=True,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
@given(tree=trees())
def test_shrinkable_trees_give_what_the_library_gives(bench: Bench, tree: Tree) -> None:
    differences = bench.differences(tree)
    assert differences == [], str(differences[0])


def test_a_difference_would_be_seen(bench: Bench) -> None:
    tree = Tree(("etc",), {"etc/a.yaml": b"kind: x\n"}, asked=("vendor.com/gpu=0",))

    (first, *_) = bench.oracles
    theirs = first.ask({"op": "cache", "dirs": ["/nowhere"], "devices": list(tree.asked)})

    assert theirs["injecterr"] == "unresolvable CDI devices vendor.com/gpu=0"
    assert bench.differences(tree) == []
    assert bench._theirs(theirs).get("errors") is None
