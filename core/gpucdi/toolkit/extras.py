"""What a just-in-time request holds beside GPUs: gated devices, IMEX channels, MIG management.

Owns: these parts, and how they fail. Must not know: GPUs, spec files.

Sources: NVIDIA/nvidia-container-toolkit ``internal/modifier/cdi.go``, ``pkg/nvcdi/lib-imex.go``,
``pkg/nvcdi/lib.go``.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from gpucdi.cdi import split_device
from gpucdi.cdi.gotext import quote
from gpucdi.host import HostTree
from gpucdi.toolkit.jit import JitCrash, JitError, is_mig
from gpucdi.toolkit.model import ToolkitConfig
from gpucdi.toolkit.request import ContainerRequest
from gpucdi.toolkit.rules import Rules
from gpucdi.toolkit.sources import imex_channels

IMEX_HIGHEST = 1048575

_GATES = ("GDS", "MOFED", "GDRCOPY", "NVSWITCH")
_MIG_VARIABLES = {"config": "NVIDIA_MIG_CONFIG_DEVICES", "monitor": "NVIDIA_MIG_MONITOR_DEVICES"}
_IMEX = "mode=imex,id="
_UNSIGNED_LIMIT = 2**64


def extra_requests(
    config: ToolkitConfig, request: ContainerRequest, rules: Rules
) -> tuple[str, ...]:
    """Return what is generated beside the GPUs; the MIG part is checked by :func:`mig_problem`."""
    variables = request.variables()
    extra = [
        f"mode={gate.lower()}" for gate in _GATES if variables.get(f"NVIDIA_{gate}") == "enabled"
    ]
    extra += [f"mode=imex,id={one}" for one in imex_channels(config, request, variables)]
    if rules.reads_mig_capabilities:
        asked = [name for name, variable in _MIG_VARIABLES.items() if variables.get(variable)]
        extra += [f"mode=mig-caps,id={name}" for name in asked]
    return tuple(dict.fromkeys(extra))


def mig_problem(request: ContainerRequest, visible: Sequence[str], rules: Rules) -> str | None:
    """Return why the request for MIG management devices is refused, ``None`` when it is not."""
    variables = request.variables()
    asked = {v: variables[v] for v in _MIG_VARIABLES.values() if variables.get(v)}
    if not asked or not rules.reads_mig_capabilities:
        return None
    for variable, value in asked.items():
        if value.lower() != "all":
            return f'invalid {variable} {quote(value)}: only "all" is supported'
    if not request.privileged:
        names = " or ".join(_MIG_VARIABLES.values())
        return f"cannot set {names} in a non-privileged container"
    if "all" not in visible and any(is_mig(split_device(name)[2]) for name in visible):
        return "cannot request MIG config/monitor devices for a container scoped to specific MIG devices"
    return None


def check_extras(host: HostTree, extra: Sequence[str], driver_root: str, rules: Rules) -> None:
    """Raise :class:`JitError` if generating these parts fails, :class:`JitCrash` for a panic."""
    if "mode=nvswitch" in extra and not rules.generates_nvswitch:
        raise JitError('unknown mode "nvswitch"', "nvswitch", "construct CDI library")
    channels = [one.removeprefix(_IMEX) for one in extra if one.startswith(_IMEX)]
    channels = [one.removeprefix("channel") for one in channels if one]
    if "all" in channels:
        return
    for channel in channels:
        problem = _channel_problem(channel, rules)
        if problem is not None:
            raise JitError(f"failed to construct device spec generators: {problem}", "imex")
    for channel in channels:
        path = posixpath.join(driver_root, f"dev/nvidia-caps-imex-channels/channel{channel}")
        if not host.exists(path):
            raise _missing_channel(channel, path, rules)


def _channel_problem(channel: str, rules: Rules) -> str | None:
    if not re.fullmatch(r"[0-9]+", channel):
        problem = "invalid syntax"
    elif len(channel.lstrip("0")) > len(str(_UNSIGNED_LIMIT)) or int(channel) >= _UNSIGNED_LIMIT:
        problem = "value out of range"
    elif rules.bounds_imex_channels and int(channel) > IMEX_HIGHEST:
        return f"invalid channel ID {channel}: must be in the range [0, {IMEX_HIGHEST}]"
    else:
        return None
    return f"invalid channel ID {channel}: strconv.ParseUint: parsing {quote(channel)}: {problem}"


def _missing_channel(channel: str, path: str, rules: Rules) -> JitError | JitCrash:
    if not rules.bounds_imex_channels:
        return JitCrash(f"{path} is missing")
    missing = f"stat {path}: no such file or directory"
    return JitError(f"IMEX channel {channel} not found at {path}: {missing}", "imex")
