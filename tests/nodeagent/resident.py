"""A resident agent in a node of the lab, and how to ask for what it did.

Owns: starting ``gpucdi-agent`` inside the node with an intent that it remembers, waiting for its
verdicts. Must not know: what the verdict should be.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, Self, TypeVar

import pytest
from tests.lab import incident, programs
from tests.lab.node import Node, NodeDescription, NodeProcess
from tests.lab.toolkits import MANAGEMENT_KIND, OperatorToolkit

from gpucdi.api import Intent, NodeStatus, RepairMode, read_status
from gpucdi.api.names import own_file_name

T = TypeVar("T")
AGENT = (sys.executable, "-m", "gpucdi_agent")
REPOSITORY = Path(__file__).parents[2]
OWN_FILE = f"/etc/cdi/{own_file_name(MANAGEMENT_KIND)}"
STATE = "/var/lib/gpucdi"
RUN = (*AGENT, "run", "--node-name", "lab", "--no-api", "--interval", "30")
WAIT_SECONDS = 20.0


def automatic(mode: RepairMode = RepairMode.AUTO) -> Intent:
    """Return the intent of a node that nobody restricts."""
    return Intent(node_name="lab", mode=mode)


def killed_at(call: str, number: int) -> tuple[str, ...]:
    """Return the command that runs another one and kills it as it enters a system call.

    ``number`` counts the calls of that name in each thread.
    """
    inject = f"inject={call}:signal=KILL:when={number}"
    return ("strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject)


def files_below(node: Node, *folders: str) -> dict[str, tuple[int, bytes]]:
    """Return every file of some folders with its mode and content."""
    found: dict[str, tuple[int, bytes]] = {}
    for folder in folders:
        for path in node.path(folder).iterdir():
            found[f"{folder}/{path.name}"] = (path.stat().st_mode, path.read_bytes())
    return found


class JsonLog:
    """A file for an agent's log, and the lines in it so far."""

    def __init__(self) -> None:
        self._file = tempfile.NamedTemporaryFile("w+", suffix=".log")  # noqa: SIM115 - closed below

    @property
    def file(self) -> IO[str]:
        """What to give the agent as its standard error."""
        return self._file.file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def lines(self) -> list[dict[str, object]]:
        """Return what was logged so far."""
        text = Path(self._file.name).read_text()
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def find(self, message: str, **fields: object) -> dict[str, object] | None:
        """Return the first line with this message and these fields."""
        for line in self.lines():
            if line["message"] == message and all(line.get(k) == v for k, v in fields.items()):
                return line
        return None


def remember(node: Node, intent: Intent, generation: int = 1) -> None:
    """Let the agent find ``intent`` as the last one it was given."""
    content = {"generation": generation, "spec": intent.to_json()}
    node.write(f"{STATE}/intent.json", json.dumps(content))


def start(
    node: Node,
    mode: RepairMode = RepairMode.AUTO,
    *extra: str,
    log: IO[str] | None = None,
    env: Mapping[str, str] | None = None,
) -> NodeProcess:
    """Start ``gpucdi-agent run`` without an API server; its JSON log goes to ``log``."""
    remember(node, automatic(mode))
    return node.popen(
        [*RUN, *extra], stderr=log or subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=env
    )


def inspect(node: Node) -> NodeStatus:
    """Return what ``gpucdi-agent inspect -o json`` sees in the node, in a process of its own."""
    done = node.run([*AGENT, "inspect", "-o", "json"])
    assert done.stdout, done.stderr
    return read_status(json.loads(done.stdout)["status"])


def until(condition: Callable[[], T | None], seconds: float = WAIT_SECONDS) -> T:
    """Return the first true answer of ``condition``; fail after ``seconds``."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found or time.monotonic() > deadline:
            assert found, f"not within {seconds:g} s"
            assert found is not None
            return found
        time.sleep(0.02)


def fetch(port: int, path: str) -> tuple[int, str]:
    """GET a page of an agent that serves on this machine's loopback."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def incident_node(toolkit: OperatorToolkit | None = None) -> NodeDescription:
    """Describe the node of the first incident with the engine that its configuration is for.

    Skips, with the reason, where a program of the lab is not to be had.
    """
    try:
        plain = incident.description(toolkit)
        engine = {"/usr/bin/containerd": programs.containerd("2.4.2") / "containerd"}
    except programs.ProgramMissingError as missing:
        pytest.skip(str(missing))
    return replace(plain, copies={**plain.copies, **engine})
