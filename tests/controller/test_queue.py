"""The keyed queue: one key once, one worker a key, back-off for the failing alone."""

from __future__ import annotations

import asyncio

import pytest

from gpucdi_kube import SystemClock
from gpucdi_kube.errors import Forbidden, ServerError
from gpucdi_operator.leader import NotLeadingError
from gpucdi_operator.queue import KeyedQueue


@pytest.fixture
def queue() -> KeyedQueue[str]:
    return KeyedQueue("test", SystemClock())


async def work_for(
    queue: KeyedQueue[str], seconds: float, handle: object, workers: int = 4
) -> None:
    task = asyncio.create_task(queue.work(handle, workers))  # type: ignore[arg-type]  # test's own
    await asyncio.sleep(seconds)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_key_that_is_added_often_is_worked_on_once(queue: KeyedQueue[str]) -> None:
    done: list[str] = []

    async def handle(key: str) -> None:
        done.append(key)

    for _ in range(100):
        queue.add("a")
    assert len(queue) == 1
    await work_for(queue, 0.1, handle)
    assert done == ["a"]


async def test_a_key_that_is_added_during_its_work_comes_again_afterwards(
    queue: KeyedQueue[str],
) -> None:
    running = most = 0
    done: list[str] = []

    async def handle(key: str) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if not done:
            queue.add(key)
            queue.add(key)
        await asyncio.sleep(0.02)
        running -= 1
        done.append(key)

    queue.add("a")
    await work_for(queue, 0.2, handle)
    assert (done, most) == (["a", "a"], 1)


async def test_a_failing_key_backs_off_and_the_others_go_on(queue: KeyedQueue[str]) -> None:
    tried: list[str] = []

    async def handle(key: str) -> None:
        tried.append(key)
        if key == "bad":
            raise ServerError("not today")

    queue.add("bad")
    for number in range(20):
        queue.add(f"good-{number}")
    await work_for(queue, 0.5, handle)
    assert len([key for key in tried if key != "bad"]) == 20
    assert 2 <= tried.count("bad") <= 10


async def test_a_refused_key_is_asked_again_seldom(queue: KeyedQueue[str]) -> None:
    tried: list[str] = []

    async def handle(key: str) -> None:
        tried.append(key)
        raise Forbidden("no")

    queue.add("a")
    await work_for(queue, 0.5, handle)
    assert tried == ["a"]


async def test_a_bug_in_one_key_does_not_stop_the_workers(queue: KeyedQueue[str]) -> None:
    done: list[str] = []

    async def handle(key: str) -> None:
        if key == "bug":
            raise KeyError(key)
        done.append(key)

    queue.add("bug")
    queue.add("a")
    await work_for(queue, 0.1, handle, workers=1)
    assert done == ["a"]


async def test_a_delayed_key_comes_at_the_earlier_of_two_times(queue: KeyedQueue[str]) -> None:
    loop, done = asyncio.get_running_loop(), list[float]()
    start = loop.time()

    async def handle(_key: str) -> None:
        done.append(loop.time() - start)

    queue.add("a", after_s=0.15)
    queue.add("a", after_s=5)
    await work_for(queue, 0.4, handle)
    assert len(done) == 1
    assert 0.14 <= done[0] <= 0.35


async def test_work_that_is_cancelled_is_not_lost(queue: KeyedQueue[str]) -> None:
    async def never(_key: str) -> None:
        await asyncio.sleep(60)

    done: list[str] = []

    async def handle(key: str) -> None:
        done.append(key)

    queue.add("a")
    await work_for(queue, 0.05, never)
    await work_for(queue, 0.05, handle)
    assert done == ["a"]


async def test_an_idle_queue_wakes_for_a_new_key_at_once(queue: KeyedQueue[str]) -> None:
    loop, seen = asyncio.get_running_loop(), asyncio.Event()

    async def handle(_key: str) -> None:
        seen.set()

    task = asyncio.create_task(queue.work(handle, 2))
    await asyncio.sleep(0.05)
    start = loop.time()
    queue.add("a")
    await asyncio.wait_for(seen.wait(), 1)
    assert loop.time() - start < 0.1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_fence_that_stops_a_write_is_no_failure() -> None:
    failed: list[str] = []
    queue: KeyedQueue[str] = KeyedQueue("test", SystemClock(), failed.append)
    tried: list[str] = []

    async def handle(key: str) -> None:
        tried.append(key)
        raise NotLeadingError("not now")

    queue.add("a")
    await work_for(queue, 0.2, handle)
    assert (tried, failed) == (["a"], [])


async def test_a_key_that_is_dropped_is_not_worked_on(queue: KeyedQueue[str]) -> None:
    done: list[str] = []
    ended = asyncio.Event()

    async def handle(key: str) -> None:
        done.append(key)
        if key == "last":
            ended.set()

    for key in ("a", "b", "c"):
        queue.add(key)
    queue.add("b", after_s=0.01)
    queue.add("last", after_s=0.02)
    queue.drop("b")
    assert len(queue) == 2
    working = asyncio.create_task(queue.work(handle, 1))
    await ended.wait()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    assert done == ["a", "c", "last"]


async def test_a_queue_tells_what_waits_and_forgets_all_of_it(queue: KeyedQueue[str]) -> None:
    handled: list[str] = []

    async def handle(key: str) -> None:
        handled.append(key)

    queue.add("now")
    queue.add("later", after_s=3600.0)
    queue.add("soon", after_s=0.01)
    assert all(key in queue for key in ("now", "later", "soon"))
    queue.clear()
    assert not any(key in queue for key in ("now", "later", "soon"))
    queue.add("last")
    await work_for(queue, 0.3, handle)
    assert handled == ["last"]
    assert "last" not in queue
