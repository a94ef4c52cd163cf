"""``gpucdi demo``: the first incident seen, explained and healed, on a copy of a captured node.

Owns: the command and the order of its chapters. Must not know: how a node is judged or repaired; it
looks with the same code as the agent, and the repair is the real ``gpucdi-agent`` run on the copy.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

from gpucdi.host import CAPTURE_NAME, HostTree
from gpucdi_cli.chain import reader_of
from gpucdi_cli.console import make_console
from gpucdi_cli.demo_agent import NODE, choose_generator, copy_tree, find_agent, run_agent
from gpucdi_cli.demo_pod import read_failing_pod
from gpucdi_cli.demo_story import (
    Scene,
    chapter,
    tell_cause,
    tell_chain,
    tell_outcome,
    tell_repair,
    tell_symptom,
)
from gpucdi_cli.diff import plan_with_standin, show_plan
from gpucdi_cli.node_look import checked, look
from gpucdi_cli.problems import EXIT_FINE, EXIT_PROBLEM, CliError

_CHECKOUT = Path(__file__).resolve().parents[2] / "examples" / "c00"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "--tree", metavar="DIR", help="a captured node with the failing Pod in its pod.yaml"
    )
    parser.add_argument(
        "--generator",
        metavar="PROGRAM",
        help="an nvidia-ctk that can generate the tree's GPUs; without it the one in the PATH if"
        " it can, else a stand-in",
    )
    parser.add_argument("--keep", action="store_true", help="leave the repaired copy behind")


def run(arguments: argparse.Namespace) -> int:
    """Tell the story; exit 1 when the copy is not healed at its end."""
    started = time.monotonic()
    console = make_console()
    tree = _tree(arguments.tree)
    agent = find_agent()
    scene = read_scene(tree)
    console.print(f"A captured node, {_shown(tree)}. No GPU, cluster or root is needed.")
    tell_symptom(console, scene)
    tell_chain(console, scene)
    tell_cause(console, scene)
    chapter(console, 4, "Plan: one own file with the missing names; nobody else's file is touched")
    show_plan(console, plan_with_standin(scene.node), content=False)
    folder = Path(tempfile.mkdtemp(prefix="gpucdi-demo-"))
    try:
        choice = choose_generator(scene.missing, scene.kind, arguments.generator, folder)
        run = run_agent(agent, copy_tree(tree, folder), choice)
        tell_repair(console, choice, run)
        healed = tell_outcome(console, scene, read_scene(folder / NODE).registry)
    finally:
        if not arguments.keep:
            shutil.rmtree(folder, ignore_errors=True)
    kept = f"The repaired copy is in {folder / NODE}." if arguments.keep else "The copy is gone."
    console.print(f"\n{time.monotonic() - started:.1f} s. {kept}")
    shown = _shown(tree)
    console.print(
        f"Other ways out, and what else they touch: gpucdi explain {shown}/pod.yaml --root {shown}"
    )
    return EXIT_FINE if healed else EXIT_PROBLEM


def _tree(given: str | None) -> Path:
    if given is None and not _CHECKOUT.is_dir():
        raise CliError(
            "the captured node of the incident is not installed with the program",
            "run `make demo` in a checkout, or give one: gpucdi demo --tree DIR",
        )
    path = Path(given) if given is not None else _CHECKOUT
    if not (path / CAPTURE_NAME).is_file():
        # A live root would be copied whole; only what was captured on purpose is.
        raise CliError(f"{path} is no captured node: it has no {CAPTURE_NAME}")
    return path.resolve()


def _shown(tree: Path) -> str:
    here = Path.cwd()
    return str(tree.relative_to(here)) if tree.is_relative_to(here) else str(tree)


def read_scene(tree: Path) -> Scene:
    """Look at a captured node and its failing Pod; raise :class:`CliError` when they do not fit."""
    node, pod = look(checked(HostTree(tree), str(tree))), read_failing_pod(tree)
    handlers = [engine.handler(pod.handler) for engine in node.observation.engines]
    for runtime in node.observation.runtimes:
        reader = reader_of(node.observation, runtime)
        if runtime.handler in handlers and reader is not None:
            return Scene(node, pod, runtime, reader.registry)
    raise CliError(
        f"no engine of the node has a handler {pod.handler!r} that reads spec files",
        "see what it has with: gpucdi inspect --root TREE",
    )
