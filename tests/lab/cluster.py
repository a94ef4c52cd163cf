"""A one-node Kubernetes cluster on a node of the lab, with the real programs.

Owns: starting and ending etcd, the control plane, containerd and a kubelet, all on loopback and on
free ports, all inside the node's namespaces, so that closing the node ends the cluster; and what a
test asks of a cluster. Must not know: gpucdi.
"""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import json
import random
import secrets
import shutil
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import yaml
from tests.lab import images, incident, pki, programs
from tests.lab.node import PATH, Node, NodeDescription, NodeProcess

NODE_NAME = "gpu-node-1"
IMAGE = "docker.io/library/busybox:lab"
PAUSE_IMAGE = "localhost/pause:lab"
CONTAINERD_VERSION = "2.4.2"
SERVICE_RANGE = "10.96.0.0/16"
START_SECONDS = 120.0
WAIT_SECONDS = 60.0
_POLL_SECONDS = 0.05

T = TypeVar("T")


class Cluster:
    """A running cluster.

    ``host`` is its node: start a program with ``host.run`` or ``host.popen`` and it sees the real
    paths of a node (root ``/``) and the API server at ``api_url``.
    """

    node_name = NODE_NAME
    image = IMAGE

    def __init__(self, base: Path, logs: Path) -> None:
        """Describe a cluster whose files are laid in ``base``; the logs outlive it in ``logs``."""
        self.base = base
        self.logs = logs
        self.ports = _Ports()
        self.network = _Network()
        self.api_url = f"https://127.0.0.1:{self.ports.api}"
        self.authority = pki.Authority(base / "pki")
        self.ca_file = self.authority.certificate
        self.admin = self.authority.issue("admin", "lab-admin", "system:masters")
        self.kubeconfig = self.authority.kubeconfig(self.admin, self.api_url)
        self._tls = ssl.create_default_context(cafile=str(self.ca_file))
        self._tls.load_cert_chain(self.admin.certificate, self.admin.key)
        self._kubernetes = programs.kubernetes()
        self.kubectl_path = self._kubernetes / "kubectl"
        self._processes: dict[str, NodeProcess] = {}
        self.host = Node(self._node_description(), base / "node")

    # What a test asks of a cluster.

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

    def create_namespace(self, name: str | None = None) -> str:
        """Make a namespace whose Pods can be admitted at once; return its name."""
        name = name or f"test-{secrets.token_hex(4)}"
        self.kubectl("create", "namespace", name)
        path = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        self.wait_for(lambda: self._exists(path), f"the default service account of {name}")
        return name

    def create_token(self, service_account: str, namespace: str = "default") -> str:
        """Return a token of a service account, which is made if it does not exist."""
        if not self._exists(f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}"):
            self.kubectl("create", "serviceaccount", service_account, "-n", namespace)
        return self.kubectl("create", "token", service_account, "-n", namespace).strip()

    def wait_for(
        self, question: Callable[[], T | None], what: str, timeout: float = WAIT_SECONDS
    ) -> T:
        """Ask until the answer is true and return it; raises TimeoutError naming ``what``."""
        deadline = time.monotonic() + timeout
        while True:
            answer = question()
            if answer:
                return answer
            for name, process in self._processes.items():
                if process.poll() is not None:
                    raise RuntimeError(f"{name} ended with {process.returncode}: {self.log(name)}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {timeout:.0f} s for {what}")
            time.sleep(_POLL_SECONDS)

    def log(self, name: str, lines: int = 30) -> str:
        """Return the last lines of a program's log, such as ``kubelet`` or ``containerd``."""
        return "\n".join((self.logs / f"{name}.log").read_text().splitlines()[-lines:])

    def load_image(self, archive: Path) -> None:
        """Load an OCI or Docker image archive into the node's containerd."""
        done = self._ctr_import(archive)
        if done.returncode != 0:
            raise RuntimeError(f"{archive} cannot be imported: {done.stderr}")

    def crictl(self, *arguments: str) -> str:
        """Run crictl on the node and return what it prints."""
        endpoint = "unix:///run/containerd/containerd.sock"
        command: list[str | Path] = [
            programs.crictl(),
            f"--runtime-endpoint={endpoint}",
            *arguments,
        ]
        return self.host.run(command, check=True).stdout

    def restore_incident(self) -> None:
        """Put the node's configuration and spec files back to those of the incident."""
        description = incident.description()
        for toolkit in description.toolkits:
            self.host.write(toolkit.config_path, toolkit.config_text())
        for path, content in description.files.items():
            self.host.write(path, content)
        incident.write_specs(self.host)

    # Start and end.

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
        self.network.create(self.host)
        self._spawn("etcd", programs.system_program("etcd"), self._etcd_flags())
        self._spawn("kube-apiserver", None, self._apiserver_flags())
        self._spawn("containerd", Path("/usr/bin/containerd"), [])
        incident.write_specs(self.host)
        self._load_images()
        self.wait_for(self._api_is_ready, "the API server", START_SECONDS)
        self._spawn("kube-controller-manager", None, self._controller_manager_flags())
        self._spawn("kube-scheduler", None, self._scheduler_flags())
        self._spawn("kubelet", None, self._kubelet_flags())
        self.apply(*runtime_classes())
        self.wait_for(self._node_is_ready, "the node to be Ready", START_SECONDS)
        path = "/api/v1/namespaces/default/serviceaccounts/default"
        self.wait_for(lambda: self._exists(path), "the default service account")

    def _spawn(self, name: str, program: Path | None, flags: Sequence[str]) -> None:
        with (self.logs / f"{name}.log").open("w") as log:
            self._processes[name] = self.host.popen(
                [program or self._kubernetes / name, *flags],
                # The shim, runc and the kubelet's helpers are found through the path.
                env={"PATH": PATH},
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _load_images(self) -> None:
        socket_path = self.host.path("/run/containerd/containerd.sock")
        self.wait_for(socket_path.exists, "containerd")
        for file_name, name in (("busybox.tar", IMAGE), ("pause.tar", PAUSE_IMAGE)):
            archive = images.write_image(self.base / file_name, name, ["sleep", "2147483647"])
            self.wait_for(functools.partial(self._import, archive), f"the image {name}")

    def _import(self, archive: Path) -> bool:
        return self._ctr_import(archive).returncode == 0

    def _ctr_import(self, archive: Path) -> subprocess.CompletedProcess[str]:
        return self.host.run(["ctr", "-n", "k8s.io", "image", "import", archive])

    def _api_is_ready(self) -> bool:
        request = self.api_url + "/readyz"
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(request, context=self._tls, timeout=5) as answer,
        ):
            return bool(answer.status == 200)
        return False

    def _exists(self, path: str) -> bool:
        try:
            self.get(path)
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            error.close()
            return False
        return True

    def _node_is_ready(self) -> bool:
        path = f"/api/v1/nodes/{NODE_NAME}"
        return self._exists(path) and is_ready(self.get(path))

    # What each program is told.

    def _node_description(self) -> NodeDescription:
        containerd = programs.containerd(CONTAINERD_VERSION)
        plain = incident.description()
        cgroups = f"find /sys/fs/cgroup -depth -type d -path '*{self.network.bridge}*' -delete"
        return replace(
            plain,
            files={
                **plain.files,
                "/etc/cni/net.d/10-lab.conflist": self.network.cni_config(),
                "/etc/resolv.conf": "nameserver 127.0.0.1\n",
                "/var/lib/kubelet/config.yaml": yaml.safe_dump(self._kubelet_config()),
            },
            copies={f"/usr/bin/{path.name}": path for path in containerd.iterdir()},
            directories=(
                *plain.directories,
                *("/var/lib/containerd", "/var/lib/cni", "/var/lib/kubelet/manifests"),
                *("/var/log/pods", "/var/log/containers"),
            ),
            at_end=(("ip", "link", "delete", self.network.bridge), ("sh", "-c", cgroups)),
        )

    def _etcd_flags(self) -> list[str]:
        client = f"http://127.0.0.1:{self.ports.etcd}"
        peer = f"http://127.0.0.1:{self.ports.etcd_peer}"
        return [
            *("--data-dir", "/run/etcd", "--listen-client-urls", client),
            *("--advertise-client-urls", client, "--listen-peer-urls", peer),
            *("--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"),
        ]

    def _apiserver_flags(self) -> list[str]:
        hosts = ["127.0.0.1", "localhost", "kubernetes.default.svc", "10.96.0.1"]
        serving = self.authority.issue("apiserver", "kube-apiserver", hosts=hosts)
        accounts = pki.write_key(self.base / "pki" / "accounts")
        return [
            f"--etcd-servers=http://127.0.0.1:{self.ports.etcd}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self.ports.api}",
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
            f"--client-ca-file={self.ca_file}",
            f"--service-account-key-file={accounts}",
            f"--service-account-signing-key-file={accounts}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-cluster-ip-range={SERVICE_RANGE}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            f"--kubelet-client-certificate={self.admin.certificate}",
            f"--kubelet-client-key={self.admin.key}",
            "--kubelet-preferred-address-types=InternalIP",
            "--endpoint-reconciler-type=none",
        ]

    def _controller_manager_flags(self) -> list[str]:
        return [
            f"--kubeconfig={self._client('controller-manager', 'kube-controller-manager')}",
            f"--service-account-private-key-file={self.base / 'pki' / 'accounts.key'}",
            f"--root-ca-file={self.ca_file}",
            "--use-service-account-credentials",
            "--leader-elect=false",
            "--secure-port=0",
        ]

    def _scheduler_flags(self) -> list[str]:
        return [
            f"--kubeconfig={self._client('scheduler', 'kube-scheduler')}",
            "--leader-elect=false",
            "--secure-port=0",
        ]

    def _client(self, file_name: str, user: str) -> Path:
        pair = self.authority.issue(file_name, f"system:{user}")
        return self.authority.kubeconfig(pair, self.api_url)

    def _kubelet_flags(self) -> list[str]:
        pair = self.authority.issue("kubelet", f"system:node:{NODE_NAME}", "system:nodes")
        return [
            "--config=/var/lib/kubelet/config.yaml",
            f"--kubeconfig={self.authority.kubeconfig(pair, self.api_url)}",
            f"--hostname-override={NODE_NAME}",
            f"--node-ip={self.network.gateway}",
            "--node-labels=nvidia.com/gpu.present=true",
            "--v=2",
        ]

    def _kubelet_config(self) -> Mapping[str, object]:
        serving = self.authority.issue("kubelet-serving", NODE_NAME, hosts=[self.network.gateway])
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.network.gateway,
            "port": self.ports.kubelet,
            "healthzPort": self.ports.kubelet_healthz,
            "healthzBindAddress": "127.0.0.1",
            "tlsCertFile": str(serving.certificate),
            "tlsPrivateKeyFile": str(serving.key),
            "authentication": {
                "anonymous": {"enabled": False},
                "x509": {"clientCAFile": str(self.ca_file)},
            },
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "staticPodPath": "/var/lib/kubelet/manifests",
            "volumePluginDir": "/var/lib/kubelet/plugins-exec",
            "resolvConf": "/etc/resolv.conf",
            # The machine may be small, may have cgroup v1 and may lack CAP_SYS_RESOURCE.
            "failCgroupV1": False,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.network.bridge}",
            "cgroupsPerQOS": False,
            "enforceNodeAllocatable": [],
            "failSwapOn": False,
            "oomScoreAdj": 0,
            "localStorageCapacityIsolation": False,
            "makeIPTablesUtilChains": False,
            "imageGCHighThresholdPercent": 100,
            "evictionHard": {"nodefs.available": "1%", "memory.available": "50Mi"},
            # Tests wait for what production waits for, only shorter.
            "nodeStatusUpdateFrequency": "2s",
            "featureGates": {"KubeletCrashLoopBackOffMax": True},
            "crashLoopBackOff": {"maxContainerRestartPeriod": "4s"},
        }


