"""A storm of foreign writers beside the resident agent, judged by the real Go library.

``GPUCDI_STORM_SECONDS`` sets how long it blows (default 8).
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from tests.lab import hardware, incident
from tests.lab.fixtures import MakeNode
from tests.lab.node import Node, NodeProcess
from tests.lab.oracle import build as oracle
from tests.lab.toolkits import MANAGEMENT_KIND
from tests.nodeagent import resident

pytestmark = [pytest.mark.lab, pytest.mark.slow]

LIBRARY = "1.1.0"
SECONDS = float(os.environ.get("GPUCDI_STORM_SECONDS", "8"))
EVERY_NAME = {
    f"{MANAGEMENT_KIND}={name}" for name in ("0", "1", hardware.UUID_0, hardware.UUID_1, "all")
}


@dataclass
class Judge:
    """The Go library, asked over and over in one process inside the node."""

    process: NodeProcess

    def look(self) -> tuple[set[str], dict[str, list[str]]]:
        """Return the names that resolve, and the errors by file."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        question = {"op": "cache", "dirs": list(incident.SPEC_DIRS)}
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return set(answer["list"] or ()), answer["errors"] or {}


@contextmanager
def judging(node: Node) -> Iterator[Judge]:
    program = oracle.path_of(LIBRARY)
    if not program.exists():
        pytest.skip(f"needs the oracle of the CDI library {LIBRARY} (make lab)")
    pipe = subprocess.PIPE
    with node.popen([program], stdin=pipe, stdout=pipe) as process:
        yield Judge(process)


@dataclass
class Writer:
    """A component that keeps its file in its own way."""

    path: Path
    contents: tuple[bytes, ...]
    dice: random.Random
    present: bytes | None = None

    def names(self) -> set[str]:
        """Return the qualified names that the file defines now."""
        if self.present is None:
            return set()
        spec = yaml.safe_load(self.present)
        return {f"{spec['kind']}={device['name']}" for device in spec["devices"]}

    def step(self) -> None:
        moves: list[Callable[[bytes], None]] = [
            self.replace,
            self.in_place,
            self.truncate,
            self.delete,
            self.move_away,
        ]
        self.dice.choice(moves)(self.dice.choice(self.contents))

    def replace(self, content: bytes) -> None:
        temporary = self.path.with_name(f"spec.{self.dice.randrange(10**9)}.tmp")
        temporary.write_bytes(content)
        temporary.rename(self.path)
        self.present = content

    def in_place(self, content: bytes) -> None:
        with self.path.open("wb") as file:
            file.write(content[: len(content) // 2])
            file.flush()
            time.sleep(self.dice.uniform(0, 0.2))
            file.write(content[len(content) // 2 :])
        self.present = content

    def truncate(self, content: bytes) -> None:
        self.path.write_bytes(b"")
        time.sleep(self.dice.uniform(0, 0.3))
        self.replace(content)

    def delete(self, content: bytes) -> None:
        self.path.unlink(missing_ok=True)
        time.sleep(self.dice.uniform(0, 0.3))
        self.replace(content)

    def move_away(self, content: bytes) -> None:
        if self.path.exists():
            self.path.rename(self.path.with_name("away.bak"))
        time.sleep(self.dice.uniform(0, 0.3))
        self.replace(content)


def writers(node: Node, dice: random.Random) -> list[Writer]:
    """Return the toolkit, which may also write what mig-manager 0.13 does, and the device plugin."""
    management = node.path(incident.MANAGEMENT_SPEC)
    everything = incident.generate(node, "--vendor", "management.nvidia.com").encode()
    plugin = node.path(incident.PLUGIN_SPEC)
    only_all = management.read_bytes()
    return [
        Writer(management, (only_all, only_all, everything), dice, only_all),
        Writer(plugin, (plugin.read_bytes(),), dice, plugin.read_bytes()),
    ]


@pytest.mark.timeout(60 + 10 * SECONDS)
def test_no_conflict_is_ours_and_no_foreign_name_is_lost_in_a_storm(make_node: MakeNode) -> None:
    node = make_node(resident.incident_node())
    incident.write_specs(node)
    dice = random.Random(7)  # noqa: S311 - repeatable is the point
    with judging(node) as judge, resident.JsonLog() as log:
        agent = resident.start(node, log=log.file)
        resident.until(lambda: node.path(resident.OWN_FILE).exists())
        foreign = writers(node, dice)
        looks = 0
        ends = time.monotonic() + SECONDS
        while time.monotonic() < ends:
            dice.choice(foreign).step()
            calm = time.monotonic() + dice.uniform(0, 0.8)
            while time.monotonic() < calm:
                names, errors = judge.look()
                ours = {
                    path: text for path, text in errors.items() if "gpucdi-" in str((path, text))
                }
                assert not ours
                missing = {name for writer in foreign for name in writer.names()} - names
                assert not missing
                looks += 1

        for writer in foreign:
            writer.replace(writer.contents[0])
        resident.until(lambda: judge.look()[0] >= EVERY_NAME, 30)
        assert looks > 10
        assert agent.poll() is None
        agent.terminate()
        assert agent.wait(10) == 0
        assert not [line for line in log.lines() if "exception" in line]
