"""What an agent may write, on a real API server: its own node's objects, and nothing in them
that is not its to say.

The role decides what an agent may ask for at all, the admission policy for which node. Where the
role alone would refuse, a test gives the agent the right, so that only the policy is left to.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator

import pytest
from tests.controller.accounts import NAMESPACE, credentials, token
from tests.fakeapi.controlplane import ControlPlane
from tests.fakeapi.realapi import RealApi

from gpucdi_kube import HttpKubeApi, KubeObject, RetryPolicy, paths
from gpucdi_kube.api import MERGE_PATCH
from gpucdi_kube.errors import Forbidden

pytestmark = [pytest.mark.timeout(400), pytest.mark.lab]
NODES = ("gpu-a", "gpu-b")


def account_api(plane: ControlPlane, bearer: str) -> HttpKubeApi:
    return HttpKubeApi(credentials(plane, bearer), policy=RetryPolicy(deadline_s=0.0))


@pytest.fixture
def uids(real: RealApi) -> dict[str, str]:
    """Register both Nodes; return their uids."""
    made = {
        name: real.put("nodes", {"metadata": {"name": name}, "spec": {}})["metadata"]
        for name in NODES
    }
    return {name: str(meta["uid"]) for name, meta in made.items()}


@pytest.fixture
async def agent(
    apiserver: ControlPlane, real: RealApi, uids: dict[str, str]
) -> AsyncIterator[HttpKubeApi]:
    """Speak to the real server with the token of the agent's Pod on node gpu-a."""
    assert uids
    pod = {
        "metadata": {"name": "agent-a", "namespace": NAMESPACE},
        "spec": {
            "nodeName": "gpu-a",
            "serviceAccountName": "gpucdi-agent",
            "containers": [{"name": "agent", "image": "i"}],
        },
    }
    real.put("pods", pod)
    made = account_api(apiserver, token(apiserver, "gpucdi-agent", "agent-a"))
    yield made
    await made.close()
    for node in NODES:
        real.remove("gpucdistatuses", node)
        real.remove("leases", f"gpucdi-agent-{node}", NAMESPACE)


@pytest.fixture
def more_rights(apiserver: ControlPlane) -> Iterator[None]:
    """Let the role of the agents allow everything with their objects."""
    every = ["create", "update", "patch", "delete"]
    rules = [{"apiGroups": ["gpucdi.io"], "resources": ["gpucdistatuses"], "verbs": every}]
    meta = {"name": "test-more-rights"}
    head = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    role = {**head, "kind": "ClusterRole", "metadata": meta, "rules": rules}
    subject = {"kind": "ServiceAccount", "name": "gpucdi-agent", "namespace": NAMESPACE}
    named = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", **meta}
    binding = {
        **head,
        "kind": "ClusterRoleBinding",
        "metadata": meta,
        "roleRef": named,
        "subjects": [subject],
    }
    both = json.dumps({"apiVersion": "v1", "kind": "List", "items": [role, binding]})
    apiserver.kubectl("apply", "-f", "-", stdin=both)
    yield
    apiserver.kubectl("delete", "-f", "-", stdin=both)


@pytest.fixture
async def mighty(agent: HttpKubeApi, real: RealApi, more_rights: None) -> HttpKubeApi:
    """Return the same agent once the server has heard of its further rights."""
    assert more_rights is None
    for node in NODES:
        real.put("gpucdistatuses", status_object(node, spec={"nodeName": node}))
    async with asyncio.timeout(60):
        while True:
            try:
                await agent.patch(
                    paths.gpu_cdi_status("gpu-a"),
                    {"metadata": {"labels": {"heard": "yes"}}},
                    content_type=MERGE_PATCH,
                )
            except Forbidden:
                await asyncio.sleep(0.1)
            else:
                return agent


def status_object(name: str, **body: object) -> KubeObject:
    return {
        "apiVersion": "gpucdi.io/v1alpha1",
        "kind": "GpuCdiStatus",
        "metadata": {"name": name},
        **body,
    }


def lease_object(node: str, **meta: object) -> KubeObject:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": f"gpucdi-agent-{node}", "namespace": NAMESPACE, **meta},
        "spec": {"holderIdentity": node, "leaseDurationSeconds": 180},
    }


def wish(node: str) -> dict[str, object]:
    return {"nodeName": node, "repair": {"mode": "Auto"}}


def spec_of(real: RealApi, node: str) -> object:
    return (real.find("gpucdistatuses", node) or {}).get("spec")


def owner(name: str, uid: str) -> dict[str, str]:
    return {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}


