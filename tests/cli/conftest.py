"""What the tests of the command line share: the captured incident, and ways to run a command."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.cli import pages
from tests.cli.running import CHECKOUT, Ran, Run

from gpucdi_cli.__main__ import main


@pytest.fixture(autouse=True)
def plain_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """Print as to a pipe, whatever the terminal or service that runs the tests asks for."""
    for name in set(os.environ) - set(pages.plain_environment()):
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def c00() -> Path:
    return CHECKOUT / "examples" / "c00"


@pytest.fixture
def copy(c00: Path, tmp_path: Path) -> Path:
    """A copy of the captured node that a test may change."""
    return shutil.copytree(c00, tmp_path / "copy", symlinks=True)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process."""

    def in_process(*arguments: str) -> Ran:
        try:
            code = main(arguments)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return in_process


@pytest.fixture(scope="session")
def run_program() -> Run:
    """Run an installed program as a user would; see :func:`tests.cli.pages.run_program`."""
    return pages.run_program
