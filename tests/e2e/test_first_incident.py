"""The first incident on a real cluster: seen, explained, healed, and nothing else disturbed."""

from __future__ import annotations

import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from tests.e2e import running
from tests.lab import incident
from tests.lab.cluster import Cluster
from tests.lab.node import NodeProcess

OWN_FILE = "/etc/cdi/gpucdi-management.nvidia.com-gpu.yaml"
MANAGEMENT = "management.nvidia.com/gpu"
CONDITION = "GpuCdiUnresolvable"
PROBES = ("healthz", "readyz")
README = running.PROJECT / "README.md"


# The fsync of the directory comes after the rename and before the repair is verified.
KILLER = ["strace", "-f", "-o", "/dev/null", "-P", "/etc/cdi", "-e", "trace=fsync"]
KILLER += ["-e", "inject=fsync:signal=SIGKILL"]


@dataclass(frozen=True)
class Story:
    """What was seen on the way, so that each test can look at one thing."""

    failure: str
    drifted: Mapping[str, object]
    table: str
    bad_condition: Mapping[str, str]
    first_note: str
    own_file: str
    resolved: Mapping[str, object]
    good_condition: Mapping[str, str]
    explained: int
    restored: int
    runs: bool
    all_ran: Mapping[str, bool]
    left_in_spec_dir: list[str]
    pages: Mapping[str, str]


class Telling:
    """The incident as it goes on one cluster; each step returns what it saw."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.namespace = cluster.create_namespace()
        self.all_ran: dict[str, bool] = {}
        self.pages: dict[str, str] = {}
        self.ports = {"agent": running.free_port(), "operator": running.free_port()}

    def start_all(self, when: str) -> None:
        """Start a Pod that asks for ``all`` of the management kind."""
        name = f"all-{when}"
        self.cluster.apply(running.gpu_pod(self.cluster, self.namespace, name, "all"))
        self.all_ran[when] = self.cluster.wait_for(
            lambda: running.is_running(self.cluster, self.namespace, name), f"{name} to run"
        )

    def agent(self, *under: str) -> AbstractContextManager[NodeProcess]:
        """Run the agent until the block ends."""
        http = f"--http=127.0.0.1:{self.ports['agent']}"
        return running.agent(self.cluster, self.folder, http, under=under)

    def operator(self) -> AbstractContextManager[subprocess.Popen[bytes]]:
        """Run the operator until the block ends."""
        http = f"--http=127.0.0.1:{self.ports['operator']}"
        return running.operator(self.cluster, self.folder, http)

    def events(self, reason: str) -> list[dict[str, object]]:
        """Return the Events of one reason about the failing Pod, once there is one."""
        return self.cluster.wait_for(
            lambda: running.events(self.cluster, self.namespace, "gpu-pod", reason), reason
        )

    def condition(self, status: str) -> Mapping[str, str]:
        """Return the node condition once it has this status."""

        def found() -> Mapping[str, str] | None:
            condition = running.node_condition(self.cluster, CONDITION)
            return condition if condition.get("status") == status else None

        return self.cluster.wait_for(found, f"{CONDITION}={status}")

    def state(self, state: str) -> Mapping[str, object]:
        """Return the node's status once it is in this state."""
        return self.cluster.wait_for(
            lambda: running.status_in_state(self.cluster, state), f"the state {state}"
        )

    def scrape(self) -> None:
        """Fetch the pages that both programs serve."""
        for program, port in self.ports.items():
            for page in ("metrics", "healthz", "readyz"):
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=5) as got:
                    self.pages[f"{program}/{page}"] = got.read().decode()

    def tell(self, *, killed: bool) -> Story:
        """Go through the incident; with ``killed`` the agent dies in the middle of the repair."""
        cluster, namespace = self.cluster, self.namespace
        cluster.apply(running.gpu_pod(cluster, namespace, "gpu-pod", incident.UUID))
        failure = cluster.wait_for(
            lambda: running.failure_text(cluster, namespace, "gpu-pod"), "the Pod to fail"
        )
        self.start_all("before")
        with self.operator(), ExitStack() as agents:
            first = agents.enter_context(self.agent(*(KILLER if killed else [])))
            drifted = self.state("Drifted")
            table = cluster.kubectl("get", "gpucdistatus")
            bad = self.condition("True")
            note = str(self.events("CdiDeviceUnresolvable")[0]["note"])
            running.set_mode(cluster, "Auto")
            if killed:
                cluster.wait_for(lambda: first.poll() is not None, "the agent to be killed")
                assert cluster.host.path(OWN_FILE).exists()
                assert running.status_in_state(cluster, "Resolved") is None
            self.start_all("during")
            if killed:
                agents.enter_context(self.agent())
            resolved = self.state("Resolved")
            own_file = cluster.host.path(OWN_FILE).read_text()
            good = self.condition("False")
            runs = cluster.wait_for(
                lambda: running.is_running(cluster, namespace, "gpu-pod"), "the Pod to run"
            )
            self.events("CdiDeviceRestored")
            self.start_all("after")
            self.scrape()
        return Story(
            failure=failure,
            drifted=drifted,
            table=table,
            bad_condition=bad,
            first_note=note,
            own_file=own_file,
            resolved=resolved,
            good_condition=good,
            explained=len(self.events("CdiDeviceUnresolvable")),
            restored=len(self.events("CdiDeviceRestored")),
            runs=runs,
            all_ran=self.all_ran,
            left_in_spec_dir=sorted(path.name for path in cluster.host.path("/etc/cdi").iterdir()),
            pages=self.pages,
        )


