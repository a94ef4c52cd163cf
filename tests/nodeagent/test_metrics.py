"""The agent's metrics: there from the start, bounded, and without device names."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.trees import c00

from gpucdi.api import NodeState, NodeStatus, RepairRecord
from gpucdi.findings import Cause
from gpucdi.host import HostTree
from gpucdi_agent.metrics import REPAIRED_CAUSES, RESULTS, Metrics


@pytest.fixture
def drifted() -> NodeStatus:
    return c00.status(HostTree(c00.EXAMPLE))


def samples(metrics: Metrics) -> dict[str, float]:
    lines = metrics.text().decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}


def test_every_cause_state_and_result_exists_before_anything_happened() -> None:
    found = samples(Metrics())

    assert all(found[f'gpucdi_drift{{cause="{cause.value}"}}'] == 0 for cause in Cause)
    assert all(found[f'gpucdi_node_state{{state="{state.value}"}}'] == 0 for state in NodeState)
    assert all(
        found[f'gpucdi_repairs_total{{cause="{cause}",result="{result}"}}'] == 0
        for result in RESULTS
        for cause in ("", *REPAIRED_CAUSES)
    )


def test_drift_is_counted_by_kind_and_named_by_cause(drifted: NodeStatus) -> None:
    metrics = Metrics()

    metrics.show(drifted, 1000.0)

    found = samples(metrics)
    assert found[f'gpucdi_devices_expected{{kind="{c00.MANAGEMENT}"}}'] == 5
    assert found[f'gpucdi_devices_resolvable{{kind="{c00.MANAGEMENT}"}}'] == 1
    assert found['gpucdi_drift{cause="OnlyAllDevice"}'] == 1
    assert found['gpucdi_node_state{state="Drifted"}'] == 1
    assert found["gpucdi_last_observation_timestamp_seconds"] == 1000


def test_a_kind_that_is_gone_leaves_no_series(drifted: NodeStatus) -> None:
    metrics = Metrics()
    metrics.show(drifted, 1.0)

    metrics.show(replace(drifted, kinds=()), 2.0)

    assert c00.MANAGEMENT not in metrics.text().decode()


def test_no_device_name_is_a_label(drifted: NodeStatus) -> None:
    metrics = Metrics()

    metrics.show(drifted, 1.0)

    assert "GPU-" not in metrics.text().decode()


def test_a_repair_counts_with_the_cause_it_had() -> None:
    metrics = Metrics()
    record = RepairRecord("T", c00.MANAGEMENT, "/etc/cdi/x.yaml", "Succeeded")

    metrics.count_repair(record, Cause.ONLY_ALL_DEVICE)

    found = samples(metrics)
    assert found['gpucdi_repairs_total{cause="OnlyAllDevice",result="Succeeded"}'] == 1


def test_every_metric_has_a_help_text_and_our_prefix() -> None:
    text = Metrics().text().decode()

    names = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    helped = {line.split()[2] for line in text.splitlines() if line.startswith("# HELP")}
    assert names == helped
    assert all(name.startswith("gpucdi_") for name in names)
