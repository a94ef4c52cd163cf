"""The lab's cluster shows the first incident exactly as it was reported."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.lab import incident
from tests.lab.cluster import Cluster


def gpu_pod(cluster: Cluster, name: str, namespace: str, visible: str) -> Mapping[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "runtimeClassName": "nvidia",
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "main",
                    "image": cluster.image,
                    "command": ["sh", "-c", "ls /dev/nvidia*; sleep 86400"],
                    "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": visible}],
                }
            ],
        },
    }


def container(
    cluster: Cluster, namespace: str, name: str
) -> dict[str, dict[str, dict[str, object]]]:
    """The status of a Pod's only container, empty before there is one."""
    pod = cluster.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
    status = pod["status"]
    assert isinstance(status, dict)
    statuses = status.get("containerStatuses") or [{}]
    assert isinstance(statuses[0], dict)
    return statuses[0]


def test_a_uuid_of_the_management_kind_fails_with_the_text_of_the_incident(
    cluster: Cluster,
) -> None:
    namespace = cluster.create_namespace()
    cluster.apply(gpu_pod(cluster, "by-uuid", namespace, incident.UUID))

    ended = cluster.wait_for(
        lambda: container(cluster, namespace, "by-uuid").get("lastState", {}).get("terminated"),
        "the container to fail",
    )

    assert ended["message"] == incident.POD_MESSAGE
    assert ended["reason"] == "StartError"
    assert ended["exitCode"] == 128
    assert ended["startedAt"] == "1970-01-01T00:00:00Z"


def test_all_of_the_management_kind_runs(cluster: Cluster) -> None:
    namespace = cluster.create_namespace()
    cluster.apply(gpu_pod(cluster, "all", namespace, "all"))

    cluster.wait_for(
        lambda: container(cluster, namespace, "all").get("state", {}).get("running"),
        "the container to run",
    )

    listed = cluster.wait_for(
        lambda: cluster.kubectl("logs", "all", "-n", namespace).split(), "the container's log"
    )
    assert {"/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl"} <= set(listed)


def test_a_pod_heals_when_the_name_appears(cluster: Cluster) -> None:
    namespace = cluster.create_namespace()
    cluster.apply(gpu_pod(cluster, "heals", namespace, incident.UUID))
    cluster.wait_for(
        lambda: container(cluster, namespace, "heals").get("lastState", {}).get("terminated"),
        "the container to fail",
    )

    vendor = ("--vendor", "management.nvidia.com", "--device-name-strategy", "uuid")
    cluster.host.write("/etc/cdi/added.yaml", incident.generate(cluster.host, *vendor))

    cluster.wait_for(
        lambda: container(cluster, namespace, "heals").get("state", {}).get("running"),
        "the container to run",
    )


def test_a_program_on_the_node_sees_the_real_paths_and_the_api(cluster: Cluster) -> None:
    token = cluster.create_token("node-program")
    script = (
        "test -e /etc/cdi/nvidia.yaml && test -e /var/run/cdi/management.nvidia.com-gpu.yaml && "
        "test -e /usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml && "
        f'{cluster.kubectl_path} --server "$SERVER" --certificate-authority "$CA" '
        '--token "$TOKEN" auth whoami -o name'
    )
    environment = {"SERVER": cluster.api_url, "CA": str(cluster.ca_file), "TOKEN": token}

    done = cluster.host.run(["sh", "-c", script], env=environment)

    assert done.returncode == 0, done.stderr


def test_the_engine_reports_the_handlers(cluster: Cluster) -> None:
    node = cluster.get(f"/api/v1/nodes/{cluster.node_name}")

    status = node["status"]
    assert isinstance(status, dict)
    names = {handler["name"] for handler in status["runtimeHandlers"]}
    assert {"nvidia", "nvidia-cdi", "nvidia-legacy", "runc"} <= names
    assert '"nvidia"' in cluster.crictl("info")


def test_a_stopped_program_can_be_resumed(cluster: Cluster) -> None:
    cluster.stop("kube-apiserver")
    with pytest.raises(RuntimeError, match="refused"):
        cluster.kubectl("get", "nodes")

    cluster.resume()

    assert cluster.node_name in cluster.kubectl("get", "nodes")
