"""What comes and goes while we wait for an answer: a watch may be quicker than a list or a look."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from tests.controller.conftest import Start
from tests.controller.scene import Scene, node_status
from tests.fakeapi.server import FakeApi

from gpucdi.api import fields
from gpucdi.api.names import LABEL_REPAIR
from gpucdi_kube import Credentials, HttpKubeApi, KubeObject, paths
from gpucdi_operator.app import Operator
from gpucdi_operator.fleet import Fleet, Saw
from gpucdi_operator.options import Options


class Overtaken(HttpKubeApi):
    """A connection on which an object is gone from a list, and its watch says so meanwhile.

    With ``still`` the object is on a page that was made before: the list shows it afterwards.
    """

    def __init__(self, url: str, path: str, name: str, *, still: bool = False) -> None:
        super().__init__(Credentials(url))
        self.path, self.name, self.still = path, name, still
        self.meanwhile: Saw | None = None

    async def list(self, path: str, **options: Any) -> AsyncIterator[KubeObject]:
        """Yield the items without the one that is gone."""
        gone: KubeObject = {}
        async for body in super().list(path, **options):
            if path == self.path and fields.mapping(body, "metadata").get("name") == self.name:
                gone = body
            else:
                yield body
        if gone and self.meanwhile is not None:
            self.meanwhile(gone, deleted=True)
            if self.still:
                yield gone


@pytest.mark.parametrize("plural", ["gpucdipolicies", "runtimeclasses", "nodes", "gpucdistatuses"])
@pytest.mark.parametrize("still", [False, True], ids=["gone from the list", "still on its page"])
async def test_what_a_watch_deletes_while_it_is_listed_stays_gone(
    scene: Scene, api: FakeApi, plural: str, *, still: bool
) -> None:
    scene.node("nvidia")
    scene.policy("nvidia")
    scene.agent_says("nvidia", node_status(drifted=False))
    operator = Operator(Options(http="127.0.0.1:0"), Credentials(api.url))
    await operator.fleet.resync()
    collections: dict[str, tuple[str, Collection[str], Callable[..., None]]] = {
        "gpucdipolicies": (paths.POLICIES, operator.store.policies, Fleet.saw_policy),
        "runtimeclasses": (
            paths.RUNTIME_CLASSES,
            operator.store.handlers,
            Fleet.saw_runtime_class,
        ),
        "nodes": (paths.NODES, operator.store.nodes, Fleet.saw_node),
        "gpucdistatuses": (paths.STATUSES, operator.store.statuses, Fleet.saw_status),
    }
    path, kept, saw = collections[plural]
    assert "nvidia" in kept
    connection = Overtaken(api.url, path, "nvidia", still=still)
    fleet = replace(operator.fleet, api=connection)
    connection.meanwhile = partial(saw, fleet)
    await fleet.resync()
    assert "nvidia" not in kept
    for client in (connection, operator.api, operator.evicting, operator.elector.api):
        await client.close()


class Restored(HttpKubeApi):
    """A connection to a server whose store was restored: every version is lower than before."""

    async def list(self, path: str, **options: Any) -> AsyncIterator[KubeObject]:
        """Yield the items with the version of long ago."""
        async for body in super().list(path, **options):
            meta = {**fields.mapping(body, "metadata"), "resourceVersion": "1"}
            yield {**body, "metadata": meta}


async def test_a_list_of_a_restored_store_is_believed(scene: Scene, api: FakeApi) -> None:
    scene.node("n1")
    scene.policy("p")
    scene.agent_says("n1", node_status(drifted=False))
    operator = Operator(Options(http="127.0.0.1:0"), Credentials(api.url))
    await operator.fleet.resync()
    scene.agent_says("n1", node_status(drifted=True))
    scene.policy("p", priority=7)
    scene.node("n1", labels={"zone": "a"})
    connection = Restored(Credentials(api.url))
    await replace(operator.fleet, api=connection).resync()
    store = operator.store
    assert store.drifted() == ["n1"]
    assert store.policies["p"].policy.priority == 7
    assert store.nodes["n1"].labels == {"zone": "a"}
    # A watch tells of what comes after it.
    scene.agent_says("n1", node_status(drifted=False))
    body = api.find("gpucdistatuses", "n1") or {}
    meta = {**body["metadata"], "resourceVersion": "2"}
    operator.fleet.saw_status({**body, "metadata": meta}, deleted=False)
    assert store.drifted() == []
    for client in (connection, operator.api, operator.evicting, operator.elector.api):
        await client.close()


async def test_a_runtime_class_that_is_gone_is_forgotten_by_a_list(
    scene: Scene, api: FakeApi, start: Start
) -> None:
    scene.node("n1")
    async with start() as operator:
        assert operator.store.handler_of("nvidia") == "nvidia"
        api.remove("runtimeclasses", "nvidia")
        await operator.fleet.resync()
        assert operator.store.handler_of("nvidia") is None


class Meanwhile(HttpKubeApi):
    """A connection on which something happens while the status of a policy is written."""

    def __init__(self, url: str, deed: Callable[[], None]) -> None:
        super().__init__(Credentials(url))
        self.deed = deed

    async def apply(
        self, path: str, body: KubeObject, *, field_manager: str, force: bool = False
    ) -> KubeObject:
        """Do the deed, then write."""
        self.deed()
        return await super().apply(path, body, field_manager=field_manager, force=force)


@pytest.mark.parametrize("plural", ["gpucdipolicies", "nodes", "gpucdistatuses"])
async def test_what_goes_while_the_governor_looks_does_not_end_the_operator(
    scene: Scene, api: FakeApi, start: Start, plural: str
) -> None:
    async with start(governor_s=600.0) as operator:
        for name in ("n1", "n2"):
            scene.node(name, labels={"zone": name, LABEL_REPAIR: "sometimes"})
            scene.policy(name, taint="NoSchedule", nodeSelector={"matchLabels": {"zone": name}})
            scene.agent_says(name, node_status(drifted=True))
        fleet, store = operator.fleet, operator.store
        await fleet.resync()

        forget: Callable[[], None] = {
            "gpucdipolicies": store.policies.clear,
            "nodes": store.nodes.clear,
            "gpucdistatuses": store.statuses.clear,
        }[plural]
        connection = Meanwhile(api.url, forget)
        await replace(fleet.governor, api=connection).look()
        await connection.close()


async def test_what_an_agent_says_while_we_write_into_its_status_is_acted_upon(
    scene: Scene, api: FakeApi
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    operator = Operator(Options(http="127.0.0.1:0"), Credentials(api.url))
    await operator.fleet.resync()

    def resolves() -> None:
        scene.agent_says("n1", node_status(drifted=False))

    connection = Meanwhile(api.url, resolves)
    operator.nodes.api = connection
    await operator.nodes.show_risk("n1", 3)
    await connection.close()
    operator.node_queue.clear()
    body = api.find("gpucdistatuses", "n1")
    assert body is not None
    assert body["status"]["podsAtRisk"] == 3
    # The watch comes after the answer to our write, which told the same already.
    operator.fleet.saw_status(body, deleted=False)
    for each in (operator.api, operator.evicting, operator.elector.api):
        await each.close()
    assert "n1" in operator.node_queue
    assert not operator.store.drifted()
