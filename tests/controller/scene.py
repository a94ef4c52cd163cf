"""A cluster's worth of objects for tests of the operator: nodes, agents' words, failing Pods.

The Pod is the captured one of the first incident; nothing here is made up about its status.
"""

from __future__ import annotations

import copy
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import yaml

from gpucdi.api import (
    Condition,
    ConditionStatus,
    GpuDevice,
    GpuStatus,
    HandlerStatus,
    KindStatus,
    MissingNames,
    NearMiss,
    NodeState,
    NodeStatus,
    write_status,
)
from gpucdi.api.status import FileStatus
from gpucdi.findings import Cause
from gpucdi_kube.clock import rfc3339, rfc3339_micro

C00 = Path(__file__).parents[2] / "examples" / "c00"
KIND = "management.nvidia.com/gpu"
UUID = "GPU-4044aeb5-b7e4-8cb0-69a8-40490ce01a2f"
MESSAGE = (
    "Error: failed to create containerd task: failed to create shim task: OCI runtime create "
    "failed: could not apply required modification to OCI specification: error modifying OCI "
    f"spec: failed to inject CDI devices: unresolvable CDI devices {KIND}={UUID}"
)
LATER = "2026-07-29T08:00:00Z"


def node_status(*, drifted: bool) -> NodeStatus:
    """Return what the agent of the incident's node says, before and after the repair."""
    missing = (UUID, "0") if drifted else ()
    cause = Cause.ONLY_ALL_DEVICE if drifted else None
    return NodeStatus(
        state=NodeState.DRIFTED if drifted else NodeState.RESOLVED,
        observed_generation=1,
        cause=cause,
        mode="Observe",
        gpus=GpuStatus("nvml", "570.86.15", "12.8", (GpuDevice(UUID, 0, 0),)),
        handlers=(
            HandlerStatus(
                "nvidia",
                "containerd 2.2.7",
                "/usr/local/nvidia/toolkit/nvidia-container-runtime",
                "/usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml",
                "1.18.2",
                "cdi",
                KIND,
                ("/etc/cdi", "/var/run/cdi"),
                is_nvidia=True,
            ),
        ),
        kinds=(
            KindStatus(
                KIND,
                ("nvidia",),
                managed=True,
                expected=3,
                resolvable=3 - len(missing),
                missing=MissingNames(len(missing), missing),
                cause=cause,
                near_miss=NearMiss("nvidia.com/gpu", 2) if drifted else None,
                files=(FileStatus("/var/run/cdi/management.nvidia.com-gpu.yaml", devices=1),),
            ),
        ),
        conditions=(
            Condition(
                "Resolvable",
                ConditionStatus.FALSE if drifted else ConditionStatus.TRUE,
                "OnlyAllDevice" if drifted else "AllNamesResolve",
                f"2 of 3 names of {KIND} do not resolve" if drifted else "3 names resolve",
                LATER,
            ),
        ),
    )


def owned_by(kind: str, api: str = "apps/v1") -> dict[str, Any]:
    """Return the reference to a controller of a Pod."""
    reference = {"apiVersion": api, "kind": kind, "name": "trainer", "uid": "owner-uid"}
    return {**reference, "controller": True, "blockOwnerDeletion": True}


def fresh(*, drifted: bool, since: datetime | None = None) -> NodeStatus:
    """Return the same as ``node_status``, begun now or at ``since``."""
    status = node_status(drifted=drifted)
    moment = rfc3339(since or datetime.now(UTC))
    condition = replace(status.conditions[0], last_transition_time=moment)
    return replace(status, conditions=(condition,))


class Outside(Protocol):
    """An API server as its administrator sees it: the fake or a real one."""

    def put(self, plural: str, body: dict[str, Any]) -> dict[str, Any]: ...

    def find(self, plural: str, name: str, namespace: str = "") -> dict[str, Any] | None: ...

    def all(self, plural: str, namespace: str = "") -> list[dict[str, Any]]: ...

    def remove(self, plural: str, name: str, namespace: str = "") -> None: ...


