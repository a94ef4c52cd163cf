"""A host's file system, seen through a root that may be ``/`` or a captured tree.

Owns: resolving host paths inside the root the way the host itself would (absolute symbolic links
such as ``/var/run -> /run`` stay inside, ``..`` never climbs out), bounded reads that can neither
hang on a FIFO nor touch a device, and the facts that a captured tree carries beside its files
(``gpucdi-capture.json``). Must not know: CDI, engines, what any file means.

Every path that goes in or comes out is a *host path*: absolute, as the node writes it.
"""

from __future__ import annotations

import dataclasses
import enum
import errno
import itertools
import json
import os
import posixpath
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

CAPTURE_NAME = "gpucdi-capture.json"
READ_LIMIT_BYTES = 16 * 1024 * 1024
# Of a file below /proc/sys the kernel fills no buffer of 4 MiB (fs/proc/proc_sysctl.c).
PIECE_BYTES = 1024 * 1024
LIST_LIMIT = 200_000
# Linux gives up after 40 links (include/linux/namei.h, MAXSYMLINKS).
LINK_LIMIT = 40
# PATH_MAX (include/uapi/linux/limits.h) counts the closing NUL.
PATH_LIMIT_BYTES = 4096
_SLASH = "/"
_DIRECTORY_ONLY = frozenset({".", "..", _SLASH})


class FileKind(enum.Enum):
    """What a directory entry is."""

    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    CHAR_DEVICE = "c"
    BLOCK_DEVICE = "b"
    FIFO = "p"
    SOCKET = "socket"


@dataclass(frozen=True, slots=True)
class FileStat:
    """The part of ``stat(2)`` that verdicts need; ``mode`` holds the permission bits only."""

    kind: FileKind
    mode: int
    size_bytes: int = 0
    mtime_ns: int = 0
    inode: int = 0
    major: int = 0
    minor: int = 0
    ctime_ns: int = 0

    @property
    def is_device(self) -> bool:
        """True for what the CDI library calls a device node: block, character or FIFO."""
        return self.kind in {FileKind.CHAR_DEVICE, FileKind.BLOCK_DEVICE, FileKind.FIFO}


@dataclass(frozen=True, slots=True)
class CaptureFacts:
    """What a captured tree says beyond its files; empty for a live host.

    ``programs`` maps a host path to that program's ``--version`` output, ``engines`` an engine's
    name to its running version, ``read_as_uid`` is the user that the engine reads specs as.
    ``arguments`` and ``environments`` are those of the running engines, by name, where known.
    ``modified_s`` are the times, in seconds since 1970, of files whose time counts.
    """

    devices: Mapping[str, FileStat] = field(default_factory=dict)
    programs: Mapping[str, str] = field(default_factory=dict)
    modes: Mapping[str, int] = field(default_factory=dict)
    engines: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    environments: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    read_as_uid: int = 0
    modified_s: Mapping[str, int] = field(default_factory=dict)
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """The names in a directory; when ``is_cut`` it has more, and the file system chose these."""

    names: list[str]
    is_cut: bool = False


class FileTooLargeError(OSError):
    """A regular file is larger than the caller's bound; nothing of it was read."""


_KINDS = {
    stat.S_IFREG: FileKind.FILE,
    stat.S_IFDIR: FileKind.DIRECTORY,
    stat.S_IFLNK: FileKind.SYMLINK,
    stat.S_IFCHR: FileKind.CHAR_DEVICE,
    stat.S_IFBLK: FileKind.BLOCK_DEVICE,
    stat.S_IFIFO: FileKind.FIFO,
}


def _from_os(found: os.stat_result) -> FileStat:
    return FileStat(
        kind=_KINDS.get(stat.S_IFMT(found.st_mode), FileKind.SOCKET),
        mode=stat.S_IMODE(found.st_mode),
        size_bytes=found.st_size,
        mtime_ns=found.st_mtime_ns,
        inode=found.st_ino,
        major=os.major(found.st_rdev),
        minor=os.minor(found.st_rdev),
        ctime_ns=found.st_ctime_ns,
    )


