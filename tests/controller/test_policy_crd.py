"""What a real API server says to policies: CEL rules and defaults, in words that help."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from tests.fakeapi.controlplane import ROOT, ControlPlane

from gpucdi.api.policy import Policy

pytestmark = pytest.mark.lab


def policy(**spec: Any) -> str:
    return json.dumps(
        {
            "apiVersion": "gpucdi.io/v1alpha1",
            "kind": "GpuCdiPolicy",
            "metadata": {"name": "p"},
            "spec": spec,
        }
    )


def dry_run(plane: ControlPlane, text: str) -> dict[str, Any]:
    answer = plane.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=text)
    found: dict[str, Any] = json.loads(answer)
    return found


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"kinds": {"extra": ["k8s.device-plugin.nvidia.com/gpu"]}}, "are written by others"),
        ({"kinds": {"extra": ["runtime.nvidia.com/gpu"]}}, "are written by others"),
        ({"kinds": {"extra": ["nvidia.com"]}}, "should match"),
        (
            {"nodeSelector": {"matchExpressions": [{"key": "k", "operator": "In"}]}},
            "In and NotIn need values",
        ),
        (
            {
                "nodeSelector": {
                    "matchExpressions": [{"key": "k", "operator": "Exists", "values": ["x"]}]
                }
            },
            "Exists and DoesNotExist take none",
        ),
        ({"repair": {"mode": "Sometimes"}}, "supported values"),
        ({"repair": {"maxConcurrent": 0}}, "greater than or equal to 1"),
        ({"repair": {"breaker": {"percent": 101}}}, "less than or equal to 100"),
    ],
)
def test_a_policy_that_cannot_work_is_refused_in_words(
    apiserver: ControlPlane, spec: dict[str, Any], told: str
) -> None:
    with pytest.raises(AssertionError, match=told):
        dry_run(apiserver, policy(**spec))


def test_an_empty_policy_only_observes(apiserver: ControlPlane) -> None:
    found = dry_run(apiserver, policy())["spec"]
    assert found["repair"]["mode"] == "Observe"
    assert Policy.from_json("p", found) == Policy("p")


def test_the_samples_are_accepted(apiserver: ControlPlane) -> None:
    file = ROOT / "manifests" / "samples" / "policy.yaml"
    count = len(list(yaml.safe_load_all(file.read_text())))
    answer = apiserver.kubectl("create", "--dry-run=server", "-o", "name", "-f", str(file))
    assert len(answer.split()) == count
