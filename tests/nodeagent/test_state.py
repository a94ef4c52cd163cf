"""Whatever lies in the state directory is read without an error and within bounds."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.trees import c00

from gpucdi.api import Intent, RepairMode
from gpucdi.host import HostTree
from gpucdi_agent.files import RealFiles
from gpucdi_agent.state import HISTORY_LENGTH, WRITTEN_LIMIT, StateStore
from gpucdi_agent.transaction import Transaction

STATE = "/var/lib/gpucdi"
OWN = "/etc/cdi/gpucdi-management.nvidia.com-gpu.yaml"
FILES = ("intent.json", "history.json", "status.json", "journal.json")
REPAIR = {
    "time": "2026-01-01T00:00:00Z",
    "kind": c00.MANAGEMENT,
    "file": OWN,
    "result": "Succeeded",
    "added": 4,
    "before": "",
    "after": "sha256:0",
}
WHOLE: dict[str, object] = {
    "intent.json": {
        "generation": 3,
        "spec": Intent(node_name="n", mode=RepairMode.AUTO, extra_kinds=("a.b/c",)).to_json(),
    },
    "history.json": {"repairs": [REPAIR], "written": {OWN: "sha256:0"}, "bootId": "b"},
    "status.json": {"state": "Drifted", "kinds": [{"kind": "a.b/c"}], "repairs": [REPAIR]},
    "journal.json": {
        "time": "T",
        "entries": [{"path": OWN, "before": "", "after": "", "backup": "x"}],
        "readers": [{"specDirs": ["/etc/cdi"], "library": "1.0.1", "names": ["a.b/c=0"]}],
    },
}
JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.sampled_from(["\0", "\ud800", "/", "/etc/cdi/gpucdi-\0", "/etc/cdi/gpucdi-\udcff", "zz"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def places(value: object) -> Iterator[Callable[[object], None]]:
    """Yield what replaces one value in a document, for every value in it."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield partial(value.__setitem__, key)
            yield from places(inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield partial(value.__setitem__, index)
            yield from places(inner)


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, bytes]:
    """Return one of our files with one to three of its values replaced, or cut, or random."""
    name = draw(st.sampled_from(FILES))
    document = copy.deepcopy(WHOLE[name])
    for _ in range(draw(st.integers(1, 3))):
        draw(st.sampled_from(list(places(document))))(draw(JUNK))
    content = json.dumps(document).encode()
    length = draw(st.integers(0, len(content)) | st.just(len(content)))
    return name, draw(st.binary(max_size=20) | st.just(content[:length]))


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> HostTree:
    found = c00.copy(tmp_path_factory.mktemp("tree") / "host")
    StateStore(found, RealFiles(), STATE).prepare()
    return found


def lay(host: HostTree, name: str, content: bytes) -> StateStore:
    for each in FILES:
        host.outside(f"{STATE}/{each}").unlink(missing_ok=True)
    host.outside(f"{STATE}/{name}").write_bytes(content)
    return StateStore(host, RealFiles(), STATE)


@settings(max_examples=150, deadline=None)
@given(damage=damaged())
def test_reading_damaged_state_never_raises(host: HostTree, damage: tuple[str, bytes]) -> None:
    state = lay(host, *damage)

    memory = state.memory()
    state.journal()

    assert len(memory.repairs) <= HISTORY_LENGTH


@settings(max_examples=20, deadline=None)
@given(damage=damaged())
def test_a_start_with_damaged_state_goes_on(host: HostTree, damage: tuple[str, bytes]) -> None:
    state = lay(host, *damage)
    specs = {name: host.read(f"/etc/cdi/{name}") for name in host.listdir("/etc/cdi")}

    Transaction(host, state, RealFiles(), lambda: "T").recover()

    assert {name: host.read(f"/etc/cdi/{name}") for name in host.listdir("/etc/cdi")} == specs


@pytest.mark.parametrize("library", ["zz", "", "1.0.1\n"])
def test_a_journal_of_a_library_that_cannot_be_is_none(host: HostTree, library: str) -> None:
    readers = [{"specDirs": ["/etc/cdi"], "library": library}]
    journal = {"entries": [{"path": "/etc/cdi/gpucdi-x"}], "readers": readers}

    assert lay(host, "journal.json", json.dumps(journal).encode()).journal() is None


def test_of_a_long_history_the_end_is_taken(host: HostTree) -> None:
    repairs = [{**REPAIR, "time": f"T{number}"} for number in range(3000)]
    written = {f"/etc/cdi/gpucdi-{number}.yaml": "sha256:0" for number in range(3000)}
    content = json.dumps({"repairs": repairs, "written": written}).encode()

    memory = lay(host, "history.json", content).memory()

    assert [record.time for record in memory.repairs] == [f"T{n}" for n in range(2990, 3000)]
    assert len(memory.written or {}) == WRITTEN_LIMIT


def test_a_history_without_end_is_none_and_takes_no_time(host: HostTree) -> None:
    content = json.dumps({"repairs": [REPAIR] * 100_000}).encode()
    started = time.monotonic()

    memory = lay(host, "history.json", content).memory()

    assert memory.repairs == ()
    assert time.monotonic() - started < 1.0


def test_what_is_no_file_of_ours_is_not_remembered_as_one(host: HostTree) -> None:
    written = {"/etc/passwd": "a", "gpucdi-x": "b", "/a/gpucdi-\0": "c", OWN: "d"}

    memory = lay(host, "history.json", json.dumps({"written": written}).encode()).memory()

    assert memory.written == {OWN: "d"}


def test_a_backup_is_only_looked_for_among_the_backups(host: HostTree, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    entries = [{"path": OWN, "backup": f"../../../../..{secret}"}]

    journal = lay(host, "journal.json", json.dumps({"entries": entries}).encode()).journal()

    assert journal is not None
    assert journal.entries[0].backup == "secret"
