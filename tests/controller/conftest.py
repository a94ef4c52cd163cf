"""A fake API server, a scene on it, and replicas of the real operator in this process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import TypeAlias

import pytest
from tests.controller.scene import Scene
from tests.fakeapi.server import FakeApi, serving

from gpucdi_kube import Credentials
from gpucdi_operator.app import Operator
from gpucdi_operator.options import Options, Timing

Eventually: TypeAlias = Callable[..., Awaitable[None]]
Start: TypeAlias = Callable[..., AbstractAsyncContextManager[Operator]]

# The real proportions, faster.
QUICK = Timing(
    lease_s=3.0,
    renew_s=0.3,
    fence_margin_s=1.0,
    lease_sweep_s=0.3,
    missing_lease_s=30.0,
    pod_get_s=0.3,
    pod_recheck_s=0.3,
    governor_s=0.5,
)


WATCHED = ("nodes", "gpucdistatuses", "gpucdipolicies", "events", "runtimeclasses")


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with serving() as served:
        yield served


@pytest.fixture
def scene(api: FakeApi) -> Scene:
    made = Scene(api)
    made.runtime_class()
    return made


async def waiting(holds: Callable[[], object], within_s: float = 15.0) -> None:
    """Return as soon as ``holds`` is true; fail when it takes too long."""
    deadline = asyncio.get_running_loop().time() + within_s
    while not holds():
        assert asyncio.get_running_loop().time() < deadline, "waited in vain"
        await asyncio.sleep(0.02)


@pytest.fixture
def eventually() -> Eventually:
    return waiting


@pytest.fixture
def start(api: FakeApi) -> Start:
    @asynccontextmanager
    async def run(identity: str = "replica-1", **timing: float) -> AsyncIterator[Operator]:
        options = Options(http="127.0.0.1:0", identity=identity, timing=replace(QUICK, **timing))
        operator = Operator(options, Credentials(api.url))
        task = asyncio.create_task(operator.run())
        ready = asyncio.create_task(_ready(operator, api))
        await asyncio.wait({task, ready}, timeout=20, return_when=asyncio.FIRST_COMPLETED)
        try:
            if task.done():
                task.result()
            assert ready.done(), "the operator did not become ready"
            yield operator
        finally:
            ready.cancel()
            operator.stop()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait_for(task, 20)

    return run


async def _ready(operator: Operator, api: FakeApi) -> None:
    before = {plural: api.counts[f"watch {plural}"] for plural in WATCHED}
    await operator.watching.wait()
    await operator.seeded.wait()

    def all_watched() -> bool:
        return all(api.counts[f"watch {plural}"] > count for plural, count in before.items())

    # Stopped in the middle of its discovery, kopf takes five seconds to notice.
    await waiting(all_watched)
