"""What a real API server says to policies: CEL rules and defaults, in words that help."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from tests.fakeapi.controlplane import ROOT, ControlPlane

from gpucdi.api.policy import Policy, RestartConfig, Selector

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
        (
            {"kinds": {"extra": ["nvidia.com"]}},
            r'"nvidia\.com" is no kind: write VENDOR/CLASS, for example nvidia\.com/gpu',
        ),
        (
            {"kinds": {"extra": ["nvidia.com/gpu", "nvidia.com/gpu=all"]}},
            '"nvidia.com/gpu=all" is no kind: write VENDOR/CLASS',
        ),
        (
            {"nodeSelector": {"matchExpressions": [{"key": "k", "operator": "In"}]}},
            r"In and NotIn need values: write values: .* beside the key k",
        ),
        (
            {
                "nodeSelector": {
                    "matchExpressions": [{"key": "k", "operator": "Exists", "values": ["x"]}]
                }
            },
            "Exists and DoesNotExist take none: remove the values beside the key k",
        ),
        ({"restartWaitingPods": {}}, "say where Pods may be restarted: write namespaces"),
        (
            {"restartWaitingPods": {"namespaces": ["a"], "namespaceSelector": {}}},
            "exclude each other: keep one of the two",
        ),
        ({"restartWaitingPods": {"namespaces": ["*"]}}, "is no name of a Namespace: write names"),
        ({"restartWaitingPods": {"namespaces": []}}, "at least 1 items"),
        ({"restartWaitingPods": {"namespaces": ["a"], "perMinute": 0}}, "equal to 1"),
        ({"taint": "NoExecute"}, 'supported values: "None", "NoSchedule"'),
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


def test_a_kind_is_judged_in_words_by_the_pattern_that_a_schema_has_for_it() -> None:
    crd = yaml.safe_load((ROOT / "crds" / "gpucdipolicies.yaml").read_text())
    root = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    kind = root["properties"]["kinds"]["properties"]["extra"]["items"]
    rules = [item["rule"] for item in kind["x-kubernetes-validations"]]
    assert f"self.matches('{kind['pattern']}')" in rules


def test_kinds_of_vendors_are_taken(apiserver: ControlPlane) -> None:
    kinds = ["nvidia.com/gpu", "management.nvidia.com/gpu", "a/b", "Vendor.example-1.com/x_y.z-0"]
    found = dry_run(apiserver, policy(kinds={"extra": kinds}))["spec"]
    assert found["kinds"]["extra"] == kinds


def test_an_empty_policy_only_observes(apiserver: ControlPlane) -> None:
    found = dry_run(apiserver, policy())["spec"]
    assert found["repair"]["mode"] == "Observe"
    assert Policy.from_json("p", found) == Policy("p")


def test_restarts_come_with_their_defaults(apiserver: ControlPlane) -> None:
    found = dry_run(apiserver, policy(restartWaitingPods={"namespaceSelector": {}}))["spec"]
    assert Policy.from_json("p", found).restarts == RestartConfig(selector=Selector())


def test_every_field_of_a_policy_explains_itself(apiserver: ControlPlane) -> None:
    for field in ("spec.restartWaitingPods", "spec.taint", "spec.repair.mode", "spec.kinds.extra"):
        told = apiserver.kubectl("explain", f"gpucdipolicy.{field}")
        assert len(told.partition("DESCRIPTION:")[2].split()) > 10


def test_the_samples_are_accepted(apiserver: ControlPlane) -> None:
    for file in sorted((ROOT / "manifests" / "samples").glob("*.yaml")):
        count = len(list(yaml.safe_load_all(file.read_text())))
        # Applied, because some of them stand for what is installed already.
        how = ("--server-side", "--force-conflicts", "--dry-run=server", "-o", "name")
        answer = apiserver.kubectl("apply", *how, "-f", str(file))
        assert len(answer.split()) == count
