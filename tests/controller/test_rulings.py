"""Rulings that are kept: never another answer than ruling over everything anew would give."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.controller.scene import node_status

from gpucdi.api import Hold, Intent, NodeStatus, RepairRecord
from gpucdi.api.policy import BreakerState, BreakerStatus, Policy
from gpucdi_kube import SystemClock
from gpucdi_operator.groups import Group, gather
from gpucdi_operator.policies import Choice, Ruling, rule
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
        groups = gather(self.store, self.choice())
        for group in groups.values():
            group.tainted = self.tainted
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
                marked = not self.store.policies
                found[name] = rule(node, policy, breaker, None, taint=taint, marked=marked)
        return found

    def drift(self, *names: str, drifted: bool = True) -> None:
        for name in names:
            status = node_status(drifted=drifted)
            self.store.statuses[name] = replace(self.store.statuses[name], status=status)

    def free(self) -> list[str]:
        ruled = self.look()
        return [name for name in NODES if ruled[name].hold is None]


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
    world.drift(*NODES)
    assert world.free() == list(NODES[:limit])


def test_the_turn_goes_to_the_next_node_when_the_first_resolves() -> None:
    world = World()
    world.write("p", {"repair": {"mode": "Auto", "maxConcurrent": 1}})
    world.drift("n0", "n1")
    waiting = world.look()["n1"].hold
    world.drift("n0", drifted=False)
    assert (waiting and waiting.reason, world.look()["n1"].hold) == ("AwaitingTurn", None)


@pytest.mark.parametrize(
    "labels",
    [
        {"gpucdi.io/repair": "off"},
        {"gpucdi.io/repair": "observe"},
        {"gpucdi.io/repair": "what"},
        {"nvidia.com/mig.config.state": "pending"},
    ],
)
def test_a_node_that_could_not_repair_takes_no_turn_from_others(labels: dict[str, str]) -> None:
    world = World()
    world.write("p", {"repair": {"mode": "Auto", "maxConcurrent": 1}})
    world.drift(*NODES)
    world.label("n0", labels)
    assert world.look()["n1"].hold is None


def test_a_silent_node_takes_no_turn_and_gives_back_the_one_that_it_has() -> None:
    world = World()
    world.write("p", {"repair": {"mode": "Auto", "maxConcurrent": 1}})
    world.drift(*NODES)
    assert world.free() == ["n0"]
    world.store.silent = {"n0"}
    assert world.free() == ["n1"]


def says(world: World, name: str, *, spec: str = "", own: str = "", repair: str = "") -> None:
    """Let a node's spec carry a hold, and its agent tell of a hold or of a repair."""
    record = world.store.statuses[name]
    repairs = (RepairRecord(repair, "k", "f", "RolledBack"),) if repair else ()
    world.store.statuses[name] = replace(
        record,
        intent=replace(record.intent, hold=Hold(spec) if spec else None),
        status=replace(record.status, hold=Hold(own) if own else None, repairs=repairs),
    )


@pytest.mark.parametrize("tells", [{"own": "SpecUnparsable"}, {"repair": "2026-01-01T00:00:00Z"}])
def test_the_turn_of_a_node_that_tries_in_vain_goes_to_the_next(tells: dict[str, str]) -> None:
    world = World()
    world.write("p", {"repair": {"mode": "Auto", "maxConcurrent": 1}})
    world.drift(*NODES)
    assert world.free() == ["n0"]
    says(world, "n0", **tells)
    assert world.free() == ["n1"]
    says(world, "n0", spec="AwaitingTurn", **tells)
    says(world, "n1", repair="2026-01-01T00:00:01Z")
    assert world.free() == ["n2"]
    # After the last the first: what it told of its turn before does not end this one.
    says(world, "n2", repair="2026-01-01T00:00:02Z")
    says(world, "n0", repair=tells.get("repair", ""))
    assert world.free() == ["n0"]
    assert world.free() == ["n0"]


def test_a_node_that_has_not_seen_yet_that_its_turn_has_come_keeps_it() -> None:
    world = World()
    world.write("p", {"repair": {"mode": "Auto", "maxConcurrent": 1}})
    world.drift(*NODES)
    says(world, "n0", spec="AwaitingTurn", own="AwaitingTurn")
    assert world.free() == ["n0"]
    says(world, "n0", own="AwaitingTurn")
    assert world.free() == ["n0"]


def test_with_a_policy_only_those_that_it_selects_are_marked() -> None:
    world = World()
    assert all(ruling.marked for ruling in world.look().values())
    world.write("p", {"repair": {"mode": "Off"}, "nodeSelector": {"matchLabels": {"pool": "a"}}})
    world.label("n1", {"pool": "a"})
    assert [name for name, ruling in world.look().items() if ruling.marked] == ["n1"]
    world.store.policies.clear()
    assert all(ruling.marked for ruling in world.look().values())


def test_a_node_that_came_under_its_policy_during_a_look_waits_for_the_next() -> None:
    world = World()
    world.label("n0", {"pool": "a"})
    world.write("old", {"repair": {"mode": "Auto"}})

    def look(groups: dict[str, Group]) -> dict[str, Ruling]:
        choice = Choice([record.policy for record in world.store.policies.values()])
        return world.kept.over(choice, groups or gather(world.store, choice))

    before = gather(world.store, Choice([world.store.policies["old"].policy]))
    spec = {"priority": 1, "nodeSelector": {"matchLabels": {"pool": "a"}}}
    world.write("new", {**spec, "repair": {"mode": "Auto", "maxConcurrent": 1}})
    # The new policy has neither given turns nor counted its drifted nodes yet.
    assert look(before).keys() == {"n1", "n2"}
    assert look({})["n0"].policy == "new"
