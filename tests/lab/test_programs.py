"""The cache of programs: whole sets, found by what goes into them, absent with a reason."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.lab import programs
from tests.lab.build import ensure
from tests.lab.programs import ProgramMissingError, ProgramSet


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(programs.CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def module(tmp_path: Path) -> Path:
    folder = tmp_path / "module"
    folder.mkdir()
    (folder / "go.mod").write_text("module example.test/hello\n\ngo 1.24\n")
    (folder / "go.sum").write_text("")
    (folder / "main.go").write_text("package main\n\nfunc main() {}\n")
    return folder


def hello(module: Path) -> ProgramSet:
    return ProgramSet(
        name="hello",
        programs=("hello",),
        command=("build", "-o", "{into}/", "."),
        environment={"CGO_ENABLED": "0"},
        module=module,
    )


@pytest.mark.usefixtures("cache")
def test_an_absent_set_is_named_with_the_reason(module: Path) -> None:
    with pytest.raises(ProgramMissingError, match=r"hello is not built \(.*make lab"):
        programs.built(hello(module))


@pytest.mark.usefixtures("cache")
def test_an_absent_program_of_the_distribution_is_named() -> None:
    with pytest.raises(ProgramMissingError, match="no-such-program is not installed"):
        programs.system_program("no-such-program")


def test_a_set_moves_when_its_module_files_or_flags_change(module: Path) -> None:
    before = hello(module)
    key = before.key

    assert replace(before, command=(*before.command, "-race")).key != key
    (module / "go.sum").write_text("changed\n")
    assert before.key != key


def test_every_set_of_the_lab_has_a_key_of_its_own() -> None:
    keys = {each.key for each in programs.all_sets()}

    assert len(keys) == len(programs.all_sets())


def test_a_second_build_does_nothing(
    cache: Path, module: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    go = shutil.which("go")
    if go is None:
        pytest.skip("needs Go")

    assert ensure(hello(module), go)
    assert "building hello" in capsys.readouterr().out
    assert ensure(hello(module), "/no/such/go")

    assert (programs.built(hello(module)) / "hello").is_file()
    assert [path.name for path in cache.iterdir()] == [hello(module).folder.name]


def test_a_failed_build_leaves_nothing_in_the_cache(cache: Path, module: Path) -> None:
    assert not ensure(hello(module), shutil.which("false") or "/bin/false")

    assert list(cache.iterdir()) == []


def test_the_build_runs_from_the_command_line() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import tests.lab.build"],
        cwd=programs.HERE.parents[1],
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
