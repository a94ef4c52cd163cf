"""From a Pod to what the NVIDIA runtime will read of each of its containers.

Owns: which parts of a Pod reach the runtime, and what a Pod cannot tell: the image's environment
and what a device plugin adds at the start. Must not know: what the runtime makes of a request.

Sources: kubernetes/kubernetes ``pkg/kubelet/kuberuntime/kuberuntime_container.go``,
containerd/containerd ``internal/cri/server/container_create.go`` (annotations), Project-HAMi/HAMi
``pkg/device/nvidia/device.go`` (the annotation's form).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from gpucdi.api import fields
from gpucdi.engines import Handler
from gpucdi.toolkit import ContainerRequest

DEVICES = "NVIDIA_VISIBLE_DEVICES"
HAMI_ALLOCATED = "hami.io/vgpu-devices-allocated"
_PLUGIN_RESOURCES = ("nvidia.com/gpu", "nvidia.com/mig-")
_LISTS = ("initContainers", "containers")


@dataclass(frozen=True, slots=True)
class PodContainer:
    """One container: ``request`` as far as known, ``unseen`` why there may be more to it.

    ``origin`` says who put the GPU request there, for people.
    """

    name: str
    request: ContainerRequest
    origin: str = ""
    unseen: str = ""


def pod_containers(
    pod: Mapping[str, object], handler: Handler, extra: Sequence[str] = ()
) -> tuple[PodContainer, ...]:
    """Return the containers of a Pod in the order in which they start.

    ``extra`` are ``NAME=value`` entries that image or device plugin add; they come last, as the
    device plugin's do, and so win.
    """
    spec = fields.mapping(pod, "spec")
    allocated = _hami(pod)
    found: list[PodContainer] = []
    for list_name in _LISTS:
        for index, container in enumerate(fields.objects(spec, list_name)):
            # HAMi lists the allocations of the regular containers, one a container.
            share = allocated[index] if list_name == "containers" and index < len(allocated) else ""
            found.append(_container(pod, container, handler, share, tuple(extra)))
    return tuple(found)


def _container(
    pod: Mapping[str, object],
    container: Mapping[str, object],
    handler: Handler,
    share: str,
    extra: tuple[str, ...],
) -> PodContainer:
    own = tuple(_environment(container))
    added = extra or ((f"{DEVICES}={share}",) if share else ())
    named = [entry for entry in (*own, *added) if entry.startswith(f"{DEVICES}=")]
    origin = "the container's env" if named else ""
    if share and not extra:
        origin = f"HAMi, by the annotation {HAMI_ALLOCATED}"
    elif extra and named and named[-1] in extra:
        origin = "--env"
    return PodContainer(
        name=fields.text(container, "name"),
        request=ContainerRequest(
            environment=(*own, *added),
            annotations=_annotations(pod, handler),
            privileged=_privileged(container),
        ),
        origin=origin,
        unseen="" if extra or share else _unseen(container, has_own=bool(named)),
    )


def _unseen(container: Mapping[str, object], *, has_own: bool) -> str:
    resources = fields.mapping(container, "resources")
    asked = {**fields.mapping(resources, "requests"), **fields.mapping(resources, "limits")}
    plugin = next((name for name in asked if name.startswith(_PLUGIN_RESOURCES)), None)
    if plugin is not None:
        return f"the device plugin of {plugin} adds its request when the container starts"
    if not has_own:
        return f"the image may set {DEVICES}"
    return ""


def _environment(container: Mapping[str, object]) -> Iterator[str]:
    for variable in fields.objects(container, "env"):
        name = fields.text(variable, "name")
        if name and isinstance(variable.get("value"), str):
            yield f"{name}={fields.text(variable, 'value')}"


def _annotations(pod: Mapping[str, object], handler: Handler) -> dict[str, str]:
    """Return the Pod's annotations that the engine hands on: those its ``pod_annotations`` allow."""
    source = fields.mapping(fields.mapping(pod, "metadata"), "annotations")
    return {
        key: value
        for key, value in source.items()
        if isinstance(value, str)
        and any(fnmatchcase(key, pattern) for pattern in handler.pod_annotations)
    }


def _privileged(container: Mapping[str, object]) -> bool:
    context = fields.mapping(container, "securityContext")
    added = fields.texts(fields.mapping(context, "capabilities"), "add")
    return fields.boolean(context, "privileged") or bool({"SYS_ADMIN", "ALL"} & set(added))


def _hami(pod: Mapping[str, object]) -> list[str]:
    """Return the device list of each regular container: ``UUID,type,MiB,cores:…;`` for each."""
    annotations = fields.mapping(fields.mapping(pod, "metadata"), "annotations")
    text = fields.text(annotations, HAMI_ALLOCATED)
    if not text:
        return []
    shares = text.removesuffix(";").split(";")
    return [
        ",".join(device.partition(",")[0] for device in share.split(":") if device)
        for share in shares
    ]
