"""What a person may look at who is given the shipped role ``gpucdi-viewer``, on a real API server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TypeAlias, cast

import pytest
import yaml
from tests.controller.accounts import NAMESPACE, credentials, token
from tests.controller.scene import Scene, node_status
from tests.fakeapi.controlplane import ROOT, ControlPlane
from tests.fakeapi.realapi import RealApi

from gpucdi_kube import HttpKubeApi, RetryPolicy, paths
from gpucdi_kube.errors import Forbidden

pytestmark = pytest.mark.lab
ROLE = "gpucdi-viewer"
RBAC = "rbac.authorization.k8s.io"
PLACES = {"gpucdistatuses": paths.STATUSES, "gpucdipolicies": paths.POLICIES}
VERBS = ("get", "list", "watch")
RIGHTS = [(plural, verb) for plural in PLACES for verb in VERBS]
Right: TypeAlias = tuple[str, str]


def shipped() -> list[Right]:
    """Return every right of the role that the manifest ships."""
    documents = yaml.safe_load_all((ROOT / "manifests" / "install.yaml").read_text())
    (role,) = (
        item
        for item in documents
        if (item["kind"], item["metadata"]["name"]) == ("ClusterRole", ROLE)
    )
    assert all(rule["apiGroups"] == ["gpucdi.io"] for rule in role["rules"])
    return [
        (plural, verb)
        for rule in role["rules"]
        for plural in rule["resources"]
        for verb in rule["verbs"]
    ]


@dataclass(frozen=True, slots=True)
class Viewer:
    """Somebody who looks. ``since`` are versions of both kinds after which something happened."""

    client: HttpKubeApi
    since: Mapping[str, str]

    async def use(self, right: Right) -> None:
        """Make use of a right once."""
        plural, verb = right
        place = PLACES[plural]
        if verb == "get":
            assert await self.client.get(f"{place}/seen")
        elif verb == "list":
            assert [item async for item in self.client.list(place)]
        else:
            since = self.since[plural]
            told = self.client.watch(place, resource_version=since, timeout_s=60)
            assert (await anext(told)).type == "MODIFIED"
            await cast("AsyncGenerator[object]", told).aclose()

    async def may(self, right: Right) -> bool:
        try:
            await self.use(right)
        except Forbidden:
            return False
        return True

    async def known(self, right: Right) -> None:
        """Wait until the server has taken in the role: as a whole, a moment after it was made."""
        while not await self.may(right):  # noqa: ASYNC110  # nothing tells of it
            await asyncio.sleep(0.05)


# Makes an account that has some rights, and waits until the server knows of them.
Bound: TypeAlias = Callable[..., Awaitable[Viewer]]


def account(name: str, role: str) -> list[dict[str, object]]:
    """Return a service account and what binds it to a ClusterRole."""
    meta = {"name": name, "namespace": NAMESPACE}
    subject = {"kind": "ServiceAccount", **meta}
    head = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name}}
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
        {**head, "roleRef": reference, "subjects": [subject]},
    ]


def role_of(name: str, rights: Iterable[Right]) -> dict[str, object]:
    rules = [
        {"apiGroups": ["gpucdi.io"], "resources": [plural], "verbs": [verb]}
        for plural, verb in rights
    ]
    head = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole"}
    return {**head, "metadata": {"name": name}, "rules": rules}


@pytest.fixture
def since(real: RealApi) -> dict[str, str]:
    """Make and change one object of each kind; return their versions before the change."""
    scene = Scene(real)
    scene.node("seen")
    scene.agent_says("seen", node_status(drifted=True))
    scene.policy("seen")
    versions = {
        plural: str((real.find(plural, "seen") or {})["metadata"]["resourceVersion"])
        for plural in PLACES
    }
    for plural in PLACES:
        real.put(plural, {"metadata": {"name": "seen", "labels": {"changed": "yes"}}})
    return versions


@pytest.fixture
async def bound(apiserver: ControlPlane, since: dict[str, str]) -> AsyncIterator[Bound]:
    """Make accounts that have the shipped role, or some rights and no role."""
    made: list[str] = []
    async with AsyncExitStack() as clients:

        async def bind(name: str, rights: Iterable[Right] = ()) -> Viewer:
            rights = list(rights)
            items = account(name, name if rights else ROLE)
            items += [role_of(name, rights)] if rights else []
            made.append(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
            await asyncio.to_thread(apiserver.kubectl, "apply", "-f", "-", stdin=made[-1])
            bearer = await asyncio.to_thread(token, apiserver, name)
            client = HttpKubeApi(credentials(apiserver, bearer), policy=RetryPolicy(deadline_s=0.0))
            clients.push_async_callback(client.close)
            viewer = Viewer(client, since)
            await asyncio.wait_for(viewer.known((rights or shipped())[0]), 60)
            return viewer

        yield bind
    for items in made:
        apiserver.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=items)


@pytest.mark.parametrize("right", RIGHTS, ids=lambda right: "-".join(reversed(right)))
async def test_without_any_one_right_of_the_role_a_viewer_is_refused_what_it_names(
    bound: Bound, right: Right
) -> None:
    plural, verb = right
    viewer = await bound("viewer-without", [item for item in shipped() if item != right])
    told = f'cannot {verb} resource "{plural}" in API group "gpucdi.io"'
    with pytest.raises(Forbidden, match=told):
        await viewer.use(right)
    assert [item for item in RIGHTS if not await viewer.may(item)] == [right]


async def test_a_viewer_may_see_both_kinds(bound: Bound) -> None:
    viewer = await bound("viewer")
    for right in RIGHTS:
        await viewer.use(right)


async def test_a_viewer_may_change_neither_kind(bound: Bound) -> None:
    viewer = (await bound("viewer")).client
    for place in PLACES.values():
        path = f"{place}/seen"
        known = await viewer.get(path)
        assert known
        fresh = {**known, "metadata": {"name": "fresh"}}
        for change in (
            viewer.create(place, fresh),
            viewer.replace(path, known),
            viewer.replace(f"{path}/status", known),
            viewer.apply(path, known, field_manager="m", force=True),
            viewer.apply(f"{path}/status", known, field_manager="m", force=True),
            viewer.delete(path),
        ):
            with pytest.raises(Forbidden, match="cannot"):
                await change


async def test_nothing_more_is_allowed_to_a_viewer_than_to_anybody_who_is_known(
    apiserver: ControlPlane, bound: Bound
) -> None:
    await bound("viewer")

    def allowed(name: str) -> set[str]:
        who = f"--as=system:serviceaccount:{NAMESPACE}:{name}"
        told = apiserver.kubectl("auth", "can-i", "--list", "--no-headers", who)
        return {" ".join(line.split()) for line in told.splitlines()}

    more = await asyncio.to_thread(lambda: allowed("viewer") - allowed("nobody-in-particular"))
    # Of each kind: no resource of another path, no object by name, and these verbs.
    assert more == {f"{plural}.gpucdi.io [] [] [get list watch]" for plural in PLACES}
