"""Making a plan's file changes, all proven or none, also across a crash.

Owns: the order journal, write, verify, keep or roll back; and the guard that only files of ours are
ever touched. Must not know: why the plan is as it is.

The journal says what was about to change and what has to resolve afterwards. Whoever starts after
a crash needs nothing else to finish: see :meth:`Transaction.recover`.
"""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from gpucdi.api import RepairRecord
from gpucdi.api.names import OWN_FILE_MARK, OWN_FILE_PREFIX
from gpucdi.cdi import Reader
from gpucdi.host import FileKind, HostTree, real_or_same
from gpucdi.node.checkpoints import this_boot
from gpucdi.repair import OwnFile, Plan, WriteFile, sha256_text
from gpucdi_agent.exclusive import PATIENCE_SECONDS, BusyError, exclusive
from gpucdi_agent.files import Files, message_of
from gpucdi_agent.state import Journal, JournalEntry, StateStore
from gpucdi_agent.unwritable import is_refusal

SPEC_MODE = 0o644
SPEC_DIRECTORY_MODE = 0o755
SUCCEEDED, ROLLED_BACK, FAILED, REMOVED = "Succeeded", "RolledBack", "Failed", "Removed"
_Contents = dict[str, bytes | None]
Useless = Callable[[str], None]


def _ignore(_: str) -> None:
    """Remember no directory."""


class NotOursError(OSError):
    """A file lies where ours should, without our mark, or it changed since the plan was made."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What does not resolve although it must: in all, what did before, and what ours should give.

    ``ineffective`` maps a sentence for each name that a file of ours defines and a reader that must
    resolve it does not, without anybody else's doing, to that file.
    """

    lost: list[str]
    regained: list[str]
    ineffective: dict[str, str]


