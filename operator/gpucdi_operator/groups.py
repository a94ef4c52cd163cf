"""Which nodes each policy governs, and what their policy is decided with.

Owns the picture that one look is made of. Must not know: what a policy does about it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from gpucdi.api import RepairMode
from gpucdi.api.policy import Policy
from gpucdi_operator.policies import Choice, could_repair, mode_of
from gpucdi_operator.store import NodeRecord, StatusRecord, Store


@dataclass(slots=True)
class Group:
    """The nodes that one policy governs; ``selected`` counts those it lost as well.

    ``lost_to`` and ``outranks`` name other policies. ``able`` are those of the drifted nodes, and
    of the one that the breaker tries, that could repair now were it not for the breaker and turns;
    ``repairs`` tells whether any node at all is in mode Auto. ``drifted`` counts those that should
    carry a taint, ``tainted`` are those that may, ``carrying`` those that did when we looked.
    """

    records: dict[str, StatusRecord] = field(default_factory=dict)
    selected: int = 0
    governed: int = 0
    lost_to: set[str] = field(default_factory=set)
    outranks: set[str] = field(default_factory=set)
    able: set[str] = field(default_factory=set)
    repairs: bool = False
    drifted: int = 0
    tainted: frozenset[str] = frozenset()
    carrying: set[str] = field(default_factory=set)

    def acts(self, policy: Policy) -> bool:
        """Tell whether anything may be repaired: by its nodes, where it has none by its mode."""
        return self.repairs if self.records else policy.mode is RepairMode.AUTO

    @property
    def held(self) -> int:
        """How many nodes would repair now if no hold kept them from it, theirs or the agent's."""
        return sum(
            item.status.missing > 0
            and item.intent.mode is RepairMode.AUTO
            and (item.intent.hold or item.status.hold) is not None
            for item in self.records.values()
        )


def gather(store: Store, choice: Choice) -> dict[str, Group]:
    """Return the groups of the policies that select any node."""
    groups: dict[str, Group] = defaultdict(Group)
    tried = {record.breaker.trying for record in store.policies.values()}
    for name, node in store.nodes.items():
        chosen = choice.governing(node.labels)
        if not chosen:
            continue
        winner, losers = chosen[0], chosen[1:]
        group = groups[winner.name]
        group.selected += 1
        group.governed += 1
        for loser in losers:
            groups[loser.name].selected += 1
            groups[loser.name].lost_to.add(winner.name)
            group.outranks.add(loser.name)
        if name in store.statuses:
            _put(group, node, winner, store, tried)
    return groups


def _put(
    group: Group, node: NodeRecord, policy: Policy, store: Store, tried: AbstractSet[str]
) -> None:
    name, record = node.name, store.statuses[node.name]
    group.records[name] = record
    if node.tainted:
        group.carrying.add(name)
    if not group.repairs:
        group.repairs = mode_of(node.labels, policy) is RepairMode.AUTO
    # Thousands of well nodes are not asked: nothing waits for them.
    asked = record.is_drifted or name in tried
    silent, hold = name in store.silent, record.intent.hold
    if asked and could_repair(node.labels, policy, silent=silent, hold=hold):
        group.able.add(name)
