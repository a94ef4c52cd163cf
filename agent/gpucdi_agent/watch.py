"""Which places on the host can change the verdict, and being woken when they do.

Owns: the list of interesting paths, the directories to watch for them, and inotify with polling as
its replacement. Must not know: what a change means; a pass looks at everything anyway.

A missed event costs one period of the slow timer, never correctness.
"""

from __future__ import annotations

import asyncio
import os
import posixpath
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gpucdi.findings import Cause, Finding, Severity, Who
from gpucdi.host import FileKind, HostTree, real_or_same
from gpucdi.node import Observation
from gpucdi_agent.inventory import DRIVER_READY

# Device nodes come and go one by one; MIG instances have theirs in a directory of their own.
_DEVICES = ("/dev", "/dev/nvidia-caps")
_ALWAYS = (
    "/etc/cdi",
    "/var/run/cdi",
    "/etc/nvidia-container-runtime/config.toml",
    "/usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml",
    "/etc/containerd/config.toml",
    "/usr/bin/nvidia-ctk",
    DRIVER_READY,
)
# Directories too busy to be watched for the one entry that would matter.
_TOO_BUSY = frozenset({"/", "/run", "/var", "/var/run", "/etc", "/usr", "/proc", "/sys", "/tmp"})  # noqa: S108 - never written
# Changes that follow one another within this time are one change. The watching thread wakes as
# often, idle or not: 20 ms answer that much sooner and cost a third of the idle CPU time more.
_STEP_MS = 40
_DEBOUNCE_MS = 200
_POLL_MS = 2000
_AGAIN_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Places:
    """Where to look: ``directories`` are watched, ``interests`` say which entries of them matter.

    Both are real host paths, so that /var/run/cdi and /run/cdi are one place.
    """

    directories: frozenset[str] = frozenset()
    interests: frozenset[str] = frozenset()

    def matter(self, path: str) -> bool:
        """Tell whether a change of the real host path ``path`` can change the verdict."""
        name = posixpath.basename(path)
        if posixpath.dirname(path) in _DEVICES:
            return name.startswith("nvidia")
        if path in self.directories or path in self.interests:
            return True
        if posixpath.dirname(path) in self.interests:
            return not name.endswith(".tmp")
        return any(interest.startswith(path + "/") for interest in self.interests)


def places_of(host: HostTree, observation: Observation) -> Places:
    """Return what a node's configuration makes worth watching.

    What does not exist yet is watched for in the nearest directory that does.
    """
    directories: set[str] = set()
    interests: set[str] = set()
    for path in dict.fromkeys((*_ALWAYS, *_paths(observation))):
        real = real_or_same(host, path)
        interests.add(real)
        directories |= _watchable(host, real)
        link = _parent_link(host, path)
        if link is not None:
            interests.add(link)
            directories |= _watchable(host, link)
    directories |= {path for path in _DEVICES if _is_directory(host, path)}
    return Places(frozenset(directories), frozenset(interests))


def _paths(observation: Observation) -> Iterator[str]:
    yield from observation.spec_dirs
    for engine in observation.engines:
        yield from engine.config_files
        for file in engine.config_files:
            # Drop-in directories beside the main file: a new file there is a new configuration.
            yield posixpath.dirname(file)
    for runtime in observation.runtimes:
        if runtime.config is not None:
            yield runtime.config.file
        for path in (runtime.handler.binary.value, runtime.wrapper, runtime.program):
            if path is not None and path.startswith("/"):
                yield path
        if runtime.toolkit is not None and runtime.toolkit.ctk is not None:
            yield runtime.toolkit.ctk


def _parent_link(host: HostTree, path: str) -> str | None:
    """Return ``path`` with its parent resolved when it is itself a link that may be replaced."""
    try:
        if host.lstat(path).kind is not FileKind.SYMLINK:
            return None
    except OSError:
        return None
    return posixpath.join(real_or_same(host, posixpath.dirname(path)), posixpath.basename(path))


