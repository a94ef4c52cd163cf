"""A link that leads in a circle, at any path that a pass looks at, is part of the node, not a crash."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.trees import c00

from gpucdi.api import Intent, RepairMode
from gpucdi.findings import Cause
from gpucdi.host import CAPTURE_NAME, HostTree
from gpucdi.programs import CapturedPrograms
from gpucdi_agent.files import RealFiles
from gpucdi_agent.passes import NodePass, PassResult, Surroundings
from gpucdi_agent.state import StateStore
from gpucdi_agent.transaction import Transaction
from gpucdi_agent.watch import places_of

STATE = "/var/lib/gpucdi"
RUNTIME = "usr/local/nvidia/toolkit/nvidia-container-runtime"
PLACES = sorted(
    str(path.relative_to(c00.EXAMPLE))
    for path in c00.EXAMPLE.rglob("*")
    if path.name != CAPTURE_NAME and ".so." not in path.name
)


def loop_at(host: HostTree, place: str) -> None:
    path = host.root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.symlink_to(path.name)


def run(root: Path, mode: RepairMode) -> tuple[HostTree, PassResult]:
    host = HostTree(root)
    state = StateStore(host, RealFiles(), STATE)
    surroundings = Surroundings(
        host=host,
        programs=CapturedPrograms.of(host),
        nvml=None,
        now=lambda: "T",
        monotonic=lambda: 1.0,
        state=state,
        transaction=Transaction(host, state, RealFiles(), lambda: "T"),
    )
    return host, NodePass(surroundings).run(Intent(mode=mode))


@pytest.mark.parametrize("place", PLACES)
def test_a_loop_anywhere_is_no_crash(tmp_path: Path, place: str) -> None:
    host = c00.copy(tmp_path / "host")
    loop_at(host, place)

    _, looked = run(host.root, RepairMode.OBSERVE)
    _, removed = run(host.root, RepairMode.OFF)

    assert places_of(host, looked.observation).directories
    assert removed.records == ()


@pytest.mark.parametrize("place", [RUNTIME, f"{RUNTIME}.cdi"])
def test_a_loop_at_a_handlers_binary_is_a_missing_handler(tmp_path: Path, place: str) -> None:
    host = c00.copy(tmp_path / "host")
    loop_at(host, place)

    _, result = run(host.root, RepairMode.OBSERVE)

    assert Cause.HANDLER_MISSING in {finding.cause for finding in result.status.findings}
