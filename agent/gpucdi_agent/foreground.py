"""The commands that look or act once: ``inspect``, ``repair``, ``revert``.

Owns: which parts of a pass each uses, and what it prints. Must not know: the loop or the cluster.

A root other than ``/`` is a captured tree, or another host's disk: its programs are not run, and
its GPUs are those that its ``/proc/driver/nvidia`` lists.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from gpucdi.api import Intent, NodeState, RepairMode
from gpucdi.api.names import STATE_DIRECTORY
from gpucdi.capture import ArchiveError, open_tree
from gpucdi.host import HostTree
from gpucdi.programs import CapturedPrograms
from gpucdi.toolkit import rows_of
from gpucdi_agent.commands import HostRunner
from gpucdi_agent.files import RealFiles, message_of
from gpucdi_agent.generator import CtkGenerator
from gpucdi_agent.inventory import find_library
from gpucdi_agent.nvml import NvmlChild
from gpucdi_agent.outcomes import unmended
from gpucdi_agent.passes import NodePass, PassResult, Surroundings
from gpucdi_agent.programs import LivePrograms
from gpucdi_agent.show import as_json, as_object, as_table, as_yaml, plan_lines
from gpucdi_agent.state import StateStore
from gpucdi_agent.transaction import Transaction
from gpucdi_agent.units import SystemdUnits

FINE, PROBLEMS, NOT_DONE = 0, 1, 2
# What to do when the state directory, without which nothing is written, cannot be used.
_ADVICE = {
    errno.EACCES: "run this as root",
    errno.EPERM: "run this as root",
    errno.EROFS: "mount its file system writable",
    errno.EEXIST: "move away what lies there: it must be a directory",
    errno.ENOTDIR: "move away what lies there: it must be a directory",
    errno.ELOOP: "remove the links that lead in a circle",
    errno.ENOSPC: "free some space there",
}


def inspect(root: Path, output: str, node_name: str | None, *, ask_nvml: bool = True) -> int:
    """Print what a pass sees; nothing is written. ``root`` may be an archive of a captured node.

    Without ``ask_nvml`` the GPUs are those that the kernel module lists, as in a captured tree.
    """
    with ExitStack() as stack:
        try:
            host = stack.enter_context(open_tree(root))
        except (ArchiveError, OSError) as error:
            return _not_done(str(error))
        if host.capture.problem is not None:
            return _not_done(f"{host.capture.problem}; mend or remove it")
        surroundings = _surroundings(host)
        if not ask_nvml:
            surroundings = replace(surroundings, nvml=None)
        result = NodePass(surroundings).run(Intent())
    _print(_inspected(result, node_name or _name(root), output))
    return FINE if result.status.state is NodeState.RESOLVED else PROBLEMS


def _inspected(result: PassResult, node_name: str, output: str) -> str:
    if output == "table":
        return as_table(result.status, node_name)
    rows = rows_of(result.observation.engines, result.observation.runtimes)
    document = {
        **as_object(result.status, node_name),
        "handlerTable": [row.as_json() for row in rows],
    }
    return as_json(document) if output == "json" else as_yaml(document)


def repair(root: Path, generator: str | None, output: str, *, dry_run: bool) -> int:
    """Repair once. No hold applies: a person asked for it and sees what comes of it."""
    return _act(root, RepairMode.AUTO, output, generator=generator, dry_run=dry_run)


def revert(root: Path, output: str, *, dry_run: bool) -> int:
    """Remove our files, as the policy ``Off`` does."""
    return _act(root, RepairMode.OFF, output, generator=None, dry_run=dry_run)


def _act(root: Path, mode: RepairMode, output: str, *, generator: str | None, dry_run: bool) -> int:
    host = HostTree(root)
    if host.capture.problem is not None:
        return _not_done(f"{host.capture.problem}; mend or remove it")
    state = StateStore(host, RealFiles(), STATE_DIRECTORY)
    try:
        if not dry_run:
            state.prepare()
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, "gpucdi keeps its journal and backups there")
        return _not_done(f"{STATE_DIRECTORY} cannot be used ({message_of(error)}): {advice}")
    surroundings = _writing(_surroundings(host), state, root, generator)
    result = NodePass(surroundings, dry_run=dry_run).run(Intent(mode=mode))
    _print(_report(result, _name(root), output))
    short = mode is RepairMode.AUTO and result.status.state is not NodeState.RESOLVED
    return PROBLEMS if unmended(result.records) or short or result.plan.refusals else FINE


def _not_done(why: str) -> int:
    sys.stderr.write(f"gpucdi-agent: {why}\n")
    return NOT_DONE


def _surroundings(host: HostTree) -> Surroundings:
    live = host.is_live
    return Surroundings(
        host=host,
        programs=LivePrograms(host, HostRunner()) if live else CapturedPrograms.of(host),
        nvml=NvmlChild() if live else None,
        now=_now,
        monotonic=time.monotonic,
        units=SystemdUnits(Path("/")) if live else None,
    )


def _writing(
    surroundings: Surroundings, state: StateStore, root: Path, generator: str | None
) -> Surroundings:
    host = surroundings.host
    program = str(Path(generator).resolve()) if generator else None
    return replace(
        surroundings,
        state=state,
        transaction=Transaction(host, state, RealFiles(), _now),
        generator=CtkGenerator(
            HostRunner(),
            program=program,
            environment={"GPUCDI_HOST_ROOT": str(root)},
            library_path=_library(host),
        ),
    )


def _library(host: HostTree) -> Callable[[], str | None]:
    return lambda: find_library(host)


def _report(result: PassResult, node_name: str, output: str) -> str:
    if output == "json":
        records = [
            {
                "file": item.file,
                "kind": item.kind,
                "result": item.result,
                "added": item.added,
                "removed": item.removed,
                "message": item.message,
            }
            for item in result.records
        ]
        content = {
            "plan": list(plan_lines(result.plan)),
            "records": records,
            "node": as_object(result.status, node_name),
        }
        return json.dumps(content, indent=2, sort_keys=True)
    lines = list(plan_lines(result.plan)) or ["nothing to change"]
    lines += [
        f"{item.result.lower():<9} {item.file} {item.message}".rstrip() for item in result.records
    ]
    return "\n".join([*lines, "", as_table(result.status, node_name)])


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _name(root: Path) -> str:
    if root == Path("/"):
        return os.uname().nodename
    return root.name.removesuffix(".tgz").removesuffix(".tar.gz")


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
