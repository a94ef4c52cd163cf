"""Applies policies to the whole fleet: who is governed by what, whose turn it is, what stops.

Owns: the rulings in the node reconciler, the breaker's steps, and the status of the policies. Must
not know: how a spec is written. Everything is computed anew at each look, from the store and from
the breaker's state in the policy's status.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime

from gpucdi.api import ConditionStatus
from gpucdi.api.names import (
    EVENT_LABEL_UNREADABLE,
    OPERATOR_MANAGER,
)
from gpucdi.api.policy import BreakerStatus, TaintEffect
from gpucdi_kube import Clock, KubeApi, KubeError, paths
from gpucdi_kube.clock import rfc3339
from gpucdi_kube.errors import NotFound
from gpucdi_operator import breaker, taints
from gpucdi_operator.breaker_news import BreakerNews
from gpucdi_operator.decide import node_condition
from gpucdi_operator.events import Note, Recorder
from gpucdi_operator.groups import Group, gather
from gpucdi_operator.leader import NotLeadingError
from gpucdi_operator.logs import log
from gpucdi_operator.metrics import Metrics
from gpucdi_operator.nodes import NodeReconciler
from gpucdi_operator.policies import HOLD_LABEL, Choice
from gpucdi_operator.policy_status import conditions, head, stamped_since
from gpucdi_operator.queue import KeyedQueue
from gpucdi_operator.rights import Rights
from gpucdi_operator.rulings import Rulings
from gpucdi_operator.store import NodeRecord, PolicyRecord, Store

# Changes are gathered for a moment: a roll-out brings hundreds of them at once. Where a look takes
# long, because the fleet is large or the API server slow, looks take a tenth of the time at most.
GATHER_S = 0.5
GATHER_LOOKS = 9


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
    rights: Rights
    look_s: float = 10.0
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    _rulings: Rulings = field(init=False)
    _news: BreakerNews = field(init=False)
    _looked: asyncio.Event = field(default_factory=asyncio.Event)
    _choice: Choice = field(default_factory=lambda: Choice(()))
    _labels_told: set[tuple[str, str]] = field(default_factory=set)
    # What was written last, and what stood there afterwards.
    _published: dict[str, tuple[object, ...]] = field(default_factory=dict)
    _known: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Rule over the same store, and tell with the same recorder."""
        self._rulings = Rulings(self.store, self.clock)
        self._news = BreakerNews(self.clock, self.recorder)

    def begin(self) -> None:
        """Begin to lead: whose turn it was when this replica led before does not count."""
        self._rulings.begin()

    async def run(self) -> None:
        """Look whenever something changed, and every ``look_s`` for the passing of time."""
        while True:
            began = self.clock.monotonic()
            await self.look()
            took_s = self.clock.monotonic() - began
            try:
                async with asyncio.timeout(self.look_s):
                    await self.wake.wait()
            except TimeoutError:
                continue
            await self.clock.sleep(max(GATHER_S, min(GATHER_LOOKS * took_s, self.look_s)))
            self.wake.clear()

    async def look(self) -> None:
        """Rule over every node and publish what came of it."""
        groups = gather(self.store, self._chooser())
        self._forget_gone()
        self._forget_refusals()
        for name, record in list(self.store.policies.items()):
            await self._tried(self._step(record, groups.get(name, Group())), record)
        # Whatever is asked of the API server, nodes and policies come and go meanwhile.
        for name, record in list(self.store.policies.items()):
            if name in groups:
                await self._tried(self._mark(record, groups[name]), record)
        self._rule(groups)
        self._looked.set()
        for name, record in list(self.store.policies.items()):
            state = record.breaker
            await self._tried(self._publish(record, groups.get(name, Group()), state), record)

    async def tell_on(self) -> None:
        """Tell after each look what is to be told.

        Beside the looks, not in them: where Events are refused for half a minute each, what stops
        repairs must not wait for them.
        """
        while True:
            await self._looked.wait()
            self._looked.clear()
            for record in list(self.store.policies.values()):
                await self._tried(self._news.tell(record), record)
            await self._tell_of_labels()

    async def _tried(self, writing: Awaitable[None], record: PolicyRecord | NodeRecord) -> bool:
        """Go on where one object is refused: the others are none the worse for it."""
        try:
            await writing
        except NotLeadingError:
            raise
        except KubeError as error:
            log("not told, will be tried again", 30, about=record.name, error=str(error))
            return False
        except Exception as error:  # noqa: BLE001  # told with its traceback, and counted
            self.metrics.failed("fleet")
            told = f"{type(error).__name__}: {error}"
            log("not done, will be tried again", 40, about=record.name, error=told, trace=error)
            return False
        return True

    def _forget_gone(self) -> None:
        present = {name: record.uid for name, record in self.store.policies.items()}
        for name, uid in self._known.items():
            if present.get(name) != uid:
                self._published.pop(name, None)
                self._rulings.forget(name)
                self._news.forget(name)
                with suppress(KeyError):
                    self.metrics.breaker.remove(name)
        self._known = present

    def _forget_refusals(self) -> None:
        if self.rights.refusals():
            policies = [record.policy for record in self.store.policies.values()]
            is_tainted = any(node.tainted for node in self.store.nodes.values())
            self.rights.keep(policies, is_tainted=is_tainted)

    def _chooser(self) -> Choice:
        policies = tuple(record.policy for record in self.store.policies.values())
        if policies != self._choice.policies:
            self._choice = Choice(policies)
        return self._choice

    async def _step(self, record: PolicyRecord, group: Group) -> None:
        """Let the breaker make its step; the state is stored before it counts."""
        before = record.breaker
        self._news.saw(record)
        after = breaker.step(
            before,
            record.policy.breaker,
            group.records,
            self.clock.now(),
            able=group.able,
            acts=group.acts(record.policy),
        )
        self.metrics.breaker.labels(record.name).set(after.state.stops_repairs)
        if after != before:
            await self._store(record, group, after)
        self._news.stepped(record, after)

    async def _store(self, record: PolicyRecord, group: Group, state: BreakerStatus) -> None:
        try:
            await self._publish(record, group, state)
        except NotLeadingError:
            raise
        except KubeError as error:
            if not state.state.stops_repairs:
                raise
            log("breaker not stored, repairs stop all the same", 30, error=str(error))
            known = self.store.policies.get(record.name)
            if known is not None and known.uid == record.uid:
                # Without a generation it is known not to be what stands there, and written again.
                unsaid = replace(known, breaker=state, observed_generation=None)
                self.store.policies[record.name] = unsaid

    async def _mark(self, record: PolicyRecord, group: Group) -> None:
        """Choose which nodes of a policy carry the taint."""
        if record.policy.taint is TaintEffect.NONE:
            return
        # Should the choice fail, what is there stays.
        group.tainted = frozenset(group.carrying)
        drifted: dict[str, datetime] = {}
        for name, item in group.records.items():
            told = node_condition(item, silent=name in self.store.silent)
            status = told.status if told else ConditionStatus.UNKNOWN
            # Of a silent agent's node nothing new is known: what it carries stays.
            kept = status is ConditionStatus.UNKNOWN and name in group.carrying
            if status is ConditionStatus.TRUE or kept:
                drift = breaker.drift_of(item)
                drifted[name] = drift.at if drift else self.clock.now()
        group.drifted = len(drifted)
        group.tainted = taints.chosen(
            record.policy, record.breaker.state, len(group.records), drifted, group.carrying
        )

    def _rule(self, groups: dict[str, Group]) -> None:
        before, after = self.nodes.rulings, self._rulings.over(self._chooser(), groups)
        changed = [name for name, ruling in after.items() if before.get(name) is not ruling]
        self.nodes.rulings = after
        # The drifted first: theirs are the repairs that a hold must stop.
        for name in sorted(changed, key=lambda n: not self.store.statuses[n].is_drifted):
            if before.get(name) != after[name]:
                self.node_queue.add(name)

    async def _tell_of_labels(self) -> None:
        """Tell of every Node whose repair label nobody can read, once a value."""
        told: set[tuple[str, str]] = set()
        for name, ruling in self.nodes.rulings.items():
            hold = ruling.hold
            if hold is None or hold.reason != HOLD_LABEL:
                continue
            node = self.store.nodes.get(name)
            if node is None:
                continue
            key = (node.uid, hold.message)
            if key in self._labels_told or await self._tried(self._warn(node, hold.message), node):
                told.add(key)
        self._labels_told = told

    async def _warn(self, node: NodeRecord, message: str) -> None:
        about = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": node.name, "uid": node.uid},
        }
        text = f"{message}. Until then repairs of this node are held."
        note = Note("Warning", EVENT_LABEL_UNREADABLE, "Repair", text, key=message)
        await self.recorder.record(about, note)

    async def _publish(self, record: PolicyRecord, group: Group, state: BreakerStatus) -> None:
        wanted = conditions(record, group, state, self.rights.refusals(record.policy))
        stamped = stamped_since(wanted, record.conditions, state, rfc3339(self.clock.now()))
        status = {
            "observedGeneration": record.generation,
            "nodes": {
                "selected": group.selected,
                "governed": group.governed,
                "drifted": sum(item.status.missing > 0 for item in group.records.values()),
                "held": group.held,
                "tainted": len(group.carrying),
            },
            "breaker": state.to_json(),
            "conditions": [condition.to_json() for condition in stamped],
        }
        says = PolicyRecord.of({"status": status}).says()
        if says == record.says() or self._published.get(record.name) == (status, record.says()):
            # What still differs belongs to somebody else, such as a condition of another type.
            return
        try:
            answer = await self.api.apply(
                paths.policy_status(record.name),
                {**head(record), "status": status},
                field_manager=OPERATOR_MANAGER,
                force=True,
            )
        except NotFound:
            return
        written = PolicyRecord.of(answer)
        self._published[record.name] = (status, written.says())
        self.store.answered(written)
