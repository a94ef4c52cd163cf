"""``kubectl apply -f crds/ -f manifests/install.yaml``, whole and as shipped, with both images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from tests.e2e import running
from tests.e2e.daemon_set import INSTALL, Agent
from tests.lab import container_image
from tests.lab.cluster import Cluster
from tests.lab.programs import ProgramMissingError

DEPLOYMENT = f"/apis/apps/v1/namespaces/{running.NAMESPACE}/deployments/gpucdi-operator"
ROLL_OUT_SECONDS = 300
# Building the images and starting the cluster are part of the first test's time.
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]


@dataclass(frozen=True, slots=True)
class Installed:
    """What was seen once the manifest was applied."""

    condition: Mapping[str, str]
    user: str
    root_options: set[str]


def deployment_status(cluster: Cluster) -> Mapping[str, object]:
    status = cluster.get(DEPLOYMENT)["status"]
    assert isinstance(status, dict)
    return status


def in_operator(cluster: Cluster, script: str) -> str:
    """Run a shell script in the container of one replica and return what it prints."""
    replicas = ("ps", "--quiet", "--name", "^operator$", "--state", "Running")
    container = cluster.crictl(*replicas).split()[0]
    return cluster.crictl("exec", container, "sh", "-c", script)


def remove(cluster: Cluster, agent: Agent) -> None:
    """Delete the workloads, and return when nothing of them is left."""
    delete = ("delete", "deployment", "gpucdi-operator", "-n", running.NAMESPACE)
    cluster.kubectl(*delete, "--wait=false", "--ignore-not-found")
    agent.remove()
    left = ("get", "pods", "-n", running.NAMESPACE, "-o", "name")
    cluster.wait_for(
        lambda: not cluster.kubectl(*left).split(), "the operator to be gone", ROLL_OUT_SECONDS
    )
    running.forget(cluster)


@pytest.fixture(scope="module")
def installed(_running_cluster: Cluster) -> Installed:
    """Apply everything, and look when both replicas are available and the Node has its condition."""
    cluster = _running_cluster
    try:
        agent = Agent(cluster)
        name = "docker.io/library/gpucdi-operator:0.1.0"
        cluster.load_image(container_image.build("Dockerfile.operator", name))
    except ProgramMissingError as missing:
        pytest.skip(str(missing))
    running.install(cluster)
    try:
        cluster.kubectl("apply", "-f", str(INSTALL))
        cluster.wait_for(
            lambda: deployment_status(cluster).get("availableReplicas") == 2,
            "both replicas",
            ROLL_OUT_SECONDS,
        )

        def condition() -> Mapping[str, str] | None:
            found = running.node_condition(cluster, "GpuCdiUnresolvable")
            return found if found.get("status") == "True" else None

        found = cluster.wait_for(condition, "the condition", ROLL_OUT_SECONDS)
        mounts = [
            line.split() for line in in_operator(cluster, "cat /proc/1/mountinfo").splitlines()
        ]
        return Installed(
            condition=found,
            user=in_operator(cluster, "id -u").strip(),
            root_options=set(next(line[5] for line in mounts if line[4] == "/").split(",")),
        )
    finally:
        remove(cluster, agent)


def test_agent_and_operator_together_tell_the_node_its_cause(installed: Installed) -> None:
    assert installed.condition["reason"] == "OnlyAllDevice"


def test_the_operator_is_not_root_and_writes_nothing(installed: Installed) -> None:
    assert installed.user == "65532"
    assert "ro" in installed.root_options
