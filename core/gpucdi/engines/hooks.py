"""OCI hook files that inject NVIDIA devices behind an engine's back.

Owns: finding ``oci-nvidia-hook.json``. Must not know: which engine reads which folder.

Source: NVIDIA/nvidia-container-toolkit ``cmd/nvidia-ctk-installer/container/runtime/crio`` (it
writes the file in hook mode).
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from gpucdi.findings import Cause, Finding, Severity, Sourced
from gpucdi.host import HostTree

HOOK_NAME = "oci-nvidia-hook.json"


def hook_findings(
    host: HostTree, configured: Sourced[tuple[str, ...]] | None, defaults: Sequence[str]
) -> tuple[Finding, ...]:
    """Return a finding for every hook file in the folders that an engine reads."""
    folders = configured.value if configured is not None else tuple(defaults)
    paths = [posixpath.join(folder, HOOK_NAME) for folder in folders]
    return tuple(_finding(path) for path in paths if host.exists(path))


def _finding(path: str) -> Finding:
    return Finding(
        cause=Cause.MODE_CONFLICT,
        severity=Severity.WARNING,
        message=f"{path} runs the NVIDIA hook for containers that get their GPUs through CDI too",
        advice="remove the hook file where CDI is in use; both together inject twice",
        file=path,
    )