@dataclass(frozen=True, slots=True)
class Transaction:
    """Applies plans on one host. ``now`` gives RFC 3339.

    Another agent that is at work on the node is waited for ``patience_seconds`` long.
    """

    host: HostTree
    state: StateStore
    files: Files
    now: Callable[[], str]
    patience_seconds: float = PATIENCE_SECONDS

    def apply(self, plan: Plan, useless: Useless = _ignore) -> tuple[RepairRecord, ...]:
        """Make the changes of ``plan`` and return a record for each file.

        The records say how it ended; nothing is raised for what the disk or somebody else does.
        ``useless`` is told each directory that cannot be written, or whose file no reader took up.
        """
        with ExitStack() as stack:
            try:
                place = self.host.outside(self.state.directory)
                stack.enter_context(exclusive(place, self.patience_seconds))
            except OSError as error:
                return self._unstarted(plan, error)
            return self._apply(plan, useless)

    def _apply(self, plan: Plan, useless: Useless) -> tuple[RepairRecord, ...]:
        before: _Contents = {}
        try:
            for action in plan.actions:
                before[action.path] = self._guarded(action.path, action.before)
            journal = self._open(plan, before)
        except OSError as error:
            return self._unstarted(plan, error)
        try:
            for action in plan.actions:
                if isinstance(action, WriteFile):
                    self._try_write(action, useless)
                else:
                    self.files.remove(self.host.outside(action.path))
        except OSError as error:
            self._restore(journal, before)
            return self._close(journal, FAILED, message_of(error, self.host.root))
        return self._judge(journal, before, useless)

    def recover(self, useless: Useless = _ignore) -> tuple[RepairRecord, ...]:
        """Finish the transaction that a crash interrupted; no record when there was none.

        Changes already made stay if they hold what the journal promised, and are undone if the
        state before was better for any reader. Changes not made are left to the next pass, which
        plans anew from what it finds.
        """
        if self.state.journal() is None:
            return ()
        try:
            with exclusive(self.host.outside(self.state.directory), patience_seconds=0.0):
                return self._recover(useless)
        except BusyError:
            return ()  # whoever opened the journal is alive and will close it

    def _recover(self, useless: Useless) -> tuple[RepairRecord, ...]:
        journal = self.state.journal()
        if journal is None:
            return ()
        self.state.sweep({posixpath.dirname(entry.path) for entry in journal.entries})
        before: _Contents = {}
        done: list[JournalEntry] = []
        for entry in journal.entries:
            if self._hash(entry.path) != entry.after:
                continue
            try:
                before[entry.path] = self.state.backup(entry.backup) if entry.backup else None
            except OSError:
                continue
            done.append(entry)
        finished = Journal(journal.time, tuple(done), journal.must_resolve)
        if not done:
            self.state.close_journal()
            return ()
        return self._judge(finished, before, useless)

    def _open(self, plan: Plan, before: Mapping[str, bytes | None]) -> Journal:
        entries = []
        for action in plan.actions:
            content = before[action.path]
            write = action if isinstance(action, WriteFile) else None
            entries.append(
                JournalEntry(
                    path=action.path,
                    kind=action.kind,
                    before=action.before,
                    after=sha256_text(write.content) if write else "",
                    backup=self.state.back_up(action.path, content) if content else "",
                    added=write.added if write else 0,
                    removed=action.removed,
                )
            )
        journal = Journal(self.now(), tuple(entries), plan.must_resolve)
        self.state.open_journal(journal)
        return journal

    def _judge(
        self, journal: Journal, before: _Contents, useless: Useless
    ) -> tuple[RepairRecord, ...]:
        found = self._outcome(journal, before)
        if found.regained:
            self._restore(journal, before)
            return self._close(journal, ROLLED_BACK, f"{found.regained[0]} stopped resolving")
        if found.ineffective:
            self._restore(journal, before)
            for path in found.ineffective.values():
                useless(posixpath.dirname(path))
            return self._close(journal, ROLLED_BACK, min(found.ineffective))
        # What is missing for another reason (somebody else moved meanwhile) is the next pass's.
        text = f"{found.lost[0]} does not resolve" if found.lost else ""
        return self._close(journal, SUCCEEDED, text)

    def _outcome(self, journal: Journal, before: _Contents) -> _Outcome:
        lost: set[str] = set()
        regained: set[str] = set()
        ineffective: dict[str, str] = {}
        for reader, names in journal.must_resolve:
            registry = reader.load(self.host)
            missing = names - set(registry.devices)
            if not missing:
                continue
            overlay = self._overlay(reader, before)
            lost |= missing
            regained |= missing & set(reader.load(self.host, overlay=overlay).devices)
            # Only now: a file that somebody took away before the reader looked proves nothing.
            defined = self._defined(journal)
            # A name in conflict that going back would not free is in conflict among others.
            for name in (missing & set(defined)) - set(registry.conflicts):
                places = ", ".join(reader.spec_dirs)
                text = f"{name} of {defined[name]} does not resolve in {places}"
                ineffective[text] = defined[name]
        return _Outcome(sorted(lost), sorted(regained), ineffective)

    def _defined(self, journal: Journal) -> dict[str, str]:
        """Map the names that the files of ``journal`` define, as they lie there, to these files."""
        defined: dict[str, str] = {}
        for entry in journal.entries:
            try:
                content = self.host.read(entry.path)
            except OSError:
                continue
            if sha256_text(content) == entry.after:
                defined |= dict.fromkeys(OwnFile(entry.path, content).qualified, entry.path)
        return defined

    def _overlay(self, reader: Reader, contents: _Contents) -> _Contents:
        overlay: _Contents = {}
        for path, content in contents.items():
            directory, name = posixpath.split(path)
            for spelling in (directory, *reader.spec_dirs):
                if real_or_same(self.host, spelling) == real_or_same(self.host, directory):
                    overlay[posixpath.join(spelling, name)] = content
        return overlay

    def _restore(self, journal: Journal, before: _Contents) -> None:
        for entry in reversed(journal.entries):
            if self._hash(entry.path) != entry.after:
                continue
            content = before[entry.path]
            if content is None:
                self.files.remove(self.host.outside(entry.path))
            else:
                self._write(entry.path, content)

    def _close(self, journal: Journal, result: str, message: str) -> tuple[RepairRecord, ...]:
        records = tuple(
            RepairRecord(
                time=journal.time,
                kind=entry.kind,
                file=entry.path,
                result=REMOVED if result == SUCCEEDED and not entry.after else result,
                added=entry.added,
                removed=entry.removed,
                before=entry.before,
                after=self._hash(entry.path),
                message=message,
            )
            for entry in journal.entries
        )
        self._remember(records)
        self.state.close_journal()
        return records

    def _remember(self, records: tuple[RepairRecord, ...]) -> None:
        memory = self.state.memory()
        # A crash between this and the end of the journal must not tell the same thing twice.
        known = {(item.time, item.file, item.before, item.after) for item in memory.repairs}
        fresh = tuple(
            item for item in records if (item.time, item.file, item.before, item.after) not in known
        )
        written = dict(memory.written or {})
        for record in records:
            if record.after:
                written[record.file] = record.after
            else:
                written.pop(record.file, None)
        self.state.remember_repairs(
            (*memory.repairs, *fresh), written, this_boot(self.host).id or ""
        )

    def _unstarted(self, plan: Plan, error: OSError) -> tuple[RepairRecord, ...]:
        return tuple(
            RepairRecord(
                time=self.now(),
                kind=action.kind,
                file=action.path,
                result=FAILED,
                before=action.before,
                after=action.before,
                message=message_of(error, self.host.root),
            )
            for action in plan.actions
        )

    def _guarded(self, path: str, expected: str) -> bytes | None:
        """Return what lies at ``path``, having made sure that it is ours to change."""
        if not posixpath.basename(path).startswith(OWN_FILE_PREFIX):
            raise NotOursError(errno.EPERM, "not a file of gpucdi", path)
        content: bytes | None = None
        try:
            if self.host.lstat(path).kind is not FileKind.FILE:
                raise NotOursError(errno.EEXIST, "something else than a file has our name", path)
            content = self.host.read(path)
        except FileNotFoundError:
            pass
        if content is not None and not content.startswith(OWN_FILE_MARK.encode()):
            raise NotOursError(errno.EEXIST, "somebody else's file has our name", path)
        if (sha256_text(content) if content is not None else "") != expected:
            raise NotOursError(errno.ESTALE, "changed since the plan was made", path)
        return content

    def _try_write(self, action: WriteFile, useless: Useless) -> None:
        try:
            self._write(action.path, action.content)
        except OSError as error:
            if is_refusal(error):
                useless(posixpath.dirname(action.path))
            raise

    def _write(self, path: str, content: bytes) -> None:
        place = self.host.outside(path)
        self.files.make_directory(place.parent, SPEC_DIRECTORY_MODE)
        self.files.replace(place, content, SPEC_MODE)

    def _hash(self, path: str) -> str:
        try:
            return sha256_text(self.host.read(path))
        except OSError:
            return ""
