"""The agent's image, built from its Dockerfile and run by a real kubelet from the shipped manifests.

Nothing of the manifests is adapted: the image is imported under the name that they use, and their
host paths are the node's own.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest
from tests.e2e import running
from tests.e2e.daemon_set import INSTALL, OBSERVE, UNINSTALL, Agent, Mount
from tests.lab import incident
from tests.lab.cluster import Cluster
from tests.lab.programs import ProgramMissingError

# Building the image and starting the cluster are part of the first test's time.
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

OWN_FILE = "/etc/cdi/gpucdi-management.nvidia.com-gpu.yaml"
WATCHED = (
    *("/etc/cdi", "/run/cdi", "/etc/nvidia-container-runtime", "/etc/containerd"),
    *("/usr/local/nvidia", "/var/lib/gpucdi", "/run/nvidia"),
)
WRITE_EVERYWHERE = "for d in / /host /host/etc/cdi /host/run/cdi /host/var/lib/gpucdi; do "
WRITE_EVERYWHERE += 'touch "$d/probe" && rm "$d/probe" && echo "$d"; done 2>/dev/null; true'


@dataclass(frozen=True, slots=True)
class Repaired:
    """What was seen of the privileged agent, from its start to its removal."""

    failure: str
    drifted: Mapping[str, object]
    resolved: Mapping[str, object]
    runs: bool
    mounts: Sequence[Mount]
    writable: Sequence[str]
    before: Mapping[str, str]
    with_agent: Mapping[str, str]
    after_uninstall: Mapping[str, str]
    still_runs: bool


@dataclass(frozen=True, slots=True)
class Observed:
    """What was seen of the agent without privileges."""

    asked: Mapping[str, object]
    user: str
    capabilities: str
    mounts: Sequence[Mount]
    writable: Sequence[str]
    before: Mapping[str, str]
    after: Mapping[str, str]


def files(cluster: Cluster) -> Mapping[str, str]:
    """Return every file of the node that the agent has to do with: path, hash and time."""
    found: dict[str, str] = {}
    for folder in WATCHED:
        root = cluster.host.path(folder)
        for path in sorted(root.rglob("*")):
            # A running agent replaces the files of its own memory.
            with contextlib.suppress(FileNotFoundError):
                if path.is_file() and not path.is_symlink():
                    content = hashlib.sha256(path.read_bytes()).hexdigest()
                    name = f"{folder}/{path.relative_to(root)}"
                    found[name] = f"{content} {path.stat().st_mtime_ns}"
    return found


def spec_files(found: Mapping[str, str]) -> Mapping[str, str]:
    """Return the files that are not the agent's own memory."""
    return {path: seen for path, seen in found.items() if not path.startswith("/var/lib/gpucdi/")}


@pytest.fixture(scope="module")
def agent(_running_cluster: Cluster) -> Agent:
    """The agent's image on the node, and nothing of it running."""
    try:
        return Agent(_running_cluster)
    except ProgramMissingError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def repaired(agent: Agent, tmp_path_factory: pytest.TempPathFactory) -> Repaired:
    """Go through the first incident with the agent as it is installed, and uninstall it."""
    cluster = agent.cluster
    namespace = cluster.create_namespace()

    def runs() -> bool:
        return running.is_running(cluster, namespace, "gpu-pod")

    cluster.apply(running.gpu_pod(cluster, namespace, "gpu-pod", incident.UUID))
    failure = cluster.wait_for(
        lambda: running.failure_text(cluster, namespace, "gpu-pod"), "the Pod to fail"
    )
    before = files(cluster)
    running.install(cluster)
    try:
        with running.operator(cluster, tmp_path_factory.mktemp("operator")):
            agent.apply(INSTALL)
            drifted = cluster.wait_for(
                lambda: running.status_in_state(cluster, "Drifted"), "the state Drifted"
            )
            label = ("label", "node", cluster.node_name)
            cluster.kubectl(*label, "gpucdi.io/repair=auto")
            resolved = cluster.wait_for(
                lambda: running.status_in_state(cluster, "Resolved"), "the state Resolved"
            )
            ran = cluster.wait_for(runs, "the Pod to run")
            mounts, writable = agent.mounts(), agent.run(WRITE_EVERYWHERE).split()
            with_agent = files(cluster)
            agent.apply(UNINSTALL)
            after = files(cluster)
            still = runs()
    finally:
        agent.remove()
        cluster.kubectl("label", "node", cluster.node_name, "gpucdi.io/repair-")
        running.forget(cluster)
    return Repaired(
        failure=failure,
        drifted=drifted,
        resolved=resolved,
        runs=ran,
        mounts=mounts,
        writable=writable,
        before=before,
        with_agent=with_agent,
        after_uninstall=after,
        still_runs=still,
    )


