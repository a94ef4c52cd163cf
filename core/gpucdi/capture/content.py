"""From a record to the content of a captured tree.

Owns: which bytes, placeholders, links, modes and devices a tree needs to answer as its host did,
and the bounds. Must not know: archives.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable
from dataclasses import dataclass, field

from gpucdi.capture.record import Record, RecordingPrograms, RecordingTree, kept_environment
from gpucdi.capture.redact import redacted
from gpucdi.capture.reduce import reduced
from gpucdi.host import CAPTURE_NAME, FileKind, FileStat, FileTooLargeError, HostTree
from gpucdi.programs import EngineProcess, Programs

FILE_LIMIT_BYTES = 4 * 1024 * 1024
TOTAL_LIMIT_BYTES = 64 * 1024 * 1024
ENTRY_LIMIT = 20_000

_USUAL_MODES = {FileKind.FILE: 0o644, FileKind.DIRECTORY: 0o755}


@dataclass(slots=True)
class Capture:
    """A captured tree in memory, keyed by host path.

    ``files`` holds contents (empty for files of which only the existence counts), ``links`` the
    texts of symbolic links. ``omitted`` says what was left out and why.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    executables: set[str] = field(default_factory=set)
    directories: set[str] = field(default_factory=set)
    links: dict[str, str] = field(default_factory=dict)
    devices: dict[str, FileStat] = field(default_factory=dict)
    modes: dict[str, int] = field(default_factory=dict)
    modified_s: dict[str, int] = field(default_factory=dict)
    record: Record = field(default_factory=Record)
    read_as_uid: int = 0
    omitted: list[str] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        """The bytes of all contents together."""
        return sum(map(len, self.files.values()))

    @property
    def entries(self) -> int:
        """How many files, folders, links and devices there are."""
        return len(self.files) + len(self.directories) + len(self.links) + len(self.devices)

    def facts(self) -> dict[str, object]:
        """Return what belongs into ``gpucdi-capture.json``."""
        return {
            "devices": [_device(path, self.devices[path]) for path in sorted(self.devices)],
            "programs": dict(sorted(self.record.versions.items())),
            "modes": {path: f"{mode:04o}" for path, mode in sorted(self.modes.items())},
            "engines": {
                name: process.version
                for name, process in sorted(self.record.engines.items())
                if process.version is not None
            },
            "processes": {
                name: {
                    "arguments": _arguments(process),
                    "environment": kept_environment(process.environment),
                }
                for name, process in sorted(self.record.engines.items())
            },
            "modified": dict(sorted(self.modified_s.items())),
            "readAsUid": self.read_as_uid,
            "omitted": self.omitted,
        }


def _arguments(process: EngineProcess) -> list[str] | None:
    if process.arguments is None:
        return None
    return [redacted(each.encode()).decode() for each in process.arguments]


def _device(path: str, found: FileStat) -> dict[str, object]:
    return {
        "path": path,
        "type": found.kind.value,
        "major": found.major,
        "minor": found.minor,
        "mode": f"{found.mode:04o}",
    }


def collect(
    host: HostTree, programs: Programs, verdict: Callable[[HostTree, Programs], object]
) -> Capture:
    """Run ``verdict`` on the host and keep exactly what it looked at.

    ``verdict`` gets a tree and programs that answer as the given ones and must use nothing else.
    Whatever it raises is passed on.
    """
    record = Record()
    verdict(RecordingTree(host, record), RecordingPrograms(programs, record))
    # A captured tree may know a program by its version output alone.
    known = host.capture.programs
    record.versions |= {path: known[path] for path in record.looked_at if path in known}
    capture = Capture(record=record, read_as_uid=host.capture.read_as_uid)
    if host.is_live:
        capture.read_as_uid = os.geteuid()
    keeper = _Keeper(host, capture)
    for path in record.paths:
        keeper.keep(path, with_content=path in record.read)
        if path in record.timed:
            keeper.keep_time(path)
        if path in record.listed:
            keeper.keep_entries(path)
    return capture


