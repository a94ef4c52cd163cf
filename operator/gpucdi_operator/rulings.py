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
from gpucdi_operator.policies import Choice, Ruling, Turns, is_persons, rule
from gpucdi_operator.store import NodeRecord, StatusRecord, Store

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
    # What the last repair of a node was when its turn began.
    _began: dict[str, tuple[str, str]] = field(default_factory=dict)

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
        self._began.clear()

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
        turns = self._turns[name]
        through = {node for node in turns.since if self._is_through(group.records.get(node))}
        granted = turns.give(limit, waiting, now, through)
        for node in granted:
            self._began.setdefault(node, _last_repair(group.records[node]))
        for node in group.records.keys() & self._began.keys() - granted:
            del self._began[node]
        return granted

    def _is_through(self, record: StatusRecord | None) -> bool:
        """Tell whether a node whose turn it is has tried in vain, or is held by its own agent.

        An agent tells of a hold of its own only where nothing else holds it; until it has seen that
        its turn has come it still tells of ours.
        """
        if record is None or record.intent.hold is not None:
            return False
        if is_persons(record.status.hold):
            return True
        time, result = last = _last_repair(record)
        return bool(time) and result != "Succeeded" and self._began.get(record.name, last) != last


def _last_repair(record: StatusRecord) -> tuple[str, str]:
    """Return when the last repair was and how it ended."""
    repairs = record.status.repairs
    return (repairs[-1].time, repairs[-1].result) if repairs else ("", "")