@pytest.fixture(scope="module")
def observed(agent: Agent) -> Observed:
    """Run the agent that only looks, and ask it for a repair that it must not make."""
    cluster = agent.cluster
    before = files(cluster)
    running.install(cluster)
    try:
        agent.apply(OBSERVE)
        cluster.wait_for(lambda: running.status_in_state(cluster, "Drifted"), "the state Drifted")
        running.set_mode(cluster, "Auto")

        def asked() -> Mapping[str, object] | None:
            found = running.gpucdi_status(cluster)
            status, metadata = found["status"], found["metadata"]
            assert isinstance(status, dict)
            assert isinstance(metadata, dict)
            current = status.get("observedGeneration") == metadata["generation"]
            return status if current and status.get("mode") != "Auto" else None

        return Observed(
            asked=cluster.wait_for(asked, "the status of the intent Auto"),
            user=agent.run("id -u").strip(),
            capabilities=agent.run("cat /proc/1/status").partition("CapEff:")[2].split()[0],
            mounts=agent.mounts(),
            writable=agent.run(WRITE_EVERYWHERE).split(),
            before=before,
            after=files(cluster),
        )
    finally:
        agent.remove()
        running.forget(cluster)


def test_the_pod_fails_before_there_is_an_agent(repaired: Repaired) -> None:
    assert repaired.failure == incident.POD_MESSAGE


def test_the_agent_in_its_pod_sees_the_cause(repaired: Repaired) -> None:
    assert repaired.drifted["cause"] == "OnlyAllDevice"


def test_the_agent_in_its_pod_asks_nvml_and_knows_the_toolkit(repaired: Repaired) -> None:
    gpus, summary = repaired.drifted["gpus"], repaired.drifted["summary"]
    assert isinstance(gpus, dict)
    assert isinstance(summary, dict)
    assert (gpus["source"], summary["toolkit"]) == ("nvml", "1.18.2")


def test_after_the_repair_from_the_pod_every_name_resolves(repaired: Repaired) -> None:
    summary = repaired.resolved["summary"]
    assert isinstance(summary, dict)
    assert (summary["kinds"], summary["missing"]) == ("3/3", 0)


def test_the_pod_that_could_not_start_runs(repaired: Repaired) -> None:
    assert repaired.runs


def test_the_repair_adds_one_file_and_changes_none(repaired: Repaired) -> None:
    seen = dict(spec_files(repaired.with_agent))
    assert seen.pop(OWN_FILE)
    assert seen == spec_files(repaired.before)


def test_the_root_file_system_of_the_container_is_read_only(repaired: Repaired) -> None:
    (root,) = (mount for mount in repaired.mounts if mount.target == "/")
    assert "ro" in root.options


def test_the_agent_can_write_spec_directories_and_its_memory_alone(repaired: Repaired) -> None:
    assert repaired.writable == ["/host/etc/cdi", "/host/run/cdi", "/host/var/lib/gpucdi"]


def test_uninstalling_removes_our_file_and_no_other(repaired: Repaired) -> None:
    assert spec_files(repaired.after_uninstall) == spec_files(repaired.before)


def test_a_pod_that_runs_outlives_the_uninstalling(repaired: Repaired) -> None:
    assert repaired.still_runs


def test_without_privileges_the_verdict_is_the_same(repaired: Repaired, observed: Observed) -> None:
    facts = ("state", "cause")
    seen = {fact: repaired.drifted[fact] for fact in facts}
    assert {fact: observed.asked[fact] for fact in facts} == seen


def test_without_privileges_the_near_miss_is_named(observed: Observed) -> None:
    kinds = observed.asked["kinds"]
    assert isinstance(kinds, list)
    kind = next(item for item in kinds if item["kind"] == "management.nvidia.com/gpu")
    assert kind["nearMiss"] == {"kind": "nvidia.com/gpu", "count": 2}


def test_what_nvml_would_know_is_said_to_be_unknown(observed: Observed) -> None:
    conditions = observed.asked["conditions"]
    assert isinstance(conditions, list)
    fresh = next(item for item in conditions if item["type"] == "InventoryFresh")
    assert fresh["status"] == "False"


def test_the_observing_agent_is_not_root(observed: Observed) -> None:
    assert (observed.user, int(observed.capabilities, 16)) == ("65532", 0)


def test_every_mount_of_the_host_is_read_only(observed: Observed) -> None:
    host = [mount for mount in observed.mounts if f"{mount.target}/".startswith("/host/")]
    assert {mount.target for mount in host if "ro" not in mount.options} == set()
    assert {"/host", "/host/dev", "/host/etc/cdi", "/host/run"} <= {mount.target for mount in host}


def test_the_observing_agent_can_write_nothing_of_the_host(observed: Observed) -> None:
    assert observed.writable == []


def test_asked_for_a_repair_the_observing_agent_changes_no_file(observed: Observed) -> None:
    assert observed.after == observed.before
