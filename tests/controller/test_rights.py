"""The operator on a real API server with exactly what the manifest grants, and that no more is needed.

What an agent may write is in ``test_admission``, what a viewer may see in ``test_viewer``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.controller.accounts import NAMESPACE, operators
from tests.controller.conftest import QUICK, Eventually
from tests.controller.scene import Scene, fresh, node_status
from tests.fakeapi.controlplane import ROOT, ControlPlane
from tests.fakeapi.realapi import RealApi, rules
from tests.fakeapi.server import FakeApi, Target

from gpucdi_agent.publish import IntentWatch, LeaseKeeper, Publisher
from gpucdi_kube import (
    Credentials,
    HttpKubeApi,
    SystemClock,
)
from gpucdi_kube.credentials import StaticAuthorization
from gpucdi_operator.app import Operator
from gpucdi_operator.options import Options

pytestmark = pytest.mark.timeout(400)
MANIFEST = ROOT / "manifests" / "install.yaml"
OPTIONAL = ROOT / "manifests" / "samples" / "optional-rights.yaml"


@pytest.mark.lab
async def test_the_incident_on_a_real_server_with_the_granted_rights(
    apiserver: ControlPlane, real: RealApi, eventually: Eventually
) -> None:
    scene = Scene(real)
    scene.runtime_class()
    scene.node("gpu-17")
    scene.agent_says("gpu-17", node_status(drifted=True))
    scene.policy("p", repair={"mode": "Observe"})
    operator = Operator(Options(http="127.0.0.1:0", timing=QUICK), operators(apiserver))
    running = asyncio.create_task(operator.run())
    try:
        await asyncio.wait_for(operator.watching.wait(), 120)
        scene.failing_pod("gpu-pod", "gpu-17")
        await eventually(lambda: scene.events("CdiDeviceUnresolvable"))
        await eventually(lambda: (scene.condition("gpu-17") or {}).get("status") == "True")
        await eventually(lambda: scene.spec("gpu-17").get("requests"))
        scene.agent_says("gpu-17", node_status(drifted=False))
        scene.pod_runs("gpu-pod")
        await eventually(lambda: scene.events("CdiDeviceRestored"))
        await eventually(lambda: (scene.condition("gpu-17") or {}).get("status") == "False")
    finally:
        operator.stop()
        await asyncio.wait_for(running, 120)
    described = apiserver.kubectl("describe", "pod", "gpu-pod")
    assert "CdiDeviceUnresolvable" in described
    assert "CdiDeviceRestored" in described
    table = apiserver.kubectl("get", "gpucdi", "gpu-17", "-o", "wide").splitlines()
    assert table[0].split()[:8] == [
        "NAME",
        "STATE",
        "GPUS",
        "KINDS",
        "MISSING",
        "CAUSE",
        "REPAIR",
        "AGE",
    ]
    assert table[1].split()[:6] == ["gpu-17", "Resolved", "1", "1/1", "0", "Observe"]


@pytest.fixture
def optional(apiserver: ControlPlane) -> Iterator[None]:
    """Let the operator have its optional rights on the real server."""
    apiserver.kubectl("apply", "-f", str(OPTIONAL))
    yield
    apiserver.kubectl("delete", "-f", str(OPTIONAL))


@pytest.mark.lab
@pytest.mark.usefixtures("optional")
async def test_a_taint_and_a_restart_on_a_real_server_with_the_optional_rights(
    apiserver: ControlPlane, real: RealApi, eventually: Eventually
) -> None:
    scene = Scene(real)
    scene.runtime_class()
    for number in range(5):
        scene.node(f"gpu-{number}")
        scene.agent_says(f"gpu-{number}", fresh(drifted=False))
    scene.policy(
        "p",
        taint="NoSchedule",
        restartWaitingPods={"namespaceSelector": {}, "perMinute": 10, "afterSeconds": 0},
    )
    timing = replace(QUICK, restart_settle_s=0.0)
    operator = Operator(Options(http="127.0.0.1:0", timing=timing), operators(apiserver))
    running = asyncio.create_task(operator.run())

    def taints() -> list[str]:
        body = real.find("nodes", "gpu-0") or {}
        return [item["key"] for item in body["spec"]["taints"]]

    try:
        await asyncio.wait_for(operator.watching.wait(), 60)
        scene.agent_says("gpu-0", fresh(drifted=True))
        scene.failing_pod("gpu-pod", "gpu-0", owner="ReplicaSet")
        both = ["node.kubernetes.io/not-ready", "gpucdi.io/unresolvable"]
        await eventually(lambda: taints() == both)
        await eventually(lambda: scene.events("CdiDeviceUnresolvable"))
        scene.agent_says("gpu-0", fresh(drifted=False))
        await eventually(lambda: taints() == both[:1])
        await eventually(lambda: scene.events("CdiPodRestarted"))
    finally:
        operator.stop()
        await asyncio.wait_for(running, 60)
    pod = real.find("pods", "gpu-pod", "default") or {}
    assert pod["metadata"]["deletionTimestamp"]
    assert "CdiPodRestarted" in apiserver.kubectl("describe", "pod", "gpu-pod")


@pytest.mark.lab
async def test_without_the_optional_rights_a_real_server_refuses_and_the_policy_says_so(
    apiserver: ControlPlane, real: RealApi, eventually: Eventually
) -> None:
    scene = Scene(real)
    scene.runtime_class()
    scene.node("gpu-0")
    scene.agent_says("gpu-0", fresh(drifted=True))
    chosen = {"namespaces": ["default"], "perMinute": 10, "afterSeconds": 0}
    everything = {"breaker": {"percent": 100, "minNodes": 100}}
    scene.policy("p", taint="NoSchedule", restartWaitingPods=chosen, repair=everything)
    timing = replace(QUICK, restart_settle_s=0.0)
    operator = Operator(Options(http="127.0.0.1:0", timing=timing), operators(apiserver))
    running = asyncio.create_task(operator.run())

    def missing() -> set[str]:
        status = (real.find("gpucdipolicies", "p") or {}).get("status", {})
        found = [item for item in status.get("conditions", []) if item["reason"] == "RightMissing"]
        return {item["type"] for item in found}

    try:
        await asyncio.wait_for(operator.watching.wait(), 120)
        scene.failing_pod("gpu-pod", "gpu-0", owner="ReplicaSet")
        await eventually(lambda: missing() == {"TaintsAllowed"})
        await eventually(lambda: scene.events("CdiDeviceUnresolvable"))
        scene.agent_says("gpu-0", fresh(drifted=False))
        await eventually(lambda: "PodRestartsAllowed" in missing())
    finally:
        operator.stop()
        await asyncio.wait_for(running, 120)
    assert "deletionTimestamp" not in (real.find("pods", "gpu-pod", "default") or {})["metadata"]


# The same rights on the fake: each is used, and no other is needed ---------------------------


def right(target: Target) -> tuple[str, str, str]:
    inner = f"/{target.subresource}" if target.subresource else ""
    verb = {"apply": "patch"}.get(target.verb, target.verb)
    return target.resource.group, f"{target.resource.plural}{inner}", verb


@pytest.fixture
def guarded(api: FakeApi) -> set[tuple[str, str, str]]:
    """Let the manifest's rules decide; return the set of rights that were used."""
    used: set[tuple[str, str, str]] = set()
    granted = {user: set(rules(user, MANIFEST)) for user in ("gpucdi-operator", "gpucdi-agent")}
    granted["gpucdi-operator"] |= set(rules("gpucdi-operator", OPTIONAL, MANIFEST))

    def allowed(user: str, target: Target) -> bool:
        group, resource, verb = right(target)
        found = {(target.namespace, group, resource, verb), ("", group, resource, verb)}
        if not found & granted[user]:
            return False
        used.add((group, resource, verb))
        return True

    api.tokens = {user: user for user in granted}
    api.authorizer = allowed
    return used


