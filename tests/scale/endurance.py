"""Watches the operator's memory while everything goes wrong: `python -m tests.scale.endurance`.

The deeds are those of `tests/controller/test_chaos.py`, the operator is a process of its own with
its usual timings, so that what the server keeps of the past does not count as its memory.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from pathlib import Path
from statistics import linear_regression

from tests.controller.scene import Scene
from tests.controller.test_chaos import Chaos
from tests.fakeapi.server import kubeconfig, serving
from tests.scale.bench import operator, until

WARM_UP = 0.25


async def endure(seconds: float, seed: int) -> list[tuple[float, float]]:
    """Return (seconds, MiB) of the operator through ``seconds`` of chaos."""
    samples: list[tuple[float, float]] = []
    async with serving() as api:
        scene = Scene(api)
        scene.runtime_class()
        api.faults.dice = random.Random(seed)  # noqa: S311  # repeatable is the point
        chaos = Chaos(api, scene, random.Random(seed))  # noqa: S311  # as above
        for deed in (chaos.cut, api.expire, api.expire_pages):
            # By design these may end the process, and its memory with it.
            chaos.deeds.remove(deed)
        chaos.return_node()
        folder = Path(tempfile.mkdtemp(prefix="gpucdi-endurance-"))
        config = folder / "kubeconfig"
        config.write_text(kubeconfig(api.url))
        async with operator(config, folder) as running:
            await until(running.is_ready, 120, 0.1)
            started = time.monotonic()
            while (passed := time.monotonic() - started) < seconds:
                chaos.act()
                api.log.clear()
                if passed >= len(samples) * seconds / 30:
                    samples.append((passed, running.memory_mib("VmRSS")))
                    print(
                        f"{passed:7.0f} s {samples[-1][1]:7.1f} MiB {chaos.pods:6d} Pods",
                        flush=True,
                    )
                await asyncio.sleep(chaos.dice.uniform(0.01, 0.1))
    return samples


def main() -> None:
    """Endure, and print the slope after the first quarter."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    samples = asyncio.run(endure(options.seconds, options.seed))
    warm = [sample for sample in samples if sample[0] >= options.seconds * WARM_UP]
    line = linear_regression([at for at, _ in warm], [mib for _, mib in warm])
    print(f"after the first quarter: {line.slope * 3600:+.1f} MiB an hour")


if __name__ == "__main__":
    main()
