"""Measures hand-overs: `python -m tests.scale.handover [--real] [--rounds N] [--nodes N]`.

Two operator processes stand on the fake API server, or on a real one. In each round the leader gets a signal, and the
time runs until the Lease names the other, as anybody can read it. Then a new process takes the place
of the one that has ended; a random pause lets signals fall anywhere between two renewals.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from tests.controller.replicas import Replica, Spawn, replicas
from tests.scale.fleet import Fleet
from tests.scale.grounds import fake_ground, real_ground

from gpucdi.api import fields
from gpucdi.api.names import OPERATOR_LEASE
from gpucdi_kube import KubeApi, paths

SIGNALS = (signal.SIGTERM, signal.SIGKILL)
REPLICAS = 2
LOOK_S = 0.01
# The leader renews its Lease every two seconds.
PAUSE_S = 2.0
WITHIN_S = 120.0


async def until(holds: Callable[[], Awaitable[bool]]) -> float:
    """Return when ``holds`` was first seen to be true, on the monotonic clock."""
    async with asyncio.timeout(WITHIN_S):
        while not await holds():  # noqa: ASYNC110  # the Lease is polled
            await asyncio.sleep(LOOK_S)
    return time.monotonic()


@dataclass(slots=True)
class Pair:
    """The replicas that run, by identity."""

    api: KubeApi
    folder: Path
    spawn: Spawn
    running: dict[str, Replica] = field(default_factory=dict)
    made: int = 0

    async def holder(self) -> str:
        """Return who holds the Lease."""
        lease = await self.api.get(paths.lease(OPERATOR_LEASE))
        return fields.text(fields.mapping(lease, "spec"), "holderIdentity")

    async def complete(self) -> None:
        """Start what is missing; return when both are warm and one of them leads."""
        while len(self.running) < REPLICAS:
            self.made += 1
            name = f"replica-{self.made}"
            self.running[name] = await self.spawn(name)

        async def stands() -> bool:
            logs = [(self.folder / f"{name}.log").read_text() for name in self.running]
            warm = all('"message": "ready"' in log for log in logs)
            return warm and await self.holder() in self.running

        await until(stands)

    async def hand_over(self, number: signal.Signals) -> float:
        """Send the signal to the leader; return for how long the other did not lead, in seconds."""
        leader = await self.holder()
        process = self.running.pop(leader)

        async def taken() -> bool:
            return await self.holder() in self.running

        sent = time.monotonic()
        process.send_signal(number)
        took_s = await until(taken) - sent
        await process.wait()
        return took_s


async def measure(rounds: int, nodes: int, *, real: bool) -> dict[signal.Signals, list[float]]:
    """Return the seconds of each hand-over, by signal; the signals take turns."""
    folder = Path(tempfile.mkdtemp(prefix="gpucdi-handover-"))
    took_s: dict[signal.Signals, list[float]] = {number: [] for number in SIGNALS}
    async with (real_ground if real else fake_ground)(Fleet(nodes, 0), folder) as ground:
        config = ground.kubeconfig.read_text()
        async with replicas(folder, lambda _: config) as spawn:
            pair = Pair(ground.api, folder, spawn)
            for _ in range(rounds):
                for number in SIGNALS:
                    await pair.complete()
                    await asyncio.sleep(random.uniform(0.0, PAUSE_S))  # noqa: S311  # spreads
                    took_s[number].append(await pair.hand_over(number))
    return took_s


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--real", action="store_true", help="on a real kube-apiserver with etcd")
    parser.add_argument("--rounds", type=int, default=10, metavar="N", help="of each signal")
    parser.add_argument("--nodes", type=int, default=500, metavar="N")
    options = parser.parse_args()
    print("signal   rounds  median s  max s", flush=True)
    measured = asyncio.run(measure(options.rounds, options.nodes, real=options.real))
    for number, took_s in measured.items():
        print(f"{number.name:8} {len(took_s):6d} {median(took_s):9.2f} {max(took_s):6.2f}")
    print(f"load of the machine: {', '.join(f'{load:.1f}' for load in os.getloadavg())}")


if __name__ == "__main__":
    main()
