"""How our files were left, so that a change by somebody else is noticed.

Owns: the hash that each file of ours should have. Must not know: what follows from a change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gpucdi.api import RepairRecord
from gpucdi.host import HostTree
from gpucdi.repair import sha256_text
from gpucdi_agent.state import Memory, StateStore


@dataclass(slots=True)
class ExpectedFiles:
    """The files of ours by host path, each with its hash, empty for one that is gone."""

    host: HostTree
    hashes: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, host: HostTree, memory: Memory | None) -> ExpectedFiles:
        """Return what is remembered; after a reboot whatever is there is right."""
        if memory is None or memory.written is None:
            return cls(host)
        if not memory.is_of_this_boot(host):
            return cls(host, {path: _hash(host, path) for path in memory.written})
        return cls(host, dict(memory.written))

    def __iter__(self) -> Iterator[str]:
        return iter(self.hashes)

    def note(self, records: Iterable[RepairRecord]) -> None:
        """Take down how our own changes left the files."""
        for record in records:
            if record.file:
                self.hashes[record.file] = record.after

    def changed(self, state: StateStore | None) -> int:
        """Count the files that somebody else has changed or removed since the last look.

        What another gpucdi-agent of this node has done stands in the history that ``state`` has.
        """
        moved: dict[str, str] = {}
        for path, expected in self.hashes.items():
            found = _hash(self.host, path)
            if found != expected:
                moved[path] = found
        if not moved:
            return 0
        self.hashes |= moved
        written = (state.memory().written if state is not None else None) or {}
        return sum(written.get(path, "") != found for path, found in moved.items())


def _hash(host: HostTree, path: str) -> str:
    try:
        return sha256_text(host.read(path))
    except OSError:
        return ""
