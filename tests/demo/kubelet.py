"""The parts of a cluster that the demo plays itself: who registers the Node, and kubelet.

Owns: the objects of the captured incident as those components write them, through the API server
and nothing else. Whether a container may run is not played: kubelet's next try succeeds when the
runtime of its handler would resolve every name that the Pod asks for, on the copy, and not before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import yaml
from tests.demo.stage import CHECKOUT

from gpucdi.api import fields
from gpucdi_cli.demo import read_scene
from gpucdi_kube import KubeApi, KubeObject, paths
from gpucdi_kube.api import MERGE_PATCH, STRATEGIC_PATCH
from gpucdi_kube.clock import rfc3339


@dataclass(frozen=True, slots=True)
class Incident:
    """The captured Pod and where it was to run."""

    pod: KubeObject
    runtime_class: KubeObject

    @classmethod
    def of_tree(cls, tree: Path) -> Incident:
        """Read the objects that lie beside a captured tree."""
        return cls(load(tree / "pod.yaml"), load(tree / "runtimeclass.yaml"))

    @property
    def name(self) -> str:
        """The Pod's name."""
        return fields.text(fields.mapping(self.pod, "metadata"), "name")

    @property
    def namespace(self) -> str:
        """The Pod's namespace."""
        return fields.text(fields.mapping(self.pod, "metadata"), "namespace")

    @property
    def node_name(self) -> str:
        """The Node's name."""
        return fields.text(fields.mapping(self.pod, "spec"), "nodeName")

    @property
    def path(self) -> str:
        """The Pod's path on the API server."""
        return paths.pod(self.namespace, self.name)


async def install(api: KubeApi) -> None:
    """Create our CustomResourceDefinitions, as `kubectl apply -f crds/` does."""
    for file in sorted((CHECKOUT / "crds").glob("*.yaml")):
        await api.create(paths.CRDS, load(file))


async def register(api: KubeApi, incident: Incident) -> None:
    """Register the Node, and create the RuntimeClass that its Pods name."""
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "kubelet is posting ready status",
        "lastTransitionTime": _now(),
    }
    meta = {"name": incident.node_name, "labels": {"nvidia.com/gpu.present": "true"}}
    await api.create(paths.NODES, {"apiVersion": "v1", "kind": "Node", "metadata": meta})
    await api.patch(
        paths.node_status(incident.node_name),
        {"status": {"conditions": [ready]}},
        content_type=STRATEGIC_PATCH,
    )
    await api.create(paths.RUNTIME_CLASSES, incident.runtime_class)


async def fail_pod(api: KubeApi, incident: Incident) -> None:
    """Create the Pod and report its failure as captured: status, and a Warning Event."""
    path, status = incident.path, fields.mapping(incident.pod, "status")
    await api.create(path.rpartition("/")[0], incident.pod)
    made = await api.patch(f"{path}/status", {"status": status}, content_type=MERGE_PATCH)
    container = next(fields.objects(status, "containerStatuses"))
    ended = fields.mapping(fields.mapping(container, "lastState"), "terminated")
    meta = fields.mapping(made, "metadata")
    about = {name: fields.text(meta, name) for name in ("name", "namespace", "uid")}
    event: KubeObject = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{incident.name}.", "namespace": incident.namespace},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "fieldPath": f"spec.containers{{{fields.text(container, 'name')}}}",
            **about,
        },
        "type": "Warning",
        "reason": "Failed",
        "message": f"Error: {fields.text(ended, 'message')}",
        "source": {"component": "kubelet", "host": incident.node_name},
        "reportingComponent": "kubelet",
        "firstTimestamp": _now(),
        "lastTimestamp": _now(),
        "count": 1,
    }
    await api.create(f"/api/v1/namespaces/{incident.namespace}/events", event)


def unresolved(copy: Path) -> list[str]:
    """Return which of the Pod's names the runtime of its handler would not find on the copy."""
    scene = read_scene(copy)
    return [name for name in scene.pod.names if scene.registry.resolve([name]).edits is None]


async def run_pod(api: KubeApi, incident: Incident) -> None:
    """Report that the container runs."""
    found = await api.get(incident.path) or {}
    status = fields.mapping(found, "status")
    containers = [
        {
            **container,
            "state": {"running": {"startedAt": _now()}},
            "ready": True,
            "started": True,
            "restartCount": fields.integer(container, "restartCount") + 1,
        }
        for container in fields.objects(status, "containerStatuses")
    ]
    conditions = [
        {key: value for key, value in item.items() if key not in {"reason", "message"}}
        | {"status": "True"}
        for item in fields.objects(status, "conditions")
    ]
    body = {"status": {"containerStatuses": containers, "conditions": conditions}}
    await api.patch(f"{incident.path}/status", body, content_type=MERGE_PATCH)


def pod_word(pod: Mapping[str, object]) -> str:
    """Return what kubectl's column STATUS says of a Pod with one container."""
    status = fields.mapping(pod, "status")
    for container in fields.objects(status, "containerStatuses"):
        state = fields.mapping(container, "state")
        for name in ("waiting", "terminated"):
            reason = fields.text(fields.mapping(state, name), "reason")
            if reason:
                return reason
    return fields.text(status, "phase")


def _now() -> str:
    return rfc3339(datetime.now(UTC))


def load(path: Path) -> KubeObject:
    """Read one object from a YAML file."""
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {str(key): value for key, value in found.items()}
