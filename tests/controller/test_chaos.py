"""Every fault at random while nodes come and go; at the end the cluster equals a pure function.

`GPUCDI_CHAOS_SECONDS` sets the length (default 20), `GPUCDI_CHAOS_SEED` repeats a run. What is
compared: each Node's condition, each GpuCdiStatus's spec and owner, and the Events of each Pod, all
computed from nothing but what the API server holds when the faults have ended.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.controller.conftest import quick
from tests.controller.scene import Scene, node_status
from tests.fakeapi.server import FakeApi

from gpucdi.api.names import LABEL_REPAIR
from gpucdi.api.policy import BreakerStatus, TaintEffect
from gpucdi.api.taint import is_tainted
from gpucdi_operator.app import Operator
from gpucdi_operator.decide import node_condition
from gpucdi_operator.policies import UPGRADE_LABEL, governing, rule
from gpucdi_operator.store import NodeRecord, PolicyRecord, StatusRecord

SECONDS = float(os.environ.get("GPUCDI_CHAOS_SECONDS", "20"))
SEED = int(os.environ.get("GPUCDI_CHAOS_SEED", "0")) or random.randrange(1, 10**6)  # noqa: S311
# The operator is stopped and started anew this often.
ROUNDS = 2 if SECONDS < 60 else 6
# An idle machine needs a second; one where twelve programs share two cores may need a minute.
SETTLE_S = 180.0
PAGE = os.sysconf("SC_PAGE_SIZE")
NODES = [f"n{number:02d}" for number in range(30)]
READS = ("get", "list")
WRITES = ("apply", "create", "patch", "update")
LABELS: tuple[dict[str, str], ...] = (
    {},
    {"zone": "a"},
    {"zone": "b"},
    {"zone": "a", LABEL_REPAIR: "Auto"},
    {"zone": "b", LABEL_REPAIR: "off"},
    {"zone": "a", UPGRADE_LABEL: "drain-required"},
)
POLICIES: tuple[dict[str, Any], ...] = (
    {"priority": 1, "nodeSelector": {"matchLabels": {"zone": "a"}}, "taint": "NoSchedule"},
    {"priority": 5, "repair": {"mode": "Observe"}},
    {"nodeSelector": {"matchLabels": {"zone": "b"}}, "kinds": {"extra": ["example.com/gpu"]}},
)


class Chaos:
    """Random deeds of a cluster's people, kubelets, agents and network."""

    def __init__(self, api: FakeApi, scene: Scene, dice: random.Random) -> None:
        self.api, self.scene, self.dice = api, scene, dice
        self.pods = 0
        self.silent: set[str] = set()
        self.deeds: list[Callable[[], None]] = [
            *([self.drift] * 6),
            *([self.fail] * 4),
            self.run_pods,
            self.delete_pods,
            self.vanish,
            self.return_node,
            self.wipe,
            self.fall_silent,
            self.lose_status,
            self.write_policy,
            self.drop_policy,
            self.busy,
            self.broken,
            self.lost,
            self.cut,
            self.slow,
            self.calm,
            api.cut_watches,
            api.silence_watches,
            api.expire,
            api.expire_pages,
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
            self.silent.discard(name)

    def fail(self) -> None:
        self.pods += 1
        self.scene.failing_pod(f"pod-{self.pods}", self.node(), event=self.dice.random() < 0.7)

    def run_pods(self) -> None:
        for pod in self.api.all("pods"):
            if self.dice.random() < 0.3:
                self.scene.pod_runs(pod["metadata"]["name"])

    def delete_pods(self) -> None:
        """Delete Pods, and the Events about them as if their hour were over."""
        for pod in self.api.all("pods"):
            if self.dice.random() < 0.3:
                self.api.remove("pods", pod["metadata"]["name"], pod["metadata"]["namespace"])
        alive = {pod["metadata"]["uid"] for pod in self.api.all("pods")}
        for event in self.api.all("events"):
            about = event["involvedObject"]
            if about["kind"] == "Pod" and about["uid"] not in alive:
                meta = event["metadata"]
                self.api.remove("events", meta["name"], meta["namespace"])

    def fall_silent(self) -> None:
        """Let an agent renew its Lease for a last time, and for a second only."""
        name = self.node()
        self.scene.lease(name, duration_s=1)
        self.silent.add(name)

    def write_policy(self) -> None:
        number = self.dice.randrange(len(POLICIES))
        self.scene.policy(f"p{number}", **POLICIES[number])

    def drop_policy(self) -> None:
        self.api.remove("gpucdipolicies", f"p{self.dice.randrange(len(POLICIES))}")

    def vanish(self) -> None:
        name = self.node()
        self.api.remove("nodes", name)
        self.api.remove("gpucdistatuses", name)

    def return_node(self) -> None:
        for name in NODES:
            if self.api.find("nodes", name) is None:
                self.scene.node(name, labels=self.dice.choice(LABELS))

    def wipe(self) -> None:
        """Let kubelet register anew: the conditions of others are gone, the labels others."""
        if self.api.find("nodes", name := self.node()):
            self.scene.node(name, labels=self.dice.choice(LABELS))

    def lose_status(self) -> None:
        self.api.remove("gpucdistatuses", self.node())

    def busy(self) -> None:
        self.api.faults.add(429, probability=0.3, times=50, retry_after_s=0)

    def broken(self) -> None:
        self.api.faults.add(503, verbs=READS + WRITES, probability=0.2, times=50)

    def lost(self) -> None:
        self.api.faults.add(verbs=WRITES, lose=True, probability=0.3, times=20)

    def cut(self) -> None:
        self.api.faults.add(verbs=READS + WRITES, cut=True, probability=0.2, times=20)

    def slow(self) -> None:
        self.api.faults.add(probability=0.2, times=50, delay_s=self.dice.uniform(0.05, 1.0))

    def calm(self) -> None:
        self.api.faults.clear()


def wanted(api: FakeApi, name: str, silent: set[str]) -> dict[str, str] | None:
    """Return what the pure function says of a node, from what the cluster holds now."""
    body = api.find("gpucdistatuses", name) if is_marked(api, name) else None
    found = node_condition(StatusRecord.of(body) if body else None, silent=name in silent)
    if found is None:
        return None
    return {"status": found.status.value, "reason": found.reason, "message": found.message}


def is_marked(api: FakeApi, name: str) -> bool:
    """Tell whether a Node may carry the condition: without policies all may, else the selected."""
    policies = [PolicyRecord.of(item).policy for item in api.all("gpucdipolicies")]
    labels = NodeRecord.of(api.find("nodes", name) or {}).labels
    return not policies or bool(governing(policies, labels))


def shown(scene: Scene, name: str) -> dict[str, Any] | None:
    found = scene.condition(name)
    if found is None:
        return None
    return {key: found[key] for key in ("status", "reason", "message")}


def is_ruled(api: FakeApi, name: str) -> bool:
    """Tell whether a node's spec and owner are what its labels and the policies ask for."""
    node, status = api.find("nodes", name), api.find("gpucdistatuses", name)
    if node is None or status is None:
        return True
    record, written = NodeRecord.of(node), StatusRecord.of(status)
    records = {
        body["metadata"]["name"]: PolicyRecord.of(body) for body in api.all("gpucdipolicies")
    }
    chosen = governing([item.policy for item in records.values()], record.labels)
    state = records[chosen[0].name].breaker if chosen else BreakerStatus()
    ruling = rule(record, chosen[0] if chosen else None, state, None)
    return ruling.is_met_by(written.intent) and record.uid in written.owner_uids


def mistainted(api: FakeApi, silent: set[str]) -> list[str]:
    """Return the nodes that carry our taint though their names resolve, or no policy asks for it."""
    found = []
    for body in api.all("nodes"):
        name = body["metadata"]["name"]
        status = api.find("gpucdistatuses", name)
        policies = [PolicyRecord.of(item).policy for item in api.all("gpucdipolicies")]
        chosen = governing(policies, NodeRecord.of(body).labels)
        asked = bool(chosen) and chosen[0].taint is not TaintEffect.NONE
        ill = status is not None and (StatusRecord.of(status).is_drifted or name in silent)
        if is_tainted(body) and not (asked and ill):
            found.append(name)
    return found


def unsettled(api: FakeApi, scene: Scene, silent: set[str]) -> list[str]:
    """Return the nodes whose condition, spec or owner is not what it should be."""
    return [
        name
        for name in (body["metadata"]["name"] for body in api.all("nodes"))
        if shown(scene, name) != wanted(api, name, silent) or not is_ruled(api, name)
    ]


async def comes_right(wrong: Callable[[], list[str]], kept: Kept) -> None:
    """Wait until nothing is ``wrong``; a failure says what is, and what the operator knows."""
    deadline = asyncio.get_running_loop().time() + SETTLE_S
    while found := wrong():
        operator = kept.operator
        tracks = [
            f"{key} on {track.node}, explained {sorted(track.explained)}"
            for key, track in operator.pods.tracks.items()
        ]
        assert asyncio.get_running_loop().time() < deadline, (
            f"still wrong: {found}; leading: {operator.elector.is_leader}; drifted: "
            f"{operator.store.drifted()}; waiting: {len(operator.pod_queue)} Pods, "
            f"{len(operator.node_queue)} nodes; ended {kept.ends} times; followed: {tracks}"
        )
        await asyncio.sleep(0.05)


def told(scene: Scene, reason: str) -> Counter[str]:
    """Return how many Events with a reason tell of each Pod, by its uid."""
    return Counter(event["involvedObject"]["uid"] for event in scene.events(reason))


def unexplained(api: FakeApi, scene: Scene) -> list[str]:
    """Return the Pods that fail on drifted nodes without an Event that says why."""
    explained = told(scene, "CdiDeviceUnresolvable")
    return [
        pod["metadata"]["name"]
        for pod in failing_on_drifted(api)
        if explained[pod["metadata"]["uid"]] == 0
    ]


def unrestored(api: FakeApi, scene: Scene) -> list[str]:
    """Return the Pods that were explained, run again, and were not told so just once."""
    explained, restored = told(scene, "CdiDeviceUnresolvable"), told(scene, "CdiDeviceRestored")
    return [
        pod["metadata"]["name"]
        for pod in api.all("pods")
        if "running" in pod["status"]["containerStatuses"][0]["state"]
        and min(explained[pod["metadata"]["uid"]], 1) != restored[pod["metadata"]["uid"]]
    ]


def miscounted(api: FakeApi, scene: Scene, operator: Operator) -> list[str]:
    """Return what the operator counts as failing and the cluster holds, where the two differ."""
    explained = told(scene, "CdiDeviceUnresolvable")
    held = sum(
        bool(explained[pod["metadata"]["uid"]])
        and "waiting" in pod["status"]["containerStatuses"][0]["state"]
        for pod in api.all("pods")
    )
    counted = operator.pods.failing
    return [] if counted == held else [f"{counted} Pods counted as failing, {held} are"]


def kept_though_gone(api: FakeApi, operator: Operator) -> list[str]:
    """Return what the operator remembers of objects that are no more: its memory is theirs."""
    alive = {pod["metadata"]["uid"] for pod in api.all("pods")}
    store = operator.store
    found = [str(key) for key in operator.pods.tracks if key.uid not in alive]
    for plural, kept in (
        ("nodes", store.nodes),
        ("gpucdistatuses", store.statuses),
        ("gpucdipolicies", store.policies),
    ):
        found += kept.keys() - {body["metadata"]["name"] for body in api.all(plural)}
    return found


@dataclass
class Kept:
    """An operator that is started anew whenever it ends, as kubelet does with the Pod."""

    operator: Operator
    ends: int = 0
    stopping: bool = False

    async def run(self, make: Callable[[], Operator]) -> None:
        while True:
            try:
                await self.operator.run()
            except Exception as error:  # noqa: BLE001  # whatever ended it, the next one begins
                print(f"ended by {type(error).__name__}: {error}")
                self.ends += 1
            if self.stopping:
                return
            # Nothing is awaited between this and its run, or nobody would stop it.
            self.operator = make()


@asynccontextmanager
async def kept_running(make: Callable[[], Operator]) -> AsyncIterator[Kept]:
    kept = Kept(make())
    task = asyncio.create_task(kept.run(make))
    try:
        yield kept
    finally:
        kept.stopping = True
        kept.operator.stop()
        await task
        gc.collect()


def resident_mib() -> float:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 2**20


async def settle(api: FakeApi, scene: Scene, silent: set[str], kept: Kept) -> None:
    """Wait until the cluster is what it should be, and the operator counts what there is."""
    await comes_right(lambda: unsettled(api, scene, silent), kept)
    await comes_right(lambda: mistainted(api, silent), kept)
    await comes_right(lambda: unexplained(api, scene), kept)
    await comes_right(lambda: unrestored(api, scene), kept)
    await comes_right(lambda: miscounted(api, scene, kept.operator), kept)
    await comes_right(lambda: kept_though_gone(api, kept.operator), kept)


@pytest.mark.slow
@pytest.mark.kopf_ends
@pytest.mark.timeout(SECONDS + SETTLE_S * 6 * ROUNDS)
# A kopf that gives up leaves its connections to the end of the process, which here goes on.
@pytest.mark.filterwarnings("ignore:Unclosed c:ResourceWarning")
async def test_after_chaos_the_cluster_is_what_a_pure_function_says(
    scene: Scene, api: FakeApi
) -> None:
    dice = random.Random(SEED)  # noqa: S311  # repeatable is the point
    print(f"GPUCDI_CHAOS_SEED={SEED}")
    api.faults.dice = random.Random(SEED)  # noqa: S311  # as above
    api.bookmark_s, api.page_limit = 1.0, 10
    chaos = Chaos(api, scene, dice)
    chaos.return_node()
    make = partial(
        quick,
        api,
        resync_s=2.0,
        pod_resync_s=1.0,
        missing_lease_s=6000.0,
        # A watch that says nothing for so long, not even a bookmark, is opened anew.
        watch_idle_s=5.0,
    )
    for _ in range(ROUNDS):
        api.faults.clear()
        async with kept_running(make) as kept:
            deadline = asyncio.get_running_loop().time() + SECONDS / ROUNDS
            while asyncio.get_running_loop().time() < deadline:
                chaos.act()
                # What the server notes of requests is for other tests; here it would only grow.
                api.log.clear()
                await asyncio.sleep(dice.uniform(0.01, 0.1))
            api.faults.clear()
            await settle(api, scene, chaos.silent, kept)
            print(
                f"{chaos.pods} Pods so far, {len(kept.operator.pods.tracks)} followed, "
                f"{len(api.all('events'))} Events, ended {kept.ends} times, "
                f"{resident_mib():.0f} MiB with the server"
            )
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
