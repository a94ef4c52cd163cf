"""Reading below a root as the host itself would.

Owns: following links inside the root, bounded listings and reads. Must not know: CDI, engines, what
any file means.
"""

from __future__ import annotations

import dataclasses
import errno
import itertools
import os
import stat
from pathlib import Path

from gpucdi.host.captured import CAPTURE_NAME, read_capture
from gpucdi.host.facts import (
    READ_LIMIT_BYTES,
    CaptureFacts,
    FileKind,
    FileStat,
    FileTooLargeError,
    Listing,
)
from gpucdi.host.paths import PATH_LIMIT_BYTES, SLASH, in_byte_order, steps_of, system_error

# Of a file below /proc/sys the kernel fills no buffer of 4 MiB (fs/proc/proc_sysctl.c).
PIECE_BYTES = 1024 * 1024
LIST_LIMIT = 200_000
# Linux gives up after 40 links (include/linux/namei.h, MAXSYMLINKS).
LINK_LIMIT = 40
_DIRECTORY_ONLY = frozenset({".", "..", SLASH})


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
        self.capture = CaptureFacts() if self._live else read_capture(self.root)
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
            raise system_error(error.errno or errno.EIO, path) from None

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
                raise system_error(error.errno or errno.EIO, path) from None
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
            raise system_error(errno.EISDIR, path)
        if found.kind is not FileKind.FILE:
            raise system_error(errno.EINVAL, path)
        if self.capture.read_as_uid != 0 and not found.mode & stat.S_IROTH:
            raise system_error(errno.EACCES, path)
        return self._read_regular(real, path, limit_bytes)

    def _read_regular(self, real: str, path: str, limit_bytes: int) -> bytes:
        # O_NONBLOCK: should a FIFO have taken the file's place since the stat, opening it for
        # reading returns at once and the check below refuses it.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
        try:
            descriptor = os.open(self._prefix + real, flags)
        except OSError as error:
            raise system_error(error.errno or errno.EIO, path) from None
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor has no path
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise system_error(errno.EINVAL, path)
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
                raise system_error(errno.ENOTDIR, path) from None
            raise system_error(error.errno or errno.EIO, path) from None
        mode = self.capture.modes.get(real)
        return found if mode is None else dataclasses.replace(found, mode=mode)

    def _resolve(self, path: str, *, follow_last: bool) -> str:
        # `..` is applied after links are followed, as the kernel does, never lexically.
        waiting = steps_of(path)
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
                raise system_error(errno.ENAMETOOLONG, path)
            target = self._link_target(real)
            if target is None or (not waiting and not follow_last):
                done = real
                continue
            links += 1
            if links > LINK_LIMIT:
                raise system_error(errno.ELOOP, path)
            if target.startswith("/"):
                done = ""
            waiting.extend(steps_of(target))
        return done or "/"

    def _require_directory(self, real: str, step: str, path: str) -> None:
        """Raise what the kernel says to ``step`` behind something that it cannot enter."""
        if not real or self._has_captured_child(real):
            return
        if real in self.capture.devices:
            raise system_error(errno.ENOTDIR, path)
        try:
            # A slash asks for a directory, a dot for one that may be searched as well.
            os.lstat(self._prefix + real + ("/" if step == SLASH else "/."))
        except OSError as error:
            raise system_error(error.errno or errno.EIO, path) from None

    def _link_target(self, real: str) -> str | None:
        if real in self.capture.devices:
            return None
        try:
            return os.readlink(self._prefix + real)
        except OSError:
            return None
