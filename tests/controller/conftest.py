"""API servers, a scene on each, and replicas of the real operator in this process."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pytest
from tests.controller.accounts import NAMESPACE, operators
from tests.controller.scene import Scene
from tests.fakeapi.controlplane import ControlPlane
from tests.fakeapi.realapi import RealApi
from tests.fakeapi.server import FakeApi, serving

from gpucdi_kube import Clock, Credentials
from gpucdi_operator.app import Operator
from gpucdi_operator.options import Options, Timing

HERE = Path(__file__).parent
OPTIONAL_RIGHTS = HERE.parents[1] / "manifests" / "samples" / "optional-rights.yaml"
Eventually: TypeAlias = Callable[..., Awaitable[None]]
Start: TypeAlias = Callable[..., AbstractAsyncContextManager[Operator]]
Run: TypeAlias = Callable[..., AbstractAsyncContextManager[Operator]]
Grant: TypeAlias = Callable[[], None]

# How long a test waits for what must come. On a machine ten times slower it comes as well.
PATIENCE_S = 120.0
TEST_S = 400
# Faster than in life; the Lease alone is not, so that a slow machine does not lose it.
QUICK = Timing(
    lease_s=15.0,
    renew_s=0.3,
    fence_margin_s=3.0,
    lease_sweep_s=0.3,
    missing_lease_s=30.0,
    pod_get_s=0.3,
    pod_recheck_s=0.3,
    governor_s=0.5,
    retry_s=0.5,
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of this folder the time that their patience may take."""
    for item in items:
        if item.path.is_relative_to(HERE) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TEST_S))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Let go of what kopf leaves behind when it ends by an error, where the process lives on.

    Its sessions hang on the error's traceback, which the captured log keeps until the test is over;
    collected later they would be told of another test.
    """
    done = yield
    if item.get_closest_marker("kopf_ends") is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
    return done


WATCHED = ("nodes", "gpucdistatuses", "gpucdipolicies", "events", "runtimeclasses")


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with serving() as served:
        yield served


@pytest.fixture
def real(apiserver: ControlPlane) -> Iterator[RealApi]:
    """Return the outside view of the real API server; what is put there goes afterwards."""
    made = RealApi(apiserver)
    made.sweep()
    yield made
    made.clean()


@pytest.fixture
def scene(api: FakeApi) -> Scene:
    made = Scene(api)
    made.runtime_class()
    return made


@pytest.fixture
def stage(real: RealApi) -> Scene:
    """Return a scene on the real server."""
    made = Scene(real)
    made.runtime_class()
    return made


async def waiting(holds: Callable[[], object], within_s: float = PATIENCE_S) -> None:
    """Return as soon as ``holds`` is true; fail when it takes too long."""
    deadline = asyncio.get_running_loop().time() + within_s
    while not holds():
        assert asyncio.get_running_loop().time() < deadline, "waited in vain"
        await asyncio.sleep(0.02)


@pytest.fixture
def eventually() -> Eventually:
    return waiting


def quick(
    api: FakeApi, identity: str = "replica-1", clock: Clock | None = None, **timing: float
) -> Operator:
    """Return a replica that is not started yet, with the timings of tests."""
    options = Options(
        http="127.0.0.1:0",
        identity=identity,
        requests_per_second=2000.0,
        burst=2000.0,
        timing=replace(QUICK, **timing),
    )
    return Operator(options, Credentials(api.url), clock)


@pytest.fixture
def start(api: FakeApi) -> Start:
    @asynccontextmanager
    async def run(
        identity: str = "replica-1", clock: Clock | None = None, **timing: float
    ) -> AsyncIterator[Operator]:
        operator = quick(api, identity, clock, **timing)
        task = asyncio.create_task(operator.run())
        ready = asyncio.create_task(_ready(operator, api))
        await asyncio.wait({task, ready}, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        try:
            if task.done():
                task.result()
            assert ready.done(), "the operator did not become ready"
            yield operator
        finally:
            ready.cancel()
            operator.stop()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait_for(task, PATIENCE_S)

    return run


async def _ready(operator: Operator, api: FakeApi) -> None:
    before = {plural: api.counts[f"watch {plural}"] for plural in WATCHED}
    await operator.watching.wait()
    await operator.seeded.wait()

    def all_watched() -> bool:
        return all(api.counts[f"watch {plural}"] > count for plural, count in before.items())

    # Stopped in the middle of its discovery, kopf takes five seconds to notice.
    await waiting(all_watched)


@pytest.fixture
async def run(apiserver: ControlPlane, real: RealApi) -> AsyncIterator[Run]:
    """Start a replica on the real server with the token of the shipped service account."""

    @asynccontextmanager
    async def started(clock: Clock | None = None, **timing: float) -> AsyncIterator[Operator]:
        options = Options(
            http="127.0.0.1:0",
            requests_per_second=500.0,
            burst=500.0,
            timing=replace(QUICK, **timing),
        )
        operator = Operator(options, operators(apiserver), clock)
        task = asyncio.create_task(operator.run())
        watching = asyncio.create_task(operator.watching.wait())
        try:
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.wait({task, watching}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
            yield operator
        finally:
            watching.cancel()
            operator.stop()
            await asyncio.wait_for(task, PATIENCE_S)

    yield started
    real.remove("leases", "gpucdi-operator", NAMESPACE)


@pytest.fixture
def optional_rights(apiserver: ControlPlane) -> Iterator[Grant]:
    """Return what grants the operator the rights that it has only where somebody grants them."""
    sample = ("-f", str(OPTIONAL_RIGHTS))

    def grant() -> None:
        apiserver.kubectl("apply", *sample)

    yield grant
    apiserver.kubectl("delete", "--ignore-not-found", *sample)
