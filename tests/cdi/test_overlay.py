"""A registry computed before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.cdi.support import DIRS, Tree

from gpucdi.cdi import (
    SPEC_LIMIT_BYTES,
    DirectoryState,
    Library,
    Reader,
    Rejected,
    Stage,
)

SpecText = Callable[..., str]
READER = Reader(DIRS, Library("1.1.0"))


def test_a_file_that_is_only_laid_over_counts(tree: Tree, spec_text: SpecText) -> None:
    host = tree({"/etc/cdi/a.yaml": spec_text("vendor.com/gpu", "d0")})
    added = spec_text("vendor.com/gpu", "d1").encode()

    registry = READER.load(host, {"/etc/cdi/b.yaml": added})

    assert registry.names_of("vendor.com/gpu") == {"d0", "d1"}


def test_a_file_that_is_laid_over_as_absent_is_gone(tree: Tree, spec_text: SpecText) -> None:
    host = tree({"/etc/cdi/a.yaml": spec_text("vendor.com/gpu", "d0")})

    assert READER.load(host, {"/etc/cdi/a.yaml": None}).devices == {}


def test_content_laid_over_replaces_the_file(tree: Tree, spec_text: SpecText) -> None:
    host = tree({"/etc/cdi/a.yaml": spec_text("vendor.com/gpu", "d0")})

    registry = READER.load(host, {"/etc/cdi/a.yaml": spec_text("vendor.com/gpu", "d9").encode()})

    assert set(registry.devices) == {"vendor.com/gpu=d9"}


def test_a_directory_that_does_not_exist_yet_is_there_with_its_file(
    tree: Tree, spec_text: SpecText, library: Library
) -> None:
    text = spec_text("vendor.com/gpu", "d0").replace("0.6.0", "0.5.0")

    registry = Reader(DIRS, library).load(tree({}), {"/var/run/cdi/a.yaml": text.encode()})

    assert set(registry.devices) == {"vendor.com/gpu=d0"}


def test_the_overlay_follows_links_as_the_host_does(tree: Tree, spec_text: SpecText) -> None:
    host = tree({"/run/cdi/a.yaml": spec_text("vendor.com/gpu", "d0"), "/var/run": "-> /run"})

    registry = READER.load(host, {"/run/cdi/a.yaml": None})

    assert registry.devices == {}


def test_a_conflict_shows_before_it_is_written(tree: Tree, spec_text: SpecText) -> None:
    text = spec_text("vendor.com/gpu", "d0")
    host = tree({"/etc/cdi/a.yaml": text})

    registry = READER.load(host, {"/etc/cdi/b.yaml": text.encode()})

    assert registry.conflicts == {"vendor.com/gpu=d0": ("/etc/cdi/a.yaml", "/etc/cdi/b.yaml")}


def test_nothing_is_written(tmp_path: Path, tree: Tree, spec_text: SpecText) -> None:
    host = tree({})

    READER.load(host, {"/etc/cdi/b.yaml": spec_text("vendor.com/gpu", "d0").encode()})

    assert list(tmp_path.iterdir()) == []


def test_a_key_behind_a_loop_of_links_stands_for_nothing(tree: Tree, spec_text: SpecText) -> None:
    host = tree({"/etc/loop": "-> loop", "/etc/cdi/a.yaml": spec_text("vendor.com/gpu", "d0")})

    registry = READER.load(host, {"/etc/loop/x.yaml": b"x", "/etc/\0/x.yaml": None})

    assert registry.names_of("vendor.com/gpu") == {"d0"}


def test_a_link_to_a_directory_that_comes_with_the_file_stays_a_link(
    tree: Tree, spec_text: SpecText, library: Library
) -> None:
    text = spec_text("vendor.com/gpu", "d0").replace("0.6.0", "0.5.0").encode()
    host = tree({"/etc/cdi": "-> /nowhere"})

    registry = Reader(DIRS, library).load(host, {"/etc/cdi/a.yaml": text})

    follows = library.behaviour.decodes_with_yaml3
    state = DirectoryState.READ if follows else DirectoryState.SYMLINK_NOT_READ
    assert registry.directories[0].state is state
    assert bool(registry.devices) is follows


def test_a_link_in_a_circle_does_not_become_the_directory_of_a_file_behind_it(
    tree: Tree, spec_text: SpecText, library: Library
) -> None:
    text = spec_text("vendor.com/gpu", "d0").replace("0.6.0", "0.5.0").encode()
    host = tree({"/etc/cdi": "-> cdi"})

    registry = Reader(DIRS, library).load(host, {"/etc/cdi/a.yaml": text})

    follows = library.behaviour.decodes_with_yaml3
    state = DirectoryState.UNREADABLE if follows else DirectoryState.SYMLINK_NOT_READ
    assert registry.directories[0].state is state
    assert registry.devices == {}


def test_content_laid_over_obeys_the_bound_on_files(tree: Tree) -> None:
    registry = READER.load(tree({}), {"/etc/cdi/a.yaml": b"#" * (SPEC_LIMIT_BYTES + 1)})

    outcome = registry.files[0].outcome
    assert isinstance(outcome, Rejected)
    assert outcome.stage is Stage.BOUND
