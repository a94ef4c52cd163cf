"""Running the demo for tests: as nobody where the tests run as root, and what it leaves behind.

Owns: finding an interpreter that nobody may use, and the demo's process. Must not know: the story.
"""

from __future__ import annotations

import os
import shutil
import signal
import site
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.cli.pages import plain_environment
from tests.demo.stage import CHECKOUT

NOBODY = 65534
_AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
_WAIT_S = 300.0
_ROOTS = ("core", "kube", "agent", "operator", "cli")
# Twice over: the first process may have been started with what is left of root's rights.
_PROBE = "import os, subprocess, sys; assert os.geteuid(); "
_PROBE += "sys.exit(subprocess.call([sys.executable, '-c', 'import yaml, kopf, gpucdi_agent.run']))"


@dataclass
class Demo:
    """One run of the demo, with a folder for its temporary files."""

    folder: Path
    interpreter: str = sys.executable
    under: tuple[str, ...] = ()

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start it; the output is piped."""
        return subprocess.Popen(
            [*self.under, self.interpreter, "-m", "tests.demo", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=CHECKOUT,
            env=plain_environment(TMPDIR=str(self.folder)),
        )

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Run it to its end: exit code, output and error output."""
        process = self.start(*arguments)
        try:
            out, err = process.communicate(timeout=_WAIT_S)
        finally:
            self.end(process)
        return process.returncode, out, err

    def end(self, process: subprocess.Popen[str]) -> None:
        """End a run that still goes on, in the way that lets it clean up."""
        process.send_signal(signal.SIGTERM)
        process.wait(_WAIT_S)

    def left_behind(self) -> list[str]:
        """Return the files and the processes that are still there of any run."""
        found = [path.name for path in self.folder.iterdir()]
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found += [command] if str(self.folder) in command else []
        return found


@contextmanager
def demo() -> Iterator[Demo]:
    """Give a run of this interpreter, as this user."""
    with tempfile.TemporaryDirectory(prefix="gpucdi-demo-test-") as folder:
        yield Demo(Path(folder))


@contextmanager
def unprivileged_demo() -> Iterator[Demo]:
    """Give a run without root's rights; skips where no interpreter can be run so."""
    with demo() as given, tempfile.TemporaryDirectory(prefix="gpucdi-nobody-") as base:
        if os.geteuid() == 0:
            Path(base).chmod(0o755)
            given.under = _AS_NOBODY
            given.interpreter = _interpreter_for_nobody(Path(base))
            os.chown(given.folder, NOBODY, NOBODY)
        yield given


def _interpreter_for_nobody(base: Path) -> str:
    """Return this interpreter if nobody may run it, else the system's with the same packages."""
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not on this machine (Debian: util-linux)")
    if _works(sys.executable):
        return sys.executable
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    system = Path("/usr/bin") / version
    if system.exists():
        made = base / "venv"
        subprocess.run([system, "-m", "venv", "--without-pip", made], check=True)
        roots = [*site.getsitepackages(), *(str(CHECKOUT / name) for name in _ROOTS)]
        packages = made / "lib" / version / "site-packages"
        (packages / "demo.pth").write_text("\n".join(roots) + "\n")
        if _works(str(made / "bin" / "python")):
            return str(made / "bin" / "python")
    pytest.skip(f"nobody may run neither {sys.executable} nor a venv of {system}")


def _works(interpreter: str) -> bool:
    done = subprocess.run(
        [*_AS_NOBODY, interpreter, "-c", _PROBE],
        capture_output=True,
        cwd=CHECKOUT,
        env=plain_environment(),
        check=False,
    )
    return done.returncode == 0
