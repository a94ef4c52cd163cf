"""Which agents have gone silent, from the Leases that they renew.

Owns: ages measured on our own clock from when we saw a renewal, so that a node's wrong clock does
not make its agent look dead. Must not know: what follows from silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gpucdi.api import fields
from gpucdi.api.names import LEASE_PREFIX
from gpucdi_kube import Clock, KubeApi, paths
from gpucdi_kube.clock import parse_time
from gpucdi_operator.decide import REASON_SILENT
from gpucdi_operator.options import Timing
from gpucdi_operator.store import Store

DEFAULT_DURATION_S = 180
# At first sight only the time in the Lease tells its age; clocks may differ by this much.
CLOCK_SKEW_S = 30.0


@dataclass(slots=True)
class _Seen:
    renewed: str
    at: float
    duration_s: float


@dataclass(slots=True)
class Silence:
    """See the module. ``sweep`` lists the Leases once."""

    api: KubeApi
    store: Store
    clock: Clock
    timing: Timing
    namespace: str
    _seen: dict[str, _Seen] = field(default_factory=dict)
    _absent_since: dict[str, float] = field(default_factory=dict)

    def begin(self) -> None:
        """Forget what was seen when this replica led before, and believe whoever led since.

        Until the first sweep those are silent that their Nodes say to be: the list may be refused.
        """
        self._seen.clear()
        self._absent_since.clear()
        self.store.silent = {name for name in self.store.statuses if self._was_silent(name)}

    async def sweep(self) -> set[str]:
        """List the Leases, set ``store.silent``, and return the nodes for which it changed."""
        present: set[str] = set()
        async for lease in self.api.list(paths.leases(self.namespace)):
            name = fields.text(fields.mapping(lease, "metadata"), "name")
            if name.startswith(LEASE_PREFIX):
                node = name.removeprefix(LEASE_PREFIX)
                present.add(node)
                self._saw(node, fields.mapping(lease, "spec"))
        for node in self._seen.keys() - present:
            del self._seen[node]
        for node in self._absent_since.keys() - self.store.statuses.keys():
            del self._absent_since[node]
        silent = {name for name in self.store.statuses if self._is_silent(name)}
        changed = silent ^ self.store.silent
        self.store.silent = silent
        return changed

    def _saw(self, node: str, spec: Mapping[str, object]) -> None:
        renewed = fields.text(spec, "renewTime")
        duration_s = float(fields.integer(spec, "leaseDurationSeconds", DEFAULT_DURATION_S))
        known = self._seen.get(node)
        if known is not None and known.renewed == renewed:
            known.duration_s = duration_s
            return
        age_s = 0.0
        if known is None and (moment := parse_time(renewed)) is not None:
            age_s = max(0.0, _age_s(moment, self.clock.now()) - CLOCK_SKEW_S)
        self._seen[node] = _Seen(renewed, self.clock.monotonic() - age_s, duration_s)

    def _is_silent(self, node: str) -> bool:
        now, seen = self.clock.monotonic(), self._seen.get(node)
        if seen is not None:
            self._absent_since.pop(node, None)
            return now - seen.at > seen.duration_s
        if node not in self._absent_since and self._was_silent(node):
            # An earlier leader has waited already.
            self._absent_since[node] = float("-inf")
        return now - self._absent_since.setdefault(node, now) > self.timing.missing_lease_s

    def _was_silent(self, node: str) -> bool:
        known = self.store.nodes.get(node)
        return bool(known and known.condition and known.condition.reason == REASON_SILENT)


def _age_s(moment: datetime, now: datetime) -> float:
    return (now - moment).total_seconds()
