"""Standard input and output as shells leave them: closed, full, cut short, in other encodings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.pages import plain_environment
from tests.cli.running import CHECKOUT, Ran, Run

GPUCDI = Path(sys.executable).with_name("gpucdi")
COMMANDS = {
    "explain": "explain examples/c00/pod.yaml --root examples/c00",
    "inspect": "inspect --root examples/c00 -o json",
    "predict": "predict -f examples/c00/pod.yaml --root examples/c00",
    "diff": "diff --root examples/c00",
}
EXIT_CODES = {"explain": 0, "inspect": 1, "predict": 1, "diff": 1}


def shell(line: str) -> Ran:
    done = subprocess.run(
        ["/bin/sh", "-c", line.replace("gpucdi ", f"'{GPUCDI}' ", 1)],
        capture_output=True,
        text=True,
        cwd=CHECKOUT,
        env=plain_environment(),
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_closed_output_changes_no_exit_code(command: str) -> None:
    ran = shell(f"gpucdi {COMMANDS[command]} >&-")
    assert (ran.code, ran.err) == (EXIT_CODES[command], "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_is_one_line_and_exit_code_2(command: str) -> None:
    ran = shell(f"gpucdi {COMMANDS[command]} >/dev/full")
    assert ran.code == 2
    assert ran.err == "gpucdi: No space left on device: the output is not whole\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_reader_that_never_reads_ends_it_as_shells_count_that(command: str) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    with os.fdopen(writes, "wb") as pipe:
        done = subprocess.run(
            [GPUCDI, *COMMANDS[command].split()],
            stdout=pipe,
            stderr=subprocess.PIPE,
            cwd=CHECKOUT,
            env=plain_environment(),
            check=False,
        )
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("command", ["explain", "predict --root examples/c00 -f -"])
def test_a_closed_input_is_an_empty_one(command: str) -> None:
    ran = shell(f"gpucdi {command} <&-")
    assert (ran.code, "standard input is empty" in ran.err) == (2, True)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_json_keeps_its_values_in_every_encoding(run_program: Run, encoding: str) -> None:
    command = f"{COMMANDS['explain']} -o json"
    ran = run_program("gpucdi", *command.split(), PYTHONIOENCODING=encoding)
    texts = [item["text"] for item in json.loads(ran.out)["evidence"]]
    assert "unqualified requests become management.nvidia.com/gpu=…" in texts


@pytest.mark.parametrize(
    "variables",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        {"NO_COLOR": "1"},
        {"TERM": "dumb"},
        {"COLUMNS": "20"},
        {"COLUMNS": "none"},
    ],
)
def test_names_and_paths_are_whole_on_every_terminal(
    run_program: Run, variables: dict[str, str]
) -> None:
    ran = run_program("gpucdi", "inspect", "--root", "examples/c00", **variables)
    assert (ran.code, ran.err) == (1, "")
    assert "\x1b" not in ran.out
    config = "/usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml"
    assert any(line.endswith(config) for line in ran.out.splitlines())
