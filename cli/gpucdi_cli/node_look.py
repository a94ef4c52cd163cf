"""One look at a captured node, without NVML and without asking any program.

Owns: opening a folder or an archive, and running the same observe and assess that the agent runs. Must not know: how
it is shown.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from gpucdi.api import Intent, NodeStatus, RepairMode
from gpucdi.capture import ArchiveError
from gpucdi.capture import open_tree as open_capture
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


@contextmanager
def open_tree(root: str) -> Iterator[HostTree]:
    """Open a folder or a captured archive as a host root, for as long as it is looked at.

    Raises :class:`CliError` for what is neither.
    """
    if not root:
        # The empty path is the present folder, and nobody who leaves a variable unset means that.
        raise CliError("--root is empty", "give the top of a captured node, or its archive")
    with ExitStack() as stack:
        try:
            # Links stay as they are: /proc/PID/root leads somewhere else than its text says.
            host = stack.enter_context(open_capture(os.path.abspath(root)))  # noqa: PTH100 - keeps links
        except ArchiveError as error:
            raise CliError(
                str(error), "give what gpucdi-agent capture wrote, or a folder"
            ) from error
        except OSError as error:
            raise CliError(
                f"{root} cannot be opened: {error.strerror or error}",
                "give the top of a captured node: the folder that holds its etc, usr and run, or the "
                ".tar.gz that gpucdi-agent capture wrote",
            ) from error
        yield checked(host, root)


def checked(host: HostTree, root: str) -> HostTree:
    """Return the host if it looks like one; raise :class:`CliError` naming ``root`` otherwise."""
    if host.capture.problem is not None:
        raise CliError(host.capture.problem, f"mend or remove it in {root}")
    if not any(host.exists(place) for place in _EVIDENCE):
        raise CliError(
            f"{root} does not look like the root of a host: none of {', '.join(_EVIDENCE)} is there",
            "give the top of a captured node, not a folder in it",
        )
    return host


def check_handler(observation: Observation, name: str | None) -> None:
    """Raise :class:`CliError` naming the handlers that there are, when ``name`` is none of them.

    ``None`` is fine: nobody asked for one.
    """
    known = list(dict.fromkeys(item.handler.name for item in observation.runtimes))
    if name is not None and name not in known:
        raise CliError(
            f"no engine of this node has a handler {name!r}",
            f"there are: {', '.join(known) or 'none'}",
        )


def look(host: HostTree) -> NodeLook:
    """Observe and assess. GPUs come from the kernel module's list, versions from the capture."""
    observation = observe(host, CapturedPrograms.of(host), proc_inventory(host), Intent())
    assessment = assess(observation, host)
    now = datetime.now(tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = node_status(assessment, PassContext(now=now, mode=RepairMode.OBSERVE))
    return NodeLook(host, observation, assessment, status)
