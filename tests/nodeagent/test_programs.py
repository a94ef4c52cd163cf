"""What a live host's programs and engines say, with real processes and a laid-out /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpucdi.host import HostTree
from gpucdi_agent.commands import Command, CommandResult, HostRunner
from gpucdi_agent.programs import LivePrograms


@dataclass
class RootedRunner:
    """Runs a program of the tree as this machine's own, and counts."""

    root: Path
    runs: list[str] = field(default_factory=list)

    def run(self, command: Command) -> CommandResult:
        self.runs.append(command.arguments[0])
        place = str(self.root) + command.arguments[0]
        return HostRunner().run(Command((place, *command.arguments[1:]), 5.0))


@dataclass
class Bench:
    root: Path
    runner: RootedRunner = field(init=False)
    programs: LivePrograms = field(init=False)

    def __post_init__(self) -> None:
        self.runner = RootedRunner(self.root)
        self.programs = LivePrograms(HostTree(self.root), self.runner)

    def program(self, path: str, text: str, mode: int = 0o755) -> Path:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"#!/bin/sh\n{text}\n")
        place.chmod(mode)
        return place

    def process(self, pid: int, *arguments: str, exe: str = "", started: str = "100") -> None:
        folder = self.root / f"proc/{pid}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cmdline").write_bytes("".join(item + "\0" for item in arguments).encode())
        (folder / "environ").write_bytes(b"XDG_CONFIG_HOME=/cfg\0BAD\0")
        before = " ".join(["S", *["0"] * 18])
        (folder / "stat").write_text(f"{pid} (a (b) c) {before} {started} 0 0\n")
        if exe:
            link = folder / "exe"
            link.unlink(missing_ok=True)
            link.symlink_to(exe)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_version_is_read_whatever_the_exit_code(bench: Bench) -> None:
    bench.program("/usr/bin/ctk", 'echo "version 1.18.2"; exit 1')

    assert bench.programs.version_output("/usr/bin/ctk") == "version 1.18.2\n"


def test_it_is_asked_once_and_again_when_the_file_changes(bench: Bench) -> None:
    bench.program("/usr/bin/ctk", "echo one")
    bench.programs.version_output("/usr/bin/ctk")
    bench.programs.version_output("/usr/bin/ctk")
    assert len(bench.runner.runs) == 1

    bench.program("/usr/bin/ctk", "echo another")

    assert bench.programs.version_output("/usr/bin/ctk") == "another\n"


@pytest.mark.parametrize("mode", [0o644, 0o775, 0o757])
def test_what_cannot_be_trusted_or_run_is_not_run(bench: Bench, mode: int) -> None:
    bench.program("/usr/bin/ctk", "echo one", mode)

    assert bench.programs.version_output("/usr/bin/ctk") is None
    assert bench.runner.runs == []


def test_somebody_elses_program_is_not_run(bench: Bench) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root (to give a file away)")
    os.chown(bench.program("/usr/bin/ctk", "echo one"), 12345, 12345)

    assert bench.programs.version_output("/usr/bin/ctk") is None


def test_a_program_that_is_not_there_is_unknown(bench: Bench) -> None:
    assert bench.programs.version_output("/usr/bin/ctk") is None


def test_a_running_engine_is_found_with_its_arguments_and_environment(bench: Bench) -> None:
    bench.program("/usr/bin/containerd", 'echo "containerd github.com/x v2.1.4 abc"')
    bench.process(7, "/usr/bin/containerd-shim-runc-v2")
    bench.process(12, "/usr/bin/containerd", "--config", "/c.toml", exe="/usr/bin/containerd")

    found = bench.programs.engine("containerd")

    assert found is not None
    assert found.version == "2.1.4"
    assert found.arguments == ("/usr/bin/containerd", "--config", "/c.toml")
    assert found.environment == {"XDG_CONFIG_HOME": "/cfg"}


def test_dockers_own_containerd_is_nobodys_engine(bench: Bench) -> None:
    bench.process(5, "containerd", "--config", "/var/run/docker/containerd/containerd.toml")

    assert bench.programs.engine("containerd") is None


def test_an_executable_replaced_under_a_running_engine_has_no_known_version(bench: Bench) -> None:
    bench.process(12, "/usr/bin/containerd", exe="/usr/bin/containerd (deleted)")

    found = bench.programs.engine("containerd")

    assert found is not None
    assert found.version is None


def test_a_restarted_engine_is_found_anew(bench: Bench) -> None:
    bench.process(12, "/usr/bin/containerd", "-l", "old")
    bench.programs.engine("containerd")
    bench.process(12, "/bin/something", started="200")
    bench.process(30, "/usr/bin/containerd", "-l", "new")

    found = bench.programs.engine("containerd")

    assert found is not None
    assert found.arguments == ("/usr/bin/containerd", "-l", "new")


def test_what_is_no_engine_is_unknown(bench: Bench) -> None:
    assert bench.programs.engine("podman") is None
    assert bench.programs.engine("containerd") is None