def _error(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)


def _steps(path: str) -> list[str]:
    """Return the parts of a path, last one first; a slash at its end is a part of its own.

    Raises what the kernel says to a path that cannot be one.
    """
    try:
        length = len(path) if path.isascii() else len(os.fsencode(path))
    except UnicodeEncodeError:
        raise _error(errno.EINVAL, path) from None
    if "\0" in path:
        raise _error(errno.EINVAL, path)
    if length >= PATH_LIMIT_BYTES:
        raise _error(errno.ENAMETOOLONG, path)
    steps = [part for part in path.split("/") if part]
    if steps and path.endswith("/"):
        steps.append(_SLASH)
    return steps[::-1]


def normal(path: str) -> str:
    """Return ``path`` absolute and lexically cleaned, as Go's ``filepath.Clean`` would."""
    cleaned = posixpath.normpath("/" + path)
    # POSIX lets two leading slashes mean something else, and normpath honours that.
    return "/" + cleaned.lstrip("/")


def in_byte_order(names: Collection[str]) -> list[str]:
    """Return file names sorted as their bytes are, which is how Go sorts them."""
    # The code points of a name that is UTF-8 have the order of its bytes; escaped bytes have not.
    if all(map(str.isascii, names)):
        return sorted(names)
    return sorted(names, key=os.fsencode)


def real_or_same(host: HostTree, path: str) -> str:
    """Return the real path, or ``path`` itself where its links lead nowhere."""
    try:
        return host.realpath(path)
    except OSError:
        return path


