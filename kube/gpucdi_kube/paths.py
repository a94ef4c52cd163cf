"""Where our resources live on the API server. Owns paths only."""

from __future__ import annotations

from gpucdi.api.names import GROUP, LEASE_PREFIX, NAMESPACE, PLURAL_POLICY, PLURAL_STATUS, VERSION

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
CORE_EVENTS = "/api/v1/events"
RUNTIME_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
STATUSES = f"/apis/{GROUP}/{VERSION}/{PLURAL_STATUS}"
POLICIES = f"/apis/{GROUP}/{VERSION}/{PLURAL_POLICY}"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def node(name: str) -> str:
    """Return the path of a Node."""
    return f"{NODES}/{name}"


def node_status(name: str) -> str:
    """Return the path of a Node's status subresource."""
    return f"{NODES}/{name}/status"


def gpu_cdi_status(node_name: str) -> str:
    """Return the path of the GpuCdiStatus of a Node."""
    return f"{STATUSES}/{node_name}"


def gpu_cdi_status_status(node_name: str) -> str:
    """Return the path of the status subresource of the GpuCdiStatus of a Node."""
    return f"{STATUSES}/{node_name}/status"


def policy_status(name: str) -> str:
    """Return the path of the status subresource of a GpuCdiPolicy."""
    return f"{POLICIES}/{name}/status"


def pod(namespace: str, name: str) -> str:
    """Return the path of a Pod."""
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def pod_eviction(namespace: str, name: str) -> str:
    """Return the path that evicts a Pod: it is deleted unless its disruption budget says no."""
    return f"{pod(namespace, name)}/eviction"


def namespace(name: str) -> str:
    """Return the path of a Namespace."""
    return f"/api/v1/namespaces/{name}"


def runtime_class(name: str) -> str:
    """Return the path of a RuntimeClass."""
    return f"{RUNTIME_CLASSES}/{name}"


def leases(namespace: str = NAMESPACE) -> str:
    """Return the path of the Leases of a namespace."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def lease(name: str, namespace: str = NAMESPACE) -> str:
    """Return the path of a Lease."""
    return f"{leases(namespace)}/{name}"


def agent_lease(node_name: str, namespace: str = NAMESPACE) -> str:
    """Return the path of the Lease that the agent of a Node renews."""
    return lease(LEASE_PREFIX + node_name, namespace)


def events(namespace: str) -> str:
    """Return the path of the Events (events.k8s.io/v1) of a namespace."""
    return f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"


def event(namespace: str, name: str) -> str:
    """Return the path of an Event (events.k8s.io/v1)."""
    return f"{events(namespace)}/{name}"
