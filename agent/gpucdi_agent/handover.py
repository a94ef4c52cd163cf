"""Giving way while a hold is on: names that somebody else has begun to define leave our files.

Owns: that one change, the only one that a hold permits. It needs neither a generator nor a trusted
inventory: what NVML does not see for a moment must not cost a name that still works. Must not
know: why there is a hold.
"""

from __future__ import annotations

from dataclasses import replace

from gpucdi.host import HostTree
from gpucdi.node import Observation
from gpucdi.repair import (
    OwnFile,
    Plan,
    RemoveFile,
    WriteFile,
    own_content,
    own_files,
    own_fingerprint,
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
