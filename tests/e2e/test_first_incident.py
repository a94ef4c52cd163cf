"""The first incident on a real cluster: seen, explained, healed, and nothing else disturbed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from tests.e2e import running
from tests.lab import incident
from tests.lab.cluster import Cluster

OWN_FILE = "/etc/cdi/gpucdi-management.nvidia.com-gpu.yaml"
MANAGEMENT = "management.nvidia.com/gpu"
CONDITION = "GpuCdiUnresolvable"


@dataclass(frozen=True)
class Story:
    """What was seen on the way, so that each test can look at one thing."""

    failure: str
    drifted: Mapping[str, object]
    table: str
    bad_condition: Mapping[str, str]
    explained: list[dict[str, object]]
    own_file: str
    resolved: Mapping[str, object]
    good_condition: Mapping[str, str]
    restored: list[dict[str, object]]
    runs: bool
    all_ran: Mapping[str, bool]


def story_of(cluster: Cluster, folder: Path) -> Story:
    namespace = cluster.create_namespace()
    all_ran: dict[str, bool] = {}

    def start_all(when: str) -> None:
        cluster.apply(running.gpu_pod(cluster, namespace, f"all-{when}", "all"))
        all_ran[when] = cluster.wait_for(
            lambda: running.is_running(cluster, namespace, f"all-{when}"), f"all {when} repair"
        )

    cluster.apply(running.gpu_pod(cluster, namespace, "gpu-pod", incident.UUID))
    failure = cluster.wait_for(
        lambda: running.failure_text(cluster, namespace, "gpu-pod"), "the Pod to fail"
    )
    start_all("before")
    with running.operator(cluster, folder), running.agent(cluster, folder):
        drifted = cluster.wait_for(
            lambda: running.status_in_state(cluster, "Drifted"), "drift in the status"
        )
        table = cluster.kubectl("get", "gpucdistatus")
        bad = cluster.wait_for(lambda: _condition(cluster, "True"), "the node condition")
        explained = cluster.wait_for(
            lambda: running.events(cluster, namespace, "gpu-pod", "CdiDeviceUnresolvable"),
            "the explaining Event",
        )
        running.set_mode(cluster, "Auto")
        start_all("during")
        resolved = cluster.wait_for(
            lambda: running.status_in_state(cluster, "Resolved"), "the repair"
        )
        own_file = cluster.host.path(OWN_FILE).read_text()
        good = cluster.wait_for(lambda: _condition(cluster, "False"), "the condition to turn")
        runs = cluster.wait_for(
            lambda: running.is_running(cluster, namespace, "gpu-pod"), "the Pod to run"
        )
        restored = cluster.wait_for(
            lambda: running.events(cluster, namespace, "gpu-pod", "CdiDeviceRestored"),
            "the restored Event",
        )
        start_all("after")
    return Story(
        failure, drifted, table, bad, explained, own_file, resolved, good, restored, runs, all_ran
    )


def _condition(cluster: Cluster, status: str) -> Mapping[str, str] | None:
    found = running.node_condition(cluster, CONDITION)
    return found if found.get("status") == status else None


@pytest.fixture(scope="module")
def story(_running_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    cluster = _running_cluster
    running.install(cluster)
    yield story_of(cluster, tmp_path_factory.mktemp("programs"))
    running.forget(cluster)


def test_the_pod_fails_with_the_text_of_the_incident(story: Story) -> None:
    assert story.failure == incident.POD_MESSAGE


def test_the_status_names_the_cause(story: Story) -> None:
    assert story.drifted["cause"] == "OnlyAllDevice"


def test_the_status_names_the_near_miss(story: Story) -> None:
    kinds = story.drifted["kinds"]
    assert isinstance(kinds, list)
    kind = next(item for item in kinds if item["kind"] == MANAGEMENT)
    assert kind["nearMiss"] == {"kind": "nvidia.com/gpu", "count": 4}


def test_one_line_of_kubectl_says_it(story: Story) -> None:
    head, line = story.table.splitlines()
    assert head.split() == [
        *("NAME", "STATE", "GPUS", "KINDS", "MISSING", "CAUSE", "REPAIR", "AGE"),
    ]
    assert line.split()[:7] == [
        *("gpu-node-1", "Drifted", "2", "2/3", "4", "OnlyAllDevice", "Observe"),
    ]


def test_the_node_carries_the_condition_with_the_cause(story: Story) -> None:
    assert story.bad_condition["reason"] == "OnlyAllDevice"


def test_the_message_of_the_condition_stays_short(story: Story) -> None:
    assert 0 < len(story.bad_condition["message"].encode()) <= 512


def test_one_event_explains_the_pod(story: Story) -> None:
    assert len(story.explained) == 1


@pytest.mark.parametrize(
    "fact",
    [MANAGEMENT, incident.UUID, "gpu-node-1", "/var/run/cdi/management.nvidia.com-gpu.yaml"],
)
def test_the_note_of_the_event_names(story: Story, fact: str) -> None:
    assert fact in str(story.explained[0]["note"])


def test_the_note_of_the_event_fits(story: Story) -> None:
    assert len(str(story.explained[0]["note"]).encode()) <= 1024


def test_our_file_has_just_the_missing_names(story: Story) -> None:
    spec = yaml.safe_load(story.own_file)
    names = {device["name"] for device in spec["devices"]}
    assert names == {"0", "1", incident.UUID, *(n for n in names if n.startswith("GPU-"))}
    assert "all" not in names


def test_after_the_repair_nothing_is_missing(story: Story) -> None:
    summary = story.resolved["summary"]
    assert isinstance(summary, dict)
    assert (summary["kinds"], summary["missing"]) == ("3/3", 0)


def test_the_pod_runs_after_the_repair(story: Story) -> None:
    assert story.runs


def test_the_condition_turns_false(story: Story) -> None:
    assert story.good_condition["status"] == "False"


def test_one_event_says_that_the_pod_is_restored(story: Story) -> None:
    assert len(story.restored) == 1


@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_all_of_the_management_kind_starts(story: Story, when: str) -> None:
    assert story.all_ran[when]
