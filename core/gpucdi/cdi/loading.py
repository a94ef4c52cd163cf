"""Spec files one by one, within bounds on all of them together.

Owns: reading a file, what stands in for it when it cannot be read, and every bound on how much is
looked at. Must not know: which directories there are, or who wins.

Source: ``cncf-tags/container-device-interface`` pkg/cdi/spec.go ``ReadSpec``.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass

from gpucdi.host import FileKind, FileTooLargeError

from .gotext import quote
from .library import Library
from .outcome import Crashes, Rejected, SpecOutcome, Stage
from .registry import SpecFile
from .remembered import VERDICTS
from .view import View, go_text, is_not_found

SPEC_LIMIT_BYTES = 1024 * 1024
# A load ends soon after so many nodes, of a file that is written oddly after half of them.
LOAD_LIMIT_NODES = 100_000
FILE_LIMIT = 1024
# Names of no spec file are only looked at to explain a refusal, and may be a directory's.
ENTRY_LIMIT = 1024
# Files that no reader takes, and sub-directories, are only read to explain a refusal.
UNREAD_LIMIT = 64
UNREAD_LIMIT_NODES = 20_000
PEEK_LIMIT = 16
_EXTENSIONS = (".yaml", ".json")


def extension(name: str) -> str:
    """Return Go's ``filepath.Ext``: from the last dot of the last part, even if that starts it."""
    last = name.rsplit("/", 1)[-1]
    dot = last.rfind(".")
    return last[dot:] if dot >= 0 else ""


def is_spec_name(name: str) -> bool:
    """Tell whether readers load a file of this name."""
    return name.endswith(_EXTENSIONS)


@dataclass(frozen=True, slots=True)
class Selection:
    """The names of a directory that are looked at, and what was left out.

    ``specs_left_out`` are names of spec files in order, ``others_left_out`` counts other names.
    """

    names: list[str]
    specs_left_out: list[str]
    others_left_out: int


def select(names: Sequence[str], room: int = FILE_LIMIT) -> Selection:
    """Choose the names to look at, among them at most ``room`` names of spec files."""
    chosen: list[str] = []
    left_out: list[str] = []
    others = 0
    for name in names:
        if is_spec_name(name):
            if room > 0:
                room -= 1
                chosen.append(name)
            else:
                left_out.append(name)
        else:
            others += 1
            if others <= ENTRY_LIMIT:
                chosen.append(name)
    return Selection(chosen, left_out, max(others - ENTRY_LIMIT, 0))


class Loader:
    """Judges files as ``view`` shows them and keeps them, up to a number and a size."""

    def __init__(self, view: View, library: Library, file_limit: int, limit_nodes: int) -> None:
        self.files: list[SpecFile] = []
        self._view = view
        self._library = library
        self._file_limit = file_limit
        self._limit_nodes = limit_nodes
        self._left_nodes = limit_nodes

    @property
    def room(self) -> int:
        """How many more files may be looked at."""
        return max(self._file_limit - len(self.files), 0)

    def add(self, path: str, directory: str, priority: int) -> None:
        """Judge a file and keep it, claims and all."""
        read = self._read(path) if self._left_nodes > 0 else self._too_much(path)
        if not isinstance(read, bytes):
            self._add_unread(path, directory, priority, read)
            return
        found = VERDICTS.verdict(read, path, self._library)
        self._left_nodes -= found.cost
        file = SpecFile(path, directory, priority, found.outcome, found.kind, found.names)
        self.files.append(file)

    def leave_out(self, names: Sequence[str], directory: str, priority: int) -> None:
        """Keep the first of ``names`` to tell that none of them was looked at."""
        if not names:
            return
        path = posixpath.join(directory, names[0])
        others = f" and {len(names) - 1} more behind it" if len(names) > 1 else ""
        reason = f"{quote(path)}{others} not looked at: more than {self._file_limit} spec files"
        self._add_unread(path, directory, priority, Rejected(reason, Stage.BOUND))

    def _add_unread(self, path: str, directory: str, priority: int, outcome: SpecOutcome) -> None:
        # What only a bound of ours keeps out, a reader may take, and nobody knows what it says.
        is_kept_out = isinstance(outcome, Rejected) and outcome.stage is Stage.BOUND
        names = None if is_kept_out else frozenset[str]()
        self.files.append(SpecFile(path, directory, priority, outcome, claimed_names=names))

    def _read(self, path: str) -> bytes | SpecOutcome:
        quoted = quote(path)
        try:
            kind = self._view.stat(path).kind
            if kind is FileKind.DIRECTORY:
                # Opening comes before reading: a directory that may not be read is refused earlier.
                self._view.listing(path)
            if kind is FileKind.FIFO:
                return Crashes(f"opening the FIFO {path} blocks the reader for ever")
            if kind is FileKind.SOCKET:
                text = f"open {path}: no such device or address"
                return Rejected(f"failed to read CDI Spec {quoted}: {text}", Stage.READ)
            if kind in {FileKind.CHAR_DEVICE, FileKind.BLOCK_DEVICE}:
                return Rejected(f"{quoted} is a device, which is never opened", Stage.BOUND)
            return self._view.read(path, SPEC_LIMIT_BYTES)
        except FileTooLargeError:
            return Rejected(f"{quoted} is larger than {SPEC_LIMIT_BYTES} bytes", Stage.BOUND)
        except OSError as error:
            if is_not_found(error):
                return Rejected(f"open {path}: no such file or directory", Stage.READ)
            step = "read" if isinstance(error, IsADirectoryError) else "open"
            text = f"{step} {path}: {go_text(error)}"
            return Rejected(f"failed to read CDI Spec {quoted}: {text}", Stage.READ)

    def _too_much(self, path: str) -> Rejected:
        return Rejected(
            f"{quote(path)} not looked at: the files before it have more than {self._limit_nodes} "
            "YAML nodes, or take as long to read",
            Stage.BOUND,
        )
