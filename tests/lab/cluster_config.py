"""What each program of the lab's cluster is told: ports, network, credentials, flags.

Owns: the command lines and files of a one-node cluster that a small machine can run
(cgroup v1 or v2, no CAP_SYS_RESOURCE, no systemd). Must not know: how programs are started.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import secrets
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import yaml
from tests.lab import incident, pki, programs
from tests.lab.node import NodeDescription

NODE_NAME = "gpu-node-1"
PAUSE_IMAGE = "localhost/pause:lab"
CONTAINERD_VERSION = "2.4.2"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
_KUBELET_CONFIG = "/var/lib/kubelet/config.yaml"
_PORTS_NEEDED, _FIRST_PORT, _PORT_RANGE = 4, 20000, 12000


class ClusterConfig:
    """The configuration of one cluster; making it issues every certificate."""

    def __init__(self, folder: Path) -> None:
        """Write credentials into ``folder`` and choose ports and a network that are free."""
        self.ports = _Ports()
        self.network = _Network()
        self.api_url = f"https://{self.network.api_address}"
        self.authority = pki.Authority(folder)
        self.admin = self.authority.issue("admin", "lab-admin", "system:masters")
        self.kubeconfig = self.authority.kubeconfig(self.admin, self.api_url)
        self._accounts_key = pki.write_key(folder / "accounts")

    def commands(self) -> Mapping[str, Sequence[str | Path]]:
        """Return the command line of each program, in the order in which they depend."""
        kubernetes = programs.kubernetes()
        return {
            "etcd": [programs.system_program("etcd"), *self._etcd()],
            "containerd": ["/usr/bin/containerd"],
            "kube-apiserver": [kubernetes / "kube-apiserver", *self._apiserver()],
            "kube-controller-manager": [
                kubernetes / "kube-controller-manager",
                *self._controller_manager(),
            ],
            "kube-scheduler": [kubernetes / "kube-scheduler", *self._scheduler()],
            "kubelet": [kubernetes / "kubelet", *self._kubelet()],
        }

    def node_description(self) -> NodeDescription:
        """Return the node of the first incident with an engine and a kubelet on it."""
        containerd = programs.containerd(CONTAINERD_VERSION)
        plain = incident.description()
        bridge = self.network.bridge
        drop_cgroups = f"find /sys/fs/cgroup -depth -type d -path '*/{bridge}*' -exec rmdir {{}} +"
        return replace(
            plain,
            files={
                **plain.files,
                "/etc/cni/net.d/10-lab.conflist": self.network.cni_config(),
                "/etc/resolv.conf": "nameserver 127.0.0.1\n",
                _KUBELET_CONFIG: yaml.safe_dump(self._kubelet_config()),
            },
            copies={f"/usr/bin/{path.name}": path for path in containerd.iterdir()},
            directories=(
                *plain.directories,
                *("/var/lib/containerd", "/var/lib/cni", "/var/lib/kubelet/manifests"),
                *("/var/log/pods", "/var/log/containers"),
            ),
            at_end=(("ip", "link", "delete", bridge), ("sh", "-c", drop_cgroups)),
        )

    def _etcd(self) -> list[str]:
        client = f"http://127.0.0.1:{self.ports.etcd}"
        peer = f"http://127.0.0.1:{self.ports.etcd_peer}"
        return [
            *("--data-dir", "/run/etcd", "--listen-client-urls", client),
            *("--advertise-client-urls", client, "--listen-peer-urls", peer),
            *("--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"),
        ]

    def _apiserver(self) -> list[str]:
        address = self.network.api_address
        hosts = [address, "localhost", "kubernetes.default.svc"]
        serving = self.authority.issue("apiserver", "kube-apiserver", hosts=hosts)
        return [
            f"--etcd-servers=http://127.0.0.1:{self.ports.etcd}",
            # The address and port of the Service `kubernetes`: Pods reach it without a kube-proxy.
            f"--bind-address={address}",
            f"--advertise-address={address}",
            "--secure-port=443",
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
            f"--client-ca-file={self.authority.certificate}",
            f"--service-account-key-file={self._accounts_key}",
            f"--service-account-signing-key-file={self._accounts_key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-cluster-ip-range={self.network.services}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            f"--kubelet-client-certificate={self.admin.certificate}",
            f"--kubelet-client-key={self.admin.key}",
            "--kubelet-preferred-address-types=InternalIP",
            "--endpoint-reconciler-type=none",
        ]

    def _controller_manager(self) -> list[str]:
        return [
            f"--kubeconfig={self._client('controller-manager', 'kube-controller-manager')}",
            f"--service-account-private-key-file={self._accounts_key}",
            f"--root-ca-file={self.authority.certificate}",
            "--use-service-account-credentials",
            "--leader-elect=false",
            "--secure-port=0",
        ]

    def _scheduler(self) -> list[str]:
        return [
            f"--kubeconfig={self._client('scheduler', 'kube-scheduler')}",
            "--leader-elect=false",
            "--secure-port=0",
        ]

    def _kubelet(self) -> list[str]:
        kubeconfig = self._client("kubelet", f"node:{NODE_NAME}", "system:nodes")
        return [
            f"--config={_KUBELET_CONFIG}",
            f"--kubeconfig={kubeconfig}",
            f"--hostname-override={NODE_NAME}",
            f"--node-ip={self.network.gateway}",
            "--node-labels=nvidia.com/gpu.present=true",
            "--v=2",
        ]

    def _client(self, file_name: str, user: str, group: str | None = None) -> Path:
        pair = self.authority.issue(file_name, f"system:{user}", group)
        return self.authority.kubeconfig(pair, self.api_url)

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
                "x509": {"clientCAFile": str(self.authority.certificate)},
            },
            "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
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
    """Ports of the loopback interface that were free a moment ago.

    They lie below the range from which the kernel takes ports for outgoing connections, so none of
    those can take one before its program does.
    """

    def __init__(self) -> None:
        chosen: set[int] = set()
        while len(chosen) < _PORTS_NEEDED:
            port = _FIRST_PORT + secrets.randbelow(_PORT_RANGE)
            with contextlib.suppress(OSError), socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
                chosen.add(port)
        self.etcd, self.etcd_peer, self.kubelet, self.kubelet_healthz = chosen


class _Network:
    """A bridge of its own for the Pods; its address is the node's, which may not be loopback.

    The subnet's upper half is for Services. The first of them is the API server's, by Kubernetes'
    own rule, and the bridge has that address, too.
    """

    def __init__(self) -> None:
        self.bridge = f"gpucdi{secrets.token_hex(3)}"
        self.subnet = _unused_subnet()
        self.pods, self.services = self.subnet.subnets()
        self.gateway = str(next(self.pods.hosts()))
        self.api_address = str(next(self.services.hosts()))

    def commands(self) -> Sequence[Sequence[str]]:
        """The commands that make the bridge; the node's end removes it."""
        return (
            ["ip", "link", "add", self.bridge, "type", "bridge"],
            ["ip", "address", "add", f"{self.gateway}/{self.pods.prefixlen}", "dev", self.bridge],
            ["ip", "address", "add", f"{self.api_address}/32", "dev", self.bridge],
            ["ip", "link", "set", self.bridge, "up"],
        )

    def cni_config(self) -> str:
        """The CNI configuration that puts Pods on the bridge."""
        ipam = {
            "type": "host-local",
            "ranges": [[{"subnet": str(self.pods)}]],
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
        # Not `random`: the test run seeds it, and two runs at once must not choose alike.
        subnet = ipaddress.IPv4Network(f"10.213.{secrets.randbelow(256)}.0/24")
        if not any(subnet.overlaps(each) for each in taken):
            return subnet
