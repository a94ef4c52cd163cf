"""The agent and the operator as processes on the lab's cluster, under the shipped RBAC.

Owns: installing CRDs, service accounts and rules from ``crds/`` and ``manifests/``, and running the
two programs with tokens of those accounts, so that what a test shows holds for an installation.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import yaml
from tests.lab import programs
from tests.lab.cluster import Cluster
from tests.lab.node import NodeProcess

PROJECT = Path(__file__).parents[2]
NAMESPACE = "gpucdi-system"
SCRIPTS = Path(sys.executable).parent
STATUS = "/apis/gpucdi.io/v1alpha1/gpucdistatuses"
_WORKLOADS = {"DaemonSet", "Deployment"}
_END_SECONDS = 20


def install(cluster: Cluster) -> None:
    """Apply every CRD and everything of the install manifest that is no workload."""
    for path in sorted((PROJECT / "crds").glob("*.yaml")):
        cluster.kubectl("apply", "-f", str(path))
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    documents = yaml.safe_load_all((PROJECT / "manifests/install.yaml").read_text())
    wanted = [item for item in documents if item and item["kind"] not in _WORKLOADS]
    cluster.apply(*(item for item in wanted if item["kind"] != "CustomResourceDefinition"))


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def kubeconfig(cluster: Cluster, account: str, path: Path, *bound: str) -> Path:
    """Write a kubeconfig with a token of one of our service accounts; ``bound`` ties the token."""
    token = cluster.kubectl("create", "token", account, "-n", NAMESPACE, *bound).strip()
    server = {"server": cluster.api_url, "certificate-authority": str(cluster.ca_file)}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": server}],
        "users": [{"name": account, "user": {"token": token}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": account}}],
        "current-context": "lab",
    }
    path.write_text(yaml.safe_dump(content))
    return path


@contextlib.contextmanager
def agent(
    cluster: Cluster, folder: Path, *flags: str, under: Sequence[str] = ()
) -> Iterator[NodeProcess]:
    """Run the agent on the node until the block ends; ``under`` is put before its command."""
    # As the kubelet does for a Pod: the token names the node, which the admission policy checks.
    tie = ("--bound-object-kind=Node", f"--bound-object-name={cluster.node_name}")
    config = kubeconfig(cluster, "gpucdi-agent", folder / "agent.kubeconfig", *tie)
    command = [*under, str(SCRIPTS / "gpucdi-agent"), "run", "--node-name", cluster.node_name]
    with (folder / "agent.log").open("a") as log:
        process = cluster.host.popen(
            [*command, "--kubeconfig", str(config), *flags], stdout=log, stderr=subprocess.STDOUT
        )
        try:
            yield process
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_END_SECONDS)
            process.kill()


@contextlib.contextmanager
def operator(cluster: Cluster, folder: Path, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the operator until the block ends."""
    config = kubeconfig(cluster, "gpucdi-operator", folder / "operator.kubeconfig")
    command = [str(SCRIPTS / "gpucdi-operator"), "run", "--kubeconfig", str(config)]
    with (folder / "operator.log").open("a") as log:
        process = subprocess.Popen([*command, *flags], stdout=log, stderr=subprocess.STDOUT)
        try:
            yield process
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_END_SECONDS)
            process.kill()


def require_strace() -> None:
    """Skip, by name, where strace is not to be had."""
    programs.system_program("strace")


def gpu_pod(
    cluster: Cluster, namespace: str, name: str, visible: str, **env: str
) -> Mapping[str, object]:
    """Return a Pod that asks for ``visible`` through the RuntimeClass ``nvidia``."""
    variables = {"NVIDIA_VISIBLE_DEVICES": visible, **env}
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
                    "env": [{"name": key, "value": value} for key, value in variables.items()],
                }
            ],
        },
    }


def container_status(cluster: Cluster, namespace: str, name: str) -> Mapping[str, object]:
    """Return the status of a Pod's only container, empty before there is one."""
    pod = cluster.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
    status = pod["status"]
    assert isinstance(status, dict)
    statuses = status.get("containerStatuses") or [{}]
    found: Mapping[str, object] = statuses[0]
    return found


def is_running(cluster: Cluster, namespace: str, name: str) -> bool:
    """Tell whether the Pod's container runs now."""
    state = container_status(cluster, namespace, name).get("state", {})
    return isinstance(state, dict) and "running" in state


def failure_text(cluster: Cluster, namespace: str, name: str) -> str:
    """Return the message of the container's last end, empty before it has one."""
    state = container_status(cluster, namespace, name).get("lastState", {})
    ended = state.get("terminated", {}) if isinstance(state, dict) else {}
    return str(ended.get("message", ""))


def events(cluster: Cluster, namespace: str, pod: str, reason: str) -> list[dict[str, object]]:
    """Return the Events of one reason about a Pod."""
    listed = cluster.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")["items"]
    assert isinstance(listed, list)
    return [
        item for item in listed if item["regarding"]["name"] == pod and item["reason"] == reason
    ]


def node_condition(cluster: Cluster, kind: str) -> Mapping[str, str]:
    """Return one condition of the Node, empty if it has none of that type."""
    status = cluster.get(f"/api/v1/nodes/{cluster.node_name}")["status"]
    assert isinstance(status, dict)
    return next((item for item in status["conditions"] if item["type"] == kind), {})


def gpucdi_status(cluster: Cluster) -> dict[str, object]:
    """Return the node's GpuCdiStatus, empty if there is none."""
    listed = cluster.get(STATUS)["items"]
    assert isinstance(listed, list)
    return next((item for item in listed if item["metadata"]["name"] == cluster.node_name), {})


def set_mode(cluster: Cluster, mode: str) -> None:
    """Ask the agent for a repair mode, as a person would."""
    patch = json.dumps({"spec": {"repair": {"mode": mode}}})
    cluster.kubectl("patch", "gpucdistatus", cluster.node_name, "--type=merge", "-p", patch)


def status_in_state(cluster: Cluster, state: str) -> Mapping[str, object] | None:
    """Return the node's status if it is in ``state``, else ``None``."""
    status = gpucdi_status(cluster).get("status", {})
    assert isinstance(status, dict)
    return status if status.get("state") == state else None


def forget(cluster: Cluster) -> None:
    """Put the node back as it was, and drop what the programs wrote to the API server."""
    cluster.kubectl("delete", "gpucdistatus", "--all")
    cluster.kubectl("delete", "lease", "--all", "-n", NAMESPACE)
    ours = [{"type": "GpuCdiUnresolvable", "$patch": "delete"}]
    patch = json.dumps({"status": {"conditions": ours}})
    cluster.kubectl("patch", "node", cluster.node_name, "--subresource=status", "-p", patch)
    cluster.restore_incident()
