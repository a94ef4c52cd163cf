"""An unchanged tree is answered without reading it again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tests.cdi.support import DIRS, Tree

from gpucdi.cdi import CachedReader, Library, Reader

SpecText = Callable[..., str]


def cached() -> CachedReader:
    return CachedReader(Reader(DIRS, Library("1.1.0")))


def test_the_same_registry_comes_back_while_nothing_changes(
    tree: Tree, spec_text: SpecText
) -> None:
    host = tree({"/etc/cdi/a.yaml": spec_text("vendor.com/gpu", "d0")})
    reader = cached()

    assert reader.load(host) is reader.load(host)


def test_a_changed_file_is_read_again(tmp_path: Path, tree: Tree, spec_text: SpecText) -> None:
    host = tree({"/etc/cdi/a.yaml": spec_text("vendor.com/gpu", "d0")})
    reader = cached()
    reader.load(host)
    path = tmp_path / "etc/cdi/a.yaml"
    path.write_text(spec_text("vendor.com/gpu", "d1"))
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))

    assert set(reader.load(host).devices) == {"vendor.com/gpu=d1"}


def test_a_new_file_and_a_removed_one_are_noticed(
    tmp_path: Path, tree: Tree, spec_text: SpecText
) -> None:
    host = tree({"/etc/cdi/a.yaml": spec_text("vendor.com/gpu", "d0")})
    reader = cached()
    reader.load(host)

    (tmp_path / "etc/cdi/b.yaml").write_text(spec_text("vendor.com/gpu", "d1"))
    assert len(reader.load(host).devices) == 2
    (tmp_path / "etc/cdi/a.yaml").unlink()
    assert set(reader.load(host).devices) == {"vendor.com/gpu=d1"}


def test_a_changed_target_of_a_link_is_noticed(
    tmp_path: Path, tree: Tree, spec_text: SpecText
) -> None:
    host = tree(
        {"/real.yaml": spec_text("vendor.com/gpu", "d0"), "/etc/cdi/a.yaml": "-> /real.yaml"}
    )
    reader = cached()
    reader.load(host)
    (tmp_path / "real.yaml").write_text(spec_text("vendor.com/gpu", "d0", "d1"))

    assert len(reader.load(host).devices) == 2


def test_a_directory_that_appears_is_noticed(
    tmp_path: Path, tree: Tree, spec_text: SpecText
) -> None:
    host = tree({})
    reader = cached()
    assert reader.load(host).devices == {}
    (tmp_path / "var/run/cdi").mkdir(parents=True)
    (tmp_path / "var/run/cdi/a.yaml").write_text(spec_text("vendor.com/gpu", "d0"))

    assert set(reader.load(host).devices) == {"vendor.com/gpu=d0"}


def test_a_spec_file_in_the_place_of_a_directory_is_watched(
    tmp_path: Path, tree: Tree, spec_text: SpecText
) -> None:
    host = tree({"/etc/cdi/a.yaml": spec_text("vendor.com/gpu", "d0")})
    reader = CachedReader(Reader(("/etc/cdi/a.yaml",), Library("1.1.0")))
    assert set(reader.load(host).devices) == {"vendor.com/gpu=d0"}

    (tmp_path / "etc/cdi/a.yaml").write_text(spec_text("vendor.com/gpu", "d1"))

    assert set(reader.load(host).devices) == {"vendor.com/gpu=d1"}


def test_an_edit_in_place_that_puts_the_time_back_is_noticed(
    tmp_path: Path, tree: Tree, spec_text: SpecText
) -> None:
    host = tree({"/etc/cdi/a.yaml": spec_text("vendor.com/gpu", "d0")})
    reader = cached()
    reader.load(host)
    path = tmp_path / "etc/cdi/a.yaml"
    before = path.stat()
    while path.stat().st_ctime_ns == before.st_ctime_ns:
        path.write_text(spec_text("vendor.com/gpu", "d1"))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert set(reader.load(host).devices) == {"vendor.com/gpu=d1"}


def test_files_of_sub_directories_are_watched_because_they_explain(
    tmp_path: Path, tree: Tree, spec_text: SpecText
) -> None:
    host = tree({"/etc/cdi/sub/a.yaml": spec_text("vendor.com/gpu", "d0")})
    reader = cached()
    reader.load(host)

    (tmp_path / "etc/cdi/sub/a.yaml").write_text(spec_text("vendor.com/gpu", "d0", "d1"))

    (file,) = reader.load(host).unread
    assert file.claimed_names == frozenset({"d0", "d1"})
