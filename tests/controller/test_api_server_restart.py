"""A real API server that comes back without its history, as after an upgrade of the control plane."""

from __future__ import annotations

import asyncio

import pytest
from tests.controller.conftest import Eventually, Run
from tests.controller.scene import MESSAGE, Scene, fresh
from tests.fakeapi.controlplane import ControlPlane

from gpucdi_kube import HttpKubeApi, paths
from gpucdi_kube.credentials import find
from gpucdi_kube.errors import Gone
from gpucdi_kube.retry import NO_RETRY

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]
WITHIN_S = 120.0


async def is_forgotten(plane: ControlPlane, version: str) -> bool:
    """Tell whether a watch from this version is answered with 410."""
    client = HttpKubeApi(await find(str(plane.kubeconfig)), policy=NO_RETRY)
    try:
        await anext(client.watch(paths.STATUSES, resource_version=version, timeout_s=5))
    except Gone:
        return True
    finally:
        await client.close()
        await asyncio.sleep(0.25)  # until the TLS connection is closed
    return False


async def test_what_happened_before_the_watches_are_back_is_caught_up_with(
    stage: Scene, run: Run, apiserver: ControlPlane, eventually: Eventually
) -> None:
    for name in ("r1", "r2"):
        stage.node(name)
        stage.agent_says(name, fresh(drifted=False))
    stage.policy("p", repair={"mode": "Auto"})
    async with run(resync_s=1.0, pod_resync_s=6000.0) as operator:
        await eventually(lambda: stage.condition("r1") and stage.condition("r2"), WITHIN_S)
        await eventually(lambda: stage.spec("r2")["repair"]["mode"] == "Auto", WITHIN_S)
        version = (stage.api.find("gpucdistatuses", "r1") or {})["metadata"]["resourceVersion"]

        await asyncio.to_thread(apiserver.restart)
        for plural, name in (("nodes", "r1"), ("gpucdistatuses", "r1"), ("gpucdipolicies", "p")):
            stage.api.remove(plural, name)
        stage.agent_says("r2", fresh(drifted=True))
        apiserver.compact()
        assert await is_forgotten(apiserver, version)

        # Lists bring what changed and what is gone; whoever fails from now on, the watches.
        await eventually(lambda: (stage.condition("r2") or {}).get("status") == "True", WITHIN_S)
        await eventually(lambda: "r1" not in operator.store.nodes, WITHIN_S)
        await eventually(lambda: stage.spec("r2")["repair"]["mode"] == "Observe", WITHIN_S)
        pod = stage.failing_pod("gpu-pod", "r2", event=False)

        def told() -> bool:
            stage.warn(pod, MESSAGE)
            return bool(stage.events("CdiDeviceUnresolvable"))

        await eventually(told, WITHIN_S)
    assert len(stage.events("CdiDeviceUnresolvable")) == 1
