"""``gpucdi nodes``: the fleet, one line a node.

Owns: the table. Must not know: how nodes are judged; it shows what the agents wrote.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from datetime import UTC, datetime

from rich.console import Console
from rich.text import Text

from gpucdi.api import Condition, NodeState, write_status
from gpucdi.api.names import CONDITION_RESOLVABLE
from gpucdi_cli.cluster import FleetNode, add_connection_arguments, fleet, with_cluster
from gpucdi_cli.console import STATE_STYLES, make_console, plain_table, print_table
from gpucdi_cli.output import json_text
from gpucdi_cli.problems import EXIT_FINE, EXIT_PROBLEM

_EPILOG = """\
exit codes:
  0  every node that reports is resolved
  1  at least one is not
  2  the cluster could not be asked, or the usage is wrong
"""

_NOBODY = (
    "no agent has reported yet; it runs on nodes that are labelled as having an NVIDIA GPU: "
    "kubectl get pods -n gpucdi-system"
)
_ALL_RESOLVED = "every node is resolved"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.epilog = _EPILOG
    add_connection_arguments(parser)
    parser.add_argument(
        "--drifted", action="store_true", help="leave out nodes on which everything resolves"
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=("table", "wide", "json"),
        default="table",
        help="wide adds near miss, driver and the handlers' modes; json is what the agents published",
    )


def run(arguments: argparse.Namespace) -> int:
    """Show the fleet; exit 1 when a node is not resolved."""
    nodes = with_cluster(arguments, fleet)
    bad = [node for node in nodes if node.status.state is not NodeState.RESOLVED]
    shown = bad if arguments.drifted else nodes
    if arguments.output == "json":
        found = [{"name": node.name, "status": write_status(node.status)} for node in shown]
        sys.stdout.write(json_text(found))
    else:
        wide = arguments.output == "wide"
        empty = _ALL_RESOLVED if nodes else _NOBODY
        show(make_console(), shown, now=datetime.now(tz=UTC), wide=wide, empty=empty)
    return EXIT_PROBLEM if bad else EXIT_FINE


def show(
    console: Console, nodes: Iterable[FleetNode], *, now: datetime, wide: bool, empty: str
) -> None:
    """Print the table; without nodes print ``empty``, what that means."""
    columns = ["name", "state", "gpus", "kinds", "missing", "cause", "repair", "since"]
    if wide:
        columns += ["near miss", "driver", "handlers"]
    table = plain_table(*columns)
    for node in nodes:
        row = _row(node, now)
        table.add_row(*row, *(_wide(node) if wide else ()))
    if not table.rows:
        console.print(empty)
        return
    print_table(console, table)


def _row(node: FleetNode, now: datetime) -> list[str | Text]:
    status = node.status
    resolved = sum(kind.is_resolved for kind in status.kinds)
    return [
        node.name,
        Text(status.state.value, style=STATE_STYLES.get(status.state.value, "")),
        str(status.gpus.count),
        f"{resolved}/{len(status.kinds)}",
        str(status.missing),
        status.cause.value if status.cause else "-",
        f"{node.intent.mode.value} (held)" if status.hold else node.intent.mode.value,
        since(status.conditions, now),
    ]


def _wide(node: FleetNode) -> list[str]:
    status = node.status
    near = next((kind.near_miss for kind in status.kinds if kind.near_miss), None)
    handlers = [
        f"{handler.name}={handler.mode or '?'}" for handler in status.handlers if handler.is_nvidia
    ]
    return [
        f"{near.kind} ({near.count})" if near else "-",
        status.gpus.driver or "-",
        ",".join(handlers) or "-",
    ]


def since(conditions: Iterable[Condition], now: datetime) -> str:
    """Return for how long the node has been as it is, in kubectl's short form (``3m``, ``41d``)."""
    times = [item.last_transition_time for item in conditions if item.type == CONDITION_RESOLVABLE]
    try:
        seconds = (now - datetime.fromisoformat(times[0])).total_seconds() if times else None
    except (ValueError, TypeError):
        return "?"
    if seconds is None:
        return "-"
    for unit, length, least in (("d", 86400, 2), ("h", 3600, 3), ("m", 60, 2)):
        if seconds >= least * length:
            return f"{int(seconds // length)}{unit}"
    return f"{max(0, int(seconds))}s"
