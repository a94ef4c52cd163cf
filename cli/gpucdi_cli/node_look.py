"""One look at a captured node, without NVML and without asking any program.

Owns: opening a tree and running the same observe and assess that the agent runs. Must not know: how
it is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from gpucdi.api import Intent, NodeStatus, RepairMode
from gpucdi.host import HostTree
from gpucdi.node import (
    Assessment,
    Observation,
    PassContext,
    assess,
    node_status,
    observe,
    proc_inventory,
)
from gpucdi.programs import CapturedPrograms
from gpucdi_cli.problems import CliError

_EVIDENCE = ("/etc", "/usr", "/proc", "/run", "/var")


@dataclass(frozen=True, slots=True)
class NodeLook:
    """A tree and the verdict on it."""

    host: HostTree
    observation: Observation
    assessment: Assessment
    status: NodeStatus


def open_tree(root: str) -> HostTree:
    """Open a folder as a host root; raise :class:`CliError` for what is none."""
    path = Path(root)
    if not path.is_dir():
        raise CliError(
            f"{root} is not a folder",
            "give the top of a captured node: the folder that holds its etc, usr and run",
        )
    host = HostTree(path.resolve())
    if host.capture.problem is not None:
        raise CliError(host.capture.problem, f"mend or remove it in {root}")
    if not any(host.exists(place) for place in _EVIDENCE):
        raise CliError(
            f"{root} does not look like the root of a host: none of {', '.join(_EVIDENCE)} is there",
            "give the top of a captured node, not a folder in it",
        )
    return host


def look(host: HostTree) -> NodeLook:
    """Observe and assess. GPUs come from the kernel module's list, versions from the capture."""
    observation = observe(host, CapturedPrograms.of(host), proc_inventory(host), Intent())
    assessment = assess(observation, host)
    now = datetime.now(tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = node_status(assessment, PassContext(now=now, mode=RepairMode.OBSERVE))
    return NodeLook(host, observation, assessment, status)