def _is_directory(host: HostTree, path: str) -> bool:
    try:
        return host.stat(path).kind is FileKind.DIRECTORY
    except OSError:
        return False


def _watchable(host: HostTree, real: str) -> set[str]:
    found: set[str] = set()
    if _is_directory(host, real):
        found.add(real)
    parent = posixpath.dirname(real)
    while parent not in _TOO_BUSY and not _is_directory(host, parent):
        parent = posixpath.dirname(parent)
    if parent not in _TOO_BUSY:
        found.add(parent)
        # A toolkit directory is removed and laid anew: its own parent sees it come back.
        above = posixpath.dirname(parent)
        if above not in _TOO_BUSY and _is_directory(host, above):
            found.add(above)
    return found


@dataclass(slots=True)
class Watcher:
    """Calls ``wake`` when something that matters changes.

    ``polling`` is True while inotify refuses (the node's watches or instances are used up); the
    places are then looked at every two seconds, which ``problem`` tells, and inotify is asked again
    after ``refused_for_s``.
    """

    host: HostTree
    wake: Callable[[], None]
    polling: bool = False
    problem: str = ""
    refused_for_s: float = 600.0
    places: Places = field(default_factory=Places)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _lenient: bool = False

    def watch(self, places: Places) -> bool:
        """Watch ``places`` from now on; True when that is something else than before."""
        if places == self.places:
            return False
        self.places = places
        self._changed.set()
        return True

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            self._changed.clear()
            directories = self._outside(self.places.directories)
            if not directories:
                await self._changed.wait()
                continue
            try:
                async with asyncio.timeout(self.refused_for_s if self.polling else None):
                    await self._follow(directories)
            except TimeoutError:
                # Who used up the watches may be gone, or the limit raised, while nobody restarted us.
                self.polling, self.problem = False, ""
                self.wake()
            except FileNotFoundError:
                # A directory went between looking and watching; the next look sees what is there.
                await asyncio.sleep(_AGAIN_SECONDS)
                self.wake()
            except PermissionError:
                # Readable by its mode and still refused (SELinux): that one goes unwatched.
                self._lenient = True
            except (OSError, RuntimeError) as error:
                # watchfiles gives the kernel's "too many open files" as a RuntimeError of its own.
                await asyncio.sleep(_AGAIN_SECONDS)
                self.polling = True
                self.problem = str(error)
                self.wake()

    def notices(self) -> tuple[Finding, ...]:
        """Return the finding that changes are seen late, if they are."""
        if not self.problem:
            return ()
        finding = Finding(
            cause=Cause.UNDETERMINED,
            severity=Severity.WARNING,
            message=f"inotify refused, files are polled instead: {self.problem}",
            advice="raise fs.inotify.max_user_instances and max_user_watches on this node; inotify is "
            f"asked again every {self.refused_for_s / 60:.0f} minutes",
            who=Who.ADMIN,
        )
        return (finding,)

    def _outside(self, directories: Iterable[str]) -> list[Path]:
        found: set[Path] = set()
        for path in directories:
            try:
                found.add(self.host.outside(path))
            except OSError:
                continue  # a link in it was replaced since
        return sorted(path for path in found if path.is_dir() and os.access(path, os.R_OK))

    async def _follow(self, directories: list[Path]) -> None:
        from watchfiles import awatch  # noqa: PLC0415 - only the resident process pays for it

        async for changes in awatch(
            *directories,
            recursive=False,
            watch_filter=None,
            stop_event=self._changed,
            step=_STEP_MS,
            debounce=_DEBOUNCE_MS,
            force_polling=self.polling,
            poll_delay_ms=_POLL_MS,
            # It would ignore a used-up limit of watches as well, and leave the rest unwatched.
            ignore_permission_denied=self._lenient,
        ):
            paths = {self._inside(path) for _, path in changes}
            if any(self.places.matter(path) for path in paths):
                self.wake()
            if paths & self.places.directories:
                # A watched directory came or went, and its watch with it.
                return

    def _inside(self, path: str) -> str:
        root = str(self.host.root).rstrip("/")
        return path.removeprefix(root) or "/"
