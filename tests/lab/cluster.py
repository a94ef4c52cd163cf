"""A one-node Kubernetes cluster on a node of the lab, with the real programs.

Owns: starting and ending etcd, the control plane, containerd and a kubelet, all inside the node's
namespaces, so that closing the node ends the cluster; and what a test asks of a cluster. Must not
know: gpucdi.
"""

from __future__ import annotations

import functools
import json
import secrets
import shutil
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import yaml
from tests.lab import images, incident, programs
from tests.lab.cluster_config import CONTAINERD_SOCKET, NODE_NAME, PAUSE_IMAGE, ClusterConfig
from tests.lab.node import Node, NodeProcess

IMAGE = "docker.io/library/busybox:lab"
START_SECONDS = 120.0
WAIT_SECONDS = 60.0
IMPORT_SECONDS = 600.0
_POLL_SECONDS = 0.05
_FOREVER = ("sleep", "2147483647")
_HTTP_OK, _HTTP_NOT_FOUND = 200, 404

T = TypeVar("T")


class Cluster:
    """A running cluster.

    ``host`` is its node: start a program with ``host.run`` or ``host.popen`` and it sees the real
    paths of a node (root ``/``) and the API server at ``api_url``. ``kubeconfig``, ``ca_file`` and
    ``admin`` (certificate and key) are files that this machine and the node see alike.
    """

    node_name = NODE_NAME
    image = IMAGE

    def __init__(self, base: Path, logs: Path) -> None:
        """Describe a cluster whose files are laid in ``base``; the logs outlive it in ``logs``."""
        self.base = base
        self.logs = logs
        self.config = ClusterConfig(base / "pki")
        self.api_url = self.config.api_url
        self.kubeconfig = self.config.kubeconfig
        self.ca_file = self.config.authority.certificate
        self.admin = self.config.admin
        self.kubectl_path = programs.kubernetes() / "kubectl"
        self.host = Node(self.config.node_description(), base / "node")
        self._tls = ssl.create_default_context(cafile=str(self.ca_file))
        self._tls.load_cert_chain(self.admin.certificate, self.admin.key)
        self._commands = self.config.commands()
        self._processes: dict[str, NodeProcess] = {}
        self._namespaces: list[str] = []

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """Run kubectl as administrator and return what it prints; raises RuntimeError."""
        done = subprocess.run(
            [self.kubectl_path, f"--kubeconfig={self.kubeconfig}", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=WAIT_SECONDS,
        )
        if check and done.returncode != 0:
            raise RuntimeError(f"kubectl {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def apply(self, *objects: Mapping[str, object]) -> None:
        """Apply objects given as Python values."""
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))

    def get(self, path: str) -> dict[str, object]:
        """GET an API path such as ``/api/v1/nodes/gpu-node-1``; raises urllib.error.HTTPError."""
        with urllib.request.urlopen(self.api_url + path, context=self._tls, timeout=10) as answer:
            value = json.load(answer)
        assert isinstance(value, dict)
        return value

    def exists(self, path: str) -> bool:
        """True when the API has an object at this path."""
        try:
            self.get(path)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code != _HTTP_NOT_FOUND:
                raise
            return False
        return True

    def create_namespace(self, name: str | None = None) -> str:
        """Make a namespace whose Pods are admitted at once; it is deleted after the test."""
        name = name or f"test-{secrets.token_hex(4)}"
        self.kubectl("create", "namespace", name)
        self._namespaces.append(name)
        self._wait_for_default_account(name)
        return name

    def create_token(self, service_account: str, namespace: str = "default") -> str:
        """Return a token of a service account, which is made if it does not exist."""
        if not self.exists(f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}"):
            self.kubectl("create", "serviceaccount", service_account, "-n", namespace)
        return self.kubectl("create", "token", service_account, "-n", namespace).strip()

    def wait_for(
        self, question: Callable[[], T | None], what: str, timeout: float = WAIT_SECONDS
    ) -> T:
        """Ask until the answer is true and return it.

        Raises TimeoutError naming ``what``, RuntimeError with the log of a program that has ended.
        """
        deadline = time.monotonic() + timeout
        while True:
            answer = question()
            if answer:
                return answer
            for name, process in self._processes.items():
                if process.poll() is not None:
                    raise RuntimeError(f"{name} ended with {process.returncode}: {self.log(name)}")
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"waited {timeout:.0f} s for {what}; the logs are in {self.logs}"
                )
            time.sleep(_POLL_SECONDS)

    def log(self, name: str, lines: int = 30) -> str:
        """Return the last lines of a program's log, such as ``kubelet`` or ``containerd``."""
        text = (self.logs / f"{name}.log").read_text(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def load_image(self, archive: Path) -> None:
        """Load an OCI or Docker image archive into the node's containerd."""
        done = self._import(archive)
        if done.returncode != 0:
            raise RuntimeError(f"{archive} cannot be imported: {done.stderr}")

    def crictl(self, *arguments: str) -> str:
        """Run crictl on the node and return what it prints."""
        endpoint = f"--runtime-endpoint=unix://{CONTAINERD_SOCKET}"
        return self.host.run([programs.crictl(), endpoint, *arguments], check=True).stdout

    def stop(self, name: str) -> None:
        """Kill one program, such as ``kube-apiserver``, until ``resume``."""
        process = self._processes.pop(name)
        process.kill()
        process.wait(WAIT_SECONDS)

    def resume(self) -> None:
        """Start whatever was stopped, and wait until the cluster is well again."""
        for name in self._commands:
            if name not in self._processes:
                self._spawn(name)
        self.wait_for(self._api_is_ready, "the API server", START_SECONDS)
        self.wait_for(self._node_is_ready, "the node to be Ready", START_SECONDS)

    def restore_incident(self) -> None:
        """Put everything back to the first incident and delete the namespaces of tests."""
        self.resume()
        for name in self._namespaces:
            self.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")
        self._namespaces.clear()
        incident.restore(self.host)

    def start(self) -> None:
        """Start everything; returns when the node is Ready and Pods can be made."""
        self.logs.mkdir(parents=True, exist_ok=True)
        self.host.start()
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End every process by ending the node, and remove the files."""
        self.host.close()
        for process in self._processes.values():
            process.wait(WAIT_SECONDS)
        self._processes.clear()
        shutil.rmtree(self.base, ignore_errors=True)

    def _start(self) -> None:
        for command in self.config.network.commands():
            self.host.run(command, check=True)
        for name in ("etcd", "kube-apiserver", "containerd"):
            self._spawn(name)
        incident.write_specs(self.host)
        self._load_images()
        self.wait_for(self._api_is_ready, "the API server", START_SECONDS)
        for name in ("kube-controller-manager", "kube-scheduler", "kubelet"):
            self._spawn(name)
        self.apply(*runtime_classes())
        self.wait_for(self._node_is_ready, "the node to be Ready", START_SECONDS)
        self._wait_for_default_account("default")

    def _spawn(self, name: str) -> None:
        with (self.logs / f"{name}.log").open("a") as log:
            command: Sequence[str | Path] = self._commands[name]
            self._processes[name] = self.host.popen(command, stdout=log, stderr=log)

    def _load_images(self) -> None:
        for file_name, name in (("busybox.tar", IMAGE), ("pause.tar", PAUSE_IMAGE)):
            archive = images.write_image(self.base / file_name, name, _FOREVER)
            self.wait_for(functools.partial(self._is_imported, archive), f"the image {name}")

    def _is_imported(self, archive: Path) -> bool:
        return self._import(archive).returncode == 0

    def _import(self, archive: Path) -> subprocess.CompletedProcess[str]:
        command = ["ctr", "-n", "k8s.io", "image", "import", str(archive)]
        return self.host.run(command, timeout=IMPORT_SECONDS)

    def _wait_for_default_account(self, namespace: str) -> None:
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
        self.wait_for(lambda: self.exists(path), f"the default service account of {namespace}")

    def _api_is_ready(self) -> bool:
        url = self.api_url + "/readyz"
        try:
            with urllib.request.urlopen(url, context=self._tls, timeout=5) as answer:
                return bool(answer.status == _HTTP_OK)
        except urllib.error.HTTPError as error:
            error.close()
        except OSError:
            pass
        return False

    def _node_is_ready(self) -> bool:
        path = f"/api/v1/nodes/{NODE_NAME}"
        return self.exists(path) and is_ready(self.get(path))


def runtime_classes() -> list[Mapping[str, object]]:
    """The RuntimeClasses that the GPU Operator makes, one a handler of the toolkit."""
    return [
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": handler},
            "handler": handler,
        }
        for handler in incident.HANDLERS
    ]


def is_ready(node: Mapping[str, object]) -> bool:
    """True when a Node is Ready and nothing keeps Pods off it."""
    status, spec = node["status"], node["spec"]
    assert isinstance(status, dict)
    assert isinstance(spec, dict)
    ready = any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in status.get("conditions", [])
    )
    return ready and not spec.get("taints")
