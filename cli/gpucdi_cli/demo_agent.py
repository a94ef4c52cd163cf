"""Running the real agent on a copy, with a generator that can work there.

Owns: finding ``gpucdi-agent``, choosing between a real ``nvidia-ctk`` and the stand-in, and reading
the agent's answer. Must not know: what is told about it.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpucdi.api import NodeStatus, fields, read_status
from gpucdi_cli.diff import names_in
from gpucdi_cli.problems import CliError
from gpucdi_cli.standin_ctk import write_script

# The copy's name in the demo's folder.
NODE = "node"
_GENERATE_SECONDS = 10.0
_AGENT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Choice:
    """The generator to use: ``why`` says what was found and tried."""

    program: Path
    title: str
    why: str
    is_real: bool


@dataclass(frozen=True, slots=True)
class AgentRun:
    """One run of the agent: the command as typed, each file change, and what it says of the node.

    ``refusals`` are the lines of its plan that say what it will not do.
    """

    command: str
    changes: tuple[str, ...]
    refusals: tuple[str, ...]
    status: NodeStatus


def copy_tree(tree: Path, folder: Path) -> Path:
    """Copy a captured node into ``folder``, links as links, and return the copy."""
    return shutil.copytree(tree, folder / NODE, symlinks=True)


def find_agent() -> Path:
    """Return the agent's program: beside this Python first, then in the PATH."""
    beside = Path(sys.executable).with_name("gpucdi-agent")
    if beside.is_file():
        return beside
    found = shutil.which("gpucdi-agent")
    if found is None:
        raise CliError(
            "gpucdi-agent is not installed, and the demo runs the real one",
            "install it from a checkout: pip install '.[agent,cli]'",
        )
    return Path(found)


def choose_generator(wanted: frozenset[str], kind: str, given: str | None, folder: Path) -> Choice:
    """Choose what generates the devices of ``kind`` called ``wanted``.

    A real ``nvidia-ctk`` is usable when it generates every one of them, which takes a machine with
    those very GPUs. The stand-in's script is written into ``folder``.
    """
    if given is not None:
        program = shutil.which(given)
        if program is None:
            raise CliError(f"{given} is no program", "give the path of an nvidia-ctk")
        return Choice(Path(program).resolve(), program, "given by --generator", is_real=True)
    found = shutil.which("nvidia-ctk")
    if found is None:
        why = "this machine has no nvidia-ctk"
    else:
        problem = _problem(Path(found), kind, wanted)
        if problem is None:
            why = "it generates every missing name here"
            return Choice(Path(found).resolve(), f"{found} (the real one)", why, is_real=True)
        why = f"{found} is not usable for this tree: {problem}"
    script = write_script(folder / "nvidia-ctk", folder / NODE)
    title = "a stand-in of gpucdi, NOT nvidia-ctk; it reads the GPUs from the copy's /proc"
    return Choice(script, title, why, is_real=False)


def _problem(program: Path, kind: str, wanted: frozenset[str]) -> str | None:
    """Return why ``program`` cannot generate the names, ``None`` when it can."""
    vendor, _, kind_class = kind.partition("/")
    command = [str(program), "--quiet", "cdi", "generate", "--mode", "nvml"]
    command += ["--vendor", vendor, "--class", kind_class]
    command += ["--device-name-strategy", "uuid", "--device-name-strategy", "index"]
    try:
        result = subprocess.run(  # noqa: S603 - a list, no shell; the program is the machine's own
            command, capture_output=True, timeout=_GENERATE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if result.returncode != 0:
        lines = result.stderr.decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {result.returncode}"
    missing = wanted - set(names_in(result.stdout))
    return f"this machine's driver has no {min(missing)}" if missing else None


def run_agent(agent: Path, copy: Path, choice: Choice) -> AgentRun:
    """Run one repair pass on ``copy`` and return what the agent says of the node."""
    command = [
        str(agent),
        "repair",
        *("--root", str(copy)),
        *("--generator", str(choice.program)),
        *("-o", "json"),
    ]
    shown = shlex.join([agent.name, *command[1:]])
    try:
        result = subprocess.run(  # noqa: S603 - our own program, beside this one
            command, capture_output=True, text=True, timeout=_AGENT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CliError(f"the agent could not be run: {error}", shown) from error
    try:
        answer = json.loads(result.stdout)
    except ValueError as error:
        raise CliError(
            f"the agent ended with exit code {result.returncode}: {result.stderr.strip()}", shown
        ) from error
    return AgentRun(
        command=shown,
        changes=tuple(_change(record) for record in fields.objects(answer, "records")),
        refusals=tuple(
            line for line in fields.texts(answer, "plan") if line.startswith("refused ")
        ),
        status=read_status(fields.mapping(fields.mapping(answer, "node"), "status")),
    )


def _change(record: Mapping[str, object]) -> str:
    result, file = fields.text(record, "result"), fields.text(record, "file")
    counts = f"{fields.integer(record, 'added')} added, {fields.integer(record, 'removed')} removed"
    message = fields.text(record, "message")
    return f"{result}: {file}, {counts}{f' ({message})' if message else ''}"
