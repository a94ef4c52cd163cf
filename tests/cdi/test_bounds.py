"""Files made to hurt: each ends in a rejection with a reason, soon."""

from __future__ import annotations

import os
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from tests.cdi.support import DIRS, Tree

from gpucdi import cdi
from gpucdi.cdi import (
    FILE_LIMIT,
    LOAD_LIMIT_NODES,
    SPEC_LIMIT_BYTES,
    CachedReader,
    Library,
    Reader,
    Rejected,
    Stage,
    decode_spec,
)
from gpucdi.cdi.remembered import VERDICTS
from gpucdi.host import HostTree, Listing

T = TypeVar("T")
# Processor time, and twice what it takes: the machine may be slow, or busy with something else.
SECONDS = 4
MEMORY_BYTES = 100 * 1024 * 1024
OLD_AND_NEW = pytest.mark.parametrize("library", [Library("1.1.0"), cdi.NEWEST], ids=str)


def bomb(levels: int, width: int) -> bytes:
    lines = ["a0: &a0 [x]"]
    for level in range(1, levels):
        items = ", ".join([f"*a{level - 1}"] * width)
        lines.append(f"a{level}: &a{level} [{items}]")
    return "\n".join(lines).encode()


def soon(call: Callable[[], T]) -> T:
    """Return the answer, which has to come within the limits on time and memory."""
    VERDICTS.forget()
    began = time.process_time()
    answer = call()
    assert time.process_time() - began < SECONDS
    VERDICTS.forget()
    tracemalloc.start()
    try:
        call()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MEMORY_BYTES
    return answer


def rejected(data: bytes, library: Library) -> Rejected:
    outcome = soon(lambda: decode_spec(data, "/etc/cdi/a.yaml", library))
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
    host = tree({f"/etc/cdi/{number:05}.yaml": b"x" for number in range(FILE_LIMIT + 3)})

    registry = Reader(DIRS, cdi.NEWEST).load(host)

    assert len(registry.files) == FILE_LIMIT + 1
    last = registry.files[-1]
    assert last.outcome == Rejected(
        f'"{last.path}" and 2 more behind it not looked at: more than {FILE_LIMIT} spec files',
        Stage.BOUND,
    )
    assert registry.directories[0].detail == "3 spec files were not looked at"


def test_files_that_no_reader_takes_do_not_hide_one_that_it_does(
    tree: Tree, spec_text: Callable[..., str], library: Library
) -> None:
    text = spec_text("vendor.com/gpu", "d0").replace("0.6.0", "0.5.0")
    files = {f"/etc/cdi/a{number:04}.yml": text for number in range(FILE_LIMIT)}
    files |= {f"/etc/cdi/sub{number:02}/x.yaml": text for number in range(100)}

    registry = Reader(DIRS, library).load(tree({**files, "/etc/cdi/z.yaml": text}))

    assert registry.resolve(["vendor.com/gpu=d0"]).resolved
    assert len(registry.files) == 1


def test_names_of_no_spec_file_beyond_a_number_are_not_looked_at(tree: Tree) -> None:
    host = tree({f"/etc/cdi/{number:05}": "" for number in range(1030)})

    (first, _) = Reader(DIRS, cdi.NEWEST).load(host).directories

    assert first.state is cdi.DirectoryState.READ
    assert first.detail == "6 other names were not looked at"


class ShortSighted(HostTree):
    """A host whose listings are cut much sooner."""

    def listing(self, path: str, limit: int = 2) -> Listing:
        return super().listing(path, min(limit, 2))


def test_a_directory_that_is_not_listed_to_its_end_says_so(tmp_path: Path, tree: Tree) -> None:
    tree({f"/etc/cdi/{name}.yaml": "" for name in "abc"})

    registry = Reader(DIRS, cdi.NEWEST).load(ShortSighted(tmp_path))

    assert registry.directories[0].detail == "only 2 of its names were looked at"


def test_a_file_that_a_bound_keeps_out_is_named_as_a_reason(tree: Tree) -> None:
    host = tree({"/etc/cdi/a.yaml": b"#" * (SPEC_LIMIT_BYTES + 1)})

    why = Reader(DIRS, cdi.NEWEST).load(host).resolve(["vendor.com/gpu=d0"]).why

    assert why["vendor.com/gpu=d0"].reason is cdi.UnresolvedReason.FILE_UNREADABLE
    assert why["vendor.com/gpu=d0"].files == ("/etc/cdi/a.yaml",)
    assert "is larger than" in why["vendor.com/gpu=d0"].detail


