"""``gpucdi inspect``: a captured node as it is, nothing asked for.

Owns: the command. Must not know: how anything is found out. A live node is better looked at with
``gpucdi-agent inspect`` on it, which can ask NVML and the programs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping

import yaml
from rich.console import Console

from gpucdi.api import NodeState, write_status
from gpucdi.toolkit import rows_of
from gpucdi_cli.chain import handler_chain
from gpucdi_cli.config_look import show_edits, show_settings, wanted_edits
from gpucdi_cli.console import make_console, rule
from gpucdi_cli.drawing import (
    draw_chain,
    draw_files,
    draw_findings,
    draw_handlers,
    draw_kinds,
    state_line,
)
from gpucdi_cli.node_look import NodeLook, check_handler, look, open_tree
from gpucdi_cli.output import json_text
from gpucdi_cli.problems import EXIT_FINE, EXIT_PROBLEM, CliError

_EPILOG = """\
On a live node use gpucdi-agent inspect, which also asks NVML and the programs.

exit codes:
  0  every name that should resolve does
  1  it does not, or cannot be told
  2  the tree or the handler is not there, or the usage is wrong
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "--root",
        required=True,
        metavar="TREE",
        help="a captured node: a folder, or the archive of gpucdi-agent capture",
    )
    parser.add_argument(
        "--handler",
        metavar="NAME",
        help="draw what is behind one handler, file and line of each value",
    )
    parser.add_argument(
        "--settings",
        action="store_true",
        help="with --handler: every key of its config.toml, with the value in force and its origin",
    )
    parser.add_argument(
        "--suggest",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="with --handler: the smallest edit of its config.toml that sets mode or default-kind; "
        "shown, never applied",
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=("table", "yaml", "json"),
        default="table",
        help="table for people; yaml and json are GpuCdiStatus.status with the handler table",
    )


def run(arguments: argparse.Namespace) -> int:
    """Show the node; exit 1 when it is not resolved."""
    asks = [f for f in ("suggest", "settings") if getattr(arguments, f)]
    if asks and (arguments.handler is None or arguments.output != "table"):
        raise CliError(f"--{asks[0]} goes with --handler NAME and prints for people")
    wanted = wanted_edits(arguments.suggest)
    with open_tree(arguments.root) as host:
        node = look(host)
        check_handler(node.observation, arguments.handler)
        if arguments.output == "json":
            sys.stdout.write(json_text(as_document(node, arguments.handler)))
        elif arguments.output == "yaml":
            document = as_document(node, arguments.handler)
            sys.stdout.write(yaml.safe_dump(document, sort_keys=False))
        elif arguments.handler is not None:
            _show_behind(make_console(), node, arguments, wanted)
        else:
            show(make_console(), node)
    return EXIT_FINE if node.status.state is NodeState.RESOLVED else EXIT_PROBLEM


def _show_behind(
    console: Console, node: NodeLook, arguments: argparse.Namespace, wanted: Mapping[str, str]
) -> None:
    show_handler(console, node, arguments.handler)
    if arguments.settings:
        show_settings(console, node, arguments.handler)
    if wanted:
        show_edits(console, node, arguments.handler, wanted)


def as_document(node: NodeLook, handler: str | None = None) -> dict[str, object]:
    """Return the status with the handler table (``docs/predict.md``), for programs.

    With ``handler`` the table has the rows of that name only.
    """
    rows = [
        row
        for row in rows_of(node.observation.engines, node.observation.runtimes)
        if handler is None or row.handler.name == handler
    ]
    return {**write_status(node.status), "handlerTable": [row.as_json() for row in rows]}


def show(console: Console, node: NodeLook) -> None:
    """Print the verdict, the handlers, the kinds, their files and the findings."""
    console.print(state_line(node.status))
    console.print()
    rule(console, "handlers")
    draw_handlers(console, node.status.handlers)
    console.print()
    rule(console, "kinds")
    draw_kinds(console, node.status.kinds)
    console.print()
    rule(console, "spec files")
    draw_files(console, node.status.kinds)
    if node.status.findings:
        console.print()
        rule(console, "findings")
        draw_findings(console, node.status.findings)


def show_handler(console: Console, node: NodeLook, name: str) -> None:
    """Draw the chain behind one handler; raise :class:`CliError` when no engine has it."""
    check_handler(node.observation, name)
    chosen = [item for item in node.observation.runtimes if item.handler.name == name]
    for runtime in chosen:
        draw_chain(console, handler_chain(node.observation, runtime))
