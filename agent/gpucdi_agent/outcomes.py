"""What the records of a pass come to.

Owns: which failures still stand at its end, and the findings about them. Must not know: how a change
is made.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpucdi.api import RepairRecord
from gpucdi.findings import Cause, Finding, Severity, Who
from gpucdi_agent.transaction import FAILED, ROLLED_BACK

_BAD = frozenset({FAILED, ROLLED_BACK})


def unmended(records: Iterable[RepairRecord]) -> list[RepairRecord]:
    """Return the records of failed changes that no later record of the same kind makes good."""
    last = {record.kind: record for record in records}
    return [record for record in last.values() if record.result in _BAD]


def failure(record: RepairRecord) -> Finding:
    """Say that a change was not made, or undone."""
    done = "undone" if record.result == ROLLED_BACK else "not made"
    return Finding(
        cause=Cause.REPAIR_REFUSED,
        severity=Severity.ERROR,
        message=f"the repair of {record.kind or 'this node'} was {done}: {record.message}",
        advice="see that the file's directory and /var/lib/gpucdi can be written; gpucdi tries again",
        who=Who.ADMIN,
        file=record.file or None,
        kind=record.kind or None,
    )