def granted_to(account: str, *more: Path) -> set[tuple[str, str, str]]:
    return {(group, resource, verb) for _, group, resource, verb in rules(account, MANIFEST, *more)}


async def test_the_operator_needs_every_right_that_it_has_and_no_other(
    api: FakeApi, scene: Scene, guarded: set[tuple[str, str, str]], eventually: Eventually
) -> None:
    scene.node("gpu-17")
    scene.agent_says("gpu-17", node_status(drifted=True))
    scene.policy("p")
    scene.failing_pod("runs", "gpu-17", event=False)
    scene.pod_runs("runs")
    credentials = Credentials(api.url, StaticAuthorization("Bearer gpucdi-operator"))
    timing = QUICK.__class__(
        **{name: getattr(QUICK, name) for name in QUICK.__slots__} | {"event_refresh_s": 0.5}
    )
    operator = Operator(Options(http="127.0.0.1:0", timing=timing), credentials)
    running = asyncio.create_task(operator.run())
    try:
        await asyncio.wait_for(operator.watching.wait(), 120)
        scene.failing_pod("gpu-pod", "gpu-17")
        await eventually(lambda: scene.events("CdiDeviceUnresolvable"))
        await asyncio.sleep(1)
        pod = api.find("pods", "gpu-pod", "default")
        assert pod is not None
        scene.warn(pod, pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["message"])
        await eventually(lambda: api.requests("patch", plural="events"))
        await eventually(lambda: guarded == granted_to("gpucdi-operator"))
    finally:
        operator.stop()
        await asyncio.wait_for(running, 120)
    refused = [entry for entry in api.log if entry.code == 403]
    assert refused == []


