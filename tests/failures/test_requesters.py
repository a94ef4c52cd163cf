"""Who asked for the devices, by the marks that each party leaves in a Pod."""

from __future__ import annotations

import pytest

from gpucdi.failures import RequesterName, pod_view

N = RequesterName


def pod(**fields: object) -> dict[str, object]:
    annotations = fields.pop("annotations", {})
    labels = fields.pop("labels", {})
    container = {"name": "main", **fields.pop("container", {})}  # type: ignore[dict-item]
    return {
        "metadata": {"annotations": annotations, "labels": labels},
        "spec": {"containers": [container], **fields},
    }


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("hami.io/vgpu-devices-allocated", N.HAMI),
        ("hami.io/vgpu-node", N.HAMI),
        ("volcano.sh/vgpu-ids-new", N.VOLCANO),
        ("volcano.sh/gpu-index", N.VOLCANO),
        ("gpu-fraction", N.KAI),
        ("cdi.k8s.io/vendor_1", N.CDI_ANNOTATION),
        ("nvidia.cdi.k8s.io/container.main", N.NRI_ANNOTATION),
    ],
)
def test_an_annotation_names_its_writer(key: str, name: RequesterName) -> None:
    (found,) = pod_view(pod(annotations={key: "x"})).requesters
    assert (found.name, found.key, found.value) == (name, f"metadata.annotations[{key}]", "x")


@pytest.mark.parametrize(
    ("resource", "name"),
    [
        ("nvidia.com/gpu", N.DEVICE_PLUGIN),
        ("nvidia.com/mig-1g.5gb", N.DEVICE_PLUGIN),
        ("nvidia.com/gpumem", N.HAMI),
        ("volcano.sh/vgpu-number", N.VOLCANO),
    ],
)
def test_a_resource_names_its_plugin(resource: str, name: RequesterName) -> None:
    view = pod_view(pod(container={"resources": {"limits": {resource: 1}}}))
    assert [item.name for item in view.requesters] == [name]
    main = view.container("main")
    assert main is not None
    assert main.resources == {resource: "1"}


def test_the_pods_own_variable_is_a_request() -> None:
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "0,1"}]
    view = pod_view(pod(container={"env": env}))
    own = view.asked_by(N.OWN_ENV)
    assert own is not None
    assert own.value == "0,1"
    assert view.containers[0].visible_devices == "0,1"


def test_the_last_of_two_assignments_counts() -> None:
    env = [
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"},
    ]
    assert pod_view(pod(container={"env": env})).containers[0].visible_devices == "void"


def test_a_claim_is_a_request_of_dra() -> None:
    view = pod_view(pod(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one"}]))
    assert view.asked_by(N.DRA) is not None


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"schedulerName": "kai-scheduler"}, N.KAI),
        ({"schedulerName": "hami-scheduler"}, N.HAMI),
        ({"labels": {"kai.scheduler/queue": "team"}}, N.KAI),
        ({"labels": {"app.kubernetes.io/managed-by": "gpustack"}}, N.GPUSTACK),
        ({"container": {"env": [{"name": "GPUSTACK_MODEL", "value": "x"}]}}, N.GPUSTACK),
    ],
)
def test_schedulers_and_managers_are_known_by_their_names(
    fields: dict[str, object], name: RequesterName
) -> None:
    assert [item.name for item in pod_view(pod(**fields)).requesters] == [name]


def test_a_pod_that_asks_for_nothing_has_no_requester() -> None:
    view = pod_view(pod(schedulerName="default-scheduler", annotations={"a": "b"}))
    assert view.requesters == ()
    assert view.runtime_class is None
    assert view.host_users is None
