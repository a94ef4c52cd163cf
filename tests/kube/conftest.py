"""The fake and the real API server behind the same adapter."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest
from tests.fakeapi.controlplane import ControlPlane
from tests.fakeapi.server import serving

from gpucdi_kube import HttpKubeApi, KubeApi, connect
from gpucdi_kube.credentials import Credentials


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.lab)])
async def api(request: pytest.FixtureRequest) -> AsyncIterator[KubeApi]:
    """Each API server in turn."""
    if request.param == "real":
        plane: ControlPlane = request.getfixturevalue("apiserver")
        made = await connect(str(plane.kubeconfig))
        yield made
        await made.close()
        return
    async with serving() as served:
        fake = HttpKubeApi(Credentials(served.url))
        yield fake
        await fake.close()


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return f"t-{uuid.uuid4().hex[:12]}"
