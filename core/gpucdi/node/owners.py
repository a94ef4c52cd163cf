"""Who writes a spec file, as far as its name and place can tell.

Owns: the map from names and places to components. Must not know: whether a file is any good.

The answer decides nothing about writing (only our own mark does); it tells people whose component
to restart. Names are those of NVIDIA/nvidia-container-toolkit ``cmd/nvidia-ctk-installer`` and
``deployments/systemd``, NVIDIA/k8s-device-plugin ``internal/cdi`` and the DRA driver.
"""

from __future__ import annotations

import posixpath

from gpucdi.api.names import OWN_FILE_MARK, OWN_FILE_PREFIX
from gpucdi.host import HostTree

GPUCDI = "gpucdi"
UNKNOWN_OWNER = "unknown"
# What has a component write its spec again.
RESTART = {
    "toolkit": "restart the toolkit Pod of this node: it writes the file at start",
    "device-plugin": "restart the device plugin Pod of this node: it writes the file at start",
    "dra-driver": "restart the DRA driver Pod of this node: it writes the file",
    "cdi-refresh": "systemctl restart nvidia-cdi-refresh on the host, then read its journal",
    GPUCDI: "nothing: gpucdi writes the file anew",
}
_MARK_LIMIT_BYTES = 4 * 1024 * 1024


def file_owner(path: str, kind: str) -> str:
    """Return the component that writes ``path``, ``unknown`` where neither name nor place tells."""
    name = posixpath.basename(path)
    directory = posixpath.dirname(path)
    vendor = kind.partition("/")[0]
    if name.startswith(OWN_FILE_PREFIX):
        return GPUCDI
    if vendor == "k8s.device-plugin.nvidia.com":
        return "device-plugin"
    if vendor in {"k8s.gpu.nvidia.com", "k8s.compute-domain.nvidia.com"}:
        return "dra-driver"
    if name == "management.nvidia.com-gpu.yaml":
        return "toolkit"
    if name == "nvidia.yaml" and directory.endswith("/run/cdi"):
        return "cdi-refresh"
    if directory.startswith("/etc/"):
        return "admin"
    return UNKNOWN_OWNER


def is_ours(host: HostTree, path: str) -> bool:
    """Tell whether we wrote ``path``: our name *and* our mark in its first line.

    Raises nothing: a file that cannot be read is not known to be ours, hence not touched.
    """
    if not posixpath.basename(path).startswith(OWN_FILE_PREFIX):
        return False
    try:
        head = host.read(path, _MARK_LIMIT_BYTES)
    except OSError:
        return False
    return head.startswith(OWN_FILE_MARK.encode())
