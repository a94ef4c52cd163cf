"""What the fake and a real API server say of versions and tokens that are too old or made up."""

from __future__ import annotations

import pytest

from gpucdi_kube import KubeApi, KubeObject, paths
from gpucdi_kube.errors import Gone, Invalid


async def make_status(api: KubeApi, name: str) -> KubeObject:
    body: KubeObject = {
        "apiVersion": "gpucdi.io/v1alpha1",
        "kind": "GpuCdiStatus",
        "metadata": {"name": name},
        "spec": {"nodeName": name},
    }
    return await api.create(paths.STATUSES, body)


async def test_a_continue_token_that_nobody_gave_is_refused(once: KubeApi) -> None:
    with pytest.raises(Invalid, match="continue key is not valid"):
        await once.get(f"{paths.STATUSES}?limit=1&continue=made-up")


async def test_a_watch_from_a_version_before_all_history_is_gone(once: KubeApi, name: str) -> None:
    await make_status(once, name)
    with pytest.raises(Gone, match="too old resource version: 1"):
        await anext(once.watch(paths.STATUSES, resource_version="1", timeout_s=5))