async def test_an_agent_may_write_its_own_node(agent: HttpKubeApi, uids: dict[str, str]) -> None:
    body = status_object("gpu-a", spec={"nodeName": "gpu-a"})
    body["metadata"] = {"name": "gpu-a", "ownerReferences": [owner("gpu-a", uids["gpu-a"])]}
    await agent.create(paths.STATUSES, body)
    await agent.apply(
        paths.gpu_cdi_status_status("gpu-a"),
        status_object("gpu-a", status={"state": "Drifted"}),
        field_manager="gpucdi-agent",
        force=True,
    )
    lease = paths.agent_lease("gpu-a")
    for _ in range(2):
        await agent.apply(lease, lease_object("gpu-a"), field_manager="gpucdi-agent", force=True)


async def test_an_agent_may_publish_though_the_operator_has_named_a_newer_owner(
    agent: HttpKubeApi, real: RealApi, uids: dict[str, str]
) -> None:
    body = status_object("gpu-a", spec={"nodeName": "gpu-a"})
    # As after the Node was made anew under its name: not the uid that the agent's token names.
    body["metadata"] = {"name": "gpu-a", "ownerReferences": [owner("gpu-a", uids["gpu-b"])]}
    real.put("gpucdistatuses", body)
    answer = await agent.apply(
        paths.gpu_cdi_status_status("gpu-a"),
        status_object("gpu-a", status={"state": "Drifted"}),
        field_manager="gpucdi-agent",
        force=True,
    )
    assert answer["status"] == {"state": "Drifted"}


async def test_an_agent_may_not_create_the_object_of_another_node(agent: HttpKubeApi) -> None:
    with pytest.raises(Forbidden, match="gpucdi-agent of node gpu-a may not write"):
        await agent.create(paths.STATUSES, status_object("gpu-b", spec={"nodeName": "gpu-b"}))


async def test_an_agent_may_not_publish_for_another_node(agent: HttpKubeApi, real: RealApi) -> None:
    real.put("gpucdistatuses", status_object("gpu-b", spec={"nodeName": "gpu-b"}))
    with pytest.raises(Forbidden, match="may not write gpucdistatuses gpu-b"):
        await agent.apply(
            paths.gpu_cdi_status_status("gpu-b"),
            status_object("gpu-b", status={"state": "Resolved"}),
            field_manager="gpucdi-agent",
            force=True,
        )


async def test_an_agent_may_not_renew_the_lease_of_another_node(agent: HttpKubeApi) -> None:
    with pytest.raises(Forbidden, match="may not write leases gpucdi-agent-gpu-b"):
        await agent.apply(
            paths.agent_lease("gpu-b"), lease_object("gpu-b"), field_manager="m", force=True
        )


async def test_an_agent_may_not_take_the_operators_lease(agent: HttpKubeApi) -> None:
    body = lease_object("gpu-a")
    body["metadata"] = {"name": "gpucdi-operator", "namespace": NAMESPACE}
    with pytest.raises(Forbidden, match="may not write leases gpucdi-operator"):
        await agent.apply(paths.lease("gpucdi-operator"), body, field_manager="m", force=True)


@pytest.mark.parametrize(
    "asked",
    [
        {"repair": {"mode": "Auto"}},
        {"repair": {"hold": {"reason": "Mine"}}},
        {"kinds": {"extra": ["a.com/b"]}},
        {"requests": [{"kind": "a.com/b", "names": ["x"]}]},
    ],
    ids=lambda asked: str(next(iter(asked))),
)
async def test_an_agent_may_not_create_itself_with_wishes(
    agent: HttpKubeApi, asked: dict[str, object]
) -> None:
    spec = {"nodeName": "gpu-a", **asked}
    with pytest.raises(Forbidden, match="without asking itself"):
        await agent.create(paths.STATUSES, status_object("gpu-a", spec=spec))


async def test_an_agent_may_not_tie_its_object_to_another_node(
    agent: HttpKubeApi, uids: dict[str, str]
) -> None:
    body = status_object("gpu-a", spec={"nodeName": "gpu-a"})
    for foreign in (owner("gpu-b", uids["gpu-b"]), owner("gpu-a", uids["gpu-b"])):
        body["metadata"] = {"name": "gpu-a", "ownerReferences": [foreign]}
        with pytest.raises(Forbidden, match="no owner but the agent's own Node"):
            await agent.create(paths.STATUSES, body)


