"""From a Pod to what engine and NVIDIA runtime will read of each of its containers.

Owns: which parts of a Pod reach them, and what a Pod cannot tell: the image's environment and what
a device plugin or a DRA driver adds at the start. Must not know: what is made of a request, nor
which annotations a handler lets through.

Sources: kubernetes/kubernetes ``pkg/kubelet/kuberuntime/kuberuntime_container.go``,
Project-HAMi/HAMi ``pkg/device/nvidia/device.go`` (the annotation's form).
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gpucdi.api import fields
from gpucdi.toolkit import PodContainer, RequestMount

DEVICES = "NVIDIA_VISIBLE_DEVICES"
HAMI_ALLOCATED = "hami.io/vgpu-devices-allocated"
_PLUGIN_RESOURCES = ("nvidia.com/gpu", "nvidia.com/mig-")
_LISTS = ("initContainers", "containers")


@dataclass(frozen=True, slots=True)
class Added:
    """What the caller knows of the start that the Pod does not hold, for every container.

    ``environment`` are ``NAME=value`` of image or device plugin, ``cdi_devices`` the CRI field
    (device plugin, DRA driver), ``annotations`` those of the device plugin.
    """

    environment: tuple[str, ...] = ()
    cdi_devices: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def asks(self) -> bool:
        """True when what was added may ask for a device, and not only sets some other variable."""
        asking = any(entry.startswith(f"{DEVICES}=") for entry in self.environment)
        return bool(asking or self.cdi_devices or self.annotations)

    @property
    def flags(self) -> str:
        """Return the options that said so, empty when nothing was added."""
        given = (
            ("--env", self.environment),
            ("--cdi-device", self.cdi_devices),
            ("--annotation", self.annotations),
        )
        return ", ".join(flag for flag, values in given if values)


@dataclass(frozen=True, slots=True)
class NamedContainer:
    """One container: ``request`` as far as known, ``unseen`` why there may be more to it.

    ``origin`` says who put the GPU request there, for people.
    """

    name: str
    request: PodContainer
    origin: str = ""
    unseen: str = ""


def pod_containers(pod: Mapping[str, object], added: Added) -> tuple[NamedContainer, ...]:
    """Return the containers of a Pod in the order in which they start.

    What is added comes last, as the device plugin's does, and so wins.
    """
    spec = fields.mapping(pod, "spec")
    allocated = _hami(pod)
    found: list[NamedContainer] = []
    for list_name in _LISTS:
        for index, container in enumerate(fields.objects(spec, list_name)):
            # HAMi lists the allocations of the regular containers, one a container.
            share = allocated[index] if list_name == "containers" and index < len(allocated) else ""
            found.append(_container(pod, container, share, added))
    return tuple(found)


def _container(
    pod: Mapping[str, object], container: Mapping[str, object], share: str, added: Added
) -> NamedContainer:
    own = tuple(_environment(container))
    # What the caller adds comes last, and so wins over what HAMi's device plugin hands over.
    allocated = (f"{DEVICES}={share}",) if share else ()
    wished = [entry for entry in own if entry.startswith(f"{DEVICES}=")]
    has_own = bool(wished)
    # These two say that no device is wanted; `none` is a name like any other.
    asks_itself = has_own and wished[-1].partition("=")[2] not in {"", "void"}
    mounts = tuple(_mounts(pod, container))
    return NamedContainer(
        name=fields.text(container, "name"),
        request=PodContainer(
            environment=(*own, *allocated, *added.environment),
            pod_annotations=_annotations(pod),
            container_annotations=added.annotations,
            cdi_devices=added.cdi_devices,
            mounts=mounts,
            privileged=_privileged(container),
        ),
        origin=_origin(share, added, asks_itself=asks_itself, mounts=mounts),
        unseen="" if added.asks or share else _unseen(container, has_own=has_own),
    )


def _origin(
    share: str, added: Added, *, asks_itself: bool, mounts: tuple[RequestMount, ...]
) -> str:
    if added.asks:
        return added.flags
    if share:
        return f"HAMi, by the annotation {HAMI_ALLOCATED}"
    if asks_itself:
        return "the container's env"
    return "the container's volume mounts" if any(map(_asks, mounts)) else ""


def _asks(mount: RequestMount) -> bool:
    return mount.destination.startswith("/var/run/nvidia-container-devices/")


def _mounts(pod: Mapping[str, object], container: Mapping[str, object]) -> Iterator[RequestMount]:
    """Yield the mounts of host paths; only these can ask the runtime for a device."""
    places = {
        fields.text(volume, "name"): fields.text(fields.mapping(volume, "hostPath"), "path")
        for volume in fields.objects(fields.mapping(pod, "spec"), "volumes")
    }
    for mount in fields.objects(container, "volumeMounts"):
        place = places.get(fields.text(mount, "name"))
        if place:
            source = posixpath.join(place, fields.text(mount, "subPath")).rstrip("/") or "/"
            yield RequestMount(source, fields.text(mount, "mountPath"))


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


def _annotations(pod: Mapping[str, object]) -> dict[str, str]:
    source = fields.mapping(fields.mapping(pod, "metadata"), "annotations")
    return {key: value for key, value in source.items() if isinstance(value, str)}


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
