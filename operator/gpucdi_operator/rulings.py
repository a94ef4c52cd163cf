"""What policies say of every node, ruled anew only where something that it hangs on has changed.

Owns: the rulings of the last look with what they came from, and whose turn it is. Must not know:
the API server, and how a ruling is written. A fleet of 20,000 is looked at after every change of
one node, on the loop that explains Pods: a look must not cost what ruling over all of it costs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gpucdi.api import RepairMode
from gpucdi.api.policy import BreakerStatus, Policy
from gpucdi_kube import Clock
from gpucdi_operator.groups import Group
from gpucdi_operator.policies import Choice, Ruling, Turns, rule
from gpucdi_operator.store import NodeRecord, Store

_UNGOVERNED = BreakerStatus()


class _Grounds(NamedTuple):
    """Everything that a ruling comes from; ``turn`` is ``None`` without a limit of turns.

    ``marked`` is what holds for a node that no policy selects.
    """

    node: NodeRecord
    policy: Policy | None
    breaker: BreakerStatus
    turn: bool | None
    taint: bool
    marked: bool


@dataclass(slots=True)
class Rulings:
    """See the module."""

    store: Store
    clock: Clock
    _turns: dict[str, Turns] = field(default_factory=lambda: defaultdict(Turns))
    _last: dict[str, tuple[_Grounds, Ruling]] = field(default_factory=dict)

    def over(self, choice: Choice, groups: Mapping[str, Group]) -> dict[str, Ruling]:
        """Return the rulings over every node whose agent has reported.

        Without any policy every node is marked; with one, those that policies select. Nobody leads
        before the policies were listed, so that to know of none means that there is none.

        A node that has come under its policy since ``groups`` were gathered waits for the next look:
        this one has neither counted it for the breaker nor given it its turn.
        """
        granted = {name: self._granted(name, group) for name, group in groups.items()}
        ruled: dict[str, tuple[_Grounds, Ruling]] = {}
        for name, node in self.store.nodes.items():
            if name not in self.store.statuses:
                continue
            chosen = choice.governing(node.labels)
            policy = chosen[0] if chosen else None
            if policy is None or (policy.name in groups and name in groups[policy.name].records):
                ruled[name] = self._over(node, policy, groups, granted)
        self._last = ruled
        return {name: ruling for name, (_, ruling) in ruled.items()}

    def begin(self) -> None:
        """Forget whose turn it was when this replica led before; the specs tell who repairs now."""
        self._turns.clear()

    def forget(self, policy: str) -> None:
        """Forget the turns of a policy that is gone."""
        self._turns.pop(policy, None)

    def _over(
        self,
        node: NodeRecord,
        policy: Policy | None,
        groups: Mapping[str, Group],
        granted: Mapping[str, frozenset[str] | None],
    ) -> tuple[_Grounds, Ruling]:
        breaker, turns, taint = _UNGOVERNED, None, False
        marked = not self.store.policies
        if policy is not None:
            breaker = self.store.policies[policy.name].breaker
            turns = granted.get(policy.name)
            taint = node.name in groups[policy.name].tainted
        turn = None if turns is None else node.name in turns
        grounds = _Grounds(node, policy, breaker, turn, taint, marked)
        last = self._last.get(node.name)
        if last is not None and last[0] == grounds:
            return last
        return grounds, rule(node, policy, breaker, turns, taint=taint, marked=marked)

    def _granted(self, name: str, group: Group) -> frozenset[str] | None:
        record = self.store.policies.get(name)
        if record is None or record.policy.max_concurrent is None:
            return None
        limit, now = record.policy.max_concurrent, self.clock.monotonic()
        # Whoever could not repair would only keep others from their turn.
        waiting = [node for node in group.able if group.records[node].status.missing > 0]
        if name not in self._turns:
            repairing = [
                node
                for node in waiting
                if (intent := group.records[node].intent).mode is RepairMode.AUTO
                and intent.hold is None
            ]
            self._turns[name].adopt(limit, repairing, now)
        return self._turns[name].give(limit, waiting, now)
