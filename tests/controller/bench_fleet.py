"""Measures the operator on fleets of the fake API server: `python -m tests.controller.bench_fleet`.

Prints one row a fleet: start to ready, resident memory, processor time, requests, and the times
from a drift to the Node's condition and from a Pod's failure to its Event. The operator is a
process of its own; this one serves the API and plays agents and kubelets. Nodes weigh 13 kB as real
ones do.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from tests.controller.scene import C00, Scene, node_status
from tests.fakeapi.server import FakeApi, kubeconfig, serving

from gpucdi.api import write_status

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
DRIFTED_PERCENT = 5
SAMPLES = 200
# What makes a Node heavy: the images on it.
IMAGES = [
    {"names": [f"registry.example/team/image-{i}@sha256:{i:064x}", f"registry.example/i:{i}"]}
    for i in range(80)
]


@dataclass(frozen=True, slots=True)
class Row:
    """One measured fleet; times in seconds, memory in MiB."""

    nodes: int
    pods: int
    ready_s: float
    settled_s: float
    rss_mib: float
    peak_mib: float
    cpu_s: float
    requests: int
    condition_p50: float
    condition_p99: float
    event_p50: float
    event_p99: float
    idle_writes: int

    def line(self) -> str:
        return (
            f"{self.nodes:6d} {self.pods:7d} {self.ready_s:7.1f} {self.settled_s:8.1f} "
            f"{self.rss_mib:7.0f} {self.peak_mib:7.0f} {self.cpu_s:7.1f} {self.requests:9d} "
            f"{self.condition_p50:8.3f} {self.condition_p99:8.3f} {self.event_p50:8.3f} "
            f"{self.event_p99:8.3f} {self.idle_writes:6d}"
        )


@dataclass(frozen=True, slots=True)
class Run:
    """A started operator and what it was started on."""

    pid: int
    started: float
    nodes: int
    pods: int
    idle_s: float


HEAD = (
    " nodes    pods  ready s settled s RSS MiB peak MiB  CPU s  requests cond p50 cond p99 "
    "event p50 event p99 idle writes"
)


def seed(api: FakeApi, nodes: int, pods: int) -> None:
    """Put a fleet straight into the store: 5 % drifted, Pods spread evenly, all of them running."""
    scene = Scene(api)
    scene.runtime_class()
    well, ill = (write_status(node_status(drifted=drifted)) for drifted in (False, True))
    for number in range(nodes):
        name = f"node-{number:05d}"
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ok"}
        labels = {f"feature.example/label-{i}": "true" for i in range(60)}
        status = {"conditions": [ready], "images": IMAGES}
        node = api.put("nodes", {"metadata": {"name": name, "labels": labels}, "status": status})
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
        drifted = number * DRIFTED_PERCENT // 100 != (number + 1) * DRIFTED_PERCENT // 100
        body = {
            "metadata": {"name": name, "ownerReferences": [owner]},
            "spec": {"nodeName": name, "repair": {"mode": "Observe"}},
            "status": ill if drifted else well,
        }
        api.put("gpucdistatuses", body)
        # Nobody renews in here, and a silent fleet is not what is measured.
        scene.lease(name, duration_s=86_400)
    pod = yaml.safe_load((C00 / "pod.yaml").read_text())
    running = copy.deepcopy(pod["status"])
    running["containerStatuses"][0].update(state={"running": {}}, lastState={})
    for number in range(pods):
        meta = {"name": f"pod-{number:06d}", "namespace": "default"}
        spec = {**pod["spec"], "nodeName": f"node-{number % nodes:05d}"}
        api.put("pods", {"metadata": meta, "spec": spec, "status": running})


async def until(holds: Callable[[], bool], within_s: float) -> float:
    """Return how long it took until ``holds``."""
    start = time.monotonic()
    for _ in range(int(within_s / 0.005)):
        if holds():
            return time.monotonic() - start
        await asyncio.sleep(0.005)
    raise TimeoutError("the operator does not settle")


def memory_mib(pid: int) -> tuple[float, float]:
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    return tuple(int(status[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))  # type: ignore[return-value]  # two names, two values


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


async def condition_times(scene: Scene, nodes: int) -> list[float]:
    """Turn the status of random nodes round and measure until their Node says so."""
    times = []
    for _ in range(SAMPLES):
        name = f"node-{random.randrange(nodes):05d}"  # noqa: S311  # any node
        present = (scene.condition(name) or {}).get("status")
        drifted = present == "False"
        wanted = "True" if drifted else "False"
        scene.agent_says(name, node_status(drifted=drifted))
        scene.lease(name, duration_s=86_400)

        def holds(name: str = name, wanted: str = wanted) -> bool:
            return (scene.condition(name) or {}).get("status") == wanted

        times.append(await until(holds, 30))
    return sorted(times)


async def event_times(api: FakeApi, scene: Scene) -> list[float]:
    """Let Pods fail on a drifted node and measure until each is explained."""
    name = "node-00000"
    scene.agent_says(name, node_status(drifted=True))
    times = []
    for number in range(SAMPLES):
        before = api.counts["create events"]
        scene.failing_pod(f"failing-{number}", name)
        times.append(await until(lambda b=before: api.counts["create events"] > b, 30))  # type: ignore[misc]  # a default binds the loop's value
    return sorted(times)


async def measure(nodes: int, pods: int, idle_s: float) -> Row:
    """Start an operator on one fleet and measure it."""
    async with serving() as api:
        seed(api, nodes, pods)
        scene = Scene(api)
        with (
            tempfile.NamedTemporaryFile("w", suffix=".kubeconfig") as config,
            tempfile.NamedTemporaryFile("wb", suffix=".log", delete=False) as log,
        ):
            print(f"# log of the operator: {log.name}", file=sys.stderr)
            config.write(kubeconfig(api.url))
            config.flush()
            started = time.monotonic()
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "gpucdi_operator", "run", "--http", "127.0.0.1:0"),
                *("--kubeconfig", config.name),
                stderr=log,
            )
            try:
                run = Run(process.pid, started, nodes, pods, idle_s)
                return await _measured(api, scene, run)
            finally:
                process.terminate()
                await process.wait()


async def _measured(api: FakeApi, scene: Scene, run: Run) -> Row:
    pid, started, nodes = run.pid, run.started, run.nodes
    pages = -(-nodes // 250)
    await until(lambda: api.counts["list nodes"] >= pages, 120)
    ready = time.monotonic() - started
    await until(lambda: api.counts["apply nodes/status"] >= nodes, 600)
    settled = time.monotonic() - started
    await asyncio.sleep(2)
    conditions = await condition_times(scene, nodes)
    events = await event_times(api, scene)
    await asyncio.sleep(2)
    api.log.clear()
    await asyncio.sleep(run.idle_s)
    writes = [
        entry
        for entry in api.requests("create", "update", "patch", "apply")
        if entry.plural != "leases"
    ]
    rss, peak = memory_mib(pid)
    return Row(
        nodes,
        run.pods,
        ready,
        settled,
        rss,
        peak,
        cpu_s(pid),
        sum(api.counts.values()),
        conditions[len(conditions) // 2],
        conditions[int(len(conditions) * 0.99)],
        events[len(events) // 2],
        events[int(len(events) * 0.99)],
        len(writes),
    )


def main() -> None:
    """Measure the fleets that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fleet", action="append", metavar="NODESxPODS")
    parser.add_argument("--idle", type=float, default=30.0, metavar="SECONDS")
    options: Any = parser.parse_args()
    print(HEAD, flush=True)
    for fleet in options.fleet or ["500x0", "500x10000", "5000x0", "5000x20000"]:
        nodes, pods = (int(part) for part in fleet.split("x"))
        print(asyncio.run(measure(nodes, pods, options.idle)).line(), flush=True)


if __name__ == "__main__":
    main()
