"""Where the engines of each kind of node keep their configuration.

Owns: the table of places and the evidence for each. Must not know: how a configuration is read.

Sources: the distributions' own repositories and documentation, named at each entry.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpucdi.host import HostTree
from gpucdi.programs import EngineProcess

CONTAINERD_DEFAULT = "/etc/containerd/config.toml"


@dataclass(frozen=True, slots=True)
class ContainerdPlace:
    """One containerd on the node: its main file and the layout that puts it there."""

    name: str | None
    config: str


def containerd_places(host: HostTree, process: EngineProcess | None) -> tuple[ContainerdPlace, ...]:
    """Return every containerd main file on the node, the running one's own first.

    The default path also counts without a file when a containerd is known to run: it then runs on
    its built-in defaults.
    """
    named = _argument(process)
    found: list[ContainerdPlace] = []
    if named is not None:
        found.append(ContainerdPlace(None, named))
    elif process is not None or host.exists(CONTAINERD_DEFAULT):
        found.append(ContainerdPlace(None, CONTAINERD_DEFAULT))
    return tuple(found)


def _argument(process: EngineProcess | None) -> str | None:
    """Return the value of ``-c``/``--config`` on the engine's command line."""
    arguments = process.arguments if process is not None else None
    for index, argument in enumerate(arguments or ()):
        name, equals, value = argument.partition("=")
        if name not in {"-c", "--c", "-config", "--config"}:
            continue
        if equals:
            return value
        following = (arguments or ())[index + 1 : index + 2]
        return following[0] if following else None
    return None
