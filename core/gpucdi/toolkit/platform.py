"""What kind of machine the runtime takes a node for, from its files.

Owns: the evidence for Tegra and WSL, and whether the nvidia kernel module is loaded. Must not know:
what follows.

Sources: NVIDIA/go-nvlib ``pkg/nvlib/info/{resolver,property-extractor}.go``; the wrapper of
NVIDIA/nvidia-container-toolkit ``cmd/nvidia-ctk-installer/toolkit/installer/executables.go``.
"""

from __future__ import annotations

from gpucdi.host import HostTree
from gpucdi.toolkit.request import Platform

_LIBRARY_DIRS = (
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/aarch64-linux-gnu/nvidia/current",
    "/lib64",
    "/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/wsl/lib",
)
MODULES = "/proc/modules"


def read_platform(host: HostTree) -> Platform:
    """Tell Tegra and WSL from everything else; integrated GPUs known only to NVML are not seen."""
    if _has_library(host, "libdxcore.so"):
        return Platform.WSL
    if _is_tegra(host) and not _has_library(host, "libnvidia-ml.so.1"):
        return Platform.TEGRA
    return Platform.NVML


def kernel_module_loaded(host: HostTree, modules_file: str = MODULES) -> bool | None:
    """Tell whether the nvidia module is listed; ``None`` when the list cannot be read."""
    try:
        content = host.read(modules_file)
    except OSError:
        return None
    return any(line.startswith(b"nvidia ") for line in content.splitlines())


def _is_tegra(host: HostTree) -> bool:
    if host.exists("/etc/nv_tegra_release"):
        return True
    try:
        return host.read("/sys/devices/soc0/family").lower().startswith(b"tegra")
    except OSError:
        return False


def _has_library(host: HostTree, name: str) -> bool:
    return any(host.exists(f"{directory}/{name}") for directory in _LIBRARY_DIRS)
