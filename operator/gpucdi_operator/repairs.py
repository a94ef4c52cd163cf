"""Counts the fleet's repairs, and how long nodes took to resolve again.

Owns: which entries of a GpuCdiStatus' history are news, and from when to when a node drifted. Both
replicas see every status; only the one that leads counts, so that a sum over the replicas is the
fleet's. What is published while nobody leads (seconds, at a hand-over) is counted by nobody. Must
not know: who repairs, and why.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from gpucdi.api import ConditionStatus, RepairRecord
from gpucdi_kube.clock import parse_time
from gpucdi_operator.metrics import OTHER, REPAIR_RESULTS, Metrics
from gpucdi_operator.store import StatusRecord

# Repairs that are remembered, over all nodes. An agent keeps its last ten on its disk and shows
# them again in an object that somebody deleted.
REMEMBERED = 10_000

_Key: TypeAlias = tuple[str, str, str, str]


@dataclass(slots=True)
class Repairs:
    """See the module. ``counts`` tells whether this replica counts now, ``since`` when it began."""

    metrics: Metrics
    counts: Callable[[], bool]
    since: datetime
    _seen: dict[_Key, None] = field(default_factory=dict)

    def saw(self, before: StatusRecord | None, after: StatusRecord) -> None:
        """Take a change of a node's status; ``before`` is ``None`` for one not known until now."""
        news = self._news(before, after)
        for repair in news:
            self._seen[_key(after, repair)] = None
        while len(self._seen) > REMEMBERED:
            del self._seen[next(iter(self._seen))]
        if not self.counts():
            return
        for repair in news:
            result = repair.result if repair.result in REPAIR_RESULTS else OTHER
            self.metrics.repairs.labels(result).inc()
        took_s = drifted_s(before, after)
        if took_s is not None:
            self.metrics.time_to_repair.observe(took_s)

    def _news(self, before: StatusRecord | None, after: StatusRecord) -> list[RepairRecord]:
        """Return the repairs that nobody has seen yet.

        Where no history is known (a new node, an object that was deleted or emptied), what is older
        than this process is history too.
        """
        known = set() if before is None else {_key(before, item) for item in before.status.repairs}
        is_known = before is not None and before.has_status
        return [
            repair
            for repair in after.status.repairs
            if (key := _key(after, repair)) not in known
            and key not in self._seen
            and (is_known or self._is_young(repair))
        ]

    def _is_young(self, repair: RepairRecord) -> bool:
        made = parse_time(repair.time)
        return made is not None and made >= self.since


def drifted_s(before: StatusRecord | None, after: StatusRecord) -> float | None:
    """Return for how long a node that resolves now had drifted; ``None`` where it has not, or goes on.

    Both ends are the agent's own, so clocks that differ between nodes do not matter; where its clock
    was set back meanwhile, the time is 0. What an agent mends in the pass in which it sees it never
    shows as drift.
    """
    was, now = before.resolvable if before is not None else None, after.resolvable
    if was is None or now is None:
        return None
    if (was.status, now.status) != (ConditionStatus.FALSE, ConditionStatus.TRUE):
        return None
    began, ended = parse_time(was.last_transition_time), parse_time(now.last_transition_time)
    if began is None or ended is None:
        return None
    return max(0.0, (ended - began).total_seconds())


def _key(record: StatusRecord, repair: RepairRecord) -> _Key:
    return record.name, repair.time, repair.kind, repair.file
