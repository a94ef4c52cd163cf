"""Finds every container engine of a node.

Owns: which engines there are and which version of each runs. Must not know: an engine's file
format.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpucdi.engines.arguments import option
from gpucdi.engines.containerd import read_containerd
from gpucdi.engines.crio import DROP_INS as CRIO_DROP_INS
from gpucdi.engines.crio import MAIN as CRIO_MAIN
from gpucdi.engines.crio import read_crio
from gpucdi.engines.docker import MAIN as DOCKER_MAIN
from gpucdi.engines.docker import read_docker
from gpucdi.engines.model import Engine, EngineName
from gpucdi.engines.places import ContainerdPlace, containerd_places, node_kind
from gpucdi.engines.podman import read_podman
from gpucdi.engines.versions import version_in
from gpucdi.findings import UNKNOWN, Source, Sourced, SourceKind
from gpucdi.host import HostTree
from gpucdi.programs import EngineProcess, Programs

_CRIO = ("/usr/bin/crio", "/usr/local/bin/crio")
_DOCKER = ("/usr/bin/dockerd", "/usr/local/bin/dockerd")
_PODMAN = ("/usr/bin/podman", "/usr/local/bin/podman")


def discover_engines(host: HostTree, programs: Programs) -> tuple[Engine, ...]:
    """Return the node's engines as their configuration describes them.

    Nothing found, an empty tuple. A file that cannot be read or parsed gives an engine with a
    finding and without handlers, never an exception.
    """
    engines = list(_containerds(host, programs))
    process = programs.engine(EngineName.CRIO.value)
    if process is not None or _any(host, (CRIO_MAIN, CRIO_DROP_INS, *_CRIO)):
        version = _version(programs, process, _CRIO)
        engines.append(read_crio(host, process, version, node_kind(host)))
    process = programs.engine(EngineName.DOCKER.value)
    if process is not None or _any(host, (DOCKER_MAIN, *_DOCKER)):
        version = _version(programs, process, _DOCKER)
        engines.append(read_docker(host, process, version, node_kind(host)))
    process = programs.engine(EngineName.PODMAN.value)
    if process is not None or _any(host, _PODMAN):
        version = _version(programs, process, _PODMAN)
        engines.append(read_podman(host, version, node_kind(host)))
    return tuple(engines)


def _containerds(host: HostTree, programs: Programs) -> Sequence[Engine]:
    process = programs.engine(EngineName.CONTAINERD.value)
    places = containerd_places(host, process)
    return [
        read_containerd(
            host,
            place.config,
            _version(
                programs, process if _is_own(place, process, places) else None, place.binaries
            ),
            place.name,
        )
        for place in places
    ]


def _is_own(
    place: ContainerdPlace, process: EngineProcess | None, places: Sequence[ContainerdPlace]
) -> bool:
    """Tell whether the running process is this place's; a nameless one is taken for the first."""
    named = option(process, "c", "config")
    return place.config == named if named is not None else place is places[0]


def _any(host: HostTree, paths: Sequence[str]) -> bool:
    return any(host.exists(path) or path in host.capture.programs for path in paths)


def _version(
    programs: Programs, process: EngineProcess | None, binaries: Sequence[str]
) -> Sourced[str | None]:
    """Ask the running engine, else the installed binary, which a restart would run."""
    if process is not None and process.version is not None:
        return Sourced(process.version, Source(SourceKind.PROCESS))
    for binary in binaries:
        version = version_in(programs.version_output(binary))
        if version is not None:
            return Sourced(version, Source(SourceKind.PROCESS, file=binary))
    return Sourced(None, UNKNOWN)
