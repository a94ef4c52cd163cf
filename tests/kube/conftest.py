"""The fake and the real API server behind the same adapter."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable

import pytest
from tests.fakeapi.controlplane import ControlPlane
from tests.fakeapi.server import FakeApi, serving

from gpucdi_kube import HttpKubeApi, KubeApi
from gpucdi_kube.credentials import Credentials, find
from gpucdi_kube.retry import NO_RETRY

# A watch that ends in an error leaves a connection that is closed at once, not when it is idle.
CLOSING_S = 0.25


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.lab)])
async def server(request: pytest.FixtureRequest) -> AsyncIterator[FakeApi | ControlPlane]:
    """Each API server in turn."""
    if request.param == "real":
        yield request.getfixturevalue("apiserver")
        return
    async with serving() as served:
        yield served


@pytest.fixture
async def credentials(server: FakeApi | ControlPlane) -> Credentials:
    """Who may do everything."""
    if isinstance(server, FakeApi):
        return Credentials(server.url)
    return await find(str(server.kubeconfig))


@pytest.fixture
def forget(server: FakeApi | ControlPlane) -> Callable[[], None]:
    """What makes the server forget all versions but the last."""
    return server.expire if isinstance(server, FakeApi) else server.compact


async def close(client: HttpKubeApi, credentials: Credentials) -> None:
    """Close the client, and wait for the TLS connections that aiohttp only begins to close."""
    await client.close()
    if credentials.server.startswith("https"):
        await asyncio.sleep(CLOSING_S)


@pytest.fixture
async def api(credentials: Credentials) -> AsyncIterator[KubeApi]:
    """A client as the programs use it."""
    made = HttpKubeApi(credentials)
    yield made
    await close(made, credentials)


@pytest.fixture
async def once(credentials: Credentials) -> AsyncIterator[KubeApi]:
    """A client that takes every refusal for an answer."""
    made = HttpKubeApi(credentials, policy=NO_RETRY)
    yield made
    await close(made, credentials)


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return f"t-{uuid.uuid4().hex[:12]}"
