"""Whether the loop of the watches still goes round, seen from outside its thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping

from tests.controller.conftest import Eventually, Start
from tests.fakeapi.server import FakeApi

from gpucdi_kube import Credentials
from gpucdi_operator.adapters import watch
from gpucdi_operator.forwarding import Beat


class Deaf:
    """Listens to nothing."""

    def saw_node(self, body: Mapping[str, object], *, deleted: bool) -> None: ...

    def saw_status(self, body: Mapping[str, object], *, deleted: bool) -> None: ...

    def saw_policy(self, body: Mapping[str, object], *, deleted: bool) -> None: ...

    def saw_runtime_class(self, body: Mapping[str, object], *, deleted: bool) -> None: ...

    def saw_event(self, body: Mapping[str, object]) -> None: ...


class Stuck:
    """Credentials on a disk that does not answer: whoever reads them blocks."""

    def __init__(self) -> None:
        self.answers = threading.Event()

    async def header(self) -> str | None:
        self.answers.wait()
        return None

    async def renew(self) -> None:
        """Forget nothing."""


def test_a_beat_ages_from_its_last_stroke_and_not_before_the_first() -> None:
    moment = 100.0
    beat = Beat(now=lambda: moment)
    moment = 200.0
    assert beat.age_s() == 0.0
    beat.strike()
    moment = 230.0
    assert beat.age_s() == 30.0


async def test_a_loop_that_is_stuck_grows_old_and_is_young_again_when_it_goes_on(
    api: FakeApi, eventually: Eventually
) -> None:
    beat, stuck, stop = Beat(), Stuck(), threading.Event()
    running = asyncio.create_task(
        watch(Deaf(), Credentials(api.url, stuck), asyncio.Event(), stop, beat=beat)
    )
    try:
        # Three beats at least are missing.
        await eventually(lambda: beat.age_s() > 4.0)
        last = beat.at
        stuck.answers.set()
        await eventually(lambda: beat.at != last)
        await eventually(lambda: api.counts["watch nodes"])
    finally:
        stuck.answers.set()
        stop.set()
        await asyncio.wait_for(running, 60)


async def test_the_loop_of_a_running_operator_goes_round(
    start: Start, eventually: Eventually
) -> None:
    async with start() as operator:
        first = operator.watch_beat.at
        assert first is not None
        await eventually(lambda: (operator.watch_beat.at or first) > first)
