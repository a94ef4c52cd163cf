"""What one reader knows after reading its spec directories, as a value.

Owns: the registry, the answer to a request for devices and the reasons for a refusal. Must not
know: how directories are read (:mod:`gpucdi.cdi.reader` does).

Source of the answers: ``cncf-tags/container-device-interface`` pkg/cdi/cache.go.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .model import ContainerEdits, Device, Spec
from .names import InvalidNameError, parse_qualified_name, split_device
from .outcome import Accepted, Crashes, Rejected, SpecOutcome, Stage

if TYPE_CHECKING:
    from .reader import Reader


_SHOWN_FILES = 3


class DirectoryState(enum.Enum):
    """What became of a spec directory during the scan."""

    READ = "read"
    MISSING = "missing"
    SYMLINK_NOT_READ = "symlink-not-read"
    """Up to 1.1.0 a spec directory that is itself a symbolic link is silently skipped."""
    NOT_A_DIRECTORY = "not-a-directory"
    UNREADABLE = "unreadable"
    NOT_REACHED = "not-reached"
    """An earlier directory made the reader give up; it says so nowhere."""


@dataclass(frozen=True, slots=True)
class SpecDirectory:
    """One configured directory; ``priority`` is its index.

    ``detail`` is the system's message, or for a directory that was read what was left out of it.
    """

    path: str
    priority: int
    state: DirectoryState
    detail: str = ""

    @property
    def was_read(self) -> bool:
        """True when the files in it took part."""
        return self.state is DirectoryState.READ


@dataclass(frozen=True, slots=True)
class SpecFile:
    """A file in a spec directory and what became of it.

    ``claimed_kind`` and ``claimed_names`` say what the file means to define, also when it is
    rejected; ``claimed_names`` is ``None`` when the text is too broken to tell.
    """

    path: str
    directory: str
    priority: int
    outcome: SpecOutcome
    claimed_kind: str = ""
    claimed_names: frozenset[str] | None = frozenset()

    @property
    def spec(self) -> Spec | None:
        """The spec, when the file was accepted."""
        return self.outcome.spec if isinstance(self.outcome, Accepted) else None

    def claims(self, qualified_name: str) -> bool:
        """Tell whether the file means to define this name, as far as its text can tell."""
        kind, _, name = qualified_name.partition("=")
        if not self.claimed_kind or kind != self.claimed_kind:
            return False
        return self.claimed_names is None or name in self.claimed_names


@dataclass(frozen=True, slots=True)
class RegisteredDevice:
    """A name that resolves, and the file that defines it."""

    name: str
    device: Device
    file: SpecFile
    spec: Spec


class UnresolvedReason(enum.Enum):
    """Why a name does not resolve for a reader."""

    NO_SUCH_KIND = "no such kind"
    KIND_LACKS_NAME = "kind lacks name"
    CONFLICT = "conflict"
    FILE_REJECTED = "file rejected"
    FILE_CRASHES_READER = "file crashes reader"
    FILE_UNREADABLE = "file unreadable"
    FILE_NOT_SCANNED = "file not scanned"
    """The name is defined where no reader looks: another extension, a sub-directory."""
    DIRECTORY_NOT_READ = "directory not read"
    NOT_A_LEGAL_NAME = "not a legal name"


@dataclass(frozen=True, slots=True)
class Unresolved:
    """Why one name does not resolve; ``files`` are the files to look at, ``detail`` the story."""

    reason: UnresolvedReason
    files: tuple[str, ...] = ()
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Resolution:
    """The answer to a request: edits when everything resolves, else the names that do not.

    ``unresolved`` keeps the order and the repetitions of the request. ``error`` is the text of
    this version of the library; for a reader that dies it starts with ``panic: ``.
    """

    resolved: bool
    edits: ContainerEdits | None
    unresolved: tuple[str, ...]
    error: str | None
    why: Mapping[str, Unresolved]


@dataclass(frozen=True, slots=True)
class Registry:
    """Everything one reader knows.

    ``devices`` maps a full name to its definition, ``errors`` a spec file's path to the texts that
    the reader records for it, ``conflicts`` a name to the files that fight over it, ``shadowed`` a
    name to the files whose definition a directory of higher priority hides. ``unread`` are files
    that the reader never looks at, judged all the same. ``crash`` is the first file it dies of.
    """

    reader: Reader
    devices: Mapping[str, RegisteredDevice]
    files: tuple[SpecFile, ...]
    errors: Mapping[str, tuple[str, ...]]
    conflicts: Mapping[str, tuple[str, ...]]
    directories: tuple[SpecDirectory, ...]
    shadowed: Mapping[str, tuple[str, ...]]
    unread: tuple[SpecFile, ...] = ()
    crash: SpecFile | None = None

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of all accepted files, also of those whose devices were all dropped."""
        return frozenset(file.spec.kind for file in self.files if file.spec is not None)

    def names_of(self, kind: str) -> frozenset[str]:
        """Return the device names (the part behind ``=``) that resolve for ``kind``."""
        start = f"{kind}="
        return frozenset(name[len(start) :] for name in self.devices if name.startswith(start))

    def resolve(self, names: Sequence[str]) -> Resolution:
        """Answer a request for devices by their full names, in the order given."""
        if self.crash is not None and isinstance(self.crash.outcome, Crashes):
            return self._crashed(names, self.crash, self.crash.outcome)
        unresolved = tuple(name for name in names if name not in self.devices)
        if unresolved:
            listed = names if self.reader.library.behaviour.lists_all_requested else unresolved
            return Resolution(
                resolved=False,
                edits=None,
                unresolved=unresolved,
                error=f"unresolvable CDI devices {', '.join(listed)}",
                why={name: self._why(name) for name in unresolved},
            )
        return Resolution(
            resolved=True, edits=self._edits(names), unresolved=(), error=None, why={}
        )

    def _edits(self, names: Sequence[str]) -> ContainerEdits:
        edits = ContainerEdits()
        used: set[tuple[int, str]] = set()
        for name in names:
            found = self.devices[name]
            owner = (found.file.priority, found.file.path)
            if owner not in used:
                used.add(owner)
                edits += found.spec.edits
            edits += found.device.edits
        return edits

    def _crashed(self, names: Sequence[str], file: SpecFile, outcome: Crashes) -> Resolution:
        why = Unresolved(
            UnresolvedReason.FILE_CRASHES_READER,
            (file.path,),
            f"{file.path} makes the reader crash, so no name resolves: {outcome.reason}",
        )
        return Resolution(
            resolved=False,
            edits=None,
            unresolved=tuple(names),
            error=f"panic: {outcome.reason}",
            why=dict.fromkeys(names, why),
        )

    def _why(self, name: str) -> Unresolved:
        illegal = self._illegal(name)
        if illegal is not None:
            return Unresolved(UnresolvedReason.NOT_A_LEGAL_NAME, (), illegal)
        if name in self.conflicts:
            files = self.conflicts[name]
            return Unresolved(
                UnresolvedReason.CONFLICT,
                files,
                f"{' and '.join(files)} both define it in one directory, so that it is dropped",
            )
        return self._rejected(name) or self._not_looked_at(name) or self._absent(name)

    def _illegal(self, name: str) -> str | None:
        if not all(split_device(name)):
            return f"{name!r} is no vendor/class=name"
        try:
            parse_qualified_name(name)
        except InvalidNameError as error:
            return str(error)
        return None

    def _rejected(self, name: str) -> Unresolved | None:
        for file in reversed(self.files):
            if isinstance(file.outcome, Rejected) and file.claims(name):
                return Unresolved(
                    UnresolvedReason.FILE_REJECTED,
                    (file.path,),
                    f"{file.path} is rejected as a whole: {file.outcome.reason}",
                )
        return None

    def _not_looked_at(self, name: str) -> Unresolved | None:
        states = {each.path: each for each in self.directories}
        for file in reversed(self.unread):
            if not file.claims(name):
                continue
            directory = states.get(file.directory)
            if directory is not None and not directory.was_read:
                return Unresolved(
                    UnresolvedReason.DIRECTORY_NOT_READ,
                    (file.path,),
                    f"{file.path} defines it, but the reader does not read {directory.path}: "
                    f"{directory.state.value}{f' ({directory.detail})' if directory.detail else ''}",
                )
            return Unresolved(
                UnresolvedReason.FILE_NOT_SCANNED,
                (file.path,),
                f"{file.path} defines it, but readers take only .yaml and .json files that lie "
                "directly in a spec directory",
            )
        return self._not_judged()

    def _not_judged(self) -> Unresolved | None:
        """Suspect the files of which nobody knows what they define."""
        files = tuple(
            file
            for file in self.files
            if isinstance(file.outcome, Rejected)
            and file.outcome.stage in {Stage.READ, Stage.BOUND}
            and not file.claimed_kind
        )
        if not files:
            return None
        shown = "; ".join(_reason(file) for file in files[:_SHOWN_FILES])
        more = len(files) - _SHOWN_FILES
        return Unresolved(
            UnresolvedReason.FILE_UNREADABLE,
            tuple(file.path for file in files),
            f"no file that was read defines it, and some were not: {shown}"
            f"{f'; and {more} more' if more > 0 else ''}",
        )

    def _absent(self, name: str) -> Unresolved:
        kind = name.partition("=")[0]
        files = tuple(file.path for file in self.files if file.spec and file.spec.kind == kind)
        if files:
            verb = "defines" if len(files) == 1 else "define"
            return Unresolved(
                UnresolvedReason.KIND_LACKS_NAME,
                files,
                f"{', '.join(files)} {verb} {kind}, but no device of that name",
            )
        read = ", ".join(each.path for each in self.directories if each.was_read)
        return Unresolved(
            UnresolvedReason.NO_SUCH_KIND, (), f"no file in {read or 'any directory'} has {kind}"
        )


def _reason(file: SpecFile) -> str:
    return file.outcome.reason if isinstance(file.outcome, Rejected) else file.path
