"""Reading spec directories as a given version of the library does.

Owns: the two scan algorithms, merging by priority, conflicts. Must not know: which program the
reader is, how a file is read.

Source: ``cncf-tags/container-device-interface`` pkg/cdi/spec-dirs.go and cache.go ``refresh``.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from gpucdi.host import FileKind, HostTree, Listing, normal

from .gotext import quote
from .library import Library
from .loading import (
    FILE_LIMIT,
    LOAD_LIMIT_NODES,
    PEEK_LIMIT,
    UNREAD_LIMIT,
    UNREAD_LIMIT_NODES,
    Loader,
    extension,
    is_spec_name,
    select,
)
from .model import Spec
from .outcome import Crashes, Rejected
from .registry import DirectoryState, RegisteredDevice, Registry, SpecDirectory, SpecFile
from .view import View, go_text, is_not_found

DEFAULT_SPEC_DIRS = ("/etc/cdi", "/var/run/cdi")
_NEARLY = frozenset({".yml", ".YAML", ".YML", ".JSON", ".Yaml", ".Json"})


@dataclass(frozen=True, slots=True)
class Reader:
    """A program's view on CDI: its directories in ascending priority and its library.

    An empty tuple of directories means none up to 1.1.0 and the default ones from 1.1.1 on.
    """

    spec_dirs: tuple[str, ...]
    library: Library

    def __post_init__(self) -> None:
        object.__setattr__(self, "spec_dirs", tuple(map(normal, self.spec_dirs)))

    @property
    def effective_dirs(self) -> tuple[str, ...]:
        """The directories that the library really scans."""
        if not self.spec_dirs and self.library.behaviour.decodes_with_yaml3:
            return DEFAULT_SPEC_DIRS
        return self.spec_dirs

    def load(self, host: HostTree, overlay: Mapping[str, bytes | None] | None = None) -> Registry:
        """Read the directories anew; ``overlay`` lays content (``None``: absent) over host paths.

        Never raises for what it finds: unreadable directories and bad files are part of the answer.
        """
        return _Scan(self, host, overlay or {}).registry()


def _gives_up_at_missing(library: Library) -> bool:
    """Tell whether a missing directory ends the scan.

    Released libraries before 0.5.1 do (issue 78, pull request 79 of the library). Of the commits
    between releases that toolkits were built with it is not known.
    """
    return library < Library("0.5.1") and "-" not in library.text


class _ScanAbortedError(Exception):
    """The library gives up here, without a word, and leaves all later directories unread."""


class _Scan:
    def __init__(self, reader: Reader, host: HostTree, overlay: Mapping[str, bytes | None]) -> None:
        self.reader = reader
        self.library = reader.library
        self.view = View(host, overlay)
        self.unlimited = View(host, overlay, as_root=True)
        self.directories: list[SpecDirectory] = []
        self.read = Loader(self.view, self.library, FILE_LIMIT, LOAD_LIMIT_NODES)
        # Counted apart: what no reader takes must not cost a reader its files.
        self.unread = Loader(self.unlimited, self.library, UNREAD_LIMIT, UNREAD_LIMIT_NODES)
        self.peeks = 0

    def registry(self) -> Registry:
        self._scan()
        files = self.read.files
        merged = _Merge(files)
        crash = next((file for file in files if isinstance(file.outcome, Crashes)), None)
        return Registry(
            reader=self.reader,
            devices={} if crash else merged.devices,
            files=tuple(files),
            errors={path: tuple(texts) for path, texts in merged.errors.items()},
            conflicts={name: tuple(sorted(paths)) for name, paths in merged.conflicts.items()},
            directories=tuple(self.directories),
            shadowed={name: tuple(paths) for name, paths in merged.shadowed.items()},
            unread=tuple(self.unread.files),
            crash=crash,
        )

    def _scan(self) -> None:
        scan = self._read_dir if self.library.behaviour.decodes_with_yaml3 else self._walk
        aborted = False
        for priority, path in enumerate(self.reader.effective_dirs):
            state, detail = DirectoryState.NOT_REACHED, ""
            if not aborted:
                try:
                    state, detail = scan(path, priority)
                except _ScanAbortedError as abort:
                    aborted = True
                    state, detail = abort.args
            self.directories.append(SpecDirectory(path, priority, state, detail))
            if state not in {DirectoryState.READ, DirectoryState.MISSING}:
                self._peek(path, priority)

    def _walk(self, path: str, priority: int) -> tuple[DirectoryState, str]:
        """Do what ``filepath.Walk`` and its callback do (up to 1.1.0)."""
        try:
            found = self.view.lstat(path)
        except OSError as error:
            if is_not_found(error):
                if _gives_up_at_missing(self.library):
                    raise _ScanAbortedError(DirectoryState.MISSING, "") from None
                return DirectoryState.MISSING, ""
            raise _ScanAbortedError(_state_of(error), go_text(error)) from None
        if found.kind is not FileKind.DIRECTORY:
            if is_spec_name(path):
                self.read.add(path, posixpath.dirname(path), priority)
            is_link = found.kind is FileKind.SYMLINK
            state = DirectoryState.SYMLINK_NOT_READ if is_link else DirectoryState.NOT_A_DIRECTORY
            return state, ""
        try:
            listing = self.view.listing(path)
        except OSError as error:
            return DirectoryState.UNREADABLE, go_text(error)
        return DirectoryState.READ, self._entries(listing, path, priority, self._kind_or_abort)

    def _kind_or_abort(self, path: str) -> FileKind | None:
        try:
            return self.view.lstat(path).kind
        except OSError as error:
            if is_not_found(error):
                return None
            raise _ScanAbortedError(DirectoryState.UNREADABLE, go_text(error)) from None

    def _read_dir(self, path: str, priority: int) -> tuple[DirectoryState, str]:
        """Do what ``os.ReadDir`` and the loop over it do (from 1.1.1)."""
        try:
            listing = self.view.listing(path)
        except OSError as error:
            if is_not_found(error):
                return DirectoryState.MISSING, ""
            raise _ScanAbortedError(_state_of(error), go_text(error)) from None
        return DirectoryState.READ, self._entries(listing, path, priority, self._kind_or_file)

    def _kind_or_file(self, path: str) -> FileKind | None:
        try:
            return self.view.lstat(path).kind
        except OSError:
            # The kind comes with the entry, also where the directory may not be entered.
            return FileKind.FILE

    def _entries(
        self,
        listing: Listing,
        directory: str,
        priority: int,
        kind_of: Callable[[str], FileKind | None],
    ) -> str:
        """Take up a directory's entries; return what was left out, if anything was."""
        selection = select(listing.names, self.read.room)
        for name in selection.names:
            path = posixpath.join(directory, name)
            kind = kind_of(path)
            if kind is FileKind.DIRECTORY:
                self._peek_into(path, directory, priority)
            elif kind is not None and is_spec_name(name):
                self.read.add(path, directory, priority)
            elif kind is not None and extension(name) in _NEARLY and self.unread.room:
                self.unread.add(path, directory, priority)
        left_out = selection.specs_left_out
        self.read.leave_out(left_out, directory, priority)
        notes = []
        if listing.is_cut:
            notes.append(f"only {len(listing.names)} of its names were looked at")
        if left_out:
            notes.append(f"{len(left_out)} spec files were not looked at")
        if selection.others_left_out:
            notes.append(f"{selection.others_left_out} other names were not looked at")
        return ", ".join(notes)

    def _peek(self, path: str, priority: int) -> None:
        """Judge the files of a directory that the reader does not read, to explain refusals."""
        seen = {file.path for file in self.read.files}
        for each in self._spec_paths(path):
            if self.unread.room and each not in seen:
                self.unread.add(each, path, priority)

    def _peek_into(self, path: str, directory: str, priority: int) -> None:
        self.peeks += 1
        if self.peeks > PEEK_LIMIT:
            return
        for each in self._spec_paths(path):
            if self.unread.room:
                self.unread.add(each, directory, priority)

    def _spec_paths(self, path: str) -> Iterator[str]:
        try:
            names = self.unlimited.listing(path).names
        except OSError:
            return
        yield from (posixpath.join(path, name) for name in names if is_spec_name(name))


