"""What the operator counts. Owns names, labels and help; facts about the fleet only.

Every label value that is known beforehand exists from the start with 0, so that ``increase()`` sees
the first hit.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from gpucdi.api import NodeState
from gpucdi.api.names import (
    EVENT_LABEL_UNREADABLE,
    EVENT_REPAIRS_RESUMED,
    EVENT_REPAIRS_STOPPED,
    EVENT_RESTARTED,
    EVENT_RESTORED,
    EVENT_UNRESOLVABLE,
)
from gpucdi.findings import Cause
from gpucdi_kube import RequestRecord
from gpucdi_operator.restarts import Why
from gpucdi_operator.store import Store

RESTART_REFUSALS = ("DisruptionBudget", "Busy", "Admission", "Rights")
EVENT_REASONS = (
    EVENT_UNRESOLVABLE,
    EVENT_RESTORED,
    EVENT_RESTARTED,
    EVENT_REPAIRS_STOPPED,
    EVENT_REPAIRS_RESUMED,
    EVENT_LABEL_UNREADABLE,
)
# Results of repairs that agents tell of; a test compares with the agent. What a newer one may invent
# is counted as OTHER.
REPAIR_RESULTS = ("Succeeded", "RolledBack", "Failed", "Removed")
OTHER = "other"
# What is asked for, by the plural in the path, and how; no other combination begins with zero.
REQUESTS: Mapping[str, tuple[str, ...]] = {
    "nodes": ("list", "get", "apply", "patch"),
    "gpucdistatuses": ("list", "apply"),
    "gpucdipolicies": ("list", "apply"),
    "pods": ("list", "get"),
    "evictions": ("create",),
    "events": ("list", "get", "create", "patch"),
    "runtimeclasses": ("list",),
    "namespaces": ("get",),
    "leases": ("list", "get", "create", "replace"),
}
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_LONG_SECONDS = (1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600)


def resource_of(path: str) -> str:
    """Return the plural of what a path of the API leads to; ``other`` for what we never ask for.

    A subresource counts as its resource, but for an eviction, which is a deed of its own.
    """
    parts = path.strip("/").split("/")
    # /api/VERSION/... or /apis/GROUP/VERSION/..., then perhaps namespaces/NAMESPACE.
    inner = parts[2:] if parts[0] == "api" else parts[3:]
    if inner[:1] == ["namespaces"] and len(inner) > 2:  # noqa: PLR2004  # more than its own path
        inner = inner[2:]
    plural = "evictions" if inner[2:] == ["eviction"] else "".join(inner[:1])
    return plural if plural in REQUESTS else OTHER


class Metrics:
    """All metrics in one registry of their own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.leader = Gauge(
            "gpucdi_operator_leader", "1 while this replica holds the Lease.", registry=registry
        )
        self.nodes = Gauge(
            "gpucdi_nodes", "Nodes with a GpuCdiStatus, by state.", ["state"], registry=registry
        )
        self.causes = Gauge(
            "gpucdi_nodes_with_cause", "Nodes by main cause.", ["cause"], registry=registry
        )
        self.silent = Gauge(
            "gpucdi_nodes_silent", "Nodes whose agent's Lease has expired.", registry=registry
        )
        self.missing = Gauge(
            "gpucdi_names_missing",
            "Expected device names that do not resolve, over all nodes.",
            registry=registry,
        )
        self.pods_failing = Gauge(
            "gpucdi_pods_failing", "Explained Pods that do not run yet.", registry=registry
        )
        self.explained = Counter(
            "gpucdi_pods_explained",
            "Explaining Events on Pods, by cause.",
            ["cause"],
            registry=registry,
        )
        self.restored = Counter(
            "gpucdi_pods_restored", "Restored Events on Pods.", registry=registry
        )
        self.condition_writes = Counter(
            "gpucdi_node_condition_writes",
            "Writes of the Node condition, by its status.",
            ["status"],
            registry=registry,
        )
        self.events_seen = Counter(
            "gpucdi_operator_events_seen",
            "Core Events received, by whether their text tells of CDI.",
            ["cdi"],
            registry=registry,
        )
        self.events = Counter(
            "gpucdi_operator_events_written",
            "Events written, by reason and kind of write.",
            ["reason", "write"],
            registry=registry,
        )
        self.requests = Counter(
            "gpucdi_operator_api_requests",
            "Requests to the API server beside kopf's watches, the leader's own Lease included.",
            ["verb", "resource", "code"],
            registry=registry,
        )
        self.repairs = Counter(
            "gpucdi_repairs_observed",
            "Repairs that agents tell of, by result; counted by the replica that leads, so add up.",
            ["result"],
            registry=registry,
        )
        self.breaker = Gauge(
            "gpucdi_breaker_open",
            "1 while the breaker of a policy stops repairs.",
            ["policy"],
            registry=registry,
        )
        self.tainted = Gauge(
            "gpucdi_nodes_tainted",
            "Nodes that carry the taint gpucdi.io/unresolvable.",
            registry=registry,
        )
        self.taint_writes = Counter(
            "gpucdi_node_taint_writes",
            "Writes of the taint, by what was done (put, removed).",
            ["write"],
            registry=registry,
        )
        self.restarted = Counter(
            "gpucdi_pods_restarted",
            "Waiting Pods that were evicted after a repair, by why kubelet does not start them.",
            ["why"],
            registry=registry,
        )
        self.restarts_refused = Counter(
            "gpucdi_pod_restarts_refused",
            "Evictions that the API server refused for now, by what stood against them.",
            ["by"],
            registry=registry,
        )
        self.rights_missing = Gauge(
            "gpucdi_operator_right_missing",
            "1 while a policy asks for what the operator has no right to do.",
            ["feature"],
            registry=registry,
        )
        self.queue_depth = Gauge(
            "gpucdi_operator_queue_depth", "Keys that wait.", ["queue"], registry=registry
        )
        self.failures = Counter(
            "gpucdi_operator_failures", "Attempts that failed.", ["queue"], registry=registry
        )
        self.time_to_explain = Histogram(
            "gpucdi_time_to_explain_seconds",
            "From seeing a Pod's failure to its Event.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.time_to_restore = Histogram(
            "gpucdi_time_to_restore_seconds",
            "From explaining a Pod's failure to seeing it run.",
            buckets=_LONG_SECONDS,
            registry=registry,
        )
        self.time_to_repair = Histogram(
            "gpucdi_time_to_repair_seconds",
            "From a node's published drift to all names resolving, whoever mended it, by the node's "
            "clock; observed by the replica that leads, so add up.",
            buckets=_LONG_SECONDS,
            registry=registry,
        )
        self._create_zeros()

    def _create_zeros(self) -> None:
        causes = tuple(cause.value for cause in Cause)
        known: tuple[tuple[Counter | Gauge, tuple[str, ...]], ...] = (
            (self.nodes, tuple(state.value for state in NodeState)),
            (self.causes, causes),
            (self.explained, causes),
            (self.condition_writes, ("True", "False", "Unknown", "removed")),
            (self.events_seen, ("true", "false")),
            (self.repairs, REPAIR_RESULTS),
            (self.taint_writes, ("put", "removed")),
            (self.restarted, tuple(why.value for why in Why)),
            (self.restarts_refused, RESTART_REFUSALS),
            (self.rights_missing, ("restarts", "taints")),
            (self.queue_depth, ("nodes", "pods")),
            (self.failures, ("nodes", "pods", "fleet")),
        )
        for metric, values in known:
            for value in values:
                metric.labels(value)
        for reason in EVENT_REASONS:
            for write in ("create", "series"):
                self.events.labels(reason, write)
        for resource, verbs in REQUESTS.items():
            for verb in verbs:
                for code in ("201" if verb == "create" else "200", "0"):
                    self.requests.labels(verb, resource, code)

    def request(self, record: RequestRecord) -> None:
        """Count one request of the adapter."""
        self.requests.labels(record.verb, resource_of(record.path), str(record.code)).inc()

    def failed(self, queue: str) -> None:
        """Count a failed attempt."""
        self.failures.labels(queue).inc()

    def fleet(self, store: Store) -> None:
        """Set the gauges from what the store knows."""
        states = Tally(record.status.state.value for record in store.statuses.values())
        causes = Tally(
            record.status.cause.value
            for record in store.statuses.values()
            if record.status.cause is not None
        )
        for state in NodeState:
            self.nodes.labels(state.value).set(states[state.value])
        for cause in Cause:
            self.causes.labels(cause.value).set(causes[cause.value])
        self.silent.set(len(store.silent & store.statuses.keys()))
        self.tainted.set(sum(node.tainted for node in store.nodes.values()))
        self.missing.set(sum(record.status.missing for record in store.statuses.values()))

    def text(self) -> bytes:
        """Return the exposition format."""
        return generate_latest(self.registry)
