"""What the agent remembers on the host: the last known intent, the history, a journal, backups.

Owns: the layout below ``/var/lib/gpucdi`` and that a damaged file there is the same as none. Must
not know: how a repair is decided or made.

Nothing of this ever lies in a spec directory: a backup named ``*.yaml`` there would be loaded, and
would conflict with what it backs up.
"""

from __future__ import annotations

import json
import os
import posixpath
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from gpucdi.api import Intent, NodeStatus, RepairRecord, fields, read_status, write_status
from gpucdi.api.names import OWN_FILE_PREFIX
from gpucdi.cdi import Library, Reader
from gpucdi.host import HostTree
from gpucdi.node.checkpoints import this_boot
from gpucdi.repair import sha256_text
from gpucdi_agent.exclusive import BusyError, exclusive
from gpucdi_agent.files import Files, is_temporary

HISTORY_LENGTH = 10
BACKUPS_KEPT = 20
# As much as our own files of a node can be; more in the history is not ours.
WRITTEN_LIMIT = 256
# What we write here is a few KiB; only a journal holds every name of every reader.
_READ_LIMIT_BYTES = 1024 * 1024
_JOURNAL_LIMIT_BYTES = 16 * 1024 * 1024
_DIRECTORY_MODE = 0o700
_FILE_MODE = 0o600


@dataclass(frozen=True, slots=True)
class Memory:
    """What outlives a restart. ``written`` maps our files to the hash we left them with.

    ``boot_id`` is the kernel's at that time: after a reboot a file in memory is rightly gone.
    """

    intent: Intent | None = None
    generation: int | None = None
    repairs: tuple[RepairRecord, ...] = ()
    written: Mapping[str, str] | None = None
    boot_id: str = ""
    status: NodeStatus | None = None

    def is_of_this_boot(self, host: HostTree) -> bool:
        """Tell whether the node has not been booted since."""
        return self.boot_id == (this_boot(host).id or "")


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One file change under way; hashes are empty for an absent file, ``backup`` for none."""

    path: str
    kind: str
    before: str
    after: str
    backup: str = ""
    added: int = 0
    removed: int = 0


@dataclass(frozen=True, slots=True)
class Journal:
    """A transaction under way: its changes, and what has to resolve for whom at its end."""

    time: str
    entries: tuple[JournalEntry, ...]
    must_resolve: tuple[tuple[Reader, frozenset[str]], ...]


class StateStore:
    """The state directory, a host path. Reading never raises; writing raises ``OSError``."""

    def __init__(self, host: HostTree, files: Files, directory: str) -> None:
        self._host = host
        self._files = files
        self.directory = directory

    def prepare(self) -> None:
        """Create the directories and sweep what an interrupted write left behind."""
        for name in ("", "backups", "scratch"):
            self._files.make_directory(self._outside(name), _DIRECTORY_MODE)
        # What looks left behind by an agent that is at work is not.
        with suppress(BusyError), exclusive(self._outside(""), patience_seconds=0.0):
            self.sweep((self.directory, f"{self.directory}/backups"))

    def sweep(self, directories: Iterable[str]) -> None:
        """Remove our temporary files from host directories."""
        for directory in directories:
            try:
                entries = self._host.listdir(directory)
            except OSError:
                continue
            for entry in entries:
                if is_temporary(entry):
                    self._files.remove(self._host.outside(directory) / entry)

    def memory(self) -> Memory:
        """Return what was remembered."""
        intent = self._read("intent.json")
        history = self._read("history.json")
        written = {
            path: value
            for path, value in islice(fields.mapping(history, "written").items(), WRITTEN_LIMIT)
            if isinstance(value, str) and _is_own_path(path)
        }
        known = "spec" in intent
        status = self._read("status.json")
        return Memory(
            status=read_status(status) if status else None,
            intent=Intent.from_json(fields.mapping(intent, "spec")) if known else None,
            generation=fields.optional_integer(intent, "generation"),
            repairs=read_status(_last_repairs(history)).repairs,
            written=written,
            boot_id=fields.text(history, "bootId"),
        )

    def remember_intent(self, intent: Intent, generation: int | None) -> None:
        """Keep the spec that is obeyed while there is no API server."""
        self._write("intent.json", {"generation": generation, "spec": intent.to_json()})

    def remember_status(self, status: NodeStatus) -> None:
        """Keep the last status, so that a restart neither moves its times nor publishes anew."""
        self._write("status.json", write_status(status))

    def remember_repairs(
        self, repairs: tuple[RepairRecord, ...], written: Mapping[str, str], boot_id: str
    ) -> None:
        """Keep the last repairs and the hashes of our files."""
        kept = NodeStatus(repairs=repairs[-HISTORY_LENGTH:])
        self._write(
            "history.json",
            {
                "repairs": write_status(kept).get("repairs", []),
                "written": dict(written),
                "bootId": boot_id,
            },
        )

    def back_up(self, path: str, content: bytes) -> str:
        """Keep a copy of ``content`` and return the copy's name."""
        digest = sha256_text(content).partition(":")[2][:16]
        name = f"{posixpath.basename(path)}.{digest}"
        self._files.replace(self._outside(f"backups/{name}"), content, _FILE_MODE)
        self._prune_backups()
        return name

    def backup(self, name: str) -> bytes:
        """Return a copy made by :meth:`back_up`; raises ``OSError`` when it is gone."""
        return self._host.read(f"{self.directory}/backups/{name}")

    def journal(self) -> Journal | None:
        """Return the transaction that was under way when the agent last ended, if any."""
        content = self._read("journal.json", _JOURNAL_LIMIT_BYTES)
        entries = tuple(
            entry
            for entry in map(_read_entry, fields.objects(content, "entries"))
            if _is_own_path(entry.path)
        )
        if not entries:
            return None
        try:
            readers = tuple(map(_read_reader, fields.objects(content, "readers")))
        except ValueError:
            return None  # nobody knows any more what had to resolve
        return Journal(fields.text(content, "time"), entries, readers)

    def open_journal(self, journal: Journal) -> None:
        """Write down what is about to be changed."""
        readers = [
            {
                "specDirs": list(reader.spec_dirs),
                "library": str(reader.library),
                "names": sorted(names),
            }
            for reader, names in journal.must_resolve
        ]
        entries = [_write_entry(entry) for entry in journal.entries]
        self._write("journal.json", {"time": journal.time, "entries": entries, "readers": readers})

    def close_journal(self) -> None:
        """End the transaction, one way or the other."""
        self._files.remove(self._outside("journal.json"))

    def _prune_backups(self) -> None:
        directory = f"{self.directory}/backups"
        kept = [
            (self._host.lstat(f"{directory}/{name}").mtime_ns, name)
            for name in self._host.listdir(directory)
        ]
        for _, name in sorted(kept)[:-BACKUPS_KEPT]:
            self._files.remove(self._outside(f"backups/{name}"))

    def _outside(self, name: str) -> Path:
        return self._host.outside(posixpath.join(self.directory, name).rstrip("/"))

    def _read(self, name: str, limit_bytes: int = _READ_LIMIT_BYTES) -> Mapping[str, object]:
        try:
            content = json.loads(self._host.read(f"{self.directory}/{name}", limit_bytes))
        except (OSError, ValueError, RecursionError):
            return {}
        return content if isinstance(content, dict) else {}

    def _write(self, name: str, content: object) -> None:
        text = json.dumps(content, indent=1, sort_keys=True) + "\n"
        self._files.replace(self._outside(name), text.encode(), _FILE_MODE)


