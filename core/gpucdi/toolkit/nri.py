"""The toolkit's NRI plugin: which CDI devices a Pod's annotations make it ask containerd for.

Owns: the plugin's reading of annotations. Must not know: whether a node runs the plugin (no file
says so), nor how containerd injects.

Sources: NVIDIA/nvidia-container-toolkit
``cmd/nvidia-ctk-installer/container/runtime/nri/plugin.go`` (1.19 and 1.20), containerd/nri
``pkg/plugin`` (``GetEffectiveAnnotation``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from gpucdi.engines.versions import Release

DOMAIN = "nvidia.cdi.k8s.io"
MANAGEMENT_KIND = "management.nvidia.com/gpu"
_FIRST: Release = (1, 19, 0)
_FIRST_FOR_ALL_NAMESPACES: Release = (1, 20, 0)


@dataclass(frozen=True, slots=True)
class NriRequest:
    """The ``names`` that the plugin adds, as written; ``ignored`` says why it adds none."""

    names: tuple[str, ...] = ()
    annotation: str | None = None
    ignored: str | None = None


def nri_request(
    annotations: Mapping[str, str],
    container: str,
    namespace: str,
    *,
    version: Release,
    allowed_namespaces: Collection[str],
) -> NriRequest:
    """Say what the plugin of toolkit ``version`` asks for on behalf of a container.

    ``allowed_namespaces`` are the toolkit's own and, from 1.20 on, those of
    ``NRI_MANAGEMENT_CDI_DEVICE_NAMESPACES``. Before 1.20 nothing outside them is served at all,
    later only the management kind is held back.
    """
    keys = (f"{DOMAIN}/container.{container}", f"{DOMAIN}/pod", DOMAIN)
    key = next((key for key in keys if key in annotations), None)
    if key is None or version < _FIRST:
        return NriRequest()
    value = annotations[key]
    is_held_back = version < _FIRST_FOR_ALL_NAMESPACES or MANAGEMENT_KIND in value
    if is_held_back and namespace not in allowed_namespaces:
        places = ", ".join(sorted(allowed_namespaces)) or "none"
        reason = f"the NRI plugin serves {key} in these namespaces only: {places}"
        return NriRequest(annotation=key, ignored=reason)
    return NriRequest(tuple(value.split(",")), key)
