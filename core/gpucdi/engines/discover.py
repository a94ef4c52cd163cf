"""Finds every container engine of a node.

Owns: which engines there are and which version of each runs. Must not know: an engine's file
format.
"""

from __future__ import annotations

from gpucdi.engines.containerd import read_containerd
from gpucdi.engines.model import Engine, EngineName
from gpucdi.engines.places import containerd_places
from gpucdi.engines.versions import version_in
from gpucdi.findings import UNKNOWN, Source, Sourced, SourceKind
from gpucdi.host import HostTree
from gpucdi.programs import EngineProcess, Programs

_CONTAINERD_BINARIES = ("/usr/bin/containerd", "/usr/local/bin/containerd")


def discover_engines(host: HostTree, programs: Programs) -> tuple[Engine, ...]:
    """Return the node's engines as their configuration describes them.

    Nothing found, an empty tuple. A file that cannot be read or parsed gives an engine with a
    finding and without handlers, never an exception.
    """
    process = programs.engine(EngineName.CONTAINERD.value)
    version = _version(programs, process, _CONTAINERD_BINARIES)
    return tuple(
        read_containerd(host, place.config, version, place.name)
        for place in containerd_places(host, process)
    )


def _version(
    programs: Programs, process: EngineProcess | None, binaries: tuple[str, ...]
) -> Sourced[str | None]:
    """Ask the running engine, else the installed binary, which a restart would run."""
    if process is not None and process.version is not None:
        return Sourced(process.version, Source(SourceKind.PROCESS))
    for binary in binaries:
        version = version_in(programs.version_output(binary))
        if version is not None:
            return Sourced(version, Source(SourceKind.PROCESS, file=binary))
    return Sourced(None, UNKNOWN)
