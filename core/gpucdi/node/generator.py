"""Whether the node has a program that could write the specs that it lacks.

Owns: where ``nvidia-ctk`` is looked for beyond the handlers' own toolkits. Must not know: how it is
run, nor which names are missing.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator

from gpucdi.findings import Cause, Finding, Severity, Who
from gpucdi.host import HostTree
from gpucdi.node.observation import Observation
from gpucdi.toolkit.locate import SEARCH_PATH, locate

GENERATOR = "nvidia-ctk"
HOOK = "nvidia-cdi-hook"
# Where the toolkit container installs: GPU Operator's usual place, and that of Google's images.
TOOLKIT_DIRS = ("/usr/local/nvidia/toolkit", "/home/kubernetes/bin/nvidia/toolkit")


def generator_findings(
    observation: Observation, host: HostTree, lacking: Iterable[str]
) -> Iterator[Finding]:
    """Yield for each of the ``lacking`` kinds that nothing on the node can generate it.

    A node that is known to have no GPU needs no generator.
    """
    kinds = tuple(lacking)
    toolkits = [runtime.toolkit for runtime in observation.runtimes if runtime.toolkit]
    if not kinds or not observation.inventory.gpus.devices or any(each.ctk for each in toolkits):
        return
    if locate_generator(host) is not None:
        return
    folder = next((each.directory for each in toolkits), None)
    for kind in kinds:
        yield no_generator(kind, folder)


def locate_generator(host: HostTree) -> str | None:
    """Return the host path of an ``nvidia-ctk`` that belongs to no handler's toolkit."""
    return locate(host, GENERATOR, (*SEARCH_PATH, *TOOLKIT_DIRS))


def hook_beside(host: HostTree, generator: str) -> str:
    """Return the program that runs the hooks of a spec: before 1.17 ``nvidia-ctk`` itself."""
    return locate(host, HOOK, (posixpath.dirname(generator), *SEARCH_PATH)) or generator


def no_generator(kind: str, folder: str | None) -> Finding:
    """Return the finding; ``folder`` is that of the handler's toolkit, where there is one."""
    return Finding(
        cause=Cause.GENERATOR_MISSING,
        severity=Severity.ERROR,
        message=f"no nvidia-ctk on this node can generate {kind}",
        advice="install nvidia-container-toolkit-base, or wait for the toolkit container to install",
        who=Who.ADMIN,
        file=posixpath.join(folder, GENERATOR) if folder else GENERATOR,
        kind=kind,
    )
