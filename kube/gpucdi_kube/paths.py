"""Where our resources live on the API server. Owns paths, and that a name stays one segment.

Names come from objects that anybody may write: an Event may say that it is about the Pod
``../../other/pods/x``, and the API server takes it. Such a name is no object's, so asking for it is
``NotFound``. Source of the rule: kubernetes/apimachinery ``pkg/api/validation/path/name.go``.
"""

from __future__ import annotations

from urllib.parse import quote

from gpucdi.api.names import GROUP, LEASE_PREFIX, NAMESPACE, PLURAL_POLICY, PLURAL_STATUS, VERSION
from gpucdi_kube.errors import NotFound

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
CORE_EVENTS = "/api/v1/events"
RUNTIME_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
STATUSES = f"/apis/{GROUP}/{VERSION}/{PLURAL_STATUS}"
POLICIES = f"/apis/{GROUP}/{VERSION}/{PLURAL_POLICY}"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def _segment(name: str) -> str:
    if name in {"", ".", ".."} or "/" in name or "%" in name:
        raise NotFound(f"{name!r} cannot be the name of an object", code=404)
    return quote(name, safe="")


def node(name: str) -> str:
    """Return the path of a Node."""
    return f"{NODES}/{_segment(name)}"


def node_status(name: str) -> str:
    """Return the path of a Node's status subresource."""
    return f"{node(name)}/status"


def gpu_cdi_status(node_name: str) -> str:
    """Return the path of the GpuCdiStatus of a Node."""
    return f"{STATUSES}/{_segment(node_name)}"


def gpu_cdi_status_status(node_name: str) -> str:
    """Return the path of the status subresource of the GpuCdiStatus of a Node."""
    return f"{gpu_cdi_status(node_name)}/status"


def policy_status(name: str) -> str:
    """Return the path of the status subresource of a GpuCdiPolicy."""
    return f"{POLICIES}/{_segment(name)}/status"


def pod(namespace: str, name: str) -> str:
    """Return the path of a Pod."""
    return f"/api/v1/namespaces/{_segment(namespace)}/pods/{_segment(name)}"


def pod_eviction(namespace: str, name: str) -> str:
    """Return the path that evicts a Pod: it is deleted unless its disruption budget says no."""
    return f"{pod(namespace, name)}/eviction"


def namespace(name: str) -> str:
    """Return the path of a Namespace."""
    return f"/api/v1/namespaces/{_segment(name)}"


def runtime_class(name: str) -> str:
    """Return the path of a RuntimeClass."""
    return f"{RUNTIME_CLASSES}/{_segment(name)}"


def leases(namespace: str = NAMESPACE) -> str:
    """Return the path of the Leases of a namespace."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{_segment(namespace)}/leases"


def lease(name: str, namespace: str = NAMESPACE) -> str:
    """Return the path of a Lease."""
    return f"{leases(namespace)}/{_segment(name)}"


def agent_lease(node_name: str, namespace: str = NAMESPACE) -> str:
    """Return the path of the Lease that the agent of a Node renews."""
    return lease(LEASE_PREFIX + node_name, namespace)


def events(namespace: str) -> str:
    """Return the path of the Events (events.k8s.io/v1) of a namespace."""
    return f"/apis/events.k8s.io/v1/namespaces/{_segment(namespace)}/events"


def event(namespace: str, name: str) -> str:
    """Return the path of an Event (events.k8s.io/v1)."""
    return f"{events(namespace)}/{_segment(name)}"
