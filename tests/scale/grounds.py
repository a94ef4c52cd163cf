"""Where a fleet stands: on the fake API server, or on a real one with etcd.

Owns: starting the server and filling it. Once it is filled, both are spoken to over HTTP alike.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from tests.controller.scene import C00
from tests.fakeapi.controlplane import control_plane
from tests.fakeapi.server import FakeApi, kubeconfig, serving
from tests.scale.fleet import Fleet

from gpucdi.api import fields
from gpucdi.api.names import AGENT_MANAGER, NAMESPACE
from gpucdi_kube import HttpKubeApi, KubeApi, RetryPolicy, paths
from gpucdi_kube.client import connect

HANDS = 16


@dataclass(frozen=True, slots=True)
class Ground:
    """A filled server: the operator's kubeconfig, and a connection for whoever plays."""

    kubeconfig: Path
    api: HttpKubeApi


@asynccontextmanager
async def fake_ground(fleet: Fleet, folder: Path) -> AsyncIterator[Ground]:
    """Serve the fleet from this process."""
    async with serving() as fake:
        _fill_fake(fake, fleet)
        config = folder / "fake.kubeconfig"
        config.write_text(kubeconfig(fake.url))
        api = await connect(str(config))
        try:
            yield Ground(config, api)
        finally:
            await api.close()


@asynccontextmanager
async def real_ground(fleet: Fleet, folder: Path) -> AsyncIterator[Ground]:
    """Serve the fleet from a kube-apiserver with etcd."""
    with control_plane(folder) as plane:
        plane.install()
        patient = RetryPolicy(deadline_s=600.0, attempt_timeout_s=120.0, connect_timeout_s=60.0)
        api = await connect(str(plane.kubeconfig), policy=patient)
        try:
            await _fill_real(api, fleet)
            yield Ground(plane.kubeconfig, api)
        finally:
            await api.close()


def _fill_fake(fake: FakeApi, fleet: Fleet) -> None:
    """Put the fleet straight into the store: 100,000 Pods by HTTP would take many minutes."""
    fake.put("runtimeclasses", _runtime_class())
    for number in range(fleet.nodes):
        made = fake.put("nodes", fleet.node(number))
        fake.put("gpucdistatuses", fleet.gpu_status(number, made["metadata"]["uid"]))
        fake.put("leases", fleet.lease(number))
    for number in range(fleet.pods):
        fake.put("pods", fleet.resting_pod(number))


async def _fill_real(api: HttpKubeApi, fleet: Fleet) -> None:
    await api.create(paths.RUNTIME_CLASSES, _runtime_class())
    await _by_hands(fleet.nodes, lambda number: _make_node(api, fleet, number))
    await _by_hands(fleet.pods, lambda number: make_pod(api, fleet.resting_pod(number)))


async def _by_hands(count: int, make: Callable[[int], Awaitable[object]]) -> None:
    numbers = iter(range(count))

    async def hand() -> None:
        for number in numbers:
            await make(number)

    hands: list[Coroutine[Any, Any, None]] = [hand() for _ in range(HANDS)]
    await asyncio.gather(*hands)


async def _make_node(api: KubeApi, fleet: Fleet, number: int) -> None:
    body, name = fleet.node(number), fleet.name(number)
    made = await api.create(paths.NODES, {**body, "status": {}})
    await api.replace(paths.node_status(name), {**made, "status": body["status"]})
    uid = fields.text(fields.mapping(made, "metadata"), "uid")
    whole = fleet.gpu_status(number, uid)
    await api.create(paths.STATUSES, {key: whole[key] for key in whole if key != "status"})
    told = {key: whole[key] for key in ("apiVersion", "kind", "status")}
    path = paths.gpu_cdi_status_status(name)
    applied = {**told, "metadata": {"name": name}}
    await api.apply(path, applied, field_manager=AGENT_MANAGER, force=True)
    await api.create(paths.leases(NAMESPACE), fleet.lease(number))


async def make_pod(api: KubeApi, body: dict[str, Any]) -> dict[str, Any]:
    """Create a Pod and give it its status, as the scheduler and kubelet do."""
    namespace, name = body["metadata"]["namespace"], body["metadata"]["name"]
    made = await api.create(f"/api/v1/namespaces/{namespace}/pods", {**body, "status": {}})
    path = f"{paths.pod(namespace, name)}/status"
    return dict(await api.replace(path, {**made, "status": body["status"]}))


def _runtime_class() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((C00 / "runtimeclass.yaml").read_text())
    return found
