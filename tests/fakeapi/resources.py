"""Which resources the fake API server serves, and what is special about each.

Owns: names, scopes, subresources, selectable fields, and which lists merge by key. Sources:
kubernetes/kubernetes ``pkg/apis/core/v1/conversion.go`` (field labels) and the ``+listType``
markers of ``staging/src/k8s.io/api``; for our own resources the shipped CRDs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import yaml

Body: TypeAlias = dict[str, Any]
# Path of a list inside an object -> the keys that identify an item; () stands for a set. None is
# for a map that is one value: it has one owner and goes as a whole.
MergeKeys: TypeAlias = Mapping[tuple[str, ...], tuple[str, ...] | None]

CRDS = Path(__file__).parents[2] / "crds"
_META_KEYS: MergeKeys = {
    ("metadata", "ownerReferences"): ("uid",),
    ("metadata", "finalizers"): (),
}


@dataclass(frozen=True)
class Resource:
    """One resource of the API. ``schema`` is the structural schema of a custom resource."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = False
    has_status: bool = False
    fields: tuple[str, ...] = ()
    keys: MergeKeys = field(default_factory=dict, hash=False)
    schema: Body | None = field(default=None, hash=False)
    # Another door to the same objects, as events.k8s.io is for core Events.
    storage: str = ""

    @property
    def stored_as(self) -> str:
        return self.storage or f"{self.plural}.{self.group}"

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def merge_keys(self) -> MergeKeys:
        return {**_META_KEYS, **self.keys}

    @property
    def selectable(self) -> frozenset[str]:
        named = {"metadata.name"} | ({"metadata.namespace"} if self.namespaced else set())
        return frozenset(named | set(self.fields))


_EVENT_FIELDS = (
    *(f"involvedObject.{name}" for name in ("kind", "namespace", "name", "uid", "fieldPath")),
    *("reason", "reportingComponent", "source", "type"),
)
_CONDITIONS: MergeKeys = {("status", "conditions"): ("type",)}

NODES = Resource(
    "", "v1", "nodes", "Node", has_status=True, fields=("spec.unschedulable",), keys=_CONDITIONS
)
PODS = Resource(
    "",
    "v1",
    "pods",
    "Pod",
    namespaced=True,
    has_status=True,
    fields=("spec.nodeName", "spec.restartPolicy", "status.phase"),
    keys=_CONDITIONS,
)
CORE_EVENTS = Resource(
    "", "v1", "events", "Event", namespaced=True, fields=_EVENT_FIELDS, storage="events"
)
EVENTS = Resource(
    "events.k8s.io",
    "v1",
    "events",
    "Event",
    namespaced=True,
    fields=_EVENT_FIELDS,
    storage="events",
)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass")
DISRUPTION_BUDGETS = Resource(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True, has_status=True
)

# kopf does not watch these two here, but waits until it has discovered them.
NAMESPACES = Resource("", "v1", "namespaces", "Namespace")
DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition"
)

BUILT_IN = (
    NAMESPACES,
    DEFINITIONS,
    NODES,
    PODS,
    CORE_EVENTS,
    EVENTS,
    LEASES,
    RUNTIME_CLASSES,
    DISRUPTION_BUDGETS,
)


def custom_resources(folder: Path = CRDS) -> tuple[Resource, ...]:
    """Return the resources of every CustomResourceDefinition in ``folder``."""
    return tuple(
        _from_crd(document)
        for file in sorted(folder.glob("*.yaml"))
        for document in yaml.safe_load_all(file.read_text())
        if document and document["kind"] == "CustomResourceDefinition"
    )


def _from_crd(document: Body) -> Resource:
    spec = document["spec"]
    version = next(item for item in spec["versions"] if item["storage"])
    schema = version["schema"]["openAPIV3Schema"]
    return Resource(
        spec["group"],
        version["name"],
        spec["names"]["plural"],
        spec["names"]["kind"],
        namespaced=spec["scope"] == "Namespaced",
        has_status="status" in version.get("subresources", {}),
        fields=tuple(item["jsonPath"].lstrip(".") for item in version.get("selectableFields", ())),
        keys=dict(_keyed(schema, ())),
        schema=schema,
    )


def _keyed(
    schema: Body, path: tuple[str, ...]
) -> list[tuple[tuple[str, ...], tuple[str, ...] | None]]:
    """Return the path of each list that merges by key, and of each atomic map.

    Lists inside lists stay atomic.
    """
    if schema.get("x-kubernetes-map-type") == "atomic":
        return [(path, None)]
    match schema.get("x-kubernetes-list-type"):
        case "map":
            return [(path, tuple(schema["x-kubernetes-list-map-keys"]))]
        case "set":
            return [(path, ())]
    return [
        found
        for name, inner in schema.get("properties", {}).items()
        for found in _keyed(inner, (*path, name))
    ]
