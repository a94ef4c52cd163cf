"""What the foreground commands return, and what they say where they cannot do anything."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.trees import c00

from gpucdi.host import CAPTURE_NAME, HostTree
from gpucdi_agent.__main__ import main
from gpucdi_agent.foreground import repair, revert

NOBODY = 65534
STATE = "var/lib/gpucdi"
CONFIG = "/usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml"


@pytest.fixture
def host() -> Iterator[HostTree]:
    """A tree that another user can reach, which pytest's own folders are not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield c00.copy(Path(name) / "gpu-17")


@contextmanager
def nobody() -> Iterator[None]:
    """Be a user without rights for a while; whoever runs the tests as such a user is one anyway."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.mark.parametrize("command", ["repair", "revert"])
def test_without_the_right_to_write_one_sentence_says_to_be_root(
    host: HostTree, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    (host.root / "var/lib").mkdir(exist_ok=True)
    (host.root / "var/lib").chmod(0o555)

    act = {"repair": lambda: repair(host.root, None, "table", dry_run=False)}
    act["revert"] = lambda: revert(host.root, "table", dry_run=False)
    with nobody():
        code = act[command]()

    out = capsys.readouterr()
    assert (code, out.out) == (2, "")
    assert out.err.endswith("Permission denied): run this as root\n")
    assert out.err.count("\n") == 1


def file_there(place: Path) -> None:
    place.write_text("")


def loop_there(place: Path) -> None:
    place.symlink_to(place.name)


def file_above(place: Path) -> None:
    place.parent.rmdir()
    place.parent.write_text("")


@pytest.mark.parametrize(
    ("lay", "advice"),
    [
        (file_there, "move away what lies there"),
        (file_above, "move away what lies there"),
        (loop_there, "remove the links"),
    ],
)
def test_a_state_directory_that_cannot_be_is_said_with_what_to_do(
    host: HostTree,
    capsys: pytest.CaptureFixture[str],
    lay: Callable[[Path], None],
    advice: str,
) -> None:
    place = host.root / STATE
    place.parent.mkdir(parents=True, exist_ok=True)
    lay(place)

    code = main(["repair", "--root", str(host.root)])

    out = capsys.readouterr()
    assert (code, out.out) == (2, "")
    assert advice in out.err
    assert out.err.count("\n") == 1


@pytest.mark.parametrize("command", ["repair", "revert", "inspect"])
def test_a_damaged_capture_is_never_taken_for_the_node(
    host: HostTree, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    (host.root / CAPTURE_NAME).write_text("[")

    code = main([command, "--root", str(host.root)])

    assert code == 2
    assert CAPTURE_NAME in capsys.readouterr().err
    assert not (host.root / STATE).exists()


def test_a_damaged_capture_is_not_captured_again(
    host: HostTree, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (host.root / CAPTURE_NAME).write_text("[")
    output = tmp_path / "node.tar.gz"

    code = main(["capture", "--host-root", str(host.root), "--output", str(output)])

    assert (code, output.exists()) == (2, False)
    assert CAPTURE_NAME in capsys.readouterr().err


@pytest.mark.parametrize("word", ["--root", "--host-root"])
@pytest.mark.parametrize("command", ["inspect", "repair", "revert", "capture"])
def test_every_command_knows_both_words_for_the_tree(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str, word: str
) -> None:
    output = ["--output", str(tmp_path / "node.tar.gz")] if command == "capture" else []
    with pytest.raises(SystemExit):
        main([command, word, str(tmp_path / "absent"), *output])
    assert f"{tmp_path / 'absent'}" in capsys.readouterr().err


def test_a_damaged_capture_is_not_watched(
    host: HostTree, capfd: pytest.CaptureFixture[str]
) -> None:
    (host.root / CAPTURE_NAME).write_text("[")

    code = main(["run", "--no-api", "--host-root", str(host.root)])

    assert code == 2
    assert CAPTURE_NAME in capfd.readouterr().err
    assert not (host.root / STATE).exists()


def repair_call(host: HostTree, folder: Path) -> list[str]:
    """Return a repair that succeeds on the incident."""
    spec = folder / "spec.yaml"
    spec.write_bytes(c00.generated((*c00.UUIDS, "all")))
    generator = folder / "generator"
    generator.write_text(f"#!/bin/sh\ncat {spec}\n")
    generator.chmod(0o755)
    return ["repair", "--root", str(host.root), "--generator", str(generator)]


def test_a_dry_run_leaves_the_problem_and_the_repair_does_not(
    host: HostTree, tmp_path: Path
) -> None:
    call = repair_call(host, tmp_path)

    assert [main([*call, "--dry-run"]), main(call)] == [1, 0]


def test_a_repair_with_nothing_to_change_on_a_broken_node_is_no_success(
    host: HostTree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host.outside(CONFIG).write_text("mode = [")

    code = main(repair_call(host, tmp_path))

    assert code == 1
    assert capsys.readouterr().out.startswith("nothing to change")


def test_the_help_lists_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])

    assert "  2  could not be done" in capsys.readouterr().out
