"""A Pod as far as devices go: where it runs, through which RuntimeClass, and who asked for what.

Owns the marks that device plugins, schedulers and DRA leave in a Pod. Must not know what they lead
to. Sources: Project-HAMi/HAMi ``pkg/device/nvidia``, ``pkg/util``; volcano-sh/devices;
NVIDIA/KAI-Scheduler; kubernetes/kubernetes API types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpucdi.failures.jsonish import items, mapping, text, texts
from gpucdi.failures.model import ContainerView, PodView, Requester, RequesterName
from gpucdi.failures.pods import SPEC_LISTS

VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
MIG_MANAGEMENT = ("NVIDIA_MIG_CONFIG_DEVICES", "NVIDIA_MIG_MONITOR_DEVICES")
NRI_PREFIX = "nvidia.cdi.k8s.io/"
CDI_PREFIX = "cdi.k8s.io/"
PLUGIN_RESOURCES = ("nvidia.com/gpu", "nvidia.com/mig-", "amd.com/gpu", "gpu.intel.com/")

# Annotation keys in the order of how much they tell.
_ANNOTATIONS: tuple[tuple[str, RequesterName], ...] = (
    ("hami.io/vgpu-devices-allocated", RequesterName.HAMI),
    ("hami.io/vgpu-devices-to-allocate", RequesterName.HAMI),
    ("hami.io/", RequesterName.HAMI),
    ("volcano.sh/vgpu-ids-new", RequesterName.VOLCANO),
    ("volcano.sh/devices-to-allocate", RequesterName.VOLCANO),
    ("volcano.sh/gpu-index", RequesterName.VOLCANO),
    ("gpu-fraction", RequesterName.KAI),
    ("gpu-memory", RequesterName.KAI),
    ("kai.scheduler/", RequesterName.KAI),
    ("runai-", RequesterName.KAI),
    (NRI_PREFIX, RequesterName.NRI_ANNOTATION),
    (CDI_PREFIX, RequesterName.CDI_ANNOTATION),
)
_SCHEDULERS = {
    "hami-scheduler": RequesterName.HAMI,
    "kai-scheduler": RequesterName.KAI,
    "runai-scheduler": RequesterName.KAI,
}


def pod_view(pod: Mapping[str, object]) -> PodView:
    """Read a Pod of any shape; what is missing or wrong is left empty."""
    metadata, spec = mapping(pod, "metadata"), mapping(pod, "spec")
    host_users = spec.get("hostUsers")
    return PodView(
        namespace=text(metadata, "namespace"),
        name=text(metadata, "name"),
        uid=text(metadata, "uid"),
        node=text(spec, "nodeName"),
        runtime_class=text(spec, "runtimeClassName") or None,
        host_users=host_users if isinstance(host_users, bool) else None,
        phase=text(mapping(pod, "status"), "phase"),
        requesters=_unique(_requesters(metadata, spec)),
        containers=tuple(_container(item) for item in _containers(spec)),
    )


def _containers(spec: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    for list_name in SPEC_LISTS:
        yield from items(spec, list_name)


def _container(source: Mapping[str, object]) -> ContainerView:
    resources = mapping(source, "resources")
    return ContainerView(
        name=text(source, "name"),
        visible_devices=_env(source),
        resources=texts(resources, "requests") | texts(resources, "limits"),
        privileged=_is_privileged(mapping(source, "securityContext")),
        manages_mig=any(text(item, "name") in MIG_MANAGEMENT for item in items(source, "env")),
    )


def _is_privileged(context: Mapping[str, object]) -> bool:
    added = mapping(context, "capabilities").get("add")
    names = {str(name).removeprefix("CAP_") for name in added} if isinstance(added, list) else set()
    return context.get("privileged") is True or bool(names & {"SYS_ADMIN", "ALL"})


def _env(container: Mapping[str, object]) -> str | None:
    value = None
    for variable in items(container, "env"):
        if text(variable, "name") == VISIBLE_DEVICES and "value" in variable:
            value = text(variable, "value")
    return value


def _requesters(metadata: Mapping[str, object], spec: Mapping[str, object]) -> Iterator[Requester]:
    annotations = texts(metadata, "annotations")
    for prefix, name in _ANNOTATIONS:
        for key, value in annotations.items():
            if key == prefix or (prefix.endswith(("/", "-")) and key.startswith(prefix)):
                yield Requester(name, f"metadata.annotations[{key}]", value)
    scheduler = text(spec, "schedulerName")
    if scheduler in _SCHEDULERS:
        yield Requester(_SCHEDULERS[scheduler], "spec.schedulerName", scheduler)
    yield from _labelled(metadata)
    for claim in items(spec, "resourceClaims"):
        yield Requester(RequesterName.DRA, "spec.resourceClaims", text(claim, "name"))
    for container in _containers(spec):
        yield from _of_container(container)


def _labelled(metadata: Mapping[str, object]) -> Iterator[Requester]:
    for key, value in texts(metadata, "labels").items():
        if "gpustack" in key or "gpustack" in value:
            yield Requester(RequesterName.GPUSTACK, f"metadata.labels[{key}]", value)
        elif key.startswith(("kai.scheduler/", "runai/")) or key == "runai-gpu-group":
            yield Requester(RequesterName.KAI, f"metadata.labels[{key}]", value)


def _of_container(container: Mapping[str, object]) -> Iterator[Requester]:
    where = f"spec.containers[{text(container, 'name')}]"
    resources = mapping(container, "resources")
    asked = texts(resources, "requests") | texts(resources, "limits")
    for resource, amount in asked.items():
        if resource.startswith("volcano.sh/"):
            yield Requester(RequesterName.VOLCANO, f"{where}.resources[{resource}]", amount)
        elif resource.startswith(PLUGIN_RESOURCES):
            name = _plugin_of(resource)
            yield Requester(name, f"{where}.resources[{resource}]", amount)
    for variable in items(container, "env"):
        if text(variable, "name").startswith("GPUSTACK_"):
            yield Requester(RequesterName.GPUSTACK, f"{where}.env[{text(variable, 'name')}]")
        if text(variable, "name") == VISIBLE_DEVICES and text(variable, "value"):
            key = f"{where}.env[{VISIBLE_DEVICES}]"
            yield Requester(RequesterName.OWN_ENV, key, text(variable, "value"))


def _plugin_of(resource: str) -> RequesterName:
    # HAMi's webhook adds shares of a GPU under names that no other plugin has.
    shares = ("nvidia.com/gpumem", "nvidia.com/gpucores", "nvidia.com/gpumem-percentage")
    return RequesterName.HAMI if resource in shares else RequesterName.DEVICE_PLUGIN


def _unique(found: Iterator[Requester]) -> tuple[Requester, ...]:
    return tuple(dict.fromkeys(found))
