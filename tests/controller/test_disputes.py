"""Writers that undo what the operator writes: it answers, but not for ever."""

from __future__ import annotations

import asyncio

import pytest
from tests.controller.conftest import Eventually, Start
from tests.controller.scene import Scene, node_status
from tests.fakeapi.server import FakeApi

from gpucdi_kube import SystemClock
from gpucdi_operator.disputes import MOST, WITHIN_S, DisputedError, Disputes


class Turned(SystemClock):
    """A clock that the test turns."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


def write(disputes: Disputes, name: str, what: object) -> None:
    disputes.check(name, what, "it")
    disputes.wrote(name, what)


def test_the_same_is_written_so_often_a_minute_and_no_more() -> None:
    clock = Turned()
    disputes = Disputes(clock)
    for _ in range(MOST):
        write(disputes, "n1", "True")
    with pytest.raises(DisputedError, match="undone each time"):
        disputes.check("n1", "True", "it")
    write(disputes, "n2", "True")
    clock.seconds = WITHIN_S
    write(disputes, "n1", "True")


def test_what_changes_is_no_dispute() -> None:
    disputes = Disputes(Turned())
    for number in range(3 * MOST):
        write(disputes, "n1", number)


def test_what_was_refused_was_undone_by_nobody() -> None:
    disputes = Disputes(Turned())
    for _ in range(3 * MOST):
        disputes.check("n1", "True", "it")


async def test_a_condition_that_is_undone_each_time_is_not_written_without_end(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))

    async def undo() -> None:
        while True:
            if scene.condition("n1") is not None:
                scene.node("n1")
            await asyncio.sleep(0.01)

    async with start() as operator:
        undoing = asyncio.create_task(undo())
        failed = operator.metrics.failures.labels("nodes")
        await eventually(lambda: failed._value.get() >= 1)
        wrote = len(api.requests("apply", plural="nodes"))
        await asyncio.sleep(2)
        undoing.cancel()
        assert wrote >= MOST
        assert len(api.requests("apply", plural="nodes")) <= 2 * MOST
