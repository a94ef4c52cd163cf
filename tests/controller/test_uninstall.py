"""Uninstalling goes on where one Node is refused, and says so in the end."""

from __future__ import annotations

import pytest
from tests.controller.conftest import Eventually, Start
from tests.controller.scene import Scene, node_status
from tests.fakeapi.server import FakeApi

from gpucdi_kube import Credentials, HttpKubeApi
from gpucdi_kube.errors import Invalid
from gpucdi_operator.uninstall import uninstall


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