class _Keeper:
    def __init__(self, host: HostTree, capture: Capture) -> None:
        self.host = host
        self.capture = capture

    def keep(self, path: str, *, with_content: bool) -> None:
        """Keep every link on the way to ``path`` and what is at its end."""
        place = self._follow(path)
        if place is None or place in {"/", f"/{CAPTURE_NAME}"}:
            return
        if self.capture.entries >= ENTRY_LIMIT:
            self._omit(path, f"more than {ENTRY_LIMIT} entries")
            return
        try:
            found = self.host.lstat(place)
        except OSError:
            return
        if found.kind is FileKind.DIRECTORY:
            self.capture.directories.add(place)
        elif found.is_device:
            self.capture.devices[place] = found
        elif found.kind is FileKind.FILE:
            self._keep_file(path, place, found, with_content=with_content)
        # Whether a file is a program is told by its mode; a tree without modes is taken leniently.
        is_certain = found.kind is FileKind.FILE and (
            self.host.is_live or place in self.host.capture.modes
        )
        if is_certain or found.mode != _USUAL_MODES.get(found.kind, found.mode):
            self.capture.modes[place] = found.mode

    def keep_entries(self, path: str) -> None:
        """Keep the names in a folder; of their contents only what was read itself."""
        try:
            names = self.host.listdir(path)
        except OSError:
            return
        for name in names:
            self.keep(posixpath.join(path, name), with_content=False)

    def keep_time(self, path: str) -> None:
        """Keep when a file was last written."""
        try:
            modified_s = self.host.modified_s(path)
            place = self.host.realpath(path)
        except OSError:
            return
        if modified_s is not None:
            self.capture.modified_s[place] = modified_s

    def _follow(self, path: str) -> str | None:
        """Keep the links on the way and return where it ends, ``None`` for a circle."""
        try:
            end = self.host.realpath(path)
        except OSError:
            end = None
        waiting, seen = [path], set[str]()
        while waiting:
            current = waiting.pop()
            for link in _prefixes(current):
                if posixpath.basename(link) == "..":
                    # No entry of its own; at the top it would even be the root itself.
                    continue
                place = posixpath.join(
                    self._real(posixpath.dirname(link)), posixpath.basename(link)
                )
                if place in seen:
                    continue
                seen.add(place)
                target = self._target(place)
                if target is not None:
                    self.capture.links[place] = target
                    waiting.append(posixpath.join(posixpath.dirname(place), target))
        return end

    def _real(self, path: str) -> str:
        try:
            return self.host.realpath(path)
        except OSError:
            return path

    def _target(self, path: str) -> str | None:
        try:
            return self.host.readlink(path)
        except OSError:
            return None

    def _keep_file(self, path: str, place: str, found: FileStat, *, with_content: bool) -> None:
        if found.mode & 0o111:
            self.capture.executables.add(place)
        if not with_content:
            self.capture.files.setdefault(place, b"")
            return
        try:
            content = redacted(reduced(path, self.host.read(place, FILE_LIMIT_BYTES)))
        except OSError as error:
            # A large program is a placeholder like any other program: no verdict rests on its bytes.
            if not (isinstance(error, FileTooLargeError) and found.mode & 0o111):
                self._omit(place, error.strerror or str(error))
            self.capture.files.setdefault(place, b"")
            return
        if b"\0" in content:
            # A program: that it is one counts, its bytes do not.
            content = content[:4]
        if self.capture.size_bytes + len(content) > TOTAL_LIMIT_BYTES:
            self._omit(place, f"more than {TOTAL_LIMIT_BYTES} bytes in all")
            content = b""
        self.capture.files[place] = content

    def _omit(self, path: str, reason: str) -> None:
        self.capture.omitted.append(f"{path}: {reason}")


def _prefixes(path: str) -> list[str]:
    parts = [part for part in path.split("/") if part not in {"", "."}]
    return ["/" + "/".join(parts[: end + 1]) for end in range(len(parts))]
