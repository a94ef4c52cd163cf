"""What is advised for a Pod without a failure is about the kind that the Pod asks for."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.trees import c00

from gpucdi.diagnosis import Diagnosis, diagnose_silent
from gpucdi.failures import pod_view


def advised(tmp_path: Path, visible: str) -> Diagnosis | None:
    container = {"name": "m", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": visible}]}
    pod = {
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"nodeName": "gpu-17", "runtimeClassName": "nvidia", "containers": [container]},
        "status": {"phase": "Running"},
    }
    status = c00.status(c00.copy(tmp_path / "root"))
    return diagnose_silent(pod=pod_view(pod), node=status, handler="nvidia")


@pytest.fixture
def by_hand(tmp_path: Path) -> str:
    found = advised(tmp_path, c00.UUIDS[0])
    assert found is not None
    (command,) = [item.command for item in found.advice if "cdi generate" in (item.command or "")]
    assert command is not None
    return command


def test_the_command_generates_that_kind(by_hand: str) -> None:
    assert "--vendor management.nvidia.com --class gpu" in by_hand


def test_the_command_writes_where_it_hides_nobodys_names(by_hand: str) -> None:
    assert "--output /etc/cdi/" in by_hand


def test_a_pod_whose_name_resolves_is_blamed_on_nothing(tmp_path: Path) -> None:
    assert advised(tmp_path, "all") is None
