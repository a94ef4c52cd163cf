"""Where each kind of node keeps its engine, and how such a node is recognised.

Owns: the table of places and the evidence for each. Must not know: how a configuration is read.

Sources: k3s-io/k3s ``pkg/agent/containerd``, rancher/rke2, canonical/microk8s ``microk8s-resources``,
k0sproject/k0s ``docs/runtime.md``, siderolabs/talos ``internal/pkg/containers/cri/containerd``,
awslabs/amazon-eks-ami ``nodeadm``, bottlerocket-os/bottlerocket-core-kit, Azure/AgentBaker,
openshift/machine-config-operator.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpucdi.engines.arguments import option
from gpucdi.host import HostTree
from gpucdi.programs import EngineProcess

DEFAULT_CONFIG = "/etc/containerd/config.toml"
PLAIN = "plain host"


@dataclass(frozen=True, slots=True)
class ContainerdPlace:
    """One containerd on the node: its main file, the layout, and where its program may lie."""

    name: str
    config: str
    binaries: tuple[str, ...] = ("/usr/bin/containerd", "/usr/local/bin/containerd")


# Distributions that bring their own containerd, each with a main file of its own.
OWN_CONTAINERD = (
    ContainerdPlace(
        "k3s",
        "/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
        ("/var/lib/rancher/k3s/data/current/bin/containerd",),
    ),
    ContainerdPlace(
        "rke2",
        "/var/lib/rancher/rke2/agent/etc/containerd/config.toml",
        ("/var/lib/rancher/rke2/bin/containerd",),
    ),
    ContainerdPlace(
        "microk8s",
        "/var/snap/microk8s/current/args/containerd.toml",
        ("/snap/microk8s/current/bin/containerd",),
    ),
    ContainerdPlace("k0s", "/etc/k0s/containerd.toml", ("/var/lib/k0s/bin/containerd",)),
    ContainerdPlace(
        "talos", "/etc/cri/containerd.toml", ("/usr/bin/containerd", "/bin/containerd")
    ),
)


def containerd_places(host: HostTree, process: EngineProcess | None) -> tuple[ContainerdPlace, ...]:
    """Return every containerd main file on the node, the running one's own first.

    The default path also counts without a file when a containerd is known to run without naming
    another: it then runs on its built-in defaults. On Talos it belongs to the system's containerd,
    which runs no Pods.
    """
    named = option(process, "c", "config")
    found = [place for place in OWN_CONTAINERD if host.exists(place.config)]
    is_talos = any(place.name == "talos" for place in found)
    defaults_run = process is not None and named is None and not found
    if (host.exists(DEFAULT_CONFIG) or defaults_run) and not is_talos:
        found.append(ContainerdPlace(node_kind(host), DEFAULT_CONFIG))
    if named is not None and named not in {place.config for place in found}:
        known = next((place for place in OWN_CONTAINERD if place.config == named), None)
        found.append(known or ContainerdPlace(node_kind(host), named))
    return tuple(sorted(found, key=lambda place: place.config != named))


def node_kind(host: HostTree) -> str:
    """Name the kind of node from its files, for nodes whose engine lies in the usual place."""
    system = _os_release(host)
    if system.get("ID") == "rhcos" or host.exists("/etc/machine-config-daemon"):
        return "openshift"
    if system.get("ID") == "bottlerocket":
        return "bottlerocket"
    if system.get("ID") == "cos" or host.exists("/home/kubernetes/bin"):
        return "gke"
    if host.exists("/etc/kubernetes/azure.json") or host.exists("/opt/azure/containers"):
        return "aks"
    if host.exists("/etc/eks") or host.exists("/usr/bin/nodeadm"):
        return "eks"
    if host.exists("/var/lib/kubelet/kubeadm-flags.env"):
        return "kubeadm"
    return PLAIN


def _os_release(host: HostTree) -> dict[str, str]:
    for path in ("/etc/os-release", "/usr/lib/os-release"):
        try:
            text = host.read(path).decode("utf-8", "replace")
        except OSError:
            continue
        pairs = (line.partition("=") for line in text.splitlines())
        return {name: value.strip("\"'") for name, equals, value in pairs if equals}
    return {}
