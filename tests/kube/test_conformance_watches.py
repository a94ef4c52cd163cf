"""What the fake and a real API server say of versions: too old, made up, and how far one has come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from gpucdi.api import fields
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


def version_of(body: KubeObject) -> str:
    return fields.text(fields.mapping(body, "metadata"), "resourceVersion")


async def test_a_continue_token_that_nobody_gave_is_refused(once: KubeApi) -> None:
    with pytest.raises(Invalid, match="continue key is not valid"):
        await once.get(f"{paths.STATUSES}?limit=1&continue=made-up")


async def test_a_watch_from_a_version_before_all_history_is_gone(once: KubeApi, name: str) -> None:
    await make_status(once, name)
    with pytest.raises(Gone, match="too old resource version: 1"):
        await anext(once.watch(paths.STATUSES, resource_version="1", timeout_s=5))


async def test_a_page_of_a_list_that_the_store_has_forgotten_is_gone(
    once: KubeApi, forget: Callable[[], None], name: str
) -> None:
    for number in range(3):
        await make_status(once, f"{name}-{number}")
    page = await once.get(f"{paths.STATUSES}?limit=1")
    token = fields.text(fields.mapping(page, "metadata"), "continue")
    assert token
    await make_status(once, f"{name}-later")
    forget()

    async def until_refused() -> None:
        # A watch cache goes on answering until it has heard of it, some seconds later.
        for _ in range(60):
            await once.get(f"{paths.STATUSES}?limit=1&continue={token}")
            await asyncio.sleep(1)

    with pytest.raises(Gone, match="continue parameter is too old"):
        await until_refused()


async def test_a_watch_that_has_come_further_tells_so_before_it_ends(
    once: KubeApi, name: str
) -> None:
    began = version_of(await make_status(once, f"{name}-1"))
    await make_status(once, f"{name}-2")
    heard: list[tuple[str, str]] = []
    async for event in once.watch(paths.STATUSES, resource_version=began, timeout_s=8):
        heard.append((event.type, version_of(event.object)))
        if len(heard) == 1:
            # The watch is open: what comes now is news to it.
            last = version_of(await make_status(once, f"{name}-3"))
    assert heard[1] == ("ADDED", last)
    # Now and then the real one says it twice.
    assert set(heard[2:]) == {("BOOKMARK", last)}


async def test_a_watch_that_has_come_no_further_tells_nothing(once: KubeApi, name: str) -> None:
    began = version_of(await make_status(once, f"{name}-1"))
    later = version_of(await make_status(once, f"{name}-2"))
    watch = once.watch(paths.STATUSES, resource_version=began, timeout_s=5)
    heard = [(event.type, version_of(event.object)) async for event in watch]
    assert heard == [("ADDED", later)]
