"""The innermost words of a failure: which cause they name.

Owns the words of generators, hooks and the CDI library's file errors; the first that fits decides,
so the deeper cause stands first. Sources: NVIDIA/nvidia-container-toolkit ``pkg/nvcdi``,
``cmd/nvidia-cdi-hook``, NVML's error strings, cncf-tags/container-device-interface ``pkg/cdi``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpucdi.findings import Cause

Words = tuple[tuple[re.Pattern[str], Cause], ...]


def _words(*rows: tuple[str, Cause]) -> Words:
    return tuple((re.compile(pattern, re.IGNORECASE), cause) for pattern, cause in rows)


DRIVER_WORDS = _words(
    (r"driver/library version mismatch", Cause.DRIVER_MISMATCH),
    (r"GPU is lost|GPU_IS_LOST|fallen off the bus|device lost", Cause.GPU_LOST),
    (r"driver not loaded|no NVIDIA device nodes found", Cause.DRIVER_NOT_READY),
    (r"undefined symbol: nvml|function not found", Cause.DRIVER_TOO_OLD),
    (r"unsatisfied condition|requirements not met", Cause.DRIVER_TOO_OLD),
    (r"LIBRARY_NOT_FOUND|failed to locate \W?lib(cuda|nvidia-ml)", Cause.DRIVER_ROOT_WRONG),
    (r"pattern lib\S+ not found|could not load NVML library", Cause.DRIVER_ROOT_WRONG),
    (r"libnvidia-ml\.so\S*: cannot open shared object", Cause.DRIVER_ROOT_WRONG),
    (r"insufficient permissions|operation not permitted", Cause.DEVICE_ACCESS_DENIED),
)
REQUEST_WORDS = _words(
    (r"not a valid UUID or index: \W*void", Cause.VOID_MOUNT_SKEW),
    (r"not a valid UUID or index|invalid channel ID", Cause.MALFORMED_REQUEST),
    (r"only \W*all\W* is supported", Cause.MALFORMED_REQUEST),
    (r"non-privileged container|container scoped to", Cause.ENV_REQUEST_REFUSED),
    (r"handle from UUID: Not Found", Cause.STALE_UUID),
    (r"device error: (GPU|MIG)-[0-9a-f-]+: unknown device", Cause.STALE_UUID),
    (r"device error: \S+: unknown device", Cause.UNKNOWN_DEVICE),
    (r"MIG handle by index: Not Found", Cause.MIG_LAYOUT_CHANGED),
    (r"no MIG devices configured|more than one MIG device type", Cause.MIG_LAYOUT_CHANGED),
    (r"handle from index: Invalid Argument", Cause.UNKNOWN_DEVICE),
    (r"IMEX channel \d+ not found|failed to stat CDI host device", Cause.DEVICE_NODE_MISSING),
)
HOOK_WORDS = _words(
    (r"no help topic for", Cause.HOOK_TOO_OLD),
    (r"undefined symbol", Cause.DRIVER_TOO_OLD),
    (r"GPU memory limits|NVIDIA_GPU_MEMORY_|exceeds memory limit", Cause.MEMORY_LIMIT_REJECTED),
    (r"exceeds the maximum supported|set memory limits", Cause.MEMORY_LIMIT_REJECTED),
    (r"apply-cuda-memory-limits", Cause.MEMORY_LIMIT_REJECTED),
)
CLAIM_WORDS = _words(
    (r"PrepareCompleted state", Cause.DRA_CLAIM_SPEC_LOST),
    (r"checkpoint is corrupted", Cause.GENERATOR_FAILED),
)
WRITE_WORDS = _words(
    (r"read-only file system|permission denied|no space left|mkdir", Cause.SPEC_DIR_MISSING),
)

# The version of the specification that brought a field; a reader without it rejects the file.
FIELD_SINCE = {
    "hostPath": "0.5.0",
    "annotations": "0.6.0",
    "additionalGids": "0.7.0",
    "intelRdt": "0.7.0",
    "netDevices": "1.1.0",
    "schemata": "1.1.0",
    "enableMonitoring": "1.1.0",
}
_FIELD = re.compile(r"unknown field \W*(\w+)|field (\w+) not found in type")
_VERSION = re.compile(r"(?:invalid|unknown|unsupported) version \W*v?([0-9][\w.]*)")
_NOT_READABLE = re.compile(r"permission denied|operation not permitted", re.IGNORECASE)


def first(text: str, *tables: Iterable[tuple[re.Pattern[str], Cause]]) -> Cause | None:
    """Return the cause of the first row that fits ``text``."""
    for table in tables:
        for pattern, cause in table:
            if pattern.search(text):
                return cause
    return None


def rejected_field(detail: str) -> str | None:
    """Return the field that a reader did not know."""
    found = _FIELD.search(detail)
    return (found[1] or found[2]) if found else None


def load_cause(detail: str) -> Cause:
    """Return why a spec file was not taken, by the library's own words."""
    if _NOT_READABLE.search(detail):
        return Cause.SPEC_NOT_READABLE
    if rejected_field(detail) in FIELD_SINCE or _VERSION.search(detail):
        return Cause.SPEC_TOO_NEW_FOR_READER
    return Cause.SPEC_REJECTED
