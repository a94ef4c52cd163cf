"""Talking to the real Go library: one process a version, JSON lines both ways.

Owns: starting and stopping the oracles. Must not know: what the questions are about.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self, cast

from tests.lab.oracle.build import missing, path_of

Json = dict[str, object]
NOBODY = 65534


def reason_to_skip() -> str | None:
    """Return why the oracles cannot be asked here, ``None`` when they can."""
    absent = missing()
    if not absent:
        return None
    return f"no oracle for {', '.join(absent)}; python tests/lab/oracle/build.py builds them"


class Oracle:
    """A running oracle of one version; use it as a context manager.

    Started by root it runs as nobody, from a copy in ``place`` that nobody can reach, so that
    unreadable files are unreadable to it.
    """

    def __init__(self, version: str, place: Path | None = None) -> None:
        self.version = version
        program = path_of(version)
        user = None
        if place is not None and os.geteuid() == 0:
            user = NOBODY
            program = Path(shutil.copy2(program, place / f"oracle-{version}"))
        self._process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, user=user, group=user
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the oracle."""
        self._process.kill()
        self._process.communicate()

    def send(self, question: Json) -> None:
        """Put a question; answers come in the order of the questions."""
        pipe = self._process.stdin
        assert pipe is not None
        pipe.write(json.dumps(question).encode() + b"\n")
        pipe.flush()

    def receive(self) -> Json:
        """Wait for the next answer."""
        pipe = self._process.stdout
        assert pipe is not None
        line = pipe.readline()
        if not line:
            raise RuntimeError(f"the oracle of {self.version} has died")
        return cast("Json", json.loads(line))

    def ask(self, question: Json) -> Json:
        """Put one question and wait for its answer."""
        self.send(question)
        return self.receive()
