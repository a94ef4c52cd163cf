"""What the agent measures of its own node.

Owns: names, labels and buckets. No UUID is ever a label: devices come and go, and each would leave
a dead series. Must not know: how the numbers come about.
"""

from __future__ import annotations

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from gpucdi import __version__
from gpucdi.api import NodeState, NodeStatus, RepairRecord
from gpucdi.findings import Cause

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
RESULTS = ("Succeeded", "RolledBack", "Failed", "Removed")
# Causes that a spec file of ours mends; every result exists for them from the start, so that the
# first one counts in increase(). All causes would be 180 series a node.
REPAIRED_CAUSES = tuple(
    cause.value
    for cause in (
        Cause.ONLY_ALL_DEVICE,
        Cause.KIND_HAS_NO_SPEC,
        Cause.SPEC_LACKS_DEVICE,
        Cause.STALE_UUID,
        Cause.MIG_LAYOUT_CHANGED,
        Cause.SPEC_TOO_NEW_FOR_READER,
    )
)
_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)


class Metrics:
    """The agent's metrics in a registry of their own; every bounded series exists from the start."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._make_gauges()
        self._make_counters()
        self._prepare()

    def _make_gauges(self) -> None:
        gauge = partial(Gauge, registry=self.registry)
        kind, cause = ["kind"], ["cause"]
        self.expected = gauge("gpucdi_devices_expected", "Names that should resolve.", kind)
        self.resolvable = gauge("gpucdi_devices_resolvable", "Expected names that resolve.", kind)
        self.drift = gauge("gpucdi_drift", "1 where the cause explains drift here.", cause)
        self.findings = gauge("gpucdi_findings", "Findings at the last pass.", cause)
        self.parse_errors = gauge("gpucdi_spec_parse_errors", "Spec files that a reader rejects.")
        self.gpus = gauge("gpucdi_gpus", "GPUs in the inventory.")
        self.state = gauge("gpucdi_node_state", "1 for the state the node is in.", ["state"])
        self.held = gauge("gpucdi_repair_held", "1 while repairs are held.")
        self.observed = gauge(
            "gpucdi_last_observation_timestamp_seconds", "When the last pass ended."
        )
        build = gauge("gpucdi_build_info", "Always 1.", ["version", "component"])
        build.labels(__version__, "agent").set(1)

    def _make_counters(self) -> None:
        counter = partial(Counter, registry=self.registry)
        seconds = partial(Histogram, buckets=_BUCKETS, registry=self.registry)
        self.repairs = counter("gpucdi_repairs", "File changes by result.", ["result", "cause"])
        self.requests = counter(
            "gpucdi_api_requests", "Requests to the API server.", ["verb", "code"]
        )
        self.detect = seconds("gpucdi_detect_duration_seconds", "From waking to a verdict.")
        self.repair = seconds(
            "gpucdi_repair_duration_seconds", "From waking to the end of a pass that changed files."
        )

    def _prepare(self) -> None:
        for cause in Cause:
            self.drift.labels(cause.value).set(0)
            self.findings.labels(cause.value).set(0)
        for state in NodeState:
            self.state.labels(state.value).set(0)
        for result in RESULTS:
            for repaired in ("", *REPAIRED_CAUSES):
                self.repairs.labels(result, repaired)

    def show(self, status: NodeStatus, now_seconds: float) -> None:
        """Take over a pass's status."""
        self.expected.clear()
        self.resolvable.clear()
        for kind in status.kinds:
            self.expected.labels(kind.kind).set(kind.expected)
            self.resolvable.labels(kind.kind).set(kind.resolvable)
        drifting = {kind.cause for kind in status.kinds if kind.cause} | {status.cause}
        for cause in Cause:
            self.drift.labels(cause.value).set(cause in drifting)
            count = sum(finding.cause is cause for finding in status.findings)
            self.findings.labels(cause.value).set(count)
        for state in NodeState:
            self.state.labels(state.value).set(state is status.state)
        rejected = {file.path for kind in status.kinds for file in kind.files if file.problem}
        self.parse_errors.set(len(rejected))
        self.gpus.set(status.gpus.count)
        self.held.set(status.hold is not None)
        self.observed.set(now_seconds)

    def count_repair(self, record: RepairRecord, cause: Cause | None) -> None:
        """Count one file change with the cause that the node had before it."""
        self.repairs.labels(record.result, cause.value if cause else "").inc()

    def text(self) -> bytes:
        """Return the exposition."""
        return generate_latest(self.registry)
