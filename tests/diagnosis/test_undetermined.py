"""Where nothing decides: what was seen, what was not, and how to show it; no guess, no warning."""

from __future__ import annotations

import pytest

from gpucdi.api import GpuStatus, NodeState, NodeStatus
from gpucdi.diagnosis import as_text, diagnose_all, diagnose_nothing
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