def _state_of(error: OSError) -> DirectoryState:
    if isinstance(error, NotADirectoryError):
        return DirectoryState.NOT_A_DIRECTORY
    return DirectoryState.UNREADABLE


class _Merge:
    """Who defines which name, in scan order (``Cache.refresh``)."""

    def __init__(self, files: list[SpecFile]) -> None:
        self.devices: dict[str, RegisteredDevice] = {}
        self.errors: dict[str, list[str]] = {}
        self.conflicts: dict[str, set[str]] = {}
        self.shadowed: dict[str, list[str]] = {}
        for file in files:
            if isinstance(file.outcome, Rejected):
                text = f"failed to load CDI Spec {file.outcome.reason}"
                self.errors.setdefault(file.path, []).append(text)
            elif file.spec is not None:
                self._add(file, file.spec)
        for name in self.conflicts:
            self.devices.pop(name, None)

    def _add(self, file: SpecFile, spec: Spec) -> None:
        for found in _registered(file, spec):
            old = self.devices.get(found.name)
            if old is not None and old.file.priority == file.priority:
                self._conflict(found.name, file.path, old.file.path)
                continue
            if old is not None:
                self.shadowed.setdefault(found.name, []).append(old.file.path)
            self.devices[found.name] = found

    def _conflict(self, name: str, path: str, old_path: str) -> None:
        text = f"conflicting device {quote(name)} (specs {quote(path)}, {quote(old_path)})"
        for each in (path, old_path):
            self.errors.setdefault(each, []).append(text)
        self.conflicts.setdefault(name, set()).update((path, old_path))


def _registered(file: SpecFile, spec: Spec) -> Iterator[RegisteredDevice]:
    for device in spec.devices:
        yield RegisteredDevice(spec.qualified(device.name), device, file, spec)
