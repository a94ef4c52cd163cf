"""Every fault at random while nodes come and go; at the end the cluster equals a pure function.

`GPUCDI_CHAOS_SECONDS` sets the length (default 20), `GPUCDI_CHAOS_SEED` repeats a run.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from typing import Any

import pytest
from tests.controller.conftest import Eventually, Start
from tests.controller.scene import Scene, node_status
from tests.fakeapi.server import FakeApi

from gpucdi_operator.decide import node_condition
from gpucdi_operator.store import StatusRecord

SECONDS = float(os.environ.get("GPUCDI_CHAOS_SECONDS", "20"))
SEED = int(os.environ.get("GPUCDI_CHAOS_SEED", "0")) or random.randrange(1, 10**6)  # noqa: S311
NODES = [f"n{number:02d}" for number in range(30)]
# A kill of the connection on a list page ends kopf by design, and the process with it.
READS = ("get", "list")
WRITES = ("apply", "create", "patch", "update")


class Chaos:
    """Random deeds of a cluster's people, kubelets, agents and network."""

    def __init__(self, api: FakeApi, scene: Scene, dice: random.Random) -> None:
        self.api, self.scene, self.dice = api, scene, dice
        self.pods = 0
        self.deeds: list[Callable[[], None]] = [
            *([self.drift] * 6),
            *([self.fail] * 4),
            self.run_pods,
            self.vanish,
            self.return_node,
            self.wipe,
            self.lose_status,
            self.busy,
            self.broken,
            self.lost,
            self.calm,
            api.cut_watches,
        ]

    def act(self) -> None:
        self.dice.choice(self.deeds)()

    def node(self) -> str:
        present = [str(body["metadata"]["name"]) for body in self.api.all("nodes")]
        return self.dice.choice(present or NODES)

    def drift(self) -> None:
        name = self.node()
        if self.api.find("nodes", name):
            self.scene.agent_says(name, node_status(drifted=self.dice.random() < 0.5))

    def fail(self) -> None:
        self.pods += 1
        self.scene.failing_pod(f"pod-{self.pods}", self.node(), event=self.dice.random() < 0.7)

    def run_pods(self) -> None:
        for pod in self.api.all("pods"):
            if self.dice.random() < 0.3:
                self.scene.pod_runs(pod["metadata"]["name"])

    def vanish(self) -> None:
        name = self.node()
        self.api.remove("nodes", name)
        self.api.remove("gpucdistatuses", name)

    def return_node(self) -> None:
        for name in NODES:
            if self.api.find("nodes", name) is None:
                self.scene.node(name)

    def wipe(self) -> None:
        if self.api.find("nodes", name := self.node()):
            self.scene.node(name)

    def lose_status(self) -> None:
        self.api.remove("gpucdistatuses", self.node())

    def busy(self) -> None:
        self.api.faults.add(429, probability=0.3, times=50, retry_after_s=0)

    def broken(self) -> None:
        self.api.faults.add(503, verbs=READS + WRITES, probability=0.2, times=50)

    def lost(self) -> None:
        self.api.faults.add(verbs=WRITES, lose=True, probability=0.3, times=20)

    def calm(self) -> None:
        self.api.faults.clear()


def wanted(api: FakeApi, name: str) -> dict[str, str] | None:
    """Return what the pure function says of a node, from what the cluster holds now."""
    body = api.find("gpucdistatuses", name)
    found = node_condition(StatusRecord.of(body) if body else None, silent=False)
    if found is None:
        return None
    return {"status": found.status.value, "reason": found.reason, "message": found.message}


def shown(scene: Scene, name: str) -> dict[str, Any] | None:
    found = scene.condition(name)
    if found is None:
        return None
    return {key: found[key] for key in ("status", "reason", "message")}


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 120)
async def test_after_chaos_the_cluster_is_what_a_pure_function_says(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    dice = random.Random(SEED)  # noqa: S311  # repeatable is the point
    print(f"GPUCDI_CHAOS_SEED={SEED}")
    api.faults.dice = random.Random(SEED)  # noqa: S311  # as above
    chaos = Chaos(api, scene, dice)
    chaos.return_node()
    async with start(resync_s=2.0, pod_resync_s=1.0, missing_lease_s=600.0) as operator:
        deadline = asyncio.get_running_loop().time() + SECONDS
        while asyncio.get_running_loop().time() < deadline:
            chaos.act()
            await asyncio.sleep(dice.uniform(0.01, 0.1))
        api.faults.clear()

        def settled() -> bool:
            names = [body["metadata"]["name"] for body in api.all("nodes")]
            return all(shown(scene, name) == wanted(api, name) for name in names)

        await eventually(settled, 60)

        def explained() -> bool:
            told = {event["involvedObject"]["uid"] for event in scene.events_of_ours()}
            return all(pod["metadata"]["uid"] in told for pod in failing_on_drifted(api))

        await eventually(explained, 60)
        assert len(operator.pods.tracks) <= chaos.pods
    names = [event["metadata"]["name"] for event in scene.events_of_ours()]
    assert len(names) == len(set(names))
    assert all("finalizers" not in body["metadata"] for body in api.all("nodes"))


def failing_on_drifted(api: FakeApi) -> list[dict[str, Any]]:
    """Return the Pods that fail on nodes that are drifted: all of them must be explained."""
    found = []
    for pod in api.all("pods"):
        body = api.find("gpucdistatuses", pod["spec"]["nodeName"])
        state = pod["status"]["containerStatuses"][0]["state"]
        if body and StatusRecord.of(body).is_drifted and "waiting" in state:
            found.append(pod)
    return found