def test_a_hundred_thousand_files_cost_little(tmp_path: Path) -> None:
    (tmp_path / "etc/cdi").mkdir(parents=True)
    for number in range(100_000):
        if number % 50_000 == 0:
            # A file system may allow no more than some 65,000 links to one file.
            source = tmp_path / str(number)
            source.write_bytes(b"")
        os.link(source, f"{tmp_path}/etc/cdi/{number:06}.yaml")
    host = HostTree(tmp_path)
    cached = CachedReader(Reader(DIRS, Library("1.1.0")))

    registry = soon(lambda: cached.reader.load(host))
    soon(lambda: cached.load(host))

    assert len(registry.files) == FILE_LIMIT + 1
    outcome = registry.files[-1].outcome
    assert isinstance(outcome, Rejected)
    assert "and 98975 more behind it not looked at" in outcome.reason


NORMAL = (
    '- name: "d{0}"\n  containerEdits:\n    env: ["A={0}"]\n    mounts:\n'
    "    - hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.{0}\n"
    "      containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.{0}\n"
    "      options: [ro, nosuid, nodev, rbind, rprivate]\n"
)
HEAD = 'cdiVersion: "0.5.0"\nkind: v{0}.com/gpu\ndevices:\n'
LARGE = "".join(map(NORMAL.format, range(1200)))
COMPACT = (
    "[" + ",".join(f"{{name: d{n}, containerEdits: {{env: [A=1]}}}}" for n in range(5600)) + "]"
)
MANY: dict[str, dict[str, str]] = {
    "large": {f"{n:02}.yaml": HEAD.format(n) + LARGE for n in range(60)},
    "compact": {f"{n:02}.yaml": HEAD.format(n) + COMPACT for n in range(60)},
    "small mappings": {f"{n:03}.yaml": "{" + "a," * 16_000 + f"}} #{n}" for n in range(300)},
    "written oddly": {f"{n:03}.yaml": "! [" + "a," * 16_000 + f"] #{n}" for n in range(300)},
    "odd and small": {f"{n:04}.yaml": "! [" + "a," * 500 + f"] #{n}" for n in range(FILE_LIMIT)},
    "broken": {f"{n:04}.yaml": "a: [b\n" * 1000 + f"#{n}" for n in range(FILE_LIMIT)},
}


@OLD_AND_NEW
@pytest.mark.parametrize("name", MANY)
def test_many_files_are_only_read_up_to_a_number_of_nodes(
    tree: Tree, library: Library, name: str
) -> None:
    host = tree({f"/etc/cdi/{file}": content for file, content in MANY[name].items()})

    registry = soon(lambda: Reader(DIRS, library).load(host))

    if name != "broken":
        outcome = registry.files[-1].outcome
        assert isinstance(outcome, Rejected)
        assert f"more than {LOAD_LIMIT_NODES} YAML nodes" in outcome.reason
    assert len(registry.files) == len(MANY[name])


BLOWN_UP = {
    "duplicate keys": b"a: 1\n" * 6000,
    "an aliased key": b"env: [&a " + b"x" * 2_000_000 + b"]\ndevices:\n" + b"- {*a : 1}\n" * 300,
    "an aliased number": b"devices: [&a " + b"1_" * 200_000 + b"1, " + b"*a, " * 800 + b"x]\n",
    "an aliased text": b"kind: &a " + b"x" * 100_000 + b"\ndevices: [" + b"*a, " * 800 + b"x]\n",
    "a long fold": b'!x "' + b"a\n " * 1_300_000 + b'"',
    "long unknown fields": b"{"
    + b",".join(b"%d%s: 1" % (n, b"k" * 400) for n in range(2500))
    + b"}",
    "a long name": b'cdiVersion: "0.5.0"\nkind: "' + b"\\u00e9" * 300_000 + b'/b"',
}


@OLD_AND_NEW
@pytest.mark.parametrize("name", BLOWN_UP)
def test_a_small_file_cannot_ask_for_much(library: Library, name: str) -> None:
    outcome = rejected(BLOWN_UP[name], library)

    assert outcome.stage in {Stage.BOUND, Stage.PARSE, Stage.VALIDATE}
    assert len(outcome.reason) < 2 * 256 * 1024


@OLD_AND_NEW
@pytest.mark.parametrize("name", ["duplicate keys", "an aliased key", "a long fold", "a long name"])
def test_what_a_bound_stopped_says_so(library: Library, name: str) -> None:
    outcome = rejected(BLOWN_UP[name], library)

    assert outcome.stage is Stage.BOUND
    assert ": not looked at further: " in outcome.reason


def test_looking_for_the_kind_of_a_broken_file_takes_no_square_of_it(library: Library) -> None:
    rejected(b"\n" * 100_000 + b"'", library)
    rejected(b"\nkind" * 20_000 + b"'", library)


def test_a_long_number_costs_nothing(library: Library) -> None:
    data = b"cdiVersion: " + b"9" * 100_000

    assert isinstance(decode_spec(data, "/x.yaml", library), Rejected)
