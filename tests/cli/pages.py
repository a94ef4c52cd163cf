"""The console blocks of the README: what they show, what the commands print, and renewing them.

``python -m tests.cli.pages`` from the top of the checkout writes today's output into README.md. A
block is renewed whole; the words around it are nobody's but the author's.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.cli.running import CHECKOUT, Ran

PAGE = CHECKOUT / "README.md"
_BLOCK = re.compile(r"^```console\n\$ ([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Each asks for colours, or for a width, where nobody looks.
_COLOURFUL = ("FORCE_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "TTY_INTERACTIVE")


def plain_environment(**variables: str) -> dict[str, str]:
    """Return this process's environment as for a pipe, with a fixed width."""
    kept = {name: value for name, value in os.environ.items() if name not in _COLOURFUL}
    return kept | {"COLUMNS": "100"} | variables


def run_program(program: str, *arguments: str, **variables: str) -> Ran:
    """Run an installed program from the top of the checkout; keywords are its environment."""
    result = subprocess.run(
        [Path(sys.executable).with_name(program), *arguments],
        capture_output=True,
        text=True,
        cwd=CHECKOUT,
        env=plain_environment(**variables),
        check=False,
    )
    return Ran(result.returncode, result.stdout, result.stderr)


def shown() -> Iterator[tuple[str, str]]:
    """Yield the command of each console block, and the output shown for it."""
    for found in _BLOCK.finditer(PAGE.read_text()):
        yield found[1], found[2]


def printed(command: str) -> Ran:
    """Run a command of the page as on a machine without any nvidia-ctk."""
    with tempfile.TemporaryDirectory() as empty:
        return run_program(*shlex.split(command), PATH=empty)


def settled(text: str) -> str:
    """Replace what differs from run to run: the temporary folder and the time taken."""
    text = re.sub(r"/\S*/gpucdi-demo-\w+", "/tmp/gpucdi-demo-XXXX", text)
    return re.sub(r"^\d+\.\d s\.", "1.2 s.", text, flags=re.MULTILINE).rstrip("\n")


def renew() -> None:
    """Write what the commands print today into the page."""
    page = PAGE.read_text()
    PAGE.write_text(_BLOCK.sub(lambda found: _block(found[1]), page))


def _block(command: str) -> str:
    return f"```console\n$ {command}\n{settled(printed(command).out)}\n```"


if __name__ == "__main__":
    renew()