@pytest.fixture(
    scope="module",
    params=[False, True],
    ids=["undisturbed", "agent killed between write and verify"],
)
def story(
    request: pytest.FixtureRequest,
    _running_cluster: Cluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Story]:
    if request.param:
        running.require_strace()
    running.install(_running_cluster)
    try:
        folder = tmp_path_factory.mktemp("programs")
        yield Telling(_running_cluster, folder).tell(killed=request.param)
    finally:
        running.forget(_running_cluster)


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


def test_the_readme_prints_that_line_as_it_was(story: Story) -> None:
    block = README.read_text().split("<!-- e2e:kubectl-get -->")[1].split("<!-- /e2e -->")[0]
    printed = [line for line in block.splitlines() if line and not line.startswith(("```", "$"))]
    print(story.table)  # what to paste, when this fails
    # All but the age, which is as old as the run.
    real = [line.split()[:7] for line in story.table.splitlines()]
    assert [line.split()[:7] for line in printed] == real


def test_the_node_carries_the_condition_with_the_cause(story: Story) -> None:
    assert story.bad_condition["reason"] == "OnlyAllDevice"


def test_the_message_of_the_condition_stays_short(story: Story) -> None:
    assert 0 < len(story.bad_condition["message"].encode()) <= 512


def test_one_event_explains_the_pod(story: Story) -> None:
    assert story.explained == 1


@pytest.mark.parametrize(
    "fact",
    [
        *(MANAGEMENT, incident.UUID, "gpu-node-1"),
        *("/var/run/cdi/management.nvidia.com-gpu.yaml", "Fix: "),
    ],
)
def test_the_note_of_the_event_names(story: Story, fact: str) -> None:
    assert fact in story.first_note


def test_the_note_of_the_event_fits(story: Story) -> None:
    assert len(story.first_note.encode()) <= 1024


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
    assert story.restored == 1


@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_all_of_the_management_kind_starts(story: Story, when: str) -> None:
    assert story.all_ran[when]


def test_the_spec_directory_holds_nothing_but_the_two_files(story: Story) -> None:
    assert story.left_in_spec_dir == ["gpucdi-management.nvidia.com-gpu.yaml", "nvidia.yaml"]


@pytest.mark.parametrize(
    ("page", "told"),
    [
        ("agent/metrics", 'gpucdi_devices_resolvable{kind="management.nvidia.com/gpu"} 5.0'),
        ("operator/metrics", 'gpucdi_pods_explained_total{cause="OnlyAllDevice"} 1.0'),
        *((f"{program}/{page}", "") for program in ("agent", "operator") for page in PROBES),
    ],
)
def test_both_programs_serve(story: Story, page: str, told: str) -> None:
    assert told in story.pages[page]
