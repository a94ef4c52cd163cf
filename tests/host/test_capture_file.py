"""The facts beside a captured tree, whatever somebody has made of their file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpucdi.host import CAPTURE_NAME, READ_LIMIT_BYTES, CaptureFacts, HostTree

WHOLE = '{"readAsUid": 7}'


def link_out(place: Path) -> None:
    outside = place.parent.parent / "outside.json"
    outside.write_text(WHOLE)
    place.symlink_to(outside)


def link_in(place: Path) -> None:
    (place.parent / "inside.json").write_text(WHOLE)
    place.symlink_to("inside.json")


def huge(place: Path) -> None:
    place.write_text(WHOLE)
    os.truncate(place, READ_LIMIT_BYTES + 1)


def infinite_mode(place: Path) -> None:
    place.write_text('{"devices": [{"path": "/dev/x", "major": 1e999}]}')


@pytest.mark.parametrize(
    "lay",
    [
        link_out,
        link_in,
        huge,
        infinite_mode,
        lambda place: place.symlink_to(place.name),
        os.mkfifo,
        lambda place: place.mkdir(),
        lambda place: place.write_text("[" * 200_000),
        lambda place: place.write_bytes(b"\xff"),
    ],
)
def test_a_capture_file_that_is_not_ours_is_a_problem_at_once(
    tmp_path: Path, lay: Callable[[Path], object]
) -> None:
    root = tmp_path / "node"
    root.mkdir()
    lay(root / CAPTURE_NAME)
    started = time.monotonic()

    found = HostTree(root).capture

    assert found.problem is not None
    assert CAPTURE_NAME in found.problem
    assert found == CaptureFacts(problem=found.problem)
    assert time.monotonic() - started < 2


def test_a_capture_file_of_ours_is_read(tmp_path: Path) -> None:
    (tmp_path / CAPTURE_NAME).write_text(WHOLE)

    assert HostTree(tmp_path).capture == CaptureFacts(read_as_uid=7)
