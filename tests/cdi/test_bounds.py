"""Files made to hurt: each ends in a rejection with a reason, soon."""

from __future__ import annotations

import time

import pytest
from tests.cdi.support import DIRS, Tree

from gpucdi import cdi
from gpucdi.cdi import FILE_LIMIT, SPEC_LIMIT_BYTES, Library, Reader, Rejected, Stage, decode_spec

SECONDS = 40


def bomb(levels: int, width: int) -> bytes:
    lines = ["a0: &a0 [x]"]
    for level in range(1, levels):
        items = ", ".join([f"*a{level - 1}"] * width)
        lines.append(f"a{level}: &a{level} [{items}]")
    return "\n".join(lines).encode()


def rejected(data: bytes, library: Library) -> Rejected:
    began = time.monotonic()
    outcome = decode_spec(data, "/etc/cdi/a.yaml", library)
    assert time.monotonic() - began < SECONDS
    assert isinstance(outcome, Rejected)
    return outcome


def test_aliases_that_multiply_are_stopped_as_go_stops_them(library: Library) -> None:
    outcome = rejected(bomb(12, 10), library)

    assert outcome.stage is Stage.PARSE
    assert "document contains excessive aliasing" in outcome.reason or "not found" in outcome.reason


def test_an_alias_of_itself_is_stopped(library: Library) -> None:
    outcome = rejected(b"annotations: {a: b}\nx: &a {y: *a}\ndevices: &b [*b]\n", library)

    # From 1.1.1 on the wrong types and fields are found before the alias is followed.
    new = library.behaviour.decodes_with_yaml3
    expected = "cannot unmarshal !!seq" if new else "anchor 'a' value contains itself"
    assert expected in outcome.reason


@pytest.mark.parametrize("opening", [b"[", b"{a: ", b"- ", b"? "])
def test_depth_is_bounded(opening: bytes, library: Library) -> None:
    outcome = rejected(opening * 50_000, library)

    assert outcome.stage in {Stage.BOUND, Stage.PARSE}


def test_depth_by_aliases_is_bounded(library: Library) -> None:
    lines = [b"a0: &a0 x"]
    lines += [b"a%d: &a%d %s*a%d%s" % (n, n, b"[" * 90, n - 1, b"]" * 90) for n in range(1, 60)]

    outcome = rejected(b"\n".join(lines), library)

    assert outcome.stage in {Stage.BOUND, Stage.PARSE}


def test_a_null_key_over_an_alias_of_itself_is_stopped(library: Library) -> None:
    outcome = rejected(b"a: &a\n- ? ~\n  : *a\n", library)

    assert outcome.stage is Stage.PARSE


def test_many_nodes_are_bounded(library: Library) -> None:
    outcome = rejected(b"[" + b"1," * 120_000 + b"]", library)

    assert outcome.stage is Stage.BOUND
    assert "YAML nodes" in outcome.reason


def test_a_large_file_is_not_read(tree: Tree, library: Library) -> None:
    host = tree({"/etc/cdi/a.yaml": b"#" * (SPEC_LIMIT_BYTES + 1)})

    outcome = Reader(DIRS, library).load(host).files[0].outcome

    assert isinstance(outcome, Rejected)
    assert outcome.stage is Stage.BOUND
    assert "larger than" in outcome.reason


def test_files_beyond_a_number_are_not_looked_at(tree: Tree) -> None:
    host = tree({f"/etc/cdi/{number:05}.yaml": b"x" for number in range(FILE_LIMIT + 2)})

    files = Reader(DIRS, cdi.NEWEST).load(host).files

    assert len(files) == FILE_LIMIT + 2
    assert files[FILE_LIMIT - 1].outcome != files[FILE_LIMIT].outcome
    assert files[FILE_LIMIT].outcome == Rejected(
        f"not looked at: more than {FILE_LIMIT} spec files", Stage.BOUND
    )


def test_a_long_number_costs_nothing(library: Library) -> None:
    data = b"cdiVersion: " + b"9" * 100_000

    assert isinstance(decode_spec(data, "/x.yaml", library), Rejected)
