"""What a reader knows, and why a name does not resolve."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cdi.support import DIRS, Tree

from gpucdi import cdi
from gpucdi.cdi import DirectoryState, Library, Reader, UnresolvedReason
from gpucdi.host import CAPTURE_NAME, HostTree

SpecText = Callable[..., str]
OLD, NEW = Library("1.1.0"), Library("1.1.1")


def reason(registry: cdi.Registry, name: str) -> cdi.Unresolved:
    answer = registry.resolve([name])
    assert not answer.resolved
    return answer.why[name]


def test_devices_of_all_files_are_there(tree: Tree, spec_text: SpecText, library: Library) -> None:
    host = tree(
        {
            "/etc/cdi/a.yaml": spec_text("vendor.com/gpu", "d0"),
            "/var/run/cdi/b.json": spec_text("vendor.com/gpu", "d1"),
        }
    )

    registry = Reader(DIRS, library).load(host)

    if library < Library("0.6.0"):
        assert registry.names_of("vendor.com/gpu") == frozenset()
    else:
        assert registry.names_of("vendor.com/gpu") == {"d0", "d1"}
        assert registry.kinds == {"vendor.com/gpu"}


def test_edits_of_a_spec_come_once_and_first(tree: Tree, spec_text: SpecText) -> None:
    host = tree({"/etc/cdi/a.yaml": spec_text("vendor.com/gpu", "d0", "d1")})

    answer = Reader(DIRS, OLD).load(host).resolve(["vendor.com/gpu=d1", "vendor.com/gpu=d0"])

    assert answer.resolved
    assert answer.error is None
    assert answer.edits is not None
    assert answer.edits.env == ("SPEC=vendor.com/gpu", "DEVICE=d1", "DEVICE=d0")


def test_nothing_asked_is_resolved(tree: Tree) -> None:
    answer = Reader(DIRS, OLD).load(tree({})).resolve([])

    assert answer.resolved
    assert answer.edits == cdi.ContainerEdits()


def test_the_unresolved_keep_their_order_and_repetitions(tree: Tree) -> None:
    answer = Reader(DIRS, OLD).load(tree({})).resolve(["b", "a", "b"])

    assert answer.unresolved == ("b", "a", "b")
    assert answer.error == "unresolvable CDI devices b, a, b"


def test_a_kind_that_nobody_defines(tree: Tree, spec_text: SpecText) -> None:
    registry = Reader(DIRS, OLD).load(tree({"/etc/cdi/a.yaml": spec_text("vendor.com/gpu", "d0")}))

    assert reason(registry, "other.com/gpu=d0").reason is UnresolvedReason.NO_SUCH_KIND


def test_a_kind_without_that_name_points_at_its_files(tree: Tree, spec_text: SpecText) -> None:
    registry = Reader(DIRS, OLD).load(tree({"/etc/cdi/a.yaml": spec_text("vendor.com/gpu", "all")}))

    why = reason(registry, "vendor.com/gpu=0")

    assert why.reason is UnresolvedReason.KIND_LACKS_NAME
    assert why.files == ("/etc/cdi/a.yaml",)


def test_a_conflict_names_both_files_even_under_a_clean_definition(
    tree: Tree, spec_text: SpecText
) -> None:
    text = spec_text("vendor.com/gpu", "d0")
    host = tree(dict.fromkeys(("/etc/cdi/a.yaml", "/etc/cdi/b.yaml", "/var/run/cdi/c.yaml"), text))
    registry = Reader(DIRS, OLD).load(host)

    why = reason(registry, "vendor.com/gpu=d0")

    assert why.reason is UnresolvedReason.CONFLICT
    assert why.files == ("/etc/cdi/a.yaml", "/etc/cdi/b.yaml")
    assert registry.conflicts == {"vendor.com/gpu=d0": why.files}


def test_a_rejected_file_is_named_with_its_reason(tree: Tree, spec_text: SpecText) -> None:
    text = spec_text("vendor.com/gpu", "d0").replace("0.6.0", "9.9.9")
    registry = Reader(DIRS, OLD).load(tree({"/etc/cdi/a.yaml": text}))

    why = reason(registry, "vendor.com/gpu=d0")

    assert why.reason is UnresolvedReason.FILE_REJECTED
    assert 'invalid version "9.9.9"' in why.detail


def test_a_file_too_broken_to_read_is_blamed_for_its_kind(tree: Tree, spec_text: SpecText) -> None:
    text = spec_text("vendor.com/gpu", "d0") + '"'
    registry = Reader(DIRS, OLD).load(tree({"/etc/cdi/a.yaml": text}))

    assert reason(registry, "vendor.com/gpu=d7").reason is UnresolvedReason.FILE_REJECTED
    assert reason(registry, "other.com/gpu=d7").reason is UnresolvedReason.NO_SUCH_KIND


def test_a_file_that_kills_the_reader_takes_every_name_with_it(
    tree: Tree, spec_text: SpecText
) -> None:
    host = tree(
        {
            "/etc/cdi/a.yaml": spec_text("vendor.com/gpu", "d0"),
            "/etc/cdi/b.yaml": spec_text("v/gpu", "d0"),
        }
    )
    answer = Reader(DIRS, OLD).load(host).resolve(["vendor.com/gpu=d0"])

    assert not answer.resolved
    assert answer.error == "panic: runtime error: slice bounds out of range [1:0]"
    assert answer.why["vendor.com/gpu=d0"].reason is UnresolvedReason.FILE_CRASHES_READER
    assert answer.why["vendor.com/gpu=d0"].files == ("/etc/cdi/b.yaml",)
    assert Reader(DIRS, NEW).load(host).resolve(["vendor.com/gpu=d0"]).resolved


def test_an_unreadable_file_is_suspected_when_nothing_else_explains(tree: Tree) -> None:
    registry = Reader(DIRS, OLD).load(tree({"/etc/cdi/a.yaml": "-> nowhere"}))

    why = reason(registry, "vendor.com/gpu=d0")

    assert why.reason is UnresolvedReason.FILE_UNREADABLE
    assert why.files == ("/etc/cdi/a.yaml",)


def test_a_linked_directory_is_not_read_before_1_1_1(tree: Tree, spec_text: SpecText) -> None:
    host = tree({"/real/a.yaml": spec_text("vendor.com/gpu", "d0"), "/etc/cdi": "-> /real"})
    registry = Reader(DIRS, OLD).load(host)

    assert registry.directories[0].state is DirectoryState.SYMLINK_NOT_READ
    assert reason(registry, "vendor.com/gpu=d0").reason is UnresolvedReason.DIRECTORY_NOT_READ
    assert Reader(DIRS, NEW).load(host).resolve(["vendor.com/gpu=d0"]).resolved


def test_a_file_in_place_of_a_directory_hides_all_later_ones_from_1_1_1_on(
    tree: Tree, spec_text: SpecText
) -> None:
    host = tree({"/etc/cdi": "x", "/var/run/cdi/a.yaml": spec_text("vendor.com/gpu", "d0")})
    registry = Reader(DIRS, NEW).load(host)

    assert [each.state for each in registry.directories] == [
        DirectoryState.NOT_A_DIRECTORY,
        DirectoryState.NOT_REACHED,
    ]
    assert reason(registry, "vendor.com/gpu=d0").reason is UnresolvedReason.DIRECTORY_NOT_READ
    assert Reader(DIRS, OLD).load(host).resolve(["vendor.com/gpu=d0"]).resolved


def test_parents_of_a_spec_directory_may_be_links(
    tree: Tree, spec_text: SpecText, library: Library
) -> None:
    text = spec_text("vendor.com/gpu", "d0").replace("0.6.0", "0.5.0")
    host = tree({"/run/cdi/a.yaml": text, "/var/run": "-> /run"})

    assert Reader(DIRS, library).load(host).resolve(["vendor.com/gpu=d0"]).resolved


@pytest.mark.parametrize("name", ["a.yml", "a.YAML", "sub/a.yaml"])
def test_a_definition_where_no_reader_looks_is_found_for_the_explanation(
    tree: Tree, spec_text: SpecText, name: str
) -> None:
    host = tree({f"/etc/cdi/{name}": spec_text("vendor.com/gpu", "d0")})

    why = reason(Reader(DIRS, OLD).load(host), "vendor.com/gpu=d0")

    assert why.reason is UnresolvedReason.FILE_NOT_SCANNED
    assert why.files == (f"/etc/cdi/{name}",)


@pytest.mark.parametrize("name", ["", "0", "gpu=0", "vendor.com/gpu=-0", "/dev/nvidia0"])
def test_what_is_no_legal_name_is_said_to_be_none(tree: Tree, name: str) -> None:
    registry = Reader(DIRS, OLD).load(tree({}))

    assert reason(registry, name).reason is UnresolvedReason.NOT_A_LEGAL_NAME


def test_a_higher_directory_shadows_device_by_device(tree: Tree, spec_text: SpecText) -> None:
    host = tree(
        {
            "/etc/cdi/a.yaml": spec_text("vendor.com/gpu", "d0", "d1"),
            "/var/run/cdi/a.yaml": spec_text("vendor.com/gpu", "d0"),
        }
    )
    registry = Reader(DIRS, OLD).load(host)

    assert registry.devices["vendor.com/gpu=d0"].file.path == "/var/run/cdi/a.yaml"
    assert registry.devices["vendor.com/gpu=d1"].file.path == "/etc/cdi/a.yaml"
    assert registry.shadowed == {"vendor.com/gpu=d0": ("/etc/cdi/a.yaml",)}


def test_no_directories_mean_the_default_ones_from_1_1_1_on(
    tree: Tree, spec_text: SpecText
) -> None:
    host = tree({"/etc/cdi/a.yaml": spec_text("vendor.com/gpu", "d0")})

    assert Reader((), OLD).load(host).devices == {}
    assert set(Reader((), NEW).load(host).devices) == {"vendor.com/gpu=d0"}


def test_the_same_directory_written_twice_makes_no_conflict(
    tree: Tree, spec_text: SpecText
) -> None:
    host = tree({"/etc/cdi/a.yaml": spec_text("vendor.com/gpu", "d0")})
    registry = Reader(("/etc/cdi", "/etc//cdi/"), OLD).load(host)

    assert registry.resolve(["vendor.com/gpu=d0"]).resolved
    assert registry.conflicts == {}


def test_a_captured_tree_is_read_as_the_user_of_the_engine(
    tmp_path: Path, tree: Tree, spec_text: SpecText
) -> None:
    tree({"/etc/cdi/a.yaml": spec_text("vendor.com/gpu", "d0")})
    (tmp_path / CAPTURE_NAME).write_text('{"readAsUid": 1000, "modes": {"/etc/cdi": "0700"}}')
    registry = Reader(DIRS, OLD).load(HostTree(tmp_path))

    assert registry.directories[0].state is DirectoryState.UNREADABLE
    assert reason(registry, "vendor.com/gpu=d0").reason is UnresolvedReason.DIRECTORY_NOT_READ


def test_a_fifo_would_hang_the_reader_and_is_never_opened(
    tmp_path: Path, tree: Tree, library: Library
) -> None:
    (tmp_path / "etc/cdi").mkdir(parents=True)
    os.mkfifo(tmp_path / "etc/cdi/a.yaml")
    registry = Reader(DIRS, library).load(tree({}))

    assert isinstance(registry.files[0].outcome, cdi.Crashes)
    assert "FIFO" in registry.files[0].outcome.reason
