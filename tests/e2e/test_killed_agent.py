"""An agent that dies in the middle of a repair leaves nothing that the next start does not mend."""

from __future__ import annotations

from pathlib import Path

from tests.e2e import running
from tests.lab import incident
from tests.lab.cluster import Cluster

OWN_FILE = "/etc/cdi/gpucdi-management.nvidia.com-gpu.yaml"


def test_an_agent_killed_between_write_and_verify_ends_at_the_same(
    cluster: Cluster, tmp_path: Path
) -> None:
    running.require_strace()
    running.install(cluster)
    namespace = cluster.create_namespace()
    cluster.apply(running.gpu_pod(cluster, namespace, "gpu-pod", incident.UUID))
    killer = ["strace", "-f", "-o", "/dev/null", "-P", "/etc/cdi", "-e", "trace=fsync"]
    killer += ["-e", "inject=fsync:signal=SIGKILL"]
    with running.agent(cluster, tmp_path, under=killer) as first:
        cluster.wait_for(lambda: running.gpucdi_status(cluster), "the agent's object")
        running.set_mode(cluster, "Auto")
        cluster.wait_for(lambda: first.poll() is not None, "the agent to be killed")
    assert cluster.host.path(OWN_FILE).exists()
    status = running.gpucdi_status(cluster).get("status", {})
    assert isinstance(status, dict)
    assert status.get("state") != "Resolved"

    with running.agent(cluster, tmp_path):
        cluster.wait_for(
            lambda: running.status_in_state(cluster, "Resolved"), "the repair to be finished"
        )
        assert cluster.wait_for(
            lambda: running.is_running(cluster, namespace, "gpu-pod"), "the Pod to run"
        )
    left = [path.name for path in cluster.host.path("/etc/cdi").iterdir()]
    assert sorted(left) == ["gpucdi-management.nvidia.com-gpu.yaml", "nvidia.yaml"]
    running.forget(cluster)