@dataclass(slots=True)
class Scene:
    """Acts as kubelets, agents and users."""

    api: Outside

    def node(self, name: str, **meta: Any) -> None:
        """Register a Node as kubelet does."""
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ok"}
        body = {"metadata": {"name": name, **meta}, "spec": {}, "status": {"conditions": [ready]}}
        self.api.put("nodes", body)

    def agent_says(self, name: str, status: NodeStatus) -> None:
        """Publish a status as the agent of the node does, with a fresh Lease."""
        body = {"metadata": {"name": name}, "status": write_status(status)}
        if self.api.find("gpucdistatuses", name) is None:
            body["spec"] = {"nodeName": name, "repair": {"mode": "Observe"}}
        self.api.put("gpucdistatuses", body)
        self.lease(name)

    def policy(self, name: str, **spec: Any) -> None:
        """Create or change a GpuCdiPolicy with the defaults that the schema fills in."""
        repair = {"mode": "Auto", **spec.pop("repair", {})}
        kinds = {"strategies": ["uuid", "index"], "none": False, **spec.pop("kinds", {})}
        body = {"priority": 0, "nodeSelector": {}, **spec, "repair": repair, "kinds": kinds}
        self.api.put("gpucdipolicies", {"metadata": {"name": name}, "spec": body})

    def lease(self, name: str, age_s: float = 0.0, duration_s: int = 180) -> None:
        """Renew an agent's Lease, as of ``age_s`` seconds ago."""
        moment = datetime.now(UTC) - timedelta(seconds=age_s)
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": duration_s,
            "renewTime": rfc3339_micro(moment),
        }
        meta = {"name": f"gpucdi-agent-{name}", "namespace": "gpucdi-system"}
        self.api.put("leases", {"metadata": meta, "spec": spec})

    def runtime_class(self) -> None:
        """Create the incident's RuntimeClass."""
        self.api.put("runtimeclasses", yaml.safe_load((C00 / "runtimeclass.yaml").read_text()))

    def failing_pod(
        self, name: str, node: str, *, event: bool = True, owner: str = "", **meta: Any
    ) -> dict[str, Any]:
        """Create the incident's Pod under another name, with kubelet's Event.

        ``owner`` is the kind of a controller of apps/v1 that has made it.
        """
        pod = copy.deepcopy(yaml.safe_load((C00 / "pod.yaml").read_text()))
        pod["metadata"].update(name=name, uid=str(uuid.uuid4()), **meta)
        if owner:
            pod["metadata"]["ownerReferences"] = [owned_by(owner)]
        pod["spec"]["nodeName"] = node
        made = self.api.put("pods", pod)
        if event:
            self.warn(made, MESSAGE)
        return made

    def pending_pod(self, name: str, node: str, **waiting: str) -> dict[str, Any]:
        """Create the incident's Pod before any of its containers was made: it waits."""
        pod = self.failing_pod(name, node, event=False)
        container = {"name": "ubuntu-container", "state": {"waiting": waiting}}
        status = {**pod["status"], "phase": "Pending", "containerStatuses": [container]}
        return self.api.put("pods", {**pod, "status": status})

    def warn(self, pod: dict[str, Any], text: str, reason: str = "Failed") -> None:
        """Send a Warning Event about a Pod, as kubelet does."""
        meta = pod["metadata"]
        about = {"kind": "Pod", "namespace": meta["namespace"], "name": meta["name"]}
        self.api.put(
            "events",
            {
                "metadata": {
                    "name": f"{meta['name']}.{uuid.uuid4().hex[:16]}",
                    "namespace": meta["namespace"],
                },
                "involvedObject": {**about, "uid": meta["uid"], "apiVersion": "v1"},
                "type": "Warning",
                "reason": reason,
                "message": text,
                "source": {"component": "kubelet"},
                "reportingComponent": "kubelet",
                "count": 1,
            },
        )

    def pod_runs(self, name: str, namespace: str = "default") -> None:
        """Let the Pod's container run, as kubelet reports it after a repair."""
        pod = copy.deepcopy(self.api.find("pods", name, namespace))
        assert pod is not None
        container = pod["status"]["containerStatuses"][0]
        container["state"] = {"running": {"startedAt": LATER}}
        container["ready"] = container["started"] = True
        self.api.put("pods", pod)

    # What can be seen --------------------------------------------------------------------

    def condition(self, node: str) -> dict[str, Any] | None:
        """Return our condition on a Node."""
        body = self.api.find("nodes", node)
        assert body is not None
        conditions: Iterable[dict[str, Any]] = body["status"]["conditions"]
        return next((item for item in conditions if item["type"] == "GpuCdiUnresolvable"), None)

    def events(self, reason: str) -> list[dict[str, Any]]:
        """Return the Events with a reason, in the form of core/v1."""
        return [event for event in self.api.all("events") if event["reason"] == reason]

    def events_of_ours(self) -> list[dict[str, Any]]:
        """Return every Event that the operator wrote."""
        return [*self.events("CdiDeviceUnresolvable"), *self.events("CdiDeviceRestored")]

    def spec(self, node: str) -> dict[str, Any]:
        """Return the spec of a GpuCdiStatus."""
        body = self.api.find("gpucdistatuses", node)
        assert body is not None
        spec: dict[str, Any] = body["spec"]
        return spec
