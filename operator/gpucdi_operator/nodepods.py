"""The Pods of drifted nodes, and of no others: who fails, and who would fail at the next start.

Owns: the lists of one node's Pods, when they are made, and ``status.podsAtRisk``. All drifted nodes
are listed every few minutes, because kubelet's Events go silent; a node whose missing names change
is listed soon after, one node at a time. Must not know: what a Pod is told, who is at risk.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from gpucdi_kube import Clock, KubeApi, KubeError, KubeObject, paths
from gpucdi_operator.diagnosing import is_at_risk
from gpucdi_operator.logs import log
from gpucdi_operator.options import Timing
from gpucdi_operator.podfacts import PodKey, key_of, runs
from gpucdi_operator.pods import PodReconciler
from gpucdi_operator.queue import KeyedQueue
from gpucdi_operator.store import StatusRecord, Store


@dataclass(slots=True)
class NodePods:
    """See the module."""

    api: KubeApi
    store: Store
    clock: Clock
    timing: Timing
    pods: PodReconciler
    _leads: bool = False
    _drifting: KeyedQueue[str] = field(init=False)
    _well: KeyedQueue[str] = field(init=False)

    def __post_init__(self) -> None:
        """Make the queues; their failures count as those of the loops over the fleet."""
        failed = self.pods.metrics.failed
        self._drifting = KeyedQueue("fleet", self.clock, failed)
        self._well = KeyedQueue("fleet", self.clock, failed)

    def saw_status(self, before: StatusRecord | None, record: StatusRecord) -> None:
        """Take a status that has changed; while another leads, nobody would work on it."""
        if not self._leads:
            return
        if not record.is_drifted:
            self._drifting.drop(record.name)
            if record.pods_at_risk:
                self._well.add(record.name)
        elif before is None or _basis(before) != _basis(record):
            self._drifting.add(record.name, after_s=self.timing.risk_settle_s)

    def forget(self, node: str) -> None:
        """Forget a node whose status is gone."""
        self._drifting.drop(node)
        self._well.drop(node)

    async def run(self) -> None:
        """List the nodes that begin to drift, and take back the counts of those that are well."""
        self._leads = True
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._drifting.work(self._drifts, 1))
                group.create_task(self._well.work(self._is_well, 1))
        finally:
            # What is left is for the first list of all that the next leader makes.
            self._leads = False
            self._drifting.clear()
            self._well.clear()

    async def resync(self) -> None:
        """List the Pods of every drifted node, and look at those that no list can show."""
        drifted = self.store.drifted()
        for node in drifted:
            self._drifting.drop(node)
            await self._list(node)
        marked = [name for name, item in self.store.statuses.items() if item.pods_at_risk]
        for node in set(marked).difference(self.store.drifted()):
            await self.pods.nodes.show_risk(node, None)
        self.pods.look_at_the_rest(set(drifted))

    async def _drifts(self, node: str) -> None:
        await self._list(node)
        await self.clock.sleep(self.timing.risk_interval_s)

    async def _is_well(self, node: str) -> None:
        record = self.store.statuses.get(node)
        if record is not None and record.pods_at_risk and not record.is_drifted:
            await self.pods.nodes.show_risk(node, None)

    async def _list(self, node: str) -> None:
        """List the Pods of one node: act on each, and show how many are at risk."""
        listed, at_risk = set[PodKey](), 0
        selector = f"spec.nodeName={node}"
        # From etcd, each node's list would cost the API server a read of all Pods of the cluster.
        async for pod in self.api.list(paths.PODS, field_selector=selector, cached=True):
            listed.add(key_of(pod))
            await self._look_at(pod)
            at_risk += self._is_at_risk(pod)
        # Whoever was followed and is not among them is gone; reading it tells.
        self.pods.look_at_node(node, listed)
        record = self.store.statuses.get(node)
        if record is not None and record.is_drifted:
            await self.pods.nodes.show_risk(node, at_risk)
        else:
            await self._is_well(node)

    async def _look_at(self, pod: KubeObject) -> None:
        """Act on a listed Pod; one whose Event is refused must not hide those behind it."""
        key = key_of(pod)
        try:
            await self.pods.saw_pod(key, pod, listed=True)
        except Exception as error:  # noqa: BLE001  # one Pod must not hide those behind it
            trace = None if isinstance(error, KubeError) else error
            told = f"{type(error).__name__}: {error}"
            log("Pod not explained, will be tried again", 30, pod=str(key), error=told, trace=trace)
            self.pods.queue.add(key)

    def _is_at_risk(self, pod: KubeObject) -> bool:
        try:
            return runs(pod) and is_at_risk(pod, self.store)
        except Exception as error:  # noqa: BLE001  # as above
            log("Pod not read", 40, pod=str(key_of(pod)), trace=error)
            return False


def _basis(record: StatusRecord) -> tuple[object, ...]:
    """Return what the count of Pods at risk depends on."""
    names = tuple((kind.kind, kind.missing, kind.resolvable) for kind in record.status.kinds)
    modes = tuple((item.name, item.mode, item.default_kind) for item in record.status.handlers)
    return (record.uid, record.is_drifted, names, modes)
