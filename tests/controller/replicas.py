"""Operator processes of a test, and their end."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

Replica: TypeAlias = asyncio.subprocess.Process
Spawn: TypeAlias = Callable[[str], Awaitable[Replica]]


@asynccontextmanager
async def replicas(folder: Path, config_of: Callable[[str], str]) -> AsyncIterator[Spawn]:
    """Start a replica for each identity, with the kubeconfig that ``config_of`` gives it.

    The log of each is in ``folder``. At the end all are killed, the stopped among them too.
    """
    started: list[Replica] = []

    async def spawn(identity: str) -> Replica:
        config = folder / f"{identity}.kubeconfig"
        await asyncio.to_thread(lambda: config.write_text(config_of(identity)))
        log = (folder / f"{identity}.log").open("wb")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gpucdi_operator", "run", "--identity", identity),
            *("--kubeconfig", str(config), "--http", "127.0.0.1:0"),
            stderr=log,
        )
        log.close()
        started.append(process)
        return process

    try:
        yield spawn
    finally:
        for process in started:
            if process.returncode is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            await process.wait()