async def test_an_agent_may_leave_no_finalizer_in_the_namespace(agent: HttpKubeApi) -> None:
    held = lease_object("gpu-a", finalizers=["example.com/stays"])
    path = paths.agent_lease("gpu-a")
    with pytest.raises(Forbidden, match="has no finalizer"):
        await agent.apply(path, held, field_manager="m", force=True)
    await agent.apply(path, lease_object("gpu-a"), field_manager="m", force=True)
    with pytest.raises(Forbidden, match="finalizers are not an agent's to change"):
        await agent.apply(path, held, field_manager="m", force=True)


@pytest.mark.parametrize("node", NODES)
async def test_an_agent_has_no_right_to_any_spec(
    agent: HttpKubeApi, real: RealApi, node: str
) -> None:
    """Neither to its own nor to another node's, however it is written."""
    real.put("gpucdistatuses", status_object(node, spec={"nodeName": node}))
    path, body = paths.gpu_cdi_status(node), status_object(node, spec=wish(node))
    with pytest.raises(Forbidden, match='cannot patch resource "gpucdistatuses"'):
        await agent.apply(path, body, field_manager="m", force=True)
    with pytest.raises(Forbidden, match='cannot patch resource "gpucdistatuses"'):
        await agent.patch(path, {"spec": wish(node)}, content_type=MERGE_PATCH)
    with pytest.raises(Forbidden, match='cannot update resource "gpucdistatuses"'):
        await agent.replace(path, body)
    assert spec_of(real, node) == {"nodeName": node, "repair": {"mode": "Observe"}}


@pytest.mark.parametrize(
    ("node", "told"),
    [
        ("gpu-a", "the spec of a GpuCdiStatus is written by the operator"),
        ("gpu-b", "gpucdi-agent of node gpu-a may not write gpucdistatuses gpu-b"),
    ],
)
async def test_with_a_right_to_every_spec_an_agent_is_refused_by_the_admission_policy(
    mighty: HttpKubeApi, real: RealApi, node: str, told: str
) -> None:
    path, body = paths.gpu_cdi_status(node), status_object(node, spec=wish(node))
    with pytest.raises(Forbidden, match=told):
        await mighty.apply(path, body, field_manager="m", force=True)
    with pytest.raises(Forbidden, match=told):
        await mighty.patch(path, {"spec": wish(node)}, content_type=MERGE_PATCH)
    known = real.find("gpucdistatuses", node) or {}
    with pytest.raises(Forbidden, match=told):
        await mighty.replace(path, {**known, "spec": wish(node)})
    assert spec_of(real, node) == {"nodeName": node, "repair": {"mode": "Observe"}}


async def test_with_a_right_to_its_object_an_agent_may_not_change_the_owner(
    mighty: HttpKubeApi, uids: dict[str, str]
) -> None:
    tied = {"metadata": {"ownerReferences": [owner("gpu-b", uids["gpu-b"])]}}
    with pytest.raises(Forbidden, match="owners and finalizers are not an agent's to change"):
        await mighty.patch(paths.gpu_cdi_status("gpu-a"), tied, content_type=MERGE_PATCH)


async def test_an_agent_has_no_right_to_delete_anything(agent: HttpKubeApi, real: RealApi) -> None:
    for node in NODES:
        real.put("gpucdistatuses", status_object(node, spec={"nodeName": node}))
        with pytest.raises(Forbidden, match="cannot delete resource"):
            await agent.delete(paths.gpu_cdi_status(node))


async def test_with_a_right_to_delete_an_agent_is_refused_for_another_node_alone(
    mighty: HttpKubeApi, real: RealApi
) -> None:
    with pytest.raises(Forbidden, match="may not write gpucdistatuses gpu-b"):
        await mighty.delete(paths.gpu_cdi_status("gpu-b"))
    await mighty.delete(paths.gpu_cdi_status("gpu-a"))
    assert real.find("gpucdistatuses", "gpu-a") is None
    assert real.find("gpucdistatuses", "gpu-b") is not None


async def test_a_token_that_names_no_node_is_refused(
    apiserver: ControlPlane, uids: dict[str, str]
) -> None:
    assert uids
    stolen = account_api(apiserver, token(apiserver, "gpucdi-agent"))
    with pytest.raises(Forbidden, match="names no node"):
        await stolen.create(paths.STATUSES, status_object("gpu-a", spec={"nodeName": "gpu-a"}))
    await stolen.close()


async def test_an_agent_reads_neither_pods_nor_nodes(agent: HttpKubeApi) -> None:
    for path in (paths.PODS, paths.NODES, paths.CORE_EVENTS):
        with pytest.raises(Forbidden, match="cannot list resource"):
            await anext(agent.list(path))
