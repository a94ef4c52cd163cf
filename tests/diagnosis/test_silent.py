"""Pods that run without their GPU: only what the Pod asks for may be blamed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tests.diagnosis.scenes import HOST_SPEC, PLUGIN_SPEC, TOOLKIT_CONFIG, Scene, config, look, spec
from tests.trees import c00

from gpucdi.diagnosis import Confidence, Diagnosis, diagnose_silent
from gpucdi.failures import pod_view
from gpucdi.findings import Cause

CONTAINERD = "/etc/containerd/config.toml"
DROP_IN = "/etc/containerd/conf.d/99-nvidia.toml"
RUNTIMES = 'plugins."io.containerd.grpc.v1.cri".containerd.runtimes'
VERSION_2 = (
    f'version = 2\n[{RUNTIMES}.runc]\nruntime_type = "io.containerd.runc.v2"\n'
    f'[{RUNTIMES}.nvidia]\nruntime_type = "io.containerd.runc.v2"\n'
    f'[{RUNTIMES}.nvidia.options]\nBinaryName = "/usr/local/nvidia/toolkit/nvidia-container-runtime"\n'
)
OFF = Scene(remove=[DROP_IN], files={CONTAINERD: VERSION_2}, engines={"containerd": "1.7.24"})
REFUSES = Scene(
    replace={
        TOOLKIT_CONFIG: (
            "accept-nvidia-visible-devices-envvar-when-unprivileged = true",
            "accept-nvidia-visible-devices-envvar-when-unprivileged = false",
        )
    }
)
BEHIND = "runtimes.nvidia]\n          "
HANDED_ON = f'{BEHIND}pod_annotations = ["cdi.k8s.io/*"]\n          '
PASSED = Scene(replace={DROP_IN: (f"{BEHIND}runtime_type", f"{HANDED_ON}runtime_type")})
MISSING_NODE = {
    TOOLKIT_CONFIG: config(),
    HOST_SPEC: spec("nvidia.com/gpu", "all", node="/dev/dri/card3"),
}
CLAIM = ({"name": "gpu", "resourceClaimName": "gpu"},)
ANNOTATION = {"cdi.k8s.io/test": "nvidia.com/gpu=0"}
RESOURCE = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}


def a_pod(
    visible: str | None = None,
    *,
    runtime_class: str | None = "nvidia",
    annotations: Mapping[str, str] | None = None,
    container: Mapping[str, object] | None = None,
    claims: Sequence[Mapping[str, str]] = (),
) -> dict[str, object]:
    env = [] if visible is None else [{"name": "NVIDIA_VISIBLE_DEVICES", "value": visible}]
    main = {"name": "main", "env": env, **(container or {})}
    spec: dict[str, object] = {"containers": [main], "resourceClaims": list(claims)}
    if runtime_class is not None:
        spec["runtimeClassName"] = runtime_class
    return {
        "metadata": {"annotations": dict(annotations or {})},
        "spec": spec,
        "status": {"phase": "Running"},
    }


def tell(pod: Mapping[str, object], scene: Scene, place: Path) -> Diagnosis | None:
    return diagnose_silent(pod=pod_view(pod), node=look(scene, place / "root"))


def test_a_claim_is_dropped_by_an_engine_that_does_not_inject(tmp_path: Path) -> None:
    found = tell(a_pod(annotations=ANNOTATION, claims=CLAIM), OFF, tmp_path)
    assert found is not None
    assert found.cause is Cause.ENGINE_CDI_DISABLED
    assert found.contributing == (Cause.REQUEST_NOT_READ,)
    assert found.confidence is Confidence.HIGH


def test_a_claim_says_nothing_about_the_kinds_of_runtimes(tmp_path: Path) -> None:
    pod = a_pod(runtime_class=None, claims=CLAIM)
    assert tell(pod, Scene(), tmp_path) is None


def test_a_plugin_relies_on_the_engine_where_the_handler_is_no_nvidia_runtime(
    tmp_path: Path,
) -> None:
    found = tell(a_pod(runtime_class=None, container=RESOURCE), OFF, tmp_path)
    assert found is not None
    assert found.cause is Cause.ENGINE_CDI_DISABLED
    assert found.confidence is Confidence.MEDIUM


def test_a_plugin_does_not_rely_on_the_engine_where_an_nvidia_runtime_reads(
    tmp_path: Path,
) -> None:
    found = tell(a_pod(container=RESOURCE), OFF, tmp_path)
    assert found is None or found.cause is not Cause.ENGINE_CDI_DISABLED


def test_the_names_that_a_pod_asks_for_are_compared_with_those_that_are_missing(
    tmp_path: Path,
) -> None:
    assert tell(a_pod("all"), Scene(), tmp_path / "all") is None
    found = tell(a_pod(c00.UUIDS[0]), Scene(), tmp_path / "uuid")
    assert found is not None
    assert found.cause is Cause.ONLY_ALL_DEVICE
    assert found.confidence is Confidence.LOW


def test_a_pod_that_wants_no_device_is_not_told_of_a_kind(tmp_path: Path) -> None:
    assert tell(a_pod("void"), Scene(), tmp_path) is None


def test_a_dead_device_node_is_named_and_not_another_kinds_drift(tmp_path: Path) -> None:
    found = tell(a_pod("all"), Scene(files=MISSING_NODE), tmp_path)
    assert found is not None
    assert found.cause is Cause.DEVICE_NODE_MISSING


def test_a_dead_node_of_a_kind_that_nobody_asked_for_is_not_blamed(tmp_path: Path) -> None:
    other = Scene(files={HOST_SPEC: MISSING_NODE[HOST_SPEC]})
    assert tell(a_pod("all"), other, tmp_path) is None


@pytest.mark.parametrize("scene", [Scene(), PASSED], ids=["not handed on", "handed on"])
def test_a_pods_own_annotation_is_read_only_where_the_engine_hands_it_on(
    scene: Scene, tmp_path: Path
) -> None:
    found = tell(a_pod(annotations=ANNOTATION), scene, tmp_path)
    unread = found is not None and found.cause is Cause.REQUEST_NOT_READ
    assert unread is (scene is not PASSED)


def test_a_handed_on_annotation_needs_a_prefix_that_the_runtime_looks_for(tmp_path: Path) -> None:
    prefix = ('annotation-prefixes = ["cdi.k8s.io/"]', 'annotation-prefixes = ["a.b/"]')
    scene = Scene(replace=dict(PASSED.replace) | {TOOLKIT_CONFIG: prefix})
    found = tell(a_pod(annotations=ANNOTATION), scene, tmp_path)
    assert found is not None
    assert found.cause is Cause.REQUEST_NOT_READ
    assert "a.b/" in found.summary


@pytest.mark.parametrize(
    ("context", "cause"),
    [
        ({}, Cause.ENV_REQUEST_REFUSED),
        ({"privileged": True}, None),
        ({"capabilities": {"add": ["SYS_ADMIN"]}}, None),
    ],
)
def test_the_variable_of_an_unprivileged_container_is_dropped_where_the_node_says_so(
    context: Mapping[str, object], cause: Cause | None, tmp_path: Path
) -> None:
    found = tell(a_pod("all", container={"securityContext": context}), REFUSES, tmp_path)
    assert (found and found.cause) is cause


def test_a_variable_on_runc_is_no_fault_where_the_plugin_hands_over_cdi_names(
    tmp_path: Path,
) -> None:
    pod = a_pod("all", runtime_class=None, container=RESOURCE)
    assert tell(pod, Scene(), tmp_path / "with") is None
    found = tell(pod, Scene(remove=[PLUGIN_SPEC]), tmp_path / "without")
    assert found is not None
    assert found.cause is Cause.REQUEST_NOT_READ
