"""When an agent counts as silent, measured on a clock that the test turns."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from tests.controller.scene import Scene, node_status
from tests.fakeapi.server import FakeApi

from gpucdi.api import Intent
from gpucdi_kube import Credentials, HttpKubeApi
from gpucdi_operator.options import Timing
from gpucdi_operator.silence import Silence
from gpucdi_operator.store import StatusRecord, Store


class Clock:
    """Stands still until it is turned; the wall clock may be wrong by ``skew_s``."""

    def __init__(self) -> None:
        self.passed_s = 0.0
        self.skew_s = 0.0

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.passed_s + self.skew_s)

    def monotonic(self) -> float:
        return 1000.0 + self.passed_s

    async def sleep(self, seconds: float) -> None:
        self.passed_s += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def silence(api: FakeApi, clock: Clock) -> AsyncIterator[Silence]:
    store = Store()
    record = StatusRecord("n1", "u", Intent("n1"), node_status(drifted=False), has_status=True)
    store.put_status(record)
    client = HttpKubeApi(Credentials(api.url))
    yield Silence(client, store, clock, Timing(), "gpucdi-system")
    await client.close()


async def is_silent(silence: Silence) -> bool:
    await silence.sweep()
    return "n1" in silence.store.silent


async def test_an_agent_is_silent_when_its_lease_runs_out_and_not_before(
    scene: Scene, silence: Silence, clock: Clock
) -> None:
    scene.lease("n1")
    assert not await is_silent(silence)
    clock.passed_s = 179
    assert not await is_silent(silence)
    clock.passed_s = 181
    assert await is_silent(silence)
    scene.lease("n1")
    assert not await is_silent(silence)


async def test_a_node_whose_clock_is_hours_behind_is_not_silent_while_it_renews(
    scene: Scene, silence: Silence, clock: Clock
) -> None:
    scene.lease("n1", age_s=7200)
    assert await is_silent(silence)
    for renewal in range(5):
        clock.passed_s += 60
        scene.lease("n1", age_s=7200 - renewal)
        assert not await is_silent(silence)


async def test_at_first_sight_an_old_lease_is_silent_beyond_any_skew_of_clocks(
    scene: Scene, silence: Silence
) -> None:
    scene.lease("n1", age_s=205)
    assert not await is_silent(silence)


async def test_a_status_without_any_lease_is_silent_after_a_while(
    silence: Silence, clock: Clock
) -> None:
    assert not await is_silent(silence)
    clock.passed_s = 181
    assert await is_silent(silence)
