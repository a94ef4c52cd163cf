"""Reading spec directories as a given version of the library does.

Owns: the two scan algorithms, merging by priority, conflicts, and the bounds on files. Must not
know: which program the reader is.

Source: ``cncf-tags/container-device-interface`` pkg/cdi/spec-dirs.go and cache.go ``refresh``.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpucdi.host import FileKind, FileTooLargeError, HostTree, normal

from .claims import claims_of
from .gotext import quote
from .library import Library
from .model import Spec
from .outcome import Crashes, Rejected, SpecOutcome, Stage, decode_spec
from .registry import DirectoryState, RegisteredDevice, Registry, SpecDirectory, SpecFile
from .view import View, go_text, is_not_found

DEFAULT_SPEC_DIRS = ("/etc/cdi", "/var/run/cdi")
SPEC_LIMIT_BYTES = 4 * 1024 * 1024
FILE_LIMIT = 1024
_EXTENSIONS = frozenset({".yaml", ".json"})
_NEARLY = frozenset({".yml", ".YAML", ".YML", ".JSON", ".Yaml", ".Json"})


def extension(name: str) -> str:
    """Return Go's ``filepath.Ext``: from the last dot of the last part, even if that starts it."""
    last = name.rsplit("/", 1)[-1]
    dot = last.rfind(".")
    return last[dot:] if dot >= 0 else ""


def is_spec_name(name: str) -> bool:
    """Tell whether readers load a file of this name."""
    return extension(name) in _EXTENSIONS


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
        self.files: list[SpecFile] = []
        self.unread: list[SpecFile] = []

    def registry(self) -> Registry:
        self._scan()
        merged = _Merge(self.files)
        crash = next((file for file in self.files if isinstance(file.outcome, Crashes)), None)
        return Registry(
            reader=self.reader,
            devices={} if crash else merged.devices,
            files=tuple(self.files),
            errors={path: tuple(texts) for path, texts in merged.errors.items()},
            conflicts={name: tuple(sorted(paths)) for name, paths in merged.conflicts.items()},
            directories=tuple(self.directories),
            shadowed={name: tuple(paths) for name, paths in merged.shadowed.items()},
            unread=tuple(self.unread),
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
                self._add(path, posixpath.dirname(path), priority)
            is_link = found.kind is FileKind.SYMLINK
            state = DirectoryState.SYMLINK_NOT_READ if is_link else DirectoryState.NOT_A_DIRECTORY
            return state, ""
        try:
            names = self.view.listdir(path)
        except OSError as error:
            return DirectoryState.UNREADABLE, go_text(error)
        for name in names:
            each = posixpath.join(path, name)
            try:
                kind = self.view.lstat(each).kind
            except OSError as error:
                if is_not_found(error):
                    continue
                raise _ScanAbortedError(DirectoryState.UNREADABLE, go_text(error)) from None
            self._entry(each, path, priority, kind)
        return DirectoryState.READ, ""

    def _read_dir(self, path: str, priority: int) -> tuple[DirectoryState, str]:
        """Do what ``os.ReadDir`` and the loop over it do (from 1.1.1)."""
        try:
            names = self.view.listdir(path)
        except OSError as error:
            if is_not_found(error):
                return DirectoryState.MISSING, ""
            raise _ScanAbortedError(_state_of(error), go_text(error)) from None
        for name in names:
            each = posixpath.join(path, name)
            try:
                kind = self.view.lstat(each).kind
            except OSError:
                # The kind comes with the entry, also where the directory may not be entered.
                kind = FileKind.FILE
            self._entry(each, path, priority, kind)
        return DirectoryState.READ, ""

    def _entry(self, path: str, directory: str, priority: int, kind: FileKind) -> None:
        if kind is FileKind.DIRECTORY:
            self._peek_into(path, directory, priority)
        elif is_spec_name(path):
            self._add(path, directory, priority)
        elif extension(path) in _NEARLY:
            self.unread.append(self._load(path, directory, priority, self.unlimited))

    def _add(self, path: str, directory: str, priority: int) -> None:
        self.files.append(self._load(path, directory, priority, self.view))

    def _load(self, path: str, directory: str, priority: int, view: View) -> SpecFile:
        if len(self.files) + len(self.unread) >= FILE_LIMIT:
            reason = f"not looked at: more than {FILE_LIMIT} spec files"
            return SpecFile(path, directory, priority, Rejected(reason, Stage.BOUND))
        read = _read(view, path)
        if not isinstance(read, bytes):
            return SpecFile(path, directory, priority, read)
        outcome = decode_spec(read, path, self.library)
        kind, names = claims_of(read, outcome)
        return SpecFile(path, directory, priority, outcome, kind, names)

    def _peek(self, path: str, priority: int) -> None:
        """Judge the files of a directory that the reader does not read, to explain refusals."""
        try:
            names = self.unlimited.listdir(path)
        except OSError:
            return
        seen = {file.path for file in self.files}
        for name in names:
            each = posixpath.join(path, name)
            if is_spec_name(name) and each not in seen:
                self.unread.append(self._load(each, path, priority, self.unlimited))

    def _peek_into(self, path: str, directory: str, priority: int) -> None:
        try:
            names = self.unlimited.listdir(path)
        except OSError:
            return
        for name in filter(is_spec_name, names):
            each = posixpath.join(path, name)
            self.unread.append(self._load(each, directory, priority, self.unlimited))


def _state_of(error: OSError) -> DirectoryState:
    if isinstance(error, NotADirectoryError):
        return DirectoryState.NOT_A_DIRECTORY
    return DirectoryState.UNREADABLE


def _read(view: View, path: str) -> bytes | SpecOutcome:
    quoted = quote(path)
    try:
        kind = view.stat(path).kind
        if kind is FileKind.DIRECTORY:
            # Opening comes before reading: a directory that may not be read is refused earlier.
            view.listdir(path)
        if kind is FileKind.FIFO:
            return Crashes(f"opening the FIFO {path} blocks the reader for ever")
        if kind is FileKind.SOCKET:
            text = f"open {path}: no such device or address"
            return Rejected(f"failed to read CDI Spec {quoted}: {text}", Stage.READ)
        if kind in {FileKind.CHAR_DEVICE, FileKind.BLOCK_DEVICE}:
            return Rejected(f"{quoted} is a device, which is never opened", Stage.BOUND)
        return view.read(path, SPEC_LIMIT_BYTES)
    except FileTooLargeError:
        return Rejected(f"{quoted} is larger than {SPEC_LIMIT_BYTES} bytes", Stage.BOUND)
    except OSError as error:
        if is_not_found(error):
            return Rejected(f"open {path}: no such file or directory", Stage.READ)
        step = "read" if isinstance(error, IsADirectoryError) else "open"
        text = f"{step} {path}: {go_text(error)}"
        return Rejected(f"failed to read CDI Spec {quoted}: {text}", Stage.READ)


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