class HostTree:
    """One host's files below ``root``.

    All methods raise the :class:`OSError` that the host itself would have met, with the host path
    as its file name. Nothing is cached: two calls may see two states of a live host.
    """

    def __init__(self, root: str | Path = "/") -> None:
        self.root = Path(root)
        self._live = self.root == Path("/")
        # Joined as text: a look at a path resolves every part of it, and Path costs more than that.
        self._prefix = "" if self._live else os.fspath(self.root)
        self.capture = CaptureFacts() if self._live else _read_capture(self.root)
        # The times of a capture's own files are those of its copying or unpacking.
        self._is_captured = not self._live and os.path.lexists(self.root / CAPTURE_NAME)

    def __repr__(self) -> str:
        return f"HostTree({str(self.root)!r})"

    @property
    def is_live(self) -> bool:
        """True when this is the file system of the running process itself."""
        return self._live

    def outside(self, path: str) -> Path:
        """Return where the host path ``path`` lies for this process, links resolved."""
        return self.root / self.realpath(path).lstrip("/")

    def realpath(self, path: str) -> str:
        """Follow every link in ``path`` and return the host path it ends at.

        A missing last part is kept, as are the parts behind the first missing one, so that the
        answer can be compared with other host paths and used to create the file. ``..`` and ``.``
        behind a missing part are an error, as for the kernel; slashes at the end of ``path`` ask
        for nothing, as for ``mkdir``.
        """
        return self._resolve(path.rstrip("/"), follow_last=True)

    def exists(self, path: str) -> bool:
        """Tell whether ``path`` leads to anything; an unreadable parent counts as no."""
        try:
            self.stat(path)
        except OSError:
            return False
        return True

    def stat(self, path: str) -> FileStat:
        """Describe what ``path`` leads to."""
        return self._describe(self._resolve(path, follow_last=True), path)

    def lstat(self, path: str) -> FileStat:
        """Describe ``path`` itself, without following a link in its last part."""
        return self._describe(self._resolve(path, follow_last=False), path)

    def modified_s(self, path: str) -> int | None:
        """Return when what ``path`` leads to was last written, in whole seconds since 1970.

        ``None`` where a captured tree does not say.
        """
        real = self._resolve(path, follow_last=True)
        found = self._describe(real, path)
        if self._is_captured:
            return self.capture.modified_s.get(real)
        return found.mtime_ns // 1_000_000_000

    def readlink(self, path: str) -> str:
        """Return the text of the symbolic link ``path``."""
        try:
            return os.readlink(self._prefix + self._resolve(path, follow_last=False))
        except OSError as error:
            raise _error(error.errno or errno.EIO, path) from None

    def listdir(self, path: str) -> list[str]:
        """Return the names in a directory in byte order; at most :data:`LIST_LIMIT` of them."""
        return self.listing(path).names

    def listing(self, path: str, limit: int = LIST_LIMIT) -> Listing:
        """Return the names in a directory in byte order, and whether it has more than ``limit``."""
        real = self._resolve(path, follow_last=True)
        cut = False
        names: set[str] = set()
        try:
            with os.scandir(self._prefix + real) as entries:
                names.update(entry.name for entry in itertools.islice(entries, limit))
                cut = next(entries, None) is not None
        except OSError as error:
            if not self._has_captured_child(real):
                raise _error(error.errno or errno.EIO, path) from None
        prefix = real.rstrip("/") + "/"
        names.update(
            device[len(prefix) :].split("/", 1)[0]
            for device in self.capture.devices
            if device.startswith(prefix)
        )
        if real == "/" and not self._live:
            names.discard(CAPTURE_NAME)
        return Listing(in_byte_order(names), cut)

    def read(self, path: str, limit_bytes: int = READ_LIMIT_BYTES) -> bytes:
        """Return a regular file's content.

        Raises :class:`FileTooLargeError` above ``limit_bytes``; ``OSError(EINVAL)`` for a FIFO,
        socket or device, which is never opened for reading.
        """
        real = self._resolve(path, follow_last=True)
        found = self._describe(real, path)
        if found.kind is FileKind.DIRECTORY:
            raise _error(errno.EISDIR, path)
        if found.kind is not FileKind.FILE:
            raise _error(errno.EINVAL, path)
        if self.capture.read_as_uid != 0 and not found.mode & stat.S_IROTH:
            raise _error(errno.EACCES, path)
        return self._read_regular(real, path, limit_bytes)

    def _read_regular(self, real: str, path: str, limit_bytes: int) -> bytes:
        # O_NONBLOCK: should a FIFO have taken the file's place since the stat, opening it for
        # reading returns at once and the check below refuses it.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
        try:
            descriptor = os.open(self._prefix + real, flags)
        except OSError as error:
            raise _error(error.errno or errno.EIO, path) from None
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor has no path
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise _error(errno.EINVAL, path)
            content = bytearray()
            while piece := file.read(min(PIECE_BYTES, limit_bytes + 1 - len(content))):
                content += piece
        if len(content) > limit_bytes:
            raise FileTooLargeError(errno.EFBIG, f"larger than {limit_bytes} bytes", path)
        return bytes(content)

    def _has_captured_child(self, real: str) -> bool:
        prefix = real.rstrip("/") + "/"
        return any(device.startswith(prefix) for device in self.capture.devices)

    def _describe(self, real: str, path: str) -> FileStat:
        device = self.capture.devices.get(real)
        if device is not None:
            return device
        try:
            found = _from_os(os.lstat(self._prefix + real))
        except OSError as error:
            if self._has_captured_child(real):
                return FileStat(kind=FileKind.DIRECTORY, mode=0o755)
            if any(real.startswith(f"{device}/") for device in self.capture.devices):
                raise _error(errno.ENOTDIR, path) from None
            raise _error(error.errno or errno.EIO, path) from None
        mode = self.capture.modes.get(real)
        return found if mode is None else dataclasses.replace(found, mode=mode)

    def _resolve(self, path: str, *, follow_last: bool) -> str:
        # `..` is applied after links are followed, as the kernel does, never lexically.
        waiting = _steps(path)
        done = ""
        links = 0
        while waiting:
            part = waiting.pop()
            if part in _DIRECTORY_ONLY:
                self._require_directory(done, part, path)
                done = done.rpartition("/")[0] if part == ".." else done
                continue
            real = f"{done}/{part}"
            if len(real) >= PATH_LIMIT_BYTES:
                raise _error(errno.ENAMETOOLONG, path)
            target = self._link_target(real)
            if target is None or (not waiting and not follow_last):
                done = real
                continue
            links += 1
            if links > LINK_LIMIT:
                raise _error(errno.ELOOP, path)
            if target.startswith("/"):
                done = ""
            waiting.extend(_steps(target))
        return done or "/"

    def _require_directory(self, real: str, step: str, path: str) -> None:
        """Raise what the kernel says to ``step`` behind something that it cannot enter."""
        if not real or self._has_captured_child(real):
            return
        if real in self.capture.devices:
            raise _error(errno.ENOTDIR, path)
        try:
            # A slash asks for a directory, a dot for one that may be searched as well.
            os.lstat(self._prefix + real + ("/" if step == _SLASH else "/."))
        except OSError as error:
            raise _error(error.errno or errno.EIO, path) from None

    def _link_target(self, real: str) -> str | None:
        if real in self.capture.devices:
            return None
        try:
            return os.readlink(self._prefix + real)
        except OSError:
            return None


