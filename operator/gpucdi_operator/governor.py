"""Applies policies to the whole fleet: who is governed by what, whose turn it is, what stops.

Owns: the rulings in the node reconciler, the breaker's steps, and the status of the policies. Must
not know: how a spec is written. Everything is computed anew at each look, from the store and from
the breaker's state in the policy's status.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field

from gpucdi.api import GROUP, VERSION, Condition, ConditionStatus
from gpucdi.api.conditions import stamp
from gpucdi.api.names import (
    CONDITION_GOVERNS,
    CONDITION_REPAIRS_ALLOWED,
    EVENT_REPAIRS_RESUMED,
    EVENT_REPAIRS_STOPPED,
    KIND_POLICY,
    OPERATOR_MANAGER,
)
from gpucdi.api.policy import BreakerState, BreakerStatus, Policy
from gpucdi_kube import Clock, KubeApi, KubeObject, paths
from gpucdi_kube.clock import rfc3339
from gpucdi_kube.errors import NotFound
from gpucdi_operator import breaker
from gpucdi_operator.events import Note, Recorder
from gpucdi_operator.logs import log
from gpucdi_operator.metrics import Metrics
from gpucdi_operator.nodes import NodeReconciler
from gpucdi_operator.policies import Ruling, Turns, governing, rule
from gpucdi_operator.queue import KeyedQueue
from gpucdi_operator.store import PolicyRecord, StatusRecord, Store

# Changes are gathered for a moment: a roll-out brings hundreds of them at once.
GATHER_S = 0.5
STOPPED = frozenset({BreakerState.OPEN, BreakerState.HALF_OPEN})


@dataclass(slots=True)
class _Group:
    """The nodes that one policy governs; ``selected`` counts those it lost as well."""

    records: dict[str, StatusRecord] = field(default_factory=dict)
    selected: int = 0
    governed: int = 0
    lost_to: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Governor:
    """See the module. ``wake`` is set by whoever changes the store."""

    api: KubeApi
    store: Store
    clock: Clock
    metrics: Metrics
    recorder: Recorder
    nodes: NodeReconciler
    node_queue: KeyedQueue[str]
    look_s: float = 10.0
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    _turns: dict[str, Turns] = field(default_factory=lambda: defaultdict(Turns))
    _published: dict[str, tuple[str, dict[str, object]]] = field(default_factory=dict)

    async def run(self) -> None:
        """Look whenever something changed, and every ``look_s`` for the passing of time."""
        while True:
            await self.look()
            try:
                async with asyncio.timeout(self.look_s):
                    await self.wake.wait()
            except TimeoutError:
                continue
            await self.clock.sleep(GATHER_S)
            self.wake.clear()

    async def look(self) -> None:
        """Rule over every node and publish what came of it."""
        groups = self._groups()
        for name, record in list(self.store.policies.items()):
            await self._step(record, groups.get(name, _Group()))
        self._rule(groups)
        for name, record in list(self.store.policies.items()):
            await self._publish(record, groups.get(name, _Group()), record.breaker)

    def _groups(self) -> dict[str, _Group]:
        policies = [record.policy for record in self.store.policies.values()]
        groups: dict[str, _Group] = defaultdict(_Group)
        for name, node in self.store.nodes.items():
            chosen = governing(policies, node.labels)
            for loser in chosen[1:]:
                groups[loser.name].selected += 1
                groups[loser.name].lost_to.add(chosen[0].name)
            if chosen:
                group = groups[chosen[0].name]
                group.selected += 1
                group.governed += 1
                if name in self.store.statuses:
                    group.records[name] = self.store.statuses[name]
        return groups

    async def _step(self, record: PolicyRecord, group: _Group) -> None:
        """Let the breaker make its step and tell of it; the state is stored before it counts."""
        before = record.breaker
        after = breaker.step(before, record.policy.breaker, group.records, self.clock.now())
        self.metrics.breaker.labels(record.name).set(after.state in STOPPED)
        if after == before:
            return
        await self._publish(record, group, after)
        if after.state is BreakerState.OPEN and before.state is not BreakerState.HALF_OPEN:
            await self._tell(record, EVENT_REPAIRS_STOPPED, after)
        if after.state is BreakerState.RECOVERING:
            await self._tell(record, EVENT_REPAIRS_RESUMED, after)

    def _rule(self, groups: dict[str, _Group]) -> None:
        policies: list[Policy] = [record.policy for record in self.store.policies.values()]
        granted = {name: self._granted(name, group) for name, group in groups.items()}
        rulings: dict[str, Ruling] = {}
        for name, node in self.store.nodes.items():
            if name not in self.store.statuses:
                continue
            chosen = governing(policies, node.labels)
            policy = chosen[0] if chosen else None
            state = self.store.policies[policy.name].breaker if policy else BreakerStatus()
            rulings[name] = rule(node, policy, state, granted.get(policy.name) if policy else None)
        changed = [
            name for name, ruling in rulings.items() if self.nodes.rulings.get(name) != ruling
        ]
        self.nodes.rulings = rulings
        # The drifted first: theirs are the repairs that a hold must stop.
        for name in sorted(changed, key=lambda n: not self.store.statuses[n].is_drifted):
            self.node_queue.add(name)

    def _granted(self, name: str, group: _Group) -> frozenset[str] | None:
        record = self.store.policies.get(name)
        if record is None or record.policy.max_concurrent is None:
            return None
        drifted = [node for node, item in group.records.items() if item.status.missing > 0]
        return self._turns[name].give(record.policy.max_concurrent, drifted, self.clock.monotonic())

    async def _publish(self, record: PolicyRecord, group: _Group, state: BreakerStatus) -> None:
        conditions = stamp(
            _conditions(record, group, state), record.conditions, rfc3339(self.clock.now())
        )
        held = sum(item.intent.hold is not None for item in group.records.values())
        status = {
            "observedGeneration": record.generation,
            "nodes": {
                "selected": group.selected,
                "governed": group.governed,
                "drifted": sum(item.status.missing > 0 for item in group.records.values()),
                "held": held,
            },
            "breaker": state.to_json(),
            "conditions": [condition.to_json() for condition in conditions],
        }
        if self._published.get(record.name) == (record.uid, status):
            return
        try:
            answer = await self.api.apply(
                paths.policy_status(record.name),
                {**_head(record), "status": status},
                field_manager=OPERATOR_MANAGER,
                force=True,
            )
        except NotFound:
            return
        self._published[record.name] = (record.uid, status)
        self.store.put_policy(PolicyRecord.of(answer))

    async def _tell(self, record: PolicyRecord, reason: str, state: BreakerStatus) -> None:
        stopped = reason == EVENT_REPAIRS_STOPPED
        text = (
            f"[{state.cause}] {state.nodes} nodes drifted over {state.kind} within "
            f"{record.policy.breaker.window_minutes} minutes, the first of them "
            f"{state.first_node}: this looks like a roll-out. Repairs are stopped and tried again "
            f"on one node in {record.policy.breaker.pause_minutes} minutes."
            if stopped
            else f"Repairs are resumed; they had been stopped over {state.kind}."
        )
        log("breaker", policy=record.name, state=state.state.value, nodes=state.nodes)
        about = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": KIND_POLICY,
            "metadata": {"name": record.name, "uid": record.uid},
        }
        kind = "Warning" if stopped else "Normal"
        note = Note(kind, reason, "Repair", text, key=state.since)
        await self.recorder.record(about, note)


def _head(record: PolicyRecord) -> KubeObject:
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND_POLICY,
        "metadata": {"name": record.name},
    }


def _conditions(record: PolicyRecord, group: _Group, state: BreakerStatus) -> tuple[Condition, ...]:
    stopped = state.state in STOPPED
    allowed = Condition(
        CONDITION_REPAIRS_ALLOWED,
        ConditionStatus.FALSE if stopped else ConditionStatus.TRUE,
        state.state.value,
        f"{state.nodes} nodes drifted over {state.kind} ({state.cause}), the first of them "
        f"{state.first_node}"
        if stopped
        else "repairs go their way",
        observed_generation=record.generation,
    )
    losers = ", ".join(sorted(group.lost_to))
    governs = Condition(
        CONDITION_GOVERNS,
        ConditionStatus.TRUE if group.governed else ConditionStatus.FALSE,
        _governs_reason(group),
        f"{group.governed} of {group.selected} selected nodes"
        + (f"; the others are governed by {losers}" if losers else ""),
        observed_generation=record.generation,
    )
    return allowed, governs


def _governs_reason(group: _Group) -> str:
    if not group.selected:
        return "SelectsNoNode"
    return "AllSelected" if group.governed == group.selected else "OutrankedOnSome"