class _Ports:
    """Ports of the loopback interface that were free a moment ago."""

    def __init__(self) -> None:
        with contextlib.ExitStack() as stack:
            sockets = [stack.enter_context(socket.socket()) for _ in range(5)]
            for each in sockets:
                each.bind(("127.0.0.1", 0))
            ports = [each.getsockname()[1] for each in sockets]
        self.etcd, self.etcd_peer, self.api, self.kubelet, self.kubelet_healthz = ports


class _Network:
    """A bridge of its own for the Pods; its address is the node's, which may not be loopback."""

    def __init__(self) -> None:
        self.bridge = f"gpucdi{secrets.token_hex(3)}"
        self.subnet = _unused_subnet()
        self.gateway = str(next(self.subnet.hosts()))

    def create(self, host: Node) -> None:
        """Make the bridge; the node's end removes it."""
        for command in (
            ["ip", "link", "add", self.bridge, "type", "bridge"],
            ["ip", "address", "add", f"{self.gateway}/{self.subnet.prefixlen}", "dev", self.bridge],
            ["ip", "link", "set", self.bridge, "up"],
        ):
            host.run(command, check=True)

    def cni_config(self) -> str:
        """The CNI configuration that puts Pods on the bridge."""
        ipam = {
            "type": "host-local",
            "ranges": [[{"subnet": str(self.subnet)}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        bridge = {"type": "bridge", "bridge": self.bridge, "isGateway": True, "ipam": ipam}
        return json.dumps({"cniVersion": "1.0.0", "name": "lab", "plugins": [bridge]})


def _unused_subnet() -> ipaddress.IPv4Network:
    routes = subprocess.run(
        ["ip", "-4", "-json", "route", "show", "table", "all"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    taken = [
        ipaddress.ip_network(route["dst"], strict=False)
        for route in json.loads(routes or "[]")
        if route["dst"] != "default"
    ]
    while True:
        third = random.randrange(256)  # noqa: S311 - a subnet is no secret
        subnet = ipaddress.IPv4Network(f"10.213.{third}.0/24")
        if not any(subnet.overlaps(each) for each in taken):
            return subnet


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
