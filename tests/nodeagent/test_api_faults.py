"""Every fault of an API server, with the number of requests that the agent makes of it.

Each part of the agent's link is put before a server that speaks the protocol, alone, so that its
requests can be counted; waits are recorded and cut short.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest
from tests.fakeapi.faults import Fault
from tests.fakeapi.server import FakeApi, serving
from tests.nodeagent.clocks import ShortClock

from gpucdi.api import Intent, NodeState, NodeStatus, RepairMode
from gpucdi.api.names import NAMESPACE
from gpucdi_agent.publish import COALESCE_SECONDS, IntentWatch, LeaseKeeper, Publisher
from gpucdi_kube import Credentials, HttpKubeApi, RetryPolicy

NODE = "gpu-17"
DRIFTED = NodeStatus(state=NodeState.DRIFTED)
RESOLVED = NodeStatus(state=NodeState.RESOLVED)
PATIENT_S = 60.0


def moments() -> ShortClock:
    """Return a clock on which waits of any length pass in a moment."""
    return ShortClock(lambda _: 0.001)


@dataclass
class Scene:
    """A server, a connection that does not retry by itself, and a clock."""

    server: FakeApi
    api: HttpKubeApi
    clock: ShortClock = field(default_factory=moments)

    @asynccontextmanager
    async def publisher(self) -> AsyncIterator[Publisher]:
        publisher = Publisher(self.api, NODE, self.clock)
        task = asyncio.create_task(publisher.run())
        try:
            yield publisher
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENT_S):
            while not holds():  # noqa: ASYNC110 - the condition is the server's, not ours
                await asyncio.sleep(0.005)

    async def until_published(self, state: NodeState) -> None:
        def holds() -> bool:
            found = self.server.find("gpucdistatuses", NODE) or {}
            return bool(found.get("status", {}).get("state") == state.value)

        await self.until(holds)

    def requests(self) -> Counter[str]:
        """Return how many requests were made of each verb, the refused among them."""
        return Counter(entry.verb for entry in self.server.log)


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with serving() as server:
        api = HttpKubeApi(Credentials(server.url), policy=RetryPolicy(deadline_s=0.0))
        yield Scene(server, api)
        await api.close()


def put_object(server: FakeApi) -> None:
    server.put(
        "gpucdistatuses",
        {"metadata": {"name": NODE}, "spec": {"nodeName": NODE, "repair": {"mode": "Observe"}}},
    )


async def test_a_status_without_faults_costs_one_request(scene: Scene) -> None:
    put_object(scene.server)
    async with scene.publisher() as publisher:
        publisher.show(DRIFTED)
        await scene.until_published(NodeState.DRIFTED)
    assert scene.requests() == {"apply": 1}


async def test_a_node_that_was_made_anew_costs_three_requests(scene: Scene) -> None:
    async with scene.publisher() as publisher:
        publisher.show(DRIFTED)
        await scene.until_published(NodeState.DRIFTED)
    assert scene.requests() == {"apply": 2, "create": 1}


async def test_an_object_that_comes_between_its_absence_and_its_making_is_used(
    scene: Scene,
) -> None:
    scene.server.faults.add(404, verbs=["apply"], times=1)
    put_object(scene.server)
    async with scene.publisher() as publisher:
        publisher.show(DRIFTED)
        await scene.until_published(NodeState.DRIFTED)
    assert scene.requests() == {"apply": 2, "create": 1}


@pytest.mark.parametrize(
    "fault",
    [
        Fault(409, times=3),
        Fault(410, times=3),
        Fault(429, times=3, retry_after_s=1),
        Fault(500, times=3),
        Fault(502, times=3),
        Fault(503, times=3),
        Fault(504, times=3),
        Fault(401, times=3),
        Fault(403, times=3),
        Fault(422, times=3),
        Fault(times=3, cut=True),
    ],
    ids=lambda fault: "cut" if fault.cut else str(fault.code),
)
async def test_each_refused_write_is_tried_once_more_and_the_last_status_written_once(
    scene: Scene, fault: Fault
) -> None:
    put_object(scene.server)
    scene.server.faults.active.append(fault)
    async with scene.publisher() as publisher:
        publisher.show(DRIFTED)
        await scene.until(lambda: fault.met == 3)
        publisher.show(RESOLVED)
        await scene.until_published(NodeState.RESOLVED)
    # Three refused; after the third the older status may already be on its way.
    assert 4 <= scene.requests()["apply"] <= 5
    assert set(scene.requests()) == {"apply"}


async def test_a_write_whose_answer_is_lost_is_repeated_once_and_changes_nothing(
    scene: Scene,
) -> None:
    put_object(scene.server)
    scene.server.faults.add(verbs=["apply"], times=1, lose=True)
    async with scene.publisher() as publisher:
        publisher.show(DRIFTED)
        await scene.until(lambda: scene.requests()["apply"] == 2)
        found = scene.server.find("gpucdistatuses", NODE)
        assert found is not None
        version = found["metadata"]["resourceVersion"]
    assert scene.server.find("gpucdistatuses", NODE) == found
    assert scene.requests() == {"apply": 2}
    assert version == found["metadata"]["resourceVersion"]


async def test_a_busy_server_is_left_alone_for_as_long_as_it_asks(scene: Scene) -> None:
    put_object(scene.server)
    scene.server.faults.add(429, times=1, retry_after_s=77)
    async with scene.publisher() as publisher:
        publisher.show(DRIFTED)
        await scene.until_published(NodeState.DRIFTED)
    assert [wait for wait in scene.clock.waits if wait >= 77]
    assert scene.requests() == {"apply": 2}


async def test_what_changes_while_a_slow_server_answers_costs_one_more_request(
    scene: Scene,
) -> None:
    put_object(scene.server)
    slow = scene.server.faults.add(verbs=["apply"], times=1, delay_s=1.0)
    async with scene.publisher() as publisher:
        publisher.show(DRIFTED)
        await scene.until(lambda: slow.met)
        for number in range(20):
            publisher.show(NodeStatus(state=NodeState.DRIFTED, mode=str(number)))
        publisher.show(RESOLVED)
        await scene.until_published(NodeState.RESOLVED)
    assert scene.requests() == {"apply": 2}


async def test_hours_without_an_api_server_cost_some_forty_requests_each_and_one_to_catch_up(
    scene: Scene,
) -> None:
    put_object(scene.server)
    away = scene.server.faults.add(503, times=200)
    async with scene.publisher() as publisher:
        publisher.show(DRIFTED)
        await scene.until(lambda: away.met >= 100)
        publisher.show(RESOLVED)
        await scene.until_published(NodeState.RESOLVED)
    waited_h = sum(scene.clock.waits) / 3600
    assert scene.requests() == {"apply": 201}
    assert 30 <= 200 / waited_h <= 60


async def test_a_version_that_expired_costs_a_list_and_a_watch(scene: Scene) -> None:
    put_object(scene.server)
    intents: list[Intent] = []
    watch = IntentWatch(
        scene.api,
        NODE,
        scene.clock,
        Publisher(scene.api, NODE, scene.clock),
        lambda intent, _: intents.append(intent),
    )
    task = asyncio.create_task(watch.run())
    await scene.until(lambda: scene.server.counts["watch gpucdistatuses"] == 1 and intents)
    scene.server.faults.add(410, verbs=["watch"], times=1)
    scene.server.cut_watches()
    await scene.until(lambda: scene.server.counts["watch gpucdistatuses"] == 2)
    body = scene.server.find("gpucdistatuses", NODE)
    assert body is not None
    metadata = {"name": NODE, "generation": body["metadata"]["generation"] + 1}
    spec = {"nodeName": NODE, "repair": {"mode": "Auto"}}
    scene.server.put("gpucdistatuses", {"metadata": metadata, "spec": spec})
    await scene.until(lambda: intents[-1].mode is RepairMode.AUTO)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    # The first; the one that was cut; the one that met 410.
    assert scene.requests()["list"] <= 3
    assert set(scene.requests()) <= {"list", "watch"}


@pytest.mark.parametrize("code", [401, 409, 429, 500, 503])
async def test_a_lease_that_cannot_be_renewed_is_tried_again_after_a_pause(
    scene: Scene, code: int
) -> None:
    met = scene.server.faults.add(code, plurals=["leases"], times=3)
    keeper = LeaseKeeper(scene.api, NODE, scene.clock, lambda: True)
    task = asyncio.create_task(keeper.run())
    await scene.until(lambda: scene.server.find("leases", f"gpucdi-agent-{NODE}", NAMESPACE))
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert met.met == 3
    # A pause after each try; a refused token is read anew and tried once more without one. The
    # server notes a request after its answer, and the next one may be under way.
    without_pause = 2 if code == 401 else 0
    assert scene.requests()["apply"] - len(scene.clock.waits) - without_pause in {-1, 0, 1}
    assert all(wait <= 60.0 for wait in scene.clock.waits)


async def test_an_hours_idle_is_one_renewal_of_the_lease_a_minute_and_nothing_else(
    scene: Scene,
) -> None:
    put_object(scene.server)
    keeper = LeaseKeeper(scene.api, NODE, scene.clock, lambda: True)
    async with scene.publisher() as publisher:
        publisher.show(DRIFTED)
        await scene.until_published(NodeState.DRIFTED)
        scene.server.log.clear()
        scene.clock.waits.clear()
        task = asyncio.create_task(keeper.run())
        await scene.until(lambda: sum(scene.clock.waits) >= 3600)
        publisher.show(DRIFTED)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    assert {entry.plural for entry in scene.server.log} == {"leases"}
    # One a minute: the pause after the last request may not have begun.
    assert set(scene.clock.waits) <= {60.0, COALESCE_SECONDS}
    renewed = scene.requests()["apply"]
    assert renewed - scene.clock.waits.count(60.0) in {-1, 0, 1}
