"""A captured tree as a ``.tar.gz``: writing one, and opening one that may be hostile.

Owns: the archive format, its bounds, and the temporary folder. Must not know: what is in a tree.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import posixpath
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from gpucdi.capture.content import ENTRY_LIMIT, TOTAL_LIMIT_BYTES, Capture
from gpucdi.host import CAPTURE_NAME, READ_LIMIT_BYTES, HostTree

NAME_LIMIT = 4096


class ArchiveError(ValueError):
    """An archive that is none, or that reaches outside itself or beyond the bounds."""


def write_archive(capture: Capture, path: Path) -> None:
    """Write the capture; the same capture gives the same bytes. Raises :class:`OSError`."""
    with (
        path.open("wb") as raw,
        gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        facts = json.dumps(capture.facts(), indent=2).encode() + b"\n"
        _add(archive, f"/{CAPTURE_NAME}", facts, 0o644)
        for directory in sorted(capture.directories):
            member = tarfile.TarInfo(directory.lstrip("/"))
            member.type, member.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(member)
        for place in sorted(capture.files):
            mode = 0o755 if place in capture.executables else 0o644
            _add(archive, place, capture.files[place], mode)
        for place, target in sorted(capture.links.items()):
            member = tarfile.TarInfo(place.lstrip("/"))
            member.type, member.linkname = tarfile.SYMTYPE, target
            archive.addfile(member)


def _add(archive: tarfile.TarFile, place: str, content: bytes, mode: int) -> None:
    member = tarfile.TarInfo(place.lstrip("/"))
    member.size, member.mode = len(content), mode
    archive.addfile(member, io.BytesIO(content))


@contextlib.contextmanager
def open_tree(path: str | Path) -> Iterator[HostTree]:
    """Give a host tree for ``/``, a folder, or an archive, unpacked for as long as it is open.

    Raises :class:`ArchiveError` for a bad archive, :class:`OSError` when ``path`` cannot be read.
    """
    place = Path(path)
    if place.is_dir():
        yield HostTree(place)
        return
    with tempfile.TemporaryDirectory(prefix="gpucdi-tree-") as folder:
        _unpack(place, Path(folder))
        yield HostTree(folder)


def _unpack(path: Path, folder: Path) -> None:
    links: list[tuple[Path, str]] = []
    total = 0
    try:
        # gzip itself tells a cut file; tarfile's own stream would take the cut for the end.
        with gzip.open(path) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            for count, member in enumerate(archive):
                place = folder / _inside(member.name)
                total += member.size
                if count >= ENTRY_LIMIT or total > TOTAL_LIMIT_BYTES:
                    raise ArchiveError(f"{path} holds more than a capture may")
                if member.issym():
                    links.append((place, member.linkname))
                elif member.isdir():
                    place.mkdir(parents=True, exist_ok=True)
                elif member.isfile():
                    _write(archive, member, place)
            if stream.read(TOTAL_LIMIT_BYTES + 1)[TOTAL_LIMIT_BYTES:]:
                raise ArchiveError(f"{path} goes on behind its archive")
    except (tarfile.TarError, zlib.error, EOFError, gzip.BadGzipFile) as error:
        raise ArchiveError(f"{path} is no archive of a captured tree: {error}") from None
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise ArchiveError(f"{path} contradicts itself: {error}") from None
    # Links come last, so that nothing is ever written through one.
    for place, target in links:
        place.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            place.symlink_to(target)


def _inside(name: str) -> str:
    """Return a member's name if it stays inside, else raise."""
    parts = name.split("/")
    if name.startswith("/") or ".." in parts or "\0" in name or len(name) > NAME_LIMIT:
        raise ArchiveError(f"the archive names {name[:80]!r}, which leads outside of it")
    return posixpath.normpath(name)


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, place: Path) -> None:
    if member.size > READ_LIMIT_BYTES:
        raise ArchiveError(f"{member.name} is larger than {READ_LIMIT_BYTES} bytes")
    source = archive.extractfile(member)
    if source is None:
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("xb") as target:
        target.write(source.read(READ_LIMIT_BYTES))
    place.chmod(0o755 if member.mode & 0o111 else 0o644)
