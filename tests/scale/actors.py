"""Who moves while the operator is measured: agents with the real publishing code, kubelets, Pods.

Owns: their deeds. Must not know: how long anything took.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.controller.scene import node_status
from tests.scale.fleet import Fleet, warning
from tests.scale.grounds import make_pod

from gpucdi_agent.publish import Publisher
from gpucdi_kube import KubeApi, paths
from gpucdi_kube.clock import SystemClock, rfc3339

STRATEGIC = "application/strategic-merge-patch+json"
# kubelet tells of an unchanged Node this often (nodeStatusReportFrequency).
HEARTBEAT_S = 300.0
IMAGE_PULL = 'Failed to pull image "registry.example/team/app:1": not found'


@dataclass
class Agents:
    """Agents without a node below them: what they see is told them, how they tell it is real."""

    api: KubeApi
    publishers: dict[str, Publisher] = field(default_factory=dict)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def see(self, name: str, *, drifted: bool) -> None:
        """Let the agent of a node see that its names resolve no more, or again."""
        publisher = self.publishers.get(name)
        if publisher is None:
            publisher = self.publishers[name] = Publisher(self.api, name, SystemClock())
            self.tasks.append(asyncio.create_task(publisher.run()))
        publisher.show(node_status(drifted=drifted))

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


@dataclass
class Kubelets:
    """Every node's kubelet, which tells every five minutes that nothing has changed."""

    api: KubeApi
    fleet: Fleet

    async def run(self) -> None:
        """Beat until cancelled, one node after the other."""
        while True:
            for number in range(self.fleet.nodes):
                beat = {"type": "Ready", "lastHeartbeatTime": rfc3339(datetime.now(UTC))}
                await self.api.patch(
                    paths.node_status(self.fleet.name(number)),
                    {"status": {"conditions": [beat]}},
                    content_type=STRATEGIC,
                )
                await asyncio.sleep(HEARTBEAT_S / self.fleet.nodes)


@dataclass
class Churner:
    """Makes, fails and deletes Pods that have nothing to do with CDI, ``per_s`` a second."""

    api: KubeApi
    fleet: Fleet
    per_s: float
    made: int = 0
    _alive: deque[dict[str, Any]] = field(default_factory=deque)

    async def run(self) -> None:
        """Churn until cancelled."""
        while True:
            await self._turn()
            await asyncio.sleep(1 / self.per_s)

    async def _turn(self) -> None:
        self.made += 1
        node = self.fleet.name(self.made % self.fleet.nodes)
        pod = await make_pod(self.api, self.fleet.running_pod(f"churn-{self.made:06d}", node))
        name = f"churn.{self.made:06d}"
        event = warning(pod, name, IMAGE_PULL)
        await self.api.create("/api/v1/namespaces/default/events", event)
        self._alive.append(pod)
        if len(self._alive) > 50:
            meta = self._alive.popleft()["metadata"]
            path = paths.pod(meta["namespace"], meta["name"])
            await self.api.delete(f"{path}?gracePeriodSeconds=0")