def _is_own_path(path: str) -> bool:
    """Tell whether ``path`` can be that of a file of ours."""
    return _is_path(path) and posixpath.basename(path).startswith(OWN_FILE_PREFIX)


def _is_path(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return path.startswith("/") and "\0" not in path


def _read_reader(source: Mapping[str, object]) -> tuple[Reader, frozenset[str]]:
    directories = fields.texts(source, "specDirs")
    if not all(map(_is_path, directories)):
        raise ValueError("a spec directory is no path")
    reader = Reader(directories, Library(fields.text(source, "library")))
    return reader, frozenset(fields.texts(source, "names"))


def _last_repairs(history: Mapping[str, object]) -> Mapping[str, object]:
    found = history.get("repairs")
    return {"repairs": found[-HISTORY_LENGTH:] if isinstance(found, list) else []}


def _read_entry(source: Mapping[str, object]) -> JournalEntry:
    return JournalEntry(
        path=fields.text(source, "path"),
        kind=fields.text(source, "kind"),
        before=fields.text(source, "before"),
        after=fields.text(source, "after"),
        backup=posixpath.basename(fields.text(source, "backup")),
        added=fields.integer(source, "added"),
        removed=fields.integer(source, "removed"),
    )


def _write_entry(entry: JournalEntry) -> dict[str, object]:
    return {
        "path": entry.path,
        "kind": entry.kind,
        "before": entry.before,
        "after": entry.after,
        "backup": entry.backup,
        "added": entry.added,
        "removed": entry.removed,
    }
