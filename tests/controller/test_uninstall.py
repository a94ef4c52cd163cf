"""Uninstalling goes on where one Node is refused and says so; beside an operator it does not begin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.controller.conftest import Eventually, Start
from tests.controller.scene import Scene, node_status
from tests.fakeapi.server import FakeApi

from gpucdi.api.names import NAMESPACE
from gpucdi_kube import Credentials, HttpKubeApi, SystemClock
from gpucdi_kube.errors import Invalid
from gpucdi_operator.uninstall import StillLeadingError, uninstall, until_nobody_leads


async def test_one_refused_node_does_not_keep_the_others_marked(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    names = ("n1", "n2", "n3")
    for name in names:
        scene.node(name)
        scene.agent_says(name, node_status(drifted=True))
    async with start():
        await eventually(lambda: all(scene.condition(name) for name in names))
    api.faults.add(422, verbs=("patch",), plurals=("nodes",), times=1)
    client = HttpKubeApi(Credentials(api.url))
    with pytest.raises(Invalid):
        await uninstall(client)
    await client.close()
    assert [name for name in names if scene.condition(name)] == ["n1"]


class Hasty(SystemClock):
    """A clock on which a second passes at each look."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        await asyncio.sleep(0.01)


@pytest.fixture
async def client(api: FakeApi) -> AsyncIterator[HttpKubeApi]:
    made = HttpKubeApi(Credentials(api.url))
    yield made
    await made.close()


async def test_beside_an_operator_that_leads_it_does_not_begin(
    start: Start, client: HttpKubeApi, eventually: Eventually
) -> None:
    async with start() as operator:
        await eventually(lambda: operator.elector.is_leader)
        with pytest.raises(StillLeadingError, match="replica-1 still leads"):
            await until_nobody_leads(client, SystemClock(), NAMESPACE, patience_s=3.0)
    # The Lease was given back.
    await until_nobody_leads(client, SystemClock(), NAMESPACE, patience_s=0.0)


async def test_a_leader_that_was_killed_is_waited_for_until_its_lease_has_run_out(
    api: FakeApi, client: HttpKubeApi
) -> None:
    spec = {"holderIdentity": "dead", "leaseDurationSeconds": 15, "renewTime": "once"}
    meta = {"name": "gpucdi-operator", "namespace": NAMESPACE}
    api.put("leases", {"metadata": meta, "spec": spec})
    clock = Hasty()
    await until_nobody_leads(client, clock, NAMESPACE)
    assert 15 < clock.seconds < 20


async def test_where_nobody_ever_led_there_is_nothing_to_wait_for(client: HttpKubeApi) -> None:
    await until_nobody_leads(client, SystemClock(), NAMESPACE, patience_s=0.0)
