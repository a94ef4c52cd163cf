"""The agent as its manifests install it: an image of its Dockerfile, run by the node's kubelet.

Owns: reading the DaemonSets of ``manifests/``, rolling one out on the lab's cluster as it is, and
looking into its container.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from tests.e2e import running
from tests.lab import container_image
from tests.lab.cluster import Cluster

INSTALL = running.PROJECT / "manifests/install.yaml"
UNINSTALL = running.PROJECT / "manifests/uninstall.yaml"
OBSERVE = running.PROJECT / "manifests/samples/agent-observe.yaml"
_NAME = "gpucdi-agent"
_DAEMON_SET = f"/apis/apps/v1/namespaces/{running.NAMESPACE}/daemonsets/{_NAME}"
_PODS = f"/api/v1/namespaces/{running.NAMESPACE}/pods"
_SELECTOR = f"labelSelector=app.kubernetes.io/name%3D{_NAME}"
# A Pod of the agent is Ready within seconds; this is for machines that have much else to do.
_ROLL_OUT_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Mount:
    """A mount as the container's first process sees it."""

    target: str
    options: frozenset[str]


class Agent:
    """The agent's DaemonSet on a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        """Build the image and let the node have it under the name that the manifests use.

        Raises what ``container_image.build`` does.
        """
        self.cluster = cluster
        (name,) = images(INSTALL)
        reference = f"docker.io/library/{name}"
        cluster.load_image(container_image.build("Dockerfile.agent", reference))

    def apply(self, manifest: Path) -> None:
        """Apply the DaemonSet of a manifest as it is; return when its Pod alone is there, Ready."""
        self.cluster.apply(daemon_set(manifest))
        self.cluster.wait_for(
            lambda: self._is_rolled_out() and len(self._pods()) == 1,
            f"the Pod of {manifest.name} to be Ready",
            _ROLL_OUT_SECONDS,
        )

    def run(self, script: str) -> str:
        """Run a shell script in the agent's container and return what it prints."""
        running_now = ("ps", "--quiet", "--name", "^agent$", "--state", "Running")
        container = self.cluster.crictl(*running_now).strip()
        return self.cluster.crictl("exec", container, "sh", "-c", script)

    def mounts(self) -> Sequence[Mount]:
        """Return the container's mounts, without those that a later one hides."""
        lines = [line.split() for line in self.run("cat /proc/1/mountinfo").splitlines()]
        # proc(5): the fifth field is the mount point, the sixth its own options.
        found = {fields[4]: Mount(fields[4], frozenset(fields[5].split(","))) for fields in lines}
        return list(found.values())

    def remove(self) -> None:
        """Delete the DaemonSet and wait until its Pods are gone."""
        where = ("-n", running.NAMESPACE, "--ignore-not-found", "--wait=false")
        self.cluster.kubectl("delete", "daemonset", _NAME, *where)
        self.cluster.wait_for(
            lambda: not self._pods(), "the agent's Pod to be gone", _ROLL_OUT_SECONDS
        )

    def _is_rolled_out(self) -> bool:
        found = self.cluster.get(_DAEMON_SET)
        status, metadata = found["status"], found["metadata"]
        assert isinstance(status, dict)
        assert isinstance(metadata, dict)
        return (
            status.get("observedGeneration") == metadata["generation"]
            and status.get("updatedNumberScheduled") == 1
            and status.get("numberAvailable") == 1
        )

    def _pods(self) -> list[object]:
        items = self.cluster.get(f"{_PODS}?{_SELECTOR}")["items"]
        assert isinstance(items, list)
        return items


def daemon_set(manifest: Path) -> Mapping[str, object]:
    """Return the one DaemonSet of a manifest."""
    documents = yaml.safe_load_all(manifest.read_text())
    (found,) = (item for item in documents if item and item["kind"] == "DaemonSet")
    assert isinstance(found, dict)
    return found


def images(manifest: Path) -> set[str]:
    """Return the images that the containers of a manifest's DaemonSet run."""
    spec = daemon_set(manifest)["spec"]
    assert isinstance(spec, dict)
    pod = spec["template"]["spec"]
    containers = [*pod["containers"], *pod.get("initContainers", [])]
    return {container["image"] for container in containers}