def _read_capture(root: Path) -> CaptureFacts:
    try:
        text = _read_bounded(root / CAPTURE_NAME).decode("utf-8")
    except FileNotFoundError:
        return CaptureFacts()
    except (OSError, UnicodeDecodeError) as error:
        return CaptureFacts(problem=f"{CAPTURE_NAME} cannot be read: {error}")
    try:
        return _capture_facts(json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        return CaptureFacts(problem=f"{CAPTURE_NAME} is not what gpucdi writes: {error}")
    except RecursionError:
        return CaptureFacts(problem=f"{CAPTURE_NAME} is not what gpucdi writes: nested too deep")


def _read_bounded(place: Path) -> bytes:
    """Read a regular file that no link leads to; a captured tree may come from anybody."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
    descriptor = os.open(place, flags)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(READ_LIMIT_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(content) > READ_LIMIT_BYTES:
        raise FileTooLargeError(errno.EFBIG, f"larger than {READ_LIMIT_BYTES} bytes")
    return content


def _capture_facts(content: Mapping[str, object]) -> CaptureFacts:
    devices: dict[str, FileStat] = {}
    listed = content.get("devices", [])
    if not isinstance(listed, list):
        raise TypeError("devices is not a list")
    for item in listed:
        devices[normal(item["path"])] = FileStat(
            kind=FileKind(item.get("type", "c")),
            mode=int(item.get("mode", "0666"), 8),
            major=int(item.get("major", 0)),
            minor=int(item.get("minor", 0)),
        )
    return CaptureFacts(
        devices=devices,
        programs={normal(path): text for path, text in _texts(content, "programs").items()},
        modes={normal(path): int(text, 8) for path, text in _texts(content, "modes").items()},
        engines=_texts(content, "engines"),
        arguments=_arguments(content),
        environments={
            name: _texts(process, "environment")
            for name, process in _objects(content, "processes").items()
            if process.get("environment") is not None
        },
        read_as_uid=int(str(content.get("readAsUid", 0))),
        modified_s={normal(path): int(text) for path, text in _texts(content, "modified").items()},
    )


def _objects(content: Mapping[str, object], key: str) -> dict[str, Mapping[str, object]]:
    found = content.get(key, {})
    if not isinstance(found, Mapping) or not all(isinstance(v, Mapping) for v in found.values()):
        raise TypeError(f"{key} is not an object of objects")
    return {str(name): value for name, value in found.items()}


def _arguments(content: Mapping[str, object]) -> dict[str, tuple[str, ...]]:
    arguments = {}
    for name, process in _objects(content, "processes").items():
        listed = process.get("arguments")
        if isinstance(listed, list):
            arguments[name] = tuple(map(str, listed))
    return arguments


def _texts(content: Mapping[str, object], key: str) -> dict[str, str]:
    found = content.get(key, {})
    if not isinstance(found, Mapping):
        raise TypeError(f"{key} is not an object")
    return {str(name): str(value) for name, value in found.items()}