async def test_the_optional_rights_are_each_used_and_no_other_is_needed(
    api: FakeApi, scene: Scene, guarded: set[tuple[str, str, str]], eventually: Eventually
) -> None:
    for number in range(5):
        scene.node(f"gpu-{number}")
        scene.agent_says(f"gpu-{number}", fresh(drifted=number == 0))
    chosen = {"namespaceSelector": {}, "perMinute": 10, "afterSeconds": 0}
    scene.policy("p", taint="NoSchedule", restartWaitingPods=chosen)
    scene.failing_pod("gpu-pod", "gpu-0", owner="ReplicaSet")
    api.put("namespaces", {"metadata": {"name": "default"}})
    optional = granted_to("gpucdi-operator", OPTIONAL) - granted_to("gpucdi-operator")
    credentials = Credentials(api.url, StaticAuthorization("Bearer gpucdi-operator"))
    timing = replace(QUICK, restart_settle_s=0.0)
    operator = Operator(Options(http="127.0.0.1:0", timing=timing), credentials)
    running = asyncio.create_task(operator.run())
    try:
        await asyncio.wait_for(operator.watching.wait(), 60)
        await eventually(lambda: ("", "nodes", "patch") in guarded)
        await eventually(lambda: scene.events("CdiDeviceUnresolvable"))
        scene.agent_says("gpu-0", fresh(drifted=False))
        await eventually(lambda: scene.events("CdiPodRestarted"))
        assert guarded >= optional
    finally:
        operator.stop()
        await asyncio.wait_for(running, 60)
    assert [entry for entry in api.log if entry.code == 403] == []
    assert optional == {
        ("", "pods/eviction", "create"),
        ("", "namespaces", "get"),
        ("", "nodes", "get"),
        ("", "nodes", "patch"),
    }


async def test_the_agent_needs_every_right_that_it_has_and_no_other(
    api: FakeApi, scene: Scene, guarded: set[tuple[str, str, str]], eventually: Eventually
) -> None:
    scene.node("gpu-17")
    clock = SystemClock()
    client = HttpKubeApi(Credentials(api.url, StaticAuthorization("Bearer gpucdi-agent")))
    publisher = Publisher(client, "gpu-17", clock, Path("/nonexistent"))
    watch = IntentWatch(client, "gpu-17", clock, publisher, lambda _intent, _generation: None)
    lease = LeaseKeeper(client, "gpu-17", clock, lambda: True)
    publisher.show(node_status(drifted=True))
    tasks = [asyncio.create_task(part.run()) for part in (publisher, watch, lease)]
    try:
        await eventually(lambda: api.find("gpucdistatuses", "gpu-17"))
        await eventually(
            lambda: (
                guarded | {("coordination.k8s.io", "leases", "create")}
                == granted_to("gpucdi-agent")
            )
        )
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()
    assert [entry for entry in api.log if entry.code == 403] == []


# What a missing right looks like: each is refused once, which names it, and given afterwards ----


