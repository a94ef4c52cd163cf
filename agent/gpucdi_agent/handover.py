"""Taking our own files back, in part or altogether, without a generator or a trusted inventory.

Owns: giving way to names that somebody else has begun to define, which is all that a hold permits
(what NVML does not see for a moment must not cost a name that still works), and the complete
removal. Must not know: why there is a hold.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import replace

from gpucdi.api.names import OWN_FILE_PREFIX
from gpucdi.cdi import DEFAULT_SPEC_DIRS
from gpucdi.host import HostTree, real_or_same
from gpucdi.node import Observation, is_ours
from gpucdi.repair import (
    OwnFile,
    Plan,
    RemoveFile,
    WriteFile,
    own_content,
    own_files,
    own_fingerprint,
    removal,
    sha256_text,
)


def handover(observation: Observation, host: HostTree) -> Plan:
    """Return the plan that ends every conflict in which a file of ours takes part."""
    conflicts = {name for reader in observation.readers for name in reader.registry.conflicts}
    actions = tuple(
        _without(file, file.qualified & conflicts)
        for file in own_files(observation, host)
        if file.qualified & conflicts
    )
    resolving = tuple(
        (reader.reader, frozenset(reader.registry.devices)) for reader in observation.readers
    )
    return Plan(actions=actions, must_resolve=resolving if actions else ())


def complete_removal(observation: Observation, host: HostTree, remembered: Iterable[str]) -> Plan:
    """Return the plan that removes every file of ours.

    Also those that no reader reads any more: in the usual directories, and where ``remembered``
    (paths from the history) says that one was left.
    """
    planned = removal(observation, host)
    known = {action.path for action in planned.actions}
    places = dict.fromkeys(_real(host, path) for path in (*_usual(host), *remembered))
    more = tuple(
        RemoveFile(file.path, file.kind, len(file.qualified), sha256_text(file.content))
        for path in places
        if path not in known and is_ours(host, path)
        for file in _read(host, path)
    )
    return replace(planned, actions=(*planned.actions, *more))


def _read(host: HostTree, path: str) -> Iterator[OwnFile]:
    try:
        yield OwnFile(path, host.read(path))
    except OSError:
        return  # gone meanwhile


def _usual(host: HostTree) -> Iterator[str]:
    for directory in DEFAULT_SPEC_DIRS:
        try:
            names = host.listdir(directory)
        except OSError:
            continue
        yield from (f"{directory}/{name}" for name in names if name.startswith(OWN_FILE_PREFIX))


def _real(host: HostTree, path: str) -> str:
    directory, name = posixpath.split(path)
    return posixpath.join(real_or_same(host, directory), name)


def _without(file: OwnFile, names: set[str]) -> WriteFile | RemoveFile:
    before = sha256_text(file.content)
    spec = file.spec
    if spec is None or names >= file.qualified:
        return RemoveFile(file.path, file.kind, len(names), before)
    kept = tuple(device for device in spec.devices if spec.qualified(device.name) not in names)
    return WriteFile(
        path=file.path,
        kind=file.kind,
        content=own_content(replace(spec, devices=kept), own_fingerprint(file.content) or ""),
        added=0,
        removed=len(names),
        before=before,
    )
