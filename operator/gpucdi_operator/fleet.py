"""Takes what the watches tell into the store and says what has to be looked at.

Owns: the listener of the adapters, and the lists that make up for what watches miss: deletions
across a re-list, Events that kubelet no longer sends, Pods that an earlier leader explained. Must
not know: kopf, and what is decided.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from gpucdi.api import fields
from gpucdi.api.names import EVENT_RESTARTED, EVENT_RESTORED, EVENT_UNRESOLVABLE
from gpucdi.failures import EventText
from gpucdi_kube import KubeApi, paths
from gpucdi_operator.diagnosing import REASONS, tells_of_cdi
from gpucdi_operator.events import LABEL_CAUSE, last_observed
from gpucdi_operator.governor import Governor
from gpucdi_operator.metrics import Metrics
from gpucdi_operator.nodepods import NodePods
from gpucdi_operator.podfacts import PodKey
from gpucdi_operator.pods import PodReconciler
from gpucdi_operator.queue import KeyedQueue
from gpucdi_operator.repairs import Repairs
from gpucdi_operator.store import NodeRecord, PolicyRecord, StatusRecord, Store, went_back

PAGE = 500
NODE_PAGE = 250
EVENTS_V1 = "/apis/events.k8s.io/v1/events"
# Core Events know no limit; kubelet's failures are a few thousand characters at most.
EVENT_CHARACTERS = 32_768
LONG_AGO = datetime.min.replace(tzinfo=UTC)


R = TypeVar("R")


class Saw(Protocol):
    """What a watch and a list tell alike."""

    def __call__(self, body: Mapping[str, object], *, deleted: bool) -> None:
        """Take one object as it is, or as it was when it was deleted."""


@dataclass(slots=True)
class Fleet:
    """See the module."""

    api: KubeApi
    store: Store
    metrics: Metrics
    pods: PodReconciler
    node_queue: KeyedQueue[str]
    governor: Governor
    repairs: Repairs
    node_pods: NodePods = field(init=False)
    # The uids of what a watch has told to be gone while a list is read; None while none is.
    _left: set[str] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Make the part that lists the Pods of drifted nodes."""
        pods = self.pods
        self.node_pods = NodePods(self.api, self.store, pods.clock, pods.timing, pods)

    def saw_node(self, body: Mapping[str, object], *, deleted: bool) -> None:
        """Take a Node."""
        record = NodeRecord.of(body)
        if deleted:
            self._leaves(body)
            known = self.store.nodes.get(record.name)
            if known is None or known.uid == record.uid:
                self._forget_node(record.name)
        elif self.store.put_node(record):
            self.node_queue.add(record.name)
            self.pods.begin_anew(record.name)
            self.governor.wake.set()

    def saw_status(self, body: Mapping[str, object], *, deleted: bool) -> None:
        """Take a GpuCdiStatus."""
        record = StatusRecord.of(body)
        before = self.store.statuses.get(record.name)
        if deleted:
            self._leaves(body)
            if before is not None and before.uid == record.uid:
                self._forget_status(record.name)
        elif self.store.put_status(record):
            self.repairs.saw(before, record)
            self.node_queue.add(record.name)
            self.governor.wake.set()
            self.node_pods.saw_status(before, record)
            if before is None or before.status.kinds != record.status.kinds:
                self.pods.look_at_node(record.name)
            else:
                self.pods.begin_anew(record.name)

    def saw_policy(self, body: Mapping[str, object], *, deleted: bool) -> None:
        """Take a GpuCdiPolicy."""
        record = PolicyRecord.of(body)
        before = self.store.policies.get(record.name)
        if deleted:
            self._leaves(body)
            # kopf takes two objects of one name side by side: the new one may come first.
            if before is not None and before.uid == record.uid:
                del self.store.policies[record.name]
                self.governor.wake.set()
        elif self.store.put_policy(record):
            self.governor.wake.set()
            if before is None or _asks(before) != _asks(record):
                for node in self.pods.on_node:
                    self.pods.begin_anew(node)

    def saw_runtime_class(self, body: Mapping[str, object], *, deleted: bool) -> None:
        """Take a RuntimeClass."""
        if deleted:
            self._leaves(body)
            self.store.handlers.pop(fields.text(fields.mapping(body, "metadata"), "name"), None)
        else:
            self.store.put_runtime_class(body)

    def saw_event(self, body: Mapping[str, object]) -> None:
        """Take a Warning Event (core/v1); one that tells of no Pod's CDI costs its parse only."""
        key = _subject(fields.mapping(body, "involvedObject"))
        text = fields.text(body, "message")[:EVENT_CHARACTERS]
        told = fields.text(body, "reason") in REASONS and key.can_exist and tells_of_cdi(text)
        self.metrics.events_seen.labels("true" if told else "false").inc()
        if told:
            self.pods.saw_event(key, text, EventText.of(body))

    async def resync(self) -> None:
        """List everything that is kept and drop what no longer exists."""
        store = self.store
        for name in await self._relist(
            paths.RUNTIME_CLASSES, store.handlers, self.saw_runtime_class
        ):
            del store.handlers[name]
        for name in await self._relist(paths.POLICIES, store.policies, self.saw_policy):
            del store.policies[name]
        for name in await self._relist(paths.STATUSES, store.statuses, self.saw_status):
            self._forget_status(name)
        for name in await self._relist(paths.NODES, store.nodes, self.saw_node, NODE_PAGE):
            self._forget_node(name)

    async def _relist(
        self, path: str, kept: MutableMapping[str, R], saw: Saw, limit: int = PAGE
    ) -> list[str]:
        """Take one collection as it is, and return what is ``kept`` of it but gone.

        A watch may be quicker than the list: what came or went while it was read is left as the
        watch has brought it. What is gone leaves no version behind to compare with, hence its uid.
        """
        before, listed = dict(kept), set[str]()
        left: set[str] = set()
        self._left = left
        try:
            async for body in self.api.list(path, limit=limit):
                if _uid(body) in left:
                    continue
                name = fields.text(fields.mapping(body, "metadata"), "name")
                listed.add(name)
                if name in kept and went_back(before.get(name), body):
                    # The API server's store was restored: what we know is of a time to come.
                    del kept[name]
                saw(body, deleted=False)
        finally:
            self._left = None
        return [name for name in before.keys() - listed if kept.get(name) is before[name]]

    def _leaves(self, body: Mapping[str, object]) -> None:
        if self._left is not None:
            self._left.add(_uid(body))

    def enqueue_all(self) -> None:
        """Look at every node that carries, or should carry, something of ours."""
        ours = {name for name, node in self.store.nodes.items() if node.condition is not None}
        for name in sorted(ours | self.store.statuses.keys()):
            self.node_queue.add(name)

    async def take_over(self) -> None:
        """Learn from our own Events which Pods were explained and not yet restored."""
        explained = await self._told(EVENT_UNRESOLVABLE)
        restored = await self._told(EVENT_RESTORED)
        for key, (told, cause) in explained.items():
            # One that fails again has both Events; the later one tells how it is.
            if key not in restored or restored[key][0] < told:
                self.pods.saw_explained(key, cause)
            else:
                self.pods.saw_restored(key)
        async for body in self.api.list(EVENTS_V1, field_selector=f"reason={EVENT_RESTARTED}"):
            self.pods.restarter.saw_restarted(body)
        self.pods.restarter.warm = True

    async def _told(self, reason: str) -> dict[PodKey, tuple[datetime, str]]:
        """Return when each Pod was last told something, and the cause."""
        found: dict[PodKey, tuple[datetime, str]] = {}
        async for body in self.api.list(EVENTS_V1, field_selector=f"reason={reason}"):
            key = _subject(fields.mapping(body, "regarding"))
            if not key.can_exist:
                continue
            labels = fields.mapping(fields.mapping(body, "metadata"), "labels")
            told = (last_observed(body) or LONG_AGO, fields.text(labels, LABEL_CAUSE))
            found[key] = max(told, found.get(key, told))
        return found

    def _forget_node(self, name: str) -> None:
        self.store.nodes.pop(name, None)
        self.pods.nodes.forget(name)
        self.node_queue.drop(name)
        self.pods.look_at_node(name)

    def _forget_status(self, name: str) -> None:
        self.store.statuses.pop(name, None)
        self.store.silent.discard(name)
        self.node_queue.add(name)
        self.node_pods.forget(name)
        self.pods.look_at_node(name)


def _uid(body: Mapping[str, object]) -> str:
    return fields.text(fields.mapping(body, "metadata"), "uid")


def _subject(about: Mapping[str, object]) -> PodKey:
    """Return the Pod that an Event says it is about."""
    return PodKey(*(fields.text(about, name) for name in ("namespace", "name", "uid")))


def _asks(record: PolicyRecord) -> tuple[object, ...]:
    """Return by what a policy may let Pods be restarted."""
    return (record.policy, record.breaker.state)
