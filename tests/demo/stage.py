"""Where the demo plays: a folder, an API server in this process, and two programs beside it.

Owns: starting them, noticing when one ends before its time, and leaving nothing behind whatever
happens. Must not know: the story.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import sys
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tests.fakeapi.server import kubeconfig, serving

from gpucdi_cli.demo_agent import Choice
from gpucdi_kube import HttpKubeApi, connect

T = TypeVar("T")
CHECKOUT = Path(__file__).resolve().parents[2]
# A step takes a second; a machine that is busy with something else gets all the time it needs.
PATIENCE_S = 90.0
STOP_S = 15.0
LOOK_S = 0.1
LOG_LINES = 8


class StageError(Exception):
    """The story cannot go on; the text says why."""


@dataclass(frozen=True, slots=True)
class Program:
    """A process of ours. ``url`` is where it serves its metrics."""

    title: str
    process: asyncio.subprocess.Process
    log: Path
    url: str

    def check(self) -> None:
        """Raise :class:`StageError` if the program has ended."""
        if self.process.returncode is not None:
            raise StageError(f"{self.title} ended with exit code {self.process.returncode}")

    def last_lines(self) -> list[str]:
        """Return the end of the program's log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return [f"{self.title}: {line}" for line in lines[-LOG_LINES:]]

    async def scrape(self) -> str:
        """Return what the program serves on ``/metrics`` now."""
        return await asyncio.to_thread(_fetch, f"{self.url}/metrics")

    async def is_ready(self) -> bool:
        """Tell whether ``/readyz`` says so."""
        try:
            await asyncio.to_thread(_fetch, f"{self.url}/readyz")
        except OSError:  # not listening yet, or 503
            return False
        return True


@dataclass(slots=True)
class Stage:
    """What the story acts on."""

    folder: Path
    api: HttpKubeApi
    api_url: str
    programs: list[Program] = field(default_factory=list)

    @property
    def config(self) -> Path:
        """The kubeconfig of the API server."""
        return self.folder / "kubeconfig"

    async def until(self, what: str, look: Callable[[], Awaitable[T | None]]) -> T:
        """Return the first answer of ``look`` that is one; ``what`` says what is waited for."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = await look()
            if found is not None:
                return found
            for program in self.programs:
                program.check()
            if time.monotonic() > deadline:
                raise StageError(f"waited {PATIENCE_S:.0f} s in vain for {what}")
            await asyncio.sleep(LOOK_S)


@asynccontextmanager
async def set_stage(folder: Path) -> AsyncIterator[Stage]:
    """Serve the API until the block ends, then end every program and close every connection."""
    async with AsyncExitStack() as stack:
        served = await stack.enter_async_context(serving())
        stage = Stage(folder, await _connected(folder, served.url), served.url)
        stack.push_async_callback(stage.api.close)
        try:
            yield stage
        finally:
            await asyncio.gather(*(_stop(program.process) for program in stage.programs))


async def _connected(folder: Path, url: str) -> HttpKubeApi:
    config = folder / "kubeconfig"
    config.write_text(kubeconfig(url), encoding="utf-8")
    return await connect(str(config), user_agent="kubectl")


async def start_agent(stage: Stage, node_name: str, copy: Path, choice: Choice) -> Program:
    """Start the agent of a node over the copy of its tree."""
    port = _free_port()
    command = [sys.executable, "-m", "tests.demo.captured_agent"]
    command += ["--node-name", node_name, "--host-root", str(copy)]
    command += ["--generator", str(choice.program), "--kubeconfig", str(stage.config)]
    return await _start(stage, "agent", [*command, "--port", str(port)], port)


async def start_operator(stage: Stage) -> Program:
    """Start the operator, one replica."""
    port = _free_port()
    command = [sys.executable, "-m", "gpucdi_operator", "run", "--kubeconfig", str(stage.config)]
    return await _start(stage, "operator", [*command, "--http", f"127.0.0.1:{port}"], port)


async def _start(stage: Stage, title: str, command: Sequence[str], port: int) -> Program:
    log = stage.folder / f"{title}.log"
    with log.open("wb") as out:
        # In a session of its own: Ctrl-C is ours to pass on, once the story has been cleaned up.
        process = await asyncio.create_subprocess_exec(
            *command, cwd=CHECKOUT, stdout=out, stderr=out, start_new_session=True
        )
    program = Program(title, process, log, f"http://127.0.0.1:{port}")
    stage.programs.append(program)
    return program


async def _stop(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(STOP_S):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@asynccontextmanager
async def temporary_folder() -> AsyncIterator[Path]:
    """Make a folder and remove it with all that is in it."""
    folder = Path(tempfile.mkdtemp(prefix="gpucdi-demo-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        content: bytes = answer.read()
    return content.decode()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
