"""The fake and the real API server behind the same adapter."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest
from tests.fakeapi.controlplane import ControlPlane
from tests.fakeapi.server import serving

from gpucdi_kube import HttpKubeApi, KubeApi
from gpucdi_kube.credentials import Credentials, find
from gpucdi_kube.retry import NO_RETRY


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.lab)])
async def credentials(request: pytest.FixtureRequest) -> AsyncIterator[Credentials]:
    """Each API server in turn."""
    if request.param == "real":
        plane: ControlPlane = request.getfixturevalue("apiserver")
        yield await find(str(plane.kubeconfig))
        return
    async with serving() as served:
        yield Credentials(served.url)


@pytest.fixture
async def api(credentials: Credentials) -> AsyncIterator[KubeApi]:
    """A client as the programs use it."""
    made = HttpKubeApi(credentials)
    yield made
    await made.close()


@pytest.fixture
async def once(credentials: Credentials) -> AsyncIterator[KubeApi]:
    """A client that takes every refusal for an answer."""
    made = HttpKubeApi(credentials, policy=NO_RETRY)
    yield made
    await made.close()


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return f"t-{uuid.uuid4().hex[:12]}"
