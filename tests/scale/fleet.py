"""The objects of a fleet that nobody has: Nodes of real weight, their agents' words, their Pods.

Owns: what is put where. Must not know: servers, measuring.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import yaml
from tests.controller.scene import C00, MESSAGE, node_status

from gpucdi.api import write_status
from gpucdi.api.names import LEASE_PREFIX, NAMESPACE
from gpucdi_kube.clock import rfc3339_micro

DRIFTED_PERCENT = 5
# Nobody renews in here, and a silent fleet is not what is measured.
LEASE_S = 7 * 86_400
# What makes a Node heavy, some 13 kB: the images on it.
IMAGES = [
    {"names": [f"registry.example/team/image-{i}@sha256:{i:064x}", f"registry.example/i:{i}"]}
    for i in range(80)
]
LABELS = {f"feature.example/label-{i}": "true" for i in range(60)}


def incident() -> dict[str, Any]:
    """Return the captured Pod of the first incident."""
    found: dict[str, Any] = yaml.safe_load((C00 / "pod.yaml").read_text())
    return found


@dataclass(frozen=True, slots=True)
class Fleet:
    """So many nodes, 5 % of them drifted, with so many running Pods spread evenly."""

    nodes: int
    pods: int
    pod: dict[str, Any] = field(default_factory=incident, repr=False)

    def name(self, number: int) -> str:
        return f"node-{number:05d}"

    def is_drifted(self, number: int) -> bool:
        return number * DRIFTED_PERCENT // 100 != (number + 1) * DRIFTED_PERCENT // 100

    def node(self, number: int) -> dict[str, Any]:
        """Return a Node with its status."""
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "ok",
            "lastHeartbeatTime": "2026-01-01T00:00:00Z",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name(number), "labels": LABELS},
            "status": {"conditions": [ready], "images": IMAGES},
        }

    def gpu_status(self, number: int, node_uid: str) -> dict[str, Any]:
        """Return a GpuCdiStatus as its agent published it."""
        name = self.name(number)
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node_uid}
        return {
            "apiVersion": "gpucdi.io/v1alpha1",
            "kind": "GpuCdiStatus",
            "metadata": {"name": name, "ownerReferences": [owner]},
            "spec": {"nodeName": name, "repair": {"mode": "Observe"}},
            "status": _ILL if self.is_drifted(number) else _WELL,
        }

    def lease(self, number: int) -> dict[str, Any]:
        """Return an agent's Lease that does not expire while anything is measured."""
        name = self.name(number)
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": LEASE_PREFIX + name, "namespace": NAMESPACE},
            "spec": {
                "holderIdentity": name,
                "leaseDurationSeconds": LEASE_S,
                "renewTime": rfc3339_micro(datetime.now(UTC)),
            },
        }

    def resting_pod(self, number: int) -> dict[str, Any]:
        """Return one of the fleet's own Pods, which run."""
        return self.running_pod(f"pod-{number:06d}", self.name(number % self.nodes))

    def running_pod(self, name: str, node: str) -> dict[str, Any]:
        """Return a Pod that uses a GPU and runs."""
        pod = self.failing_pod(name, node)
        status = copy.deepcopy(pod["status"])
        status["containerStatuses"][0].update(
            state={"running": {"startedAt": "2026-01-01T00:00:00Z"}}, lastState={}
        )
        return {**pod, "status": status}

    def failing_pod(self, name: str, node: str) -> dict[str, Any]:
        """Return the first incident's Pod under another name on another node."""
        meta = {"name": name, "namespace": "default"}
        spec = {**self.pod["spec"], "nodeName": node}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta,
            "spec": spec,
            "status": self.pod["status"],
        }


def warning(pod: dict[str, Any], name: str, message: str = MESSAGE) -> dict[str, Any]:
    """Return kubelet's Event about a Pod."""
    meta = pod["metadata"]
    about = {"kind": "Pod", "namespace": meta["namespace"], "name": meta["name"]}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": meta["namespace"]},
        "involvedObject": {**about, "uid": meta["uid"], "apiVersion": "v1"},
        "type": "Warning",
        "reason": "Failed",
        "message": message,
        "source": {"component": "kubelet"},
        "reportingComponent": "kubelet",
        "count": 1,
    }


_WELL, _ILL = (write_status(node_status(drifted=drifted)) for drifted in (False, True))
