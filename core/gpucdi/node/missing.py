"""Why a name does not resolve: one cause a name, and one for many.

Owns: the cause of each missing name, from what the reader's registry says and from what lies where
that reader does not look; the order in which causes explain a whole kind or node. Must not know:
which names are expected of whom.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from gpucdi.cdi import Reader, Unresolved, UnresolvedReason
from gpucdi.findings import Cause
from gpucdi.host import HostTree, real_or_same
from gpucdi.node.files import has_no_directory, hidden_by_missing
from gpucdi.node.kinds import ALL, DEVICE_PREFIXES
from gpucdi.node.observation import ASSUMED_LIBRARY, NodeReader, Observation, unheeded_dirs
from gpucdi.node.rejections import rejected_as_too_new

# The order in which one cause is named for a whole kind or node: what hides others comes first.
_RANK = (
    Cause.SAME_DIR_CONFLICT,
    Cause.SPEC_NOT_READABLE,
    Cause.SPEC_TOO_NEW_FOR_READER,
    Cause.SPEC_REJECTED,
    Cause.SPEC_DIR_NOT_READ,
    Cause.ONLY_ALL_DEVICE,
    Cause.MIG_LAYOUT_CHANGED,
    Cause.STALE_UUID,
    Cause.SPEC_LACKS_DEVICE,
    Cause.SPEC_DIR_MISSING,
    Cause.KIND_HAS_NO_SPEC,
)


@dataclass(frozen=True, slots=True)
class MissingName:
    """One expected name that a needing reader cannot resolve, with the first such reader."""

    name: str
    cause: Cause
    reader: str
    detail: str = ""
    files: tuple[str, ...] = ()


def main_cause(causes: Iterable[Cause]) -> Cause | None:
    """Return the cause to name first; unranked ones come after ranked, in order of frequency."""
    counts = Counter(causes)
    for cause in _RANK:
        if cause in counts:
            return cause
    return counts.most_common(1)[0][0] if counts else None


def missing_names(
    observation: Observation,
    host: HostTree,
    kind: str,
    names: tuple[str, ...],
    readers: tuple[NodeReader, ...],
) -> tuple[MissingName, ...]:
    """Return those of ``names`` that some reader does not resolve, each with its cause."""
    found: dict[str, MissingName] = {}
    for reader in readers:
        defined = reader.registry.names_of(kind)
        absent = [name for name in names if name not in defined]
        if not absent:
            continue
        resolution = reader.registry.resolve([f"{kind}={name}" for name in absent])
        for name in absent:
            why = resolution.why.get(f"{kind}={name}")
            if why is not None and name not in found:
                cause = _cause(observation, host, reader, f"{kind}={name}", why)
                found[name] = MissingName(name, cause, reader.label, why.detail, why.files)
    return tuple(found[name] for name in names if name in found)


_DIRECT = {
    UnresolvedReason.CONFLICT: Cause.SAME_DIR_CONFLICT,
    UnresolvedReason.FILE_UNREADABLE: Cause.SPEC_NOT_READABLE,
    UnresolvedReason.FILE_CRASHES_READER: Cause.SPEC_REJECTED,
    UnresolvedReason.DIRECTORY_NOT_READ: Cause.SPEC_DIR_NOT_READ,
    UnresolvedReason.FILE_NOT_SCANNED: Cause.SPEC_DIR_NOT_READ,
    UnresolvedReason.NOT_A_LEGAL_NAME: Cause.MALFORMED_REQUEST,
}


def _cause(
    observation: Observation, host: HostTree, reader: NodeReader, name: str, why: Unresolved
) -> Cause:
    direct = _DIRECT.get(why.reason)
    if direct is Cause.SPEC_DIR_NOT_READ and _is_hidden(reader, why):
        return Cause.SPEC_DIR_MISSING
    if direct is not None:
        return direct
    if why.reason is UnresolvedReason.FILE_REJECTED:
        files = [file for file in reader.registry.files if file.path in why.files]
        too_new = any(rejected_as_too_new(host, file, reader.reader.library) for file in files)
        return Cause.SPEC_TOO_NEW_FOR_READER if too_new else Cause.SPEC_REJECTED
    if _lies_elsewhere(observation, host, reader, name):
        return Cause.SPEC_DIR_NOT_READ
    if why.reason is UnresolvedReason.NO_SUCH_KIND:
        # Where one directory exists, somebody could have written the spec, and has not.
        return Cause.SPEC_DIR_MISSING if has_no_directory(reader) else Cause.KIND_HAS_NO_SPEC
    return _lacking_cause(observation, reader, name)


def _is_hidden(reader: NodeReader, why: Unresolved) -> bool:
    places = {posixpath.dirname(path) for path in why.files}
    return any(
        hidden_by_missing(reader, each) and each.path in places
        for each in reader.registry.directories
    )


def _lies_elsewhere(
    observation: Observation, host: HostTree, reader: NodeReader, qualified: str
) -> bool:
    """Tell whether the name is defined in a directory that this reader does not read.

    Either another reader does, or an engine's configuration names it to no effect.
    """
    read = {real_or_same(host, path) for path in reader.reader.effective_dirs}
    others = (other.registry.devices.get(qualified) for other in observation.readers)
    if any(
        device is not None and real_or_same(host, device.file.directory) not in read
        for device in others
    ):
        return True
    unheeded = tuple(path for engine in observation.engines for path in unheeded_dirs(engine))
    return bool(unheeded) and qualified in Reader(unheeded, ASSUMED_LIBRARY).load(host).devices


def _lacking_cause(observation: Observation, reader: NodeReader, qualified: str) -> Cause:
    kind, _, name = qualified.partition("=")
    defined = reader.registry.names_of(kind)
    if defined <= {ALL}:
        return Cause.ONLY_ALL_DEVICE
    present = observation.inventory.gpus.uuids
    gone = {item for item in defined if item.startswith(DEVICE_PREFIXES)} - present
    if gone and name.startswith("MIG-"):
        return Cause.MIG_LAYOUT_CHANGED
    if gone and name.startswith("GPU-"):
        return Cause.STALE_UUID
    return Cause.SPEC_LACKS_DEVICE
