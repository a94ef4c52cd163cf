"""``python -m tests.demo``, which is ``make demo``: the first incident on a cluster in a process.

Owns: the command, its exit code, and that a signal ends it as cleanly as its end does.

It needs a checkout: the API server is the tests' own. What is installed has ``gpucdi demo``, which
tells the same incident on the node alone.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from pathlib import Path

from rich.console import Console
from tests.demo.kubelet import Incident
from tests.demo.stage import CHECKOUT, StageError, set_stage, temporary_folder
from tests.demo.story import Story

from gpucdi_cli.console import make_console
from gpucdi_cli.demo import read_scene
from gpucdi_cli.demo_agent import choose_generator, copy_tree
from gpucdi_cli.problems import EXIT_FINE, EXIT_PROBLEM
from gpucdi_kube import KubeError

TREE = CHECKOUT / "examples" / "c00"
EXIT_INTERRUPTED = 130


def main() -> int:
    """Tell the story; exit 1 when it does not end well."""
    parser = argparse.ArgumentParser(prog="python -m tests.demo")
    parser.add_argument("--generator", metavar="PROGRAM", help="as of `gpucdi demo`")
    generator: str | None = parser.parse_args().generator
    try:
        return asyncio.run(_tell(make_console(), generator))
    except asyncio.CancelledError:
        sys.stderr.write("ended early; nothing is left behind\n")
        return EXIT_INTERRUPTED


async def _tell(console: Console, generator: str | None) -> int:
    _end_on_signals()
    started = time.monotonic()
    async with temporary_folder() as folder:
        healed = await _played(console, folder, generator)
    if healed:
        console.print(
            f"\n{time.monotonic() - started:.1f} s. Both programs have ended, the copy is gone."
        )
        console.print("From the Pod to the spec files link by link, without a cluster: gpucdi demo")
    return EXIT_FINE if healed else EXIT_PROBLEM


async def _played(console: Console, folder: Path, generator: str | None) -> bool:
    scene, incident = read_scene(TREE), Incident.of_tree(TREE)
    choice = choose_generator(scene.missing, scene.kind, generator, folder)
    copy = copy_tree(TREE, folder)
    async with set_stage(folder) as stage:
        console.print(
            "A cluster of one node on this machine's loopback. No GPU, Go or root is needed."
        )
        cast = {
            "node": f"{incident.node_name}, a copy of the captured examples/c00",
            "API server": "the tests' own (tests/fakeapi) with the shipped CRDs",
            "agent": "a process: gpucdi-agent's own loop; the GPUs are those that the copy's /proc lists",
            "generator": choice.title,
            "operator": "a process: gpucdi-operator run",
            "kubelet": "played by the demo: it registers the Node and reports on the captured Pod",
        }
        for who, what in cast.items():
            console.print(f"  {who:<12}{what}")
        story = Story(console, stage, incident, copy, choice, scene.kind)
        try:
            return await story.tell()
        except (StageError, KubeError, OSError) as error:
            lines = [line for program in stage.programs for line in program.last_lines()]
            sys.stderr.write("\n".join([*lines, f"not healed: {error}", ""]))
            return False


def _end_on_signals() -> None:
    """Let the first signal cancel the story; later ones must not disturb the cleaning up."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def end() -> None:
        for name in signals:
            loop.add_signal_handler(name, lambda: None)
        if task is not None:
            task.cancel()

    for name in signals:
        loop.add_signal_handler(name, end)


if __name__ == "__main__":
    sys.exit(main())
