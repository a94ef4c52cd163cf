"""Archives may be broken or hostile: they are refused, and nothing is written outside."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gpucdi.capture import ArchiveError, open_tree


def make(path: Path, *members: tuple[str, bytes | None, str | None]) -> Path:
    """Write an archive of (name, content, link target); content ``None`` is a link or folder."""
    with tarfile.open(path, "w:gz") as archive:
        for name, content, link in members:
            member = tarfile.TarInfo(name)
            if link is not None:
                member.type, member.linkname = tarfile.SYMTYPE, link
                archive.addfile(member)
            elif content is None:
                member.type = tarfile.DIRTYPE
                archive.addfile(member)
            else:
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return path


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "a/..", "x" * 5000])
def test_a_name_that_leads_outside_is_refused(tmp_path: Path, name: str) -> None:
    path = make(tmp_path / "a.tar.gz", (name, b"x", None))
    with pytest.raises(ArchiveError), open_tree(path):
        pass


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    path = make(
        tmp_path / "a.tar.gz",
        ("link", None, str(outside)),
        ("link/evil", b"x", None),
        ("other", None, "../../outside"),
    )
    with open_tree(path) as host:
        assert host.read("/link/evil") == b"x"
    assert list(outside.iterdir()) == []


def test_a_link_out_of_the_tree_is_read_inside_of_it(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    path = make(tmp_path / "a.tar.gz", ("link", None, str(tmp_path / "secret")))
    with open_tree(path) as host:
        assert not host.exists("/link")


def bomb(path: Path) -> None:
    member = tarfile.TarInfo("zeros")
    member.size = 1024 * 1024 * 1024
    with gzip.open(path, "wb", compresslevel=1) as packed:
        packed.write(member.tobuf())
        packed.write(b"\0" * (1024 * 1024))


def many(path: Path) -> None:
    make(path, *((str(number), b"", None) for number in range(20_002)))


def truncated(path: Path) -> None:
    make(path, ("a", b"x" * 100_000, None))
    path.write_bytes(path.read_bytes()[:60])


def cut_between_members(path: Path) -> None:
    noise = (os.urandom(4096).hex().encode() for _ in range(40))
    make(path, *((f"file-{number}", content, None) for number, content in enumerate(noise)))
    path.write_bytes(path.read_bytes()[:50_000])


def contradiction(path: Path) -> None:
    make(path, ("a", b"x", None), ("a/b", b"x", None))


def twice(path: Path) -> None:
    make(path, ("a", b"x", None), ("a", b"y", None))


def text(path: Path) -> None:
    path.write_text("no archive")


def empty(path: Path) -> None:
    path.write_bytes(b"")


BAD = (bomb, many, truncated, cut_between_members, contradiction, twice, text, empty)


@pytest.mark.parametrize("write", BAD)
def test_a_bad_archive_is_refused(tmp_path: Path, write: Callable[[Path], None]) -> None:
    path = tmp_path / "a.tar.gz"
    write(path)
    with pytest.raises(ArchiveError), open_tree(path):
        pass


def test_hard_links_and_devices_in_an_archive_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, kind in (("hard", tarfile.LNKTYPE), ("device", tarfile.CHRTYPE)):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd"
            archive.addfile(member)
    with open_tree(path) as host:
        assert host.listdir("/") == []


def test_a_path_that_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), open_tree(tmp_path / "gone.tar.gz"):
        pass
