"""When a write is fenced: before an attempt, and again when it has got its connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from aiohttp import web

from gpucdi_kube import Credentials, HttpKubeApi, KubeError
from gpucdi_kube.api import MERGE_PATCH
from gpucdi_kube.errors import Unreachable
from gpucdi_kube.retry import NO_RETRY

CONNECTIONS = 2


class FencedError(KubeError):
    """What the guard of these tests raises."""


@dataclass
class Leader:
    """May write until it may not."""

    leads: bool = True
    asked: list[str] = field(default_factory=list)

    def guard(self, verb: str) -> None:
        self.asked.append(verb)
        if verb not in {"get", "list", "watch"} and not self.leads:
            raise FencedError(verb)


class Slow:
    """A server whose reads wait until they are let go."""

    def __init__(self) -> None:
        self.let_go, self.reading, self.written = asyncio.Event(), 0, 0
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        if request.method == "GET":
            self.reading += 1
            await self.let_go.wait()
        else:
            self.written += 1
        return web.json_response({})


@pytest.fixture
async def slow() -> AsyncIterator[Slow]:
    served = Slow()
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", served.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    served.url = "http://{}:{}".format(*runner.addresses[0][:2])
    yield served
    served.let_go.set()
    await runner.cleanup()


@pytest.fixture
def leader() -> Leader:
    return Leader()


@pytest.fixture
async def api(slow: Slow, leader: Leader) -> AsyncIterator[HttpKubeApi]:
    made = HttpKubeApi(
        Credentials(slow.url), policy=NO_RETRY, guard=leader.guard, connections=CONNECTIONS
    )
    yield made
    await made.close()


async def write(api: HttpKubeApi) -> None:
    await api.patch("/api/v1/nodes/n1/status", {}, content_type=MERGE_PATCH)


async def test_who_does_not_lead_writes_nothing_and_reads_all_the_same(
    api: HttpKubeApi, slow: Slow, leader: Leader
) -> None:
    leader.leads = False
    with pytest.raises(FencedError):
        await write(api)
    slow.let_go.set()
    await api.get("/api/v1/nodes/n1")
    assert slow.written == 0


async def test_a_write_that_waited_for_a_connection_until_its_time_was_over_is_not_sent(
    api: HttpKubeApi, slow: Slow, leader: Leader
) -> None:
    reads = [asyncio.create_task(api.get("/api/v1/nodes/n1")) for _ in range(CONNECTIONS)]
    async with asyncio.timeout(60):
        while slow.reading < CONNECTIONS:  # noqa: ASYNC110  # the server is a real one
            await asyncio.sleep(0.01)
        late = asyncio.create_task(write(api))
        while "patch" not in leader.asked:  # noqa: ASYNC110  # as above
            await asyncio.sleep(0.01)
        leader.leads = False
        slow.let_go.set()
        await asyncio.gather(*reads)
        with pytest.raises(FencedError):
            await late
    assert slow.written == 0
    leader.leads = True
    await write(api)
    assert slow.written == 1


async def test_whoever_leads_is_asked_twice_for_each_write(
    api: HttpKubeApi, slow: Slow, leader: Leader
) -> None:
    await write(api)
    assert (leader.asked, slow.written) == (["patch", "patch"], 1)


async def test_where_no_connection_can_be_had_the_fence_says_nothing() -> None:
    api = HttpKubeApi(Credentials("http://127.0.0.1:9"), policy=NO_RETRY, guard=Leader().guard)
    with pytest.raises(Unreachable):
        await write(api)
    await api.close()
