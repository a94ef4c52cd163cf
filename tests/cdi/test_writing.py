"""Atomic writing: what may be seen, and what stays when a step fails."""

from __future__ import annotations

import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpucdi.cdi import RealFilesystem, is_spec_name, write_spec


class FailingFilesystem(RealFilesystem):
    """The real file system with one broken step; remembers names and order."""

    def __init__(self, broken: str) -> None:
        self.broken = broken
        self.steps: list[str] = []
        self.names: set[str] = set()

    def _step(self, name: str) -> None:
        self.steps.append(name)
        if name == self.broken:
            raise OSError(28, "No space left on device")

    def write_new(self, path: Path, content: bytes) -> None:
        self.names.add(path.name)
        if self.broken == "write":
            path.write_bytes(content[:3])
        self._step("write")
        super().write_new(path, content)

    def rename(self, source: Path, target: Path) -> None:
        self._step("rename")
        super().rename(source, target)

    def sync_directory(self, path: Path) -> None:
        self._step("sync")
        super().sync_directory(path)


def test_the_file_is_there_with_its_mode(tmp_path: Path) -> None:
    path = write_spec(tmp_path / "cdi", "gpucdi-vendor.com-gpu.yaml", b"x")

    assert path == tmp_path / "cdi" / "gpucdi-vendor.com-gpu.yaml"
    assert path.read_bytes() == b"x"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_strict_umask_does_not_hide_the_file(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        path = write_spec(tmp_path, "a.yaml", b"x")
    finally:
        os.umask(before)

    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_no_engine_would_load_the_temporary_file(tmp_path: Path) -> None:
    steps = FailingFilesystem("none")

    write_spec(tmp_path, "a.yaml", b"x", steps)

    assert steps.names
    assert not any(map(is_spec_name, steps.names))


def test_the_directory_is_made_durable_after_the_rename(tmp_path: Path) -> None:
    steps = FailingFilesystem("none")

    write_spec(tmp_path, "a.yaml", b"x", steps)

    assert steps.steps == ["write", "rename", "sync"]


@pytest.mark.parametrize("broken", ["write", "rename"])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path, broken: str) -> None:
    write_spec(tmp_path, "a.yaml", b"old")

    with pytest.raises(OSError, match="No space left"):
        write_spec(tmp_path, "a.yaml", b"new", FailingFilesystem(broken))

    assert [path.name for path in tmp_path.iterdir()] == ["a.yaml"]
    assert (tmp_path / "a.yaml").read_bytes() == b"old"


def test_what_a_killed_writer_left_is_cleared_away(tmp_path: Path) -> None:
    steps = FailingFilesystem("none")
    write_spec(tmp_path, "a.yaml", b"x", steps)
    (leftover,) = steps.names
    (tmp_path / leftover).write_bytes(b"half")

    write_spec(tmp_path, "a.yaml", b"y")

    assert [path.name for path in tmp_path.iterdir()] == ["a.yaml"]


@pytest.mark.parametrize("name", ["a.yml", "a", "../a.yaml", "sub/a.yaml", "a.yaml.tmp", ""])
def test_a_name_that_no_reader_loads_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="readers load no file"):
        write_spec(tmp_path, name, b"x")


def test_threads_of_one_process_do_not_write_each_other_s_temporary_file(tmp_path: Path) -> None:
    contents = [bytes([number]) * 100_000 for number in range(8)]
    meeting = threading.Barrier(len(contents))

    def write(content: bytes) -> None:
        meeting.wait()
        for _ in range(20):
            write_spec(tmp_path, "a.yaml", content)

    with ThreadPoolExecutor(len(contents)) as pool:
        list(pool.map(write, contents))

    assert [path.name for path in tmp_path.iterdir()] == ["a.yaml"]
    assert (tmp_path / "a.yaml").read_bytes() in contents


def test_when_the_directory_cannot_be_made_durable_the_new_file_is_in_place(tmp_path: Path) -> None:
    write_spec(tmp_path, "a.yaml", b"old")

    with pytest.raises(OSError, match="No space left"):
        write_spec(tmp_path, "a.yaml", b"new", FailingFilesystem("sync"))

    assert (tmp_path / "a.yaml").read_bytes() == b"new"
