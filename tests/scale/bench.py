"""Measures the operator on whole fleets: `python -m tests.scale.bench [--real] [--fleet NxP ...]`.

Prints one row a fleet and, for several, straight lines through them. The operator is a process of
its own and is asked through its own `/readyz` and `/metrics`, so that the fake API server and a
real one (`--real`, needs `make lab`) are measured alike. While the times are taken, Pods that have
nothing to do with CDI come, fail and go.

An idle fleet is one in which nothing changes: kubelets beat, agents hold their Leases, no Pod fails.
What the operator writes meanwhile is told by name on the standard error.

cond: from what an agent sees to the Node's condition, the agent's own 0.2 s of gathering included.
event: from kubelet's Warning to the Event that explains.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import linear_regression

import aiohttp
from tests.scale.actors import Agents, Churner, Kubelets
from tests.scale.fleet import Fleet, warning
from tests.scale.grounds import Ground, fake_ground, make_pod, real_ground

from gpucdi.api import fields
from gpucdi.api.names import EVENT_UNRESOLVABLE, NODE_CONDITION
from gpucdi_kube import KubeApi, paths

TICKS = os.sysconf("SC_CLK_TCK")
SAMPLES = 200
CHURN_PER_S = 10.0
FLEETS = tuple(f"{nodes}x{pods}" for nodes in (500, 5_000, 20_000) for pods in (0, 10_000, 100_000))
# What manifests/install.yaml sets for the operator's Pod.
SHIPPED = {"MALLOC_ARENA_MAX": "2"}
WRITES = frozenset({"apply", "create", "replace", "patch", "delete"})


@dataclass(frozen=True, slots=True)
class Rest:
    """How long to wait after the last deed, and how long to watch an idle operator, in seconds.

    The operator counts the Pods at risk of drifted nodes every five minutes: only after a calm that
    is longer is nothing left to write.
    """

    calm_s: float
    idle_s: float


@dataclass(frozen=True, slots=True)
class Row:
    """One measured fleet; times in seconds, memory in MiB, idle CPU in thousandths of a core."""

    fleet: Fleet
    ready_s: float
    settled_s: float
    rss_mib: float
    peak_mib: float
    cpu_s: float
    requests: int
    condition_s: Sequence[float]
    event_s: Sequence[float]
    idle_cpu_m: float
    idle_writes: int

    def line(self) -> str:
        return (
            f"{self.fleet.nodes:6d} {self.fleet.pods:7d} {self.ready_s:7.1f} {self.settled_s:9.1f} "
            f"{self.rss_mib:7.0f} {self.peak_mib:8.0f} {self.cpu_s:6.1f} {self.requests:8d} "
            f"{percentile(self.condition_s, 50):8.2f} {percentile(self.condition_s, 99):8.2f} "
            f"{percentile(self.event_s, 50):9.2f} {percentile(self.event_s, 99):9.2f} "
            f"{self.idle_cpu_m:10.1f} {self.idle_writes:11d}"
        )


HEAD = (
    " nodes    pods ready s settled s RSS MiB peak MiB  CPU s requests cond p50 cond p99 "
    "event p50 event p99 idle CPU m idle writes"
)


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the nearest-rank percentile."""
    ranked = sorted(values)
    return ranked[max(0, -(-len(ranked) * percent // 100) - 1)]


@dataclass(frozen=True, slots=True)
class Operator:
    """A running operator process, seen from outside."""

    pid: int
    started: float
    url: str
    session: aiohttp.ClientSession

    async def is_ready(self) -> bool:
        try:
            async with self.session.get(f"{self.url}/readyz") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    async def samples(self) -> dict[str, float]:
        """Return every series of ``/metrics``."""
        async with self.session.get(f"{self.url}/metrics") as answer:
            text = await answer.text()
        found = re.findall(r"^(gpucdi_\S+(?:\{.*\})?) (\S+)$", text, re.MULTILINE)
        return {name: float(value) for name, value in found}

    async def total(self, prefix: str) -> int:
        values = await self.samples()
        return int(sum(value for name, value in values.items() if name.startswith(prefix)))

    def cpu_s(self) -> float:
        stat = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / TICKS

    def memory_mib(self, name: str) -> float:
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(rf"^{name}:\s+(\d+) kB", status, re.MULTILINE)
        assert found is not None
        return int(found.group(1)) / 1024


def grown(before: dict[str, float], after: dict[str, float]) -> dict[str, int]:
    """Return by how much each counter has grown, where it has."""
    counters = (name for name in after if "_total" in name)
    grew = {name: int(after[name] - before.get(name, 0.0)) for name in counters}
    return {name: count for name, count in grew.items() if count}


def written(grew: dict[str, int]) -> int:
    """Return the requests that write among what has grown, but for the leader's own Lease."""
    return sum(
        count
        for name, count in grew.items()
        if name.startswith("gpucdi_operator_api_requests_total")
        and any(f'verb="{verb}"' in name for verb in WRITES)
        and 'resource="leases"' not in name
    )


@asynccontextmanager
async def operator(config: Path, folder: Path) -> AsyncIterator[Operator]:
    """Run the operator; its log stays in ``folder``."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session:
        with (folder / "operator.log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "gpucdi_operator", "run", "--http", address),
                *("--kubeconfig", str(config)),
                env={**os.environ, **SHIPPED},
                stderr=log,
            )
        try:
            yield Operator(process.pid, time.monotonic(), f"http://{address}", session)
        finally:
            process.terminate()
            await process.wait()


async def until(holds: Callable[[], Awaitable[bool]], within_s: float, every_s: float) -> float:
    """Return how long it took until ``holds``."""
    start = time.monotonic()
    while not await holds():
        if time.monotonic() - start > within_s:
            raise TimeoutError("the operator does not get there")
        await asyncio.sleep(every_s)
    return time.monotonic() - start


async def condition_of(api: KubeApi, name: str) -> str:
    """Return the status of our condition on a Node."""
    conditions = fields.objects(
        fields.mapping(await api.get(paths.node(name)), "status"), "conditions"
    )
    ours = (item for item in conditions if fields.text(item, "type") == NODE_CONDITION)
    return next((fields.text(item, "status") for item in ours), "")


async def condition_times(api: KubeApi, fleet: Fleet) -> list[float]:
    """Turn round what the agents of random nodes see; measure until their Nodes say so."""
    agents, times = Agents(api), []
    for number in random.sample(range(fleet.nodes), min(SAMPLES, fleet.nodes)):
        name, drifted = fleet.name(number), not fleet.is_drifted(number)

        async def holds(name: str = name, wanted: str = str(drifted)) -> bool:
            return await condition_of(api, name) == wanted

        agents.see(name, drifted=drifted)
        times.append(await until(holds, 60, 0.01))
    await agents.stop()
    return times


async def event_times(api: KubeApi, fleet: Fleet) -> list[float]:
    """Let Pods fail on a drifted node; measure until each is explained."""
    drifted = next(number for number in range(fleet.nodes) if fleet.is_drifted(number))
    agents, times = Agents(api), []
    agents.see(fleet.name(drifted), drifted=True)
    for number in range(SAMPLES):
        pod = await make_pod(api, fleet.failing_pod(f"failing-{number}", fleet.name(drifted)))
        selector = f"involvedObject.uid={pod['metadata']['uid']},reason={EVENT_UNRESOLVABLE}"

        async def holds(selector: str = selector) -> bool:
            return [item async for item in api.list(_EVENTS, field_selector=selector)] != []

        await api.create(_EVENTS, warning(pod, f"failing.{number}"))
        times.append(await until(holds, 60, 0.02))
        path = paths.pod("default", f"failing-{number}")
        await api.delete(f"{path}?gracePeriodSeconds=0")
    await agents.stop()
    return times


_EVENTS = "/api/v1/namespaces/default/events"


async def measure(ground: Ground, fleet: Fleet, folder: Path, rest: Rest) -> Row:
    """Start an operator on a filled server and measure it."""
    async with operator(ground.kubeconfig, folder) as running:
        ready_s = await until(running.is_ready, 600, 0.05)

        async def settled() -> bool:
            return await running.total("gpucdi_node_condition_writes_total") >= fleet.nodes

        await until(settled, 1200, 0.5)
        settled_s = time.monotonic() - running.started
        kubelets = asyncio.create_task(Kubelets(ground.api, fleet).run())
        churner = Churner(ground.api, fleet, CHURN_PER_S)
        churning = asyncio.create_task(churner.run())
        conditions = await condition_times(ground.api, fleet)
        events = await event_times(ground.api, fleet)
        churning.cancel()
        await asyncio.wait({churning})
        # Pods at risk on nodes that were turned round are counted once more before nothing is left.
        await asyncio.sleep(rest.calm_s)
        before, cpu_s, began = await running.samples(), running.cpu_s(), time.monotonic()
        await asyncio.sleep(rest.idle_s)
        idle_cpu_s, idled_s = running.cpu_s() - cpu_s, time.monotonic() - began
        grew = grown(before, await running.samples())
        kubelets.cancel()
        await asyncio.wait({kubelets})
        print(f"# grown while idle: {grew}", file=sys.stderr)
        return Row(
            fleet,
            ready_s,
            settled_s,
            running.memory_mib("VmRSS"),
            running.memory_mib("VmHWM"),
            cpu_s,
            await running.total("gpucdi_operator_api_requests_total"),
            conditions,
            events,
            idle_cpu_s / idled_s * 1000,
            written(grew),
        )


def fits(rows: Sequence[Row]) -> list[str]:
    """Return straight lines through the rows: what 1,000 more nodes or Pods cost."""
    by_pods = [row for row in rows if row.fleet.pods == 0]
    lines = []
    for title, value in (
        ("ready s", lambda row: row.ready_s),
        ("RSS MiB", lambda row: row.rss_mib),
        ("CPU s until idle", lambda row: row.cpu_s),
    ):
        if len({row.fleet.nodes for row in by_pods}) > 1:
            line = linear_regression([row.fleet.nodes for row in by_pods], [*map(value, by_pods)])
            lines.append(
                f"{title:18} {line.intercept:8.2f} + {line.slope * 1000:7.3f} a 1,000 nodes"
            )
        for nodes in sorted({row.fleet.nodes for row in rows}):
            same = [row for row in rows if row.fleet.nodes == nodes]
            if len({row.fleet.pods for row in same}) > 1:
                line = linear_regression([row.fleet.pods for row in same], [*map(value, same)])
                lines.append(
                    f"{title:18} {line.intercept:8.2f} + {line.slope * 1000:7.3f} a 1,000 Pods "
                    f"on {nodes} nodes"
                )
    return lines


async def one(text: str, rest: Rest, *, real: bool) -> Row:
    """Measure the fleet that ``text`` (NODESxPODS) names."""
    nodes, pods = (int(part) for part in text.split("x"))
    fleet = Fleet(nodes, pods)
    folder = Path(tempfile.mkdtemp(prefix="gpucdi-scale-"))
    print(f"# log of the operator: {folder / 'operator.log'}", file=sys.stderr)
    async with (real_ground if real else fake_ground)(fleet, folder) as ground:
        return await measure(ground, fleet, folder, rest)


def main() -> None:
    """Measure the fleets that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fleet", action="append", metavar="NODESxPODS")
    parser.add_argument("--real", action="store_true", help="on a real kube-apiserver with etcd")
    parser.add_argument("--calm", type=float, default=330.0, metavar="SECONDS")
    parser.add_argument("--idle", type=float, default=30.0, metavar="SECONDS")
    options = parser.parse_args()
    print(HEAD, flush=True)
    rows, rest = [], Rest(options.calm, options.idle)
    for text in options.fleet or FLEETS:
        row = asyncio.run(one(text, rest, real=options.real))
        rows.append(row)
        print(row.line(), flush=True)
    print(*fits(rows), sep="\n")
    print(f"load of the machine: {', '.join(f'{load:.1f}' for load in os.getloadavg())}")


if __name__ == "__main__":
    main()
