"""In Auto mode, on a node that it would repair otherwise, nothing hostile makes the agent write.

The node is the lab's, with the real ``nvidia-ctk``; that it is repaired when nothing is wrong with
its files is ``test_resident_agent``'s.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lab import incident
from tests.lab.node import Node
from tests.lab.programs import ProgramMissingError
from tests.nodeagent import resident
from tests.trees import hostile
from tests.trees.hostile import Spoil

from gpucdi.findings import Cause

pytestmark = [pytest.mark.lab, pytest.mark.slow]

FOLDERS = ("etc/cdi", "run/cdi")
HASHED_BYTES = 64 * 1024
PATIENCE_SECONDS = 50.0
PLACES = ("/var/run/cdi", "/usr/local/nvidia/toolkit/.config")
# More than any bound; what 100,000 cost is ``test_hostile``'s.
MANY = 3000


def too_many_files(root: Path) -> None:
    hostile.many_files(root, MANY)


def too_many_specs(root: Path) -> None:
    hostile.many_specs(root, MANY)


CASES: list[tuple[Spoil, Cause]] = [
    (hostile.huge_spec, Cause.UNDETERMINED),
    (too_many_files, Cause.UNDETERMINED),
    (too_many_specs, Cause.UNDETERMINED),
    (hostile.alias_bomb, Cause.SPEC_REJECTED),
    (hostile.link_loop, Cause.SPEC_NOT_READABLE),
    (hostile.link_to_secret, Cause.SPEC_REJECTED),  # the secret of its own root may be read
    (hostile.pipe, Cause.SPEC_REJECTED),
    (hostile.not_utf8, Cause.SPEC_REJECTED),
    (hostile.deep_nesting, Cause.UNDETERMINED),
    (hostile.huge_toml, Cause.CONFIG_UNREADABLE),
]


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with tempfile.TemporaryDirectory(prefix="gpucdi-node-") as base:
        try:
            with Node(resident.incident_node(), Path(base)) as made:
                yield made
        except ProgramMissingError as missing:
            pytest.skip(str(missing))


Entry = tuple[int, int, int, int, str]


def entries(node: Node) -> dict[str, Entry]:
    """Return every entry of the spec directories with inode, size, times and content."""
    found: dict[str, Entry] = {}
    for folder in FOLDERS:
        for path in (node.root / folder).iterdir():
            facts = path.lstat()
            content = b""
            if path.is_file() and not path.is_symlink() and 0 < facts.st_size < HASHED_BYTES:
                content = path.read_bytes()
            digest = hashlib.sha256(content).hexdigest()
            times = (facts.st_mtime_ns, facts.st_ctime_ns)
            found[f"{folder}/{path.name}"] = (facts.st_ino, facts.st_size, *times, digest)
    return found


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("spoil", "cause"), CASES, ids=[spoil.__name__ for spoil, _ in CASES])
def test_the_agent_says_so_and_writes_nothing(node: Node, spoil: Spoil, cause: Cause) -> None:
    hostile.clean(node.root)
    for own in (node.root / "etc/cdi").glob("gpucdi-*"):
        own.unlink()
    incident.restore(node)
    spoil(node.root)
    before = entries(node)

    with resident.JsonLog() as log:
        with resident.start(node, log=log.file) as agent:
            try:
                changed = resident.until(lambda: log.find("status changed"), PATIENCE_SECONDS)
            finally:
                agent.terminate()
        findings = [line for line in log.lines() if line["message"] == "finding"]

    # A status comes at the end of a pass, after everything that it wrote.
    assert entries(node) == before
    told = [line for line in findings if line["cause"] == cause.value and line["advice"]]
    assert [line for line in told if str(line["file"]).startswith(PLACES)], findings
    assert changed.get("hold") or spoil is hostile.huge_toml
