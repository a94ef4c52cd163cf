"""Choosing a command, and how errors end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.running import CHECKOUT, Run

from gpucdi_cli.__main__ import available


def test_help_lists_the_commands_and_the_exit_codes(run: Run) -> None:
    ran = run("--help")
    assert ran.code == 0
    for command in available():
        assert f"    {command.name} " in ran.out
    assert "exit codes:" in ran.out


def test_every_command_explains_its_options(run: Run) -> None:
    for command in available():
        ran = run(command.name, "--help")
        assert ran.code == 0, ran.err
        assert command.help[1:] in ran.out
        assert "exit codes" in ran.out or command.name == "demo"


def test_an_unknown_command_is_a_usage_error(run: Run) -> None:
    ran = run("heal")
    assert ran.code == 2
    assert "invalid choice: 'heal'" in ran.err


def test_an_unknown_option_shows_the_usage_of_its_command(run: Run) -> None:
    ran = run("explain", "--fast", "pod.yaml")
    assert ran.code == 2
    assert ran.err.startswith("usage: gpucdi explain ") or "explain [-h]" in ran.err
    assert ran.err.endswith("error: unrecognized arguments: --fast\n")


def test_a_folder_that_is_no_host_is_refused_with_the_next_step(run: Run, tmp_path: Path) -> None:
    ran = run("inspect", "--root", str(tmp_path))
    assert ran.code == 2
    assert "does not look like the root of a host" in ran.err
    assert "give the top of a captured node" in ran.err


def test_a_broken_capture_file_is_refused_by_name(run: Run, copy: Path) -> None:
    (copy / "gpucdi-capture.json").write_text("{")
    ran = run("inspect", "--root", str(copy))
    assert ran.code == 2
    assert "gpucdi-capture.json" in ran.err
    assert "Traceback" not in ran.err


def test_a_command_loads_only_its_own_module() -> None:
    program = (
        "import sys; from gpucdi_cli.__main__ import main\n"
        "main(['inspect', '--root', 'examples/c00', '-o', 'json'])\n"
        "loaded = {'gpucdi_kube', 'aiohttp', 'gpucdi_cli.demo'} & set(sys.modules)\n"
        "sys.exit(f'loaded {loaded}' if loaded else 0)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=CHECKOUT, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_missing_extra_is_named_with_the_way_to_install_it() -> None:
    program = (
        "import sys; sys.modules['rich'] = None\n"
        "from gpucdi_cli.__main__ import main\n"
        "sys.exit(main(['inspect', '--root', 'examples/c00']))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=CHECKOUT, check=False
    )
    assert ran.returncode == 2
    assert "needs the Python module rich" in ran.stderr
    assert "pip install '.[cli]'" in ran.stderr


@pytest.mark.parametrize("program", ["gpucdi", "kubectl-gpucdi"])
def test_both_programs_run_and_name_themselves_as_typed(run_program: Run, program: str) -> None:
    ran = run_program(program, "--help")
    typed = "kubectl gpucdi" if program.startswith("kubectl") else "gpucdi"
    assert ran.code == 0
    assert ran.out.startswith(f"usage: {typed} ")


def test_a_reader_that_stops_early_is_no_error() -> None:
    gpucdi = Path(sys.executable).with_name("gpucdi")
    command = f"'{gpucdi}' inspect --root examples/c00 | head -n 1"
    ran = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, cwd=CHECKOUT, check=False
    )
    assert ran.stdout.startswith("Drifted (OnlyAllDevice)")
    assert ran.stderr == ""


def test_a_terminal_without_utf_8_gets_the_words_all_the_same(run_program: Run) -> None:
    ran = run_program("gpucdi", "demo", PYTHONIOENCODING="ascii")
    assert (ran.code, ran.err) == (0, "")
    assert "OnlyAllDevice: management.nvidia.com/gpu defines all" in ran.out
