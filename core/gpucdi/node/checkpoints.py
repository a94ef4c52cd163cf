"""What NVIDIA's DRA drivers remember of prepared claims, and which boot of the host this is.

Owns: where the checkpoints lie, their layouts, and the few fields that a verdict needs of them.
Must not know: whether the claims' devices still resolve. The files are the drivers' own: they are
read and never written.

Sources: kubernetes-sigs/dra-driver-nvidia-gpu ``cmd/gpu-kubelet-plugin/{checkpoint,checkpointv,
prepared}.go`` and the same of ``cmd/compute-domain-kubelet-plugin``; ``nodeBootID`` came with its
pull request 1066 (v0.4.0). A driver before that returns a claim in state PrepareCompleted as it is,
also after a reboot (its issue 951).
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeGuard

from gpucdi.host import FileTooLargeError, HostTree

BOOT_ID = "/proc/sys/kernel/random/boot_id"
PROC_STAT = "/proc/stat"
DRIVERS = ("gpu.nvidia.com", "compute-domain.nvidia.com")
CHECKPOINT = "checkpoint.json"
PREPARED = "PrepareCompleted"
READ_LIMIT_BYTES = 4 * 1024 * 1024
# kubelet's own directory, and those of k0s and MicroK8s.
PLUGIN_DIRS = (
    "/var/lib/kubelet/plugins",
    "/var/lib/k0s/kubelet/plugins",
    "/var/snap/microk8s/common/var/lib/kubelet/plugins",
)
# Newest first: an older layout stands beside a newer one for the sake of downgrades.
_LAYOUTS = ("v2", "v1")
_DEVICE_IDS = frozenset({"CDIDeviceIDs", "cdi_device_ids"})
_DEPTH_LIMIT = 12
# Longer than any name or boot id is; what is longer is not one.
_WORD_LIMIT = 256


@dataclass(frozen=True, slots=True)
class Boot:
    """This boot of the host: its id and when it began (seconds since 1970), where known."""

    id: str | None = None
    began_s: int | None = None


@dataclass(frozen=True, slots=True)
class PreparedClaim:
    """A claim that the driver holds as prepared, with the full CDI names that it hands out."""

    uid: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One driver's checkpoint; ``problem`` says why nothing is known of what it holds.

    ``is_denied``: whoever looks has no right to, so that not even its being there is known.
    ``boot_id`` is the boot that it belongs to, ``None`` before v0.4.0. ``key`` is where the claims
    stand in the file.
    """

    path: str
    driver: str
    claims: tuple[PreparedClaim, ...] = ()
    boot_id: str | None = None
    modified_s: int | None = None
    key: str = ""
    problem: str = ""
    is_denied: bool = False


def this_boot(host: HostTree) -> Boot:
    """Return which boot this is, as far as the kernel's files tell."""
    boot_id = _text(host, BOOT_ID).strip()
    rows = (line.split() for line in _text(host, PROC_STAT).splitlines())
    began = next((row[1] for row in rows if row[:1] == ["btime"] and len(row) > 1), "")
    return Boot(boot_id or None, int(began) if began.isdecimal() and began.isascii() else None)


def _text(host: HostTree, path: str) -> str:
    try:
        return host.read(path).decode("utf-8", "replace")
    except OSError:
        return ""


def read_checkpoints(host: HostTree) -> Iterator[Checkpoint]:
    """Yield the checkpoints of the host; one that cannot be understood says so."""
    for directory in PLUGIN_DIRS:
        for driver in DRIVERS:
            path = posixpath.join(directory, driver, CHECKPOINT)
            try:
                content = host.read(path, READ_LIMIT_BYTES)
                modified_s = host.modified_s(path)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except FileTooLargeError:
                yield Checkpoint(path, driver, problem=f"is larger than {READ_LIMIT_BYTES} bytes")
            except PermissionError as error:
                yield Checkpoint(path, driver, problem=error.strerror or "", is_denied=True)
            except OSError as error:
                yield Checkpoint(path, driver, problem=f"cannot be read: {error.strerror}")
            else:
                yield _checkpoint(path, driver, modified_s, content)


def _checkpoint(path: str, driver: str, modified_s: int | None, content: bytes) -> Checkpoint:
    document = _document(content)
    if document is None:
        return Checkpoint(path, driver, problem="is no JSON object")
    for version in _LAYOUTS:
        layout = document.get(version)
        if not isinstance(layout, Mapping):
            continue
        claims = layout.get("preparedClaims", {})
        boot_id = layout.get("nodeBootID")
        if not isinstance(claims, Mapping):
            break
        return Checkpoint(
            path,
            driver,
            tuple(_prepared(claims, is_first=version == "v1")),
            boot_id if _is_word(boot_id) else None,
            modified_s,
            f"{version}.preparedClaims",
        )
    known = ", ".join(sorted(map(str, document))[:5]) or "nothing"
    return Checkpoint(path, driver, problem=f"has a layout that is not known (it has {known})")


def _document(content: bytes) -> Mapping[str, object] | None:
    try:
        document: object = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, Mapping) else None


def _prepared(claims: Mapping[str, object], *, is_first: bool) -> Iterator[PreparedClaim]:
    for uid, entry in claims.items():
        # The first layout holds no states: what stands there is prepared.
        state = entry.get("checkpointState") if isinstance(entry, Mapping) else None
        if is_first or state == PREPARED:
            yield PreparedClaim(uid, tuple(dict.fromkeys(_device_ids(entry, _DEPTH_LIMIT))))


def _device_ids(entry: object, depth: int) -> Iterator[str]:
    if not depth:
        return
    if isinstance(entry, list):
        for item in entry:
            yield from _device_ids(item, depth - 1)
    elif isinstance(entry, Mapping):
        for key, value in entry.items():
            if key in _DEVICE_IDS and isinstance(value, list):
                yield from (item for item in value if _is_word(item))
            else:
                yield from _device_ids(value, depth - 1)


def _is_word(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and 0 < len(value) <= _WORD_LIMIT


def without_details(content: bytes) -> bytes:
    """Return a checkpoint with the fields that a verdict needs, and nothing else that it holds.

    A checkpoint carries the claims' whole allocation with the opaque configuration of whoever asked.
    """
    document = _document(content)
    if document is None:
        return b"null"
    kept: dict[str, object] = dict.fromkeys(map(str, document))
    for version in _LAYOUTS:
        layout = document.get(version)
        if isinstance(layout, Mapping):
            kept[version] = _layout_without_details(layout)
    return json.dumps(kept, indent=1).encode() + b"\n"


def _layout_without_details(layout: Mapping[str, object]) -> dict[str, object]:
    kept = {key: layout[key] for key in ("nodeBootID",) if _is_word(layout.get(key))}
    claims = layout.get("preparedClaims", {})
    if not isinstance(claims, Mapping):
        return {**kept, "preparedClaims": None}
    reduced: dict[str, object] = {}
    for uid, entry in claims.items():
        ids = list(dict.fromkeys(_device_ids(entry, _DEPTH_LIMIT)))
        state = entry.get("checkpointState") if isinstance(entry, Mapping) else None
        reduced[str(uid)] = {
            **({"checkpointState": state} if _is_word(state) else {}),
            "preparedDevices": [{"CDIDeviceIDs": ids}] if ids else [],
        }
    return {**kept, "preparedClaims": reduced}
