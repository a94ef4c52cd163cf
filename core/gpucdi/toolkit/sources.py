"""The three places of a container that can ask for GPUs, read as written: no kind, no lookup.

Owns: annotations, volume mounts and environment as each release reads them. Must not know: modes,
kinds, which source wins.

Sources: NVIDIA/nvidia-container-toolkit ``internal/config/image/{cuda_image,devices}.go``; up to
1.17 also ``internal/modifier/cdi.go``.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence

from gpucdi.cdi import is_qualified_name
from gpucdi.toolkit.model import ToolkitConfig
from gpucdi.toolkit.request import ContainerRequest
from gpucdi.toolkit.rules import Rules

DEVICES_VARIABLE = "NVIDIA_VISIBLE_DEVICES"
MOUNT_ROOT = "/var/run/nvidia-container-devices"


def annotated_names(config: ToolkitConfig, request: ContainerRequest) -> dict[str, list[str]]:
    """Return the elements of every annotation with a configured prefix, keys sorted.

    Elements are split at commas and neither trimmed nor checked. Up to 1.17 the runtime visits the
    keys in random order; sorted order stands for it.
    """
    prefixes = config.annotation_prefixes.value
    keys = sorted(key for key in request.annotations if key.startswith(prefixes))
    return {key: request.annotations[key].split(",") for key in keys}


def environment_names(
    config: ToolkitConfig, variables: Mapping[str, str], rules: Rules
) -> list[str]:
    """Return what the environment asks for; an empty element stands for *none*.

    The variables of ``swarm-resource`` that are set replace ``NVIDIA_VISIBLE_DEVICES`` where the
    release honours them.
    """
    swarm = config.swarm_resources.value if rules.reads_swarm else ()
    preferred = [name for name in swarm if name in variables]
    return variable_names(variables, preferred or [DEVICES_VARIABLE])


def variable_names(variables: Mapping[str, str], names: Sequence[str]) -> list[str]:
    """Return the device list of these variables together, as ``devicesFromEnvvars`` does."""
    texts = [variables[name] for name in names if name in variables]
    listed = [item.strip() for text in texts for item in text.split(",")]
    devices = [item for item in listed if item]
    if not texts and _is_legacy_image(variables):
        devices = ["all"]
    if not devices or "void" in devices:
        return []
    special = next((item for item in devices if item in {"all", "none"}), None)
    if special is not None:
        return ["all"] if special == "all" else [""]
    # The list is rebuilt from a map of last positions, so earlier duplicates leave holes.
    last = {item: index for index, item in enumerate(devices)}
    return [item if last[item] == index else "" for index, item in enumerate(devices)]


def _is_legacy_image(variables: Mapping[str, str]) -> bool:
    return bool(variables.get("CUDA_VERSION")) and not variables.get("NVIDIA_REQUIRE_CUDA")


def mounted_paths(request: ContainerRequest) -> list[str]:
    """Return the paths below the mount root onto which ``/dev/null`` is mounted, in order."""
    destinations = (
        _clean(mount.destination) for mount in request.mounts if _clean(mount.source) == "/dev/null"
    )
    below = [
        path.removeprefix(MOUNT_ROOT).strip("/")
        for path in dict.fromkeys(destinations)
        if path.startswith(MOUNT_ROOT)
    ]
    return [path for path in below if path]


def mounted_names(request: ContainerRequest, rules: Rules) -> list[str]:
    """Return the names that volume mounts ask for; IMEX channels are not among them."""
    names: list[str] = []
    for path in mounted_paths(request):
        if path == "void" and rules.knows_void_mount:
            return []
        if path.startswith("imex/"):
            continue
        if path.startswith("cdi/"):
            names.extend(_cdi_mount(path.removeprefix("cdi/"), rules))
        elif rules.unified:
            names.append(path)
    return names


def imex_channels(
    config: ToolkitConfig, request: ContainerRequest, variables: Mapping[str, str]
) -> list[str]:
    """Return the IMEX channels asked for by mounts, else by ``NVIDIA_IMEX_CHANNELS``."""
    if config.ignore_imex_channel_requests.value:
        return []
    if config.accept_volume_mounts.value:
        mounted = [
            path.removeprefix("imex/")
            for path in mounted_paths(request)
            if path.startswith("imex/")
        ]
        if mounted:
            return mounted
    listed = variable_names(variables, ["NVIDIA_IMEX_CHANNELS"])
    permitted = request.privileged or config.accept_envvar_when_unprivileged.value
    return listed if permitted and listed != ["all"] else []


def _cdi_mount(text: str, rules: Rules) -> Iterable[str]:
    if rules.unified and is_qualified_name(text, rules.library):
        return [text]
    parts = text.split("/", 2)
    return (
        [f"{parts[0]}/{parts[1]}={parts[2]}"]
        if len(parts) == len(("vendor", "class", "name"))
        else []
    )


def _clean(path: str) -> str:
    """Clean a path as Go's ``filepath.Clean`` does, which keeps no second leading slash."""
    cleaned = posixpath.normpath(path) if path else "."
    return "/" + cleaned.lstrip("/") if cleaned.startswith("/") else cleaned
