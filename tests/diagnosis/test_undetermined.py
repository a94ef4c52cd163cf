"""Where nothing decides: what was seen, what was not, and how to show it; no guess, no warning."""

from __future__ import annotations

import pytest

from gpucdi.api import GpuStatus, NodeState, NodeStatus
from gpucdi.diagnosis import Confidence, as_text, diagnose_all, diagnose_nothing
from gpucdi.failures import PodView, extract, pod_view
from gpucdi.findings import Cause

TEXT = "unresolvable CDI devices example.com/nic=eth1"
MANAGEMENT = "unresolvable CDI devices management.nvidia.com/gpu=3"
NODE = NodeStatus(state=NodeState.RESOLVED, gpus=GpuStatus(source="nvml"))
POD = pod_view({"metadata": {"name": "train", "namespace": "a"}, "spec": {"nodeName": "gpu-17"}})
EVENT_ONLY = PodView(namespace="a", name="train", node="gpu-17", is_whole=False)


def test_an_undetermined_cause_warns_of_nothing() -> None:
    (found,) = diagnose_all(extract(TEXT))
    assert found.cause is Cause.UNDETERMINED
    assert not found.warnings
    assert "Draining" not in as_text(found)


@pytest.mark.parametrize(
    ("pod", "wanted"),
    [(None, "kubectl get pod POD -o yaml"), (EVENT_ONLY, "kubectl get pod train -n a -o yaml")],
)
def test_it_says_how_the_pod_and_the_node_can_be_shown(pod: PodView | None, wanted: str) -> None:
    (found,) = diagnose_all(extract(TEXT), pod=pod)
    commands = [item.command or "" for item in found.advice]
    assert commands[0].startswith(wanted)
    assert "gpucdi-agent capture --output node.tar.gz" in commands
    assert any(item.startswith("the Pod: who asked") for item in found.not_seen)


def test_what_was_given_is_not_asked_for_again() -> None:
    (found,) = diagnose_all(extract(TEXT), pod=POD)
    assert not any("kubectl get pod" in (item.command or "") for item in found.advice)


def test_a_healthy_pod_on_a_node_that_was_looked_at_is_not_called_unseen() -> None:
    found = diagnose_nothing("", pod=POD, node=NODE)
    assert found.summary == "Neither the Pod nor its node shows a failure of CDI devices."
    assert not found.not_seen


def test_an_event_alone_does_not_make_its_pod_one_of_the_default_handler() -> None:
    failures = extract(f"error modifying OCI spec: failed to inject CDI devices: {MANAGEMENT}")
    (found,) = diagnose_all(failures, pod=EVENT_ONLY)
    assert any("label node gpu-17" in (item.command or "") for item in found.advice)
    assert not any("runtimeClassName" in item.text for item in found.evidence)


DIED = "Error: container create failed: read status from sync socket: No such process"


@pytest.mark.parametrize(
    ("host_users", "cause", "confidence"),
    [
        (False, Cause.USER_NAMESPACE_IDMAP, Confidence.MEDIUM),
        (True, Cause.UNDETERMINED, Confidence.LOW),
        (None, Cause.UNDETERMINED, Confidence.LOW),
    ],
)
def test_a_runtime_that_says_nothing_is_judged_by_the_user_namespace(
    host_users: bool | None, cause: Cause, confidence: Confidence
) -> None:
    (found,) = diagnose_all(extract(DIED), pod=PodView(host_users=host_users))
    assert (found.cause, found.confidence) == (cause, confidence)


@pytest.mark.parametrize("pod", [None, EVENT_ONLY])
def test_a_runtime_that_says_nothing_leaves_open_what_the_pod_would_show(
    pod: PodView | None,
) -> None:
    (found,) = diagnose_all(extract(DIED), pod=pod)
    assert (found.cause, found.confidence) == (Cause.USER_NAMESPACE_IDMAP, Confidence.LOW)
    assert any("hostUsers" in item for item in found.not_seen)


def test_a_damaged_checkpoint_is_moved_away_before_anything_else() -> None:
    (found,) = diagnose_all(
        extract("NodePrepareResources failed for ResourceClaim c: checkpoint is corrupted")
    )
    assert found.advice[0].text.startswith("move the damaged checkpoint away while no Pod")


@pytest.mark.parametrize(
    "text",
    [
        "0/8 nodes are available: 8 Insufficient nvidia.com/gpu. preemption: 0/8 nodes are available",
        'Error: configmap "nvidia-x" not found',
        "Error: couldn't find key nvidia in Secret default/nvidia-x",
        'MountVolume.SetUp failed for volume "nvidia-conf" : configmap "nvidia-conf" not found',
        "Unable to attach or mount volumes: unmounted volumes=[nvidia], unattached volumes=[]",
        'invalid mount config for type "bind": bind source path does not exist: /opt/nvidia',
        "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu.",
        "Allocate failed due to no healthy devices present; cannot allocate nvidia.com/gpu",
        "kubelet on the nvidia.com/gpu node: could not restore state: checkpoint is corrupted",
    ],
)
def test_what_fails_beside_every_device_is_not_cdi_though_it_names_one(text: str) -> None:
    assert not extract(text)
    found = diagnose_nothing(text)
    assert found.cause is Cause.NOT_CDI
    assert not found.failure.is_cdi