@pytest.fixture
def missed(api: FakeApi, guarded: set[tuple[str, str, str]]) -> set[tuple[str, str, str]]:
    """Refuse the first use of each right; return the rights that were refused so."""
    refused: set[tuple[str, str, str]] = set()
    granted = api.authorizer
    assert granted is not None
    assert not guarded

    def allowed(user: str, target: Target) -> bool:
        if granted(user, target) and right(target) in refused:
            return True
        refused.add(right(target))
        return False

    api.authorizer = allowed
    return refused


async def test_without_any_one_right_the_operator_is_refused_and_goes_on_once_it_has_it(
    api: FakeApi, scene: Scene, missed: set[tuple[str, str, str]], eventually: Eventually
) -> None:
    names = [f"gpu-{number}" for number in range(4)]
    scene.policy("p")
    for name in names:
        scene.node(name)
        scene.agent_says(name, node_status(drifted=True))
        scene.failing_pod(f"fails-{name}", name)
        scene.failing_pod(f"runs-{name}", name, event=False)
        scene.pod_runs(f"runs-{name}")
    timing = replace(QUICK, event_refresh_s=0.5, pod_resync_s=1.0, resync_s=1.0)
    credentials = Credentials(api.url, StaticAuthorization("Bearer gpucdi-operator"))
    operator = Operator(Options(http="127.0.0.1:0", timing=timing), credentials)
    running = asyncio.create_task(operator.run())
    try:
        await eventually(lambda: missed >= granted_to("gpucdi-operator"))
        await eventually(lambda: all(scene.condition(name) for name in names))
        await eventually(lambda: all(scene.spec(name).get("requests") for name in names))
        await eventually(lambda: len(scene.events("CdiDeviceUnresolvable")) == len(names))
    finally:
        operator.stop()
        await asyncio.wait_for(running, 120)
    assert missed == granted_to("gpucdi-operator")
    assert len([entry for entry in api.log if entry.code == 403]) == len(missed)


async def test_without_any_one_right_the_agent_is_refused_and_goes_on_once_it_has_it(
    api: FakeApi, scene: Scene, missed: set[tuple[str, str, str]], eventually: Eventually
) -> None:
    scene.node("gpu-17")
    clock = SystemClock()
    client = HttpKubeApi(Credentials(api.url, StaticAuthorization("Bearer gpucdi-agent")))
    publisher = Publisher(client, "gpu-17", clock, Path("/nonexistent"))
    watch = IntentWatch(client, "gpu-17", clock, publisher, lambda _intent, _generation: None)
    lease = LeaseKeeper(client, "gpu-17", clock, lambda: True)
    publisher.show(node_status(drifted=True))
    tasks = [asyncio.create_task(part.run()) for part in (publisher, watch, lease)]
    # An apply that makes the object needs it as well; the fake asks for the other verb alone.
    expected = granted_to("gpucdi-agent") - {("coordination.k8s.io", "leases", "create")}
    try:
        await eventually(lambda: missed >= expected)
        await eventually(lambda: (api.find("gpucdistatuses", "gpu-17") or {}).get("status"))
        await eventually(lambda: api.find("leases", "gpucdi-agent-gpu-17", NAMESPACE))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()
    assert missed == expected


@pytest.mark.lab
def test_a_real_server_takes_the_operators_pod_where_only_restricted_ones_may_run(
    apiserver: ControlPlane,
) -> None:
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": "only-restricted",
            "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
        },
    }
    pods: dict[str, dict[str, Any]] = {}
    for item in yaml.safe_load_all(MANIFEST.read_text()):
        if item["kind"] in {"Deployment", "DaemonSet"}:
            name = item["metadata"]["name"]
            template = item["spec"]["template"]
            meta = {**template["metadata"], "name": name, "namespace": "only-restricted"}
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta}
            pods[name] = {**body, "spec": template["spec"]}
    create = ("create", "--dry-run=server", "-f", "-")
    apiserver.kubectl("create", "-f", "-", stdin=json.dumps(namespace))
    try:
        made = apiserver.kubectl(*create, stdin=json.dumps(pods["gpucdi-operator"]))
        assert "pod/gpucdi-operator created" in made
        # That the server judges at all is seen from the agent, which needs the host.
        with pytest.raises(AssertionError, match="violates PodSecurity"):
            apiserver.kubectl(*create, stdin=json.dumps(pods["gpucdi-agent"]))
    finally:
        apiserver.kubectl("delete", "namespace", "only-restricted", "--wait=false")
