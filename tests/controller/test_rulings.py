"""Rulings that are kept: never another answer than ruling over everything anew would give."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.controller.scene import node_status

from gpucdi.api import Intent, NodeStatus
from gpucdi.api.policy import BreakerState, BreakerStatus, Policy
from gpucdi_kube import SystemClock
from gpucdi_operator.policies import Choice, Ruling, rule
from gpucdi_operator.policy_status import Group
from gpucdi_operator.rulings import Rulings
from gpucdi_operator.store import NodeRecord, PolicyRecord, StatusRecord, Store

NODES = ("n0", "n1", "n2")
LABELS = st.dictionaries(
    st.sampled_from(("pool", "gpucdi.io/repair", "nvidia.com/mig.config.state")),
    st.sampled_from(("a", "off", "what", "pending")),
)
POLICY = st.fixed_dictionaries(
    {},
    optional={
        "repair": st.sampled_from(({"mode": "Auto"}, {"mode": "Observe"})),
        "priority": st.integers(0, 2),
        "nodeSelector": st.sampled_from(
            (
                {"matchLabels": {"pool": "a"}},
                {"matchExpressions": [{"key": "pool", "operator": "Exists"}]},
                {"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": ["a"]}]},
                {},
            )
        ),
    },
)


@dataclass
class World:
    """A small fleet that changes step by step, and what is kept of it."""

    store: Store = field(default_factory=Store)
    tainted: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.kept = Rulings(self.store, SystemClock())
        for name in NODES:
            self.label(name, {})
            self.store.statuses[name] = StatusRecord(name, name, Intent(), NodeStatus())

    def label(self, name: str, labels: dict[str, str]) -> None:
        self.store.nodes[name] = NodeRecord(name, name, labels)

    def write(self, name: str, spec: dict[str, object]) -> None:
        old = self.store.policies.get(name)
        record = PolicyRecord(name, name, Policy.from_json(name, spec), BreakerStatus())
        self.store.policies[name] = replace(record, breaker=old.breaker) if old else record

    def trip(self, name: str, state: BreakerState) -> None:
        if name in self.store.policies:
            record = self.store.policies[name]
            self.store.policies[name] = replace(record, breaker=BreakerStatus(state=state))

    def look(self) -> dict[str, Ruling]:
        groups = {name: Group(tainted=self.tainted) for name in self.store.policies}
        return self.kept.over(self.choice(), groups)

    def choice(self) -> Choice:
        return Choice(record.policy for record in self.store.policies.values())

    def anew(self) -> dict[str, Ruling]:
        found = {}
        for name, node in self.store.nodes.items():
            if name in self.store.statuses:
                policy = next(iter(self.choice().governing(node.labels)), None)
                breaker = self.store.policies[policy.name].breaker if policy else BreakerStatus()
                taint = policy is not None and name in self.tainted
                found[name] = rule(node, policy, breaker, None, taint=taint)
        return found


STEP = st.one_of(
    st.tuples(st.just("label"), st.sampled_from(NODES), LABELS),
    st.tuples(st.just("write"), st.sampled_from(("p", "q")), POLICY),
    st.tuples(st.just("trip"), st.sampled_from(("p", "q")), st.sampled_from(BreakerState)),
    st.tuples(st.just("drop"), st.sampled_from(("p", "q", *NODES)), st.none()),
    st.tuples(st.just("taint"), st.none(), st.frozensets(st.sampled_from(NODES))),
)


def take(world: World, step: tuple[object, ...]) -> None:
    match step:
        case "label", str(name), dict(labels):
            world.label(name, labels)
        case "write", str(name), dict(spec):
            world.write(name, spec)
        case "trip", str(name), BreakerState() as state:
            world.trip(name, state)
        case "drop", str(name), None:
            world.store.policies.pop(name, None)
            world.store.nodes.pop(name, None)
        case "taint", None, frozenset() as names:
            world.tainted = names
        case other:
            raise AssertionError(other)


@given(st.lists(STEP, max_size=12))
def test_kept_rulings_are_those_that_a_look_at_everything_gives(
    steps: list[tuple[object, ...]],
) -> None:
    world = World()
    for step in steps:
        take(world, step)
        assert world.look() == world.anew()


def test_an_unchanged_node_is_not_ruled_over_again() -> None:
    world = World()
    world.write("p", {"repair": {"mode": "Auto"}})
    first = world.look()
    world.label("n1", {"gpucdi.io/repair": "off"})
    second = world.look()
    assert [name for name in NODES if second[name] is not first[name]] == ["n1"]


@pytest.mark.parametrize("limit", [1, 2])
def test_only_so_many_drifted_nodes_have_their_turn(limit: int) -> None:
    world = World()
    world.write("p", {"repair": {"mode": "Auto", "maxConcurrent": limit}})
    for name in NODES:
        drifted = replace(world.store.statuses[name], status=node_status(drifted=True))
        world.store.statuses[name] = drifted
    groups = {"p": Group(records=dict(world.store.statuses))}
    ruled = world.kept.over(world.choice(), groups)
    assert [name for name in NODES if ruled[name].hold is None] == list(NODES[:limit])


def test_the_turn_goes_to_the_next_node_when_the_first_resolves() -> None:
    world = World()
    world.write("p", {"repair": {"mode": "Auto", "maxConcurrent": 1}})
    for name in NODES[:2]:
        drifted = replace(world.store.statuses[name], status=node_status(drifted=True))
        world.store.statuses[name] = drifted
    ruled = world.kept.over(world.choice(), {"p": Group(records=dict(world.store.statuses))})
    waiting = ruled["n1"].hold and ruled["n1"].hold.reason
    world.store.statuses["n0"] = replace(world.store.statuses["n0"], status=NodeStatus())
    ruled = world.kept.over(world.choice(), {"p": Group(records=dict(world.store.statuses))})
    assert (waiting, ruled["n1"].hold) == ("AwaitingTurn", None)
