"""The NRI plugin's annotations, per release and namespace."""

from __future__ import annotations

import pytest

from gpucdi.toolkit import NriRequest, nri_request

ALL = "management.nvidia.com/gpu=all"
V118, V119, V120 = (1, 18, 2), (1, 19, 1), (1, 20, 0)


def ask(
    annotations: dict[str, str], version: tuple[int, int, int], namespace: str = "default"
) -> NriRequest:
    return nri_request(
        annotations, "main", namespace, version=version, allowed_namespaces={"gpu-operator"}
    )


def test_the_containers_own_annotation_beats_the_pods() -> None:
    annotations = {
        "nvidia.cdi.k8s.io/container.main": "a.com/b=0,a.com/b=1",
        "nvidia.cdi.k8s.io/pod": "a.com/b=9",
    }
    assert ask(annotations, V120).names == ("a.com/b=0", "a.com/b=1")
    del annotations["nvidia.cdi.k8s.io/container.main"]
    assert ask(annotations, V120).names == ("a.com/b=9",)


def test_another_containers_annotation_is_not_ours() -> None:
    assert ask({"nvidia.cdi.k8s.io/container.side": "a.com/b=0"}, V120) == NriRequest()


@pytest.mark.parametrize("name", ["a.com/b=0", ALL])
def test_1_19_serves_the_toolkits_namespace_only(name: str) -> None:
    annotations = {"nvidia.cdi.k8s.io/pod": name}
    assert ask(annotations, V119).names == ()
    assert ask(annotations, V119).ignored is not None
    assert ask(annotations, V119, "gpu-operator").names == (name,)


def test_1_20_holds_back_the_management_kind_only() -> None:
    assert ask({"nvidia.cdi.k8s.io/pod": "a.com/b=0"}, V120).names == ("a.com/b=0",)
    assert ask({"nvidia.cdi.k8s.io/pod": f"a.com/b=0,{ALL}"}, V120).names == ()
    assert ask({"nvidia.cdi.k8s.io/pod": ALL}, V120, "gpu-operator").names == (ALL,)


def test_there_is_no_plugin_before_1_19() -> None:
    assert ask({"nvidia.cdi.k8s.io/pod": "a.com/b=0"}, V118, "gpu-operator") == NriRequest()
