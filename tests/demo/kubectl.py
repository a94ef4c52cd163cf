"""Objects of the API server as kubectl prints them.

Owns: the table that a CustomResourceDefinition's printer columns make, a Node's conditions and a
Pod's Events. Sources: kubernetes/kubernetes ``pkg/printers`` (tableprinter.go) and
``pkg/kubectl/describe/describe.go``. Must not know: what any of it means.

What differs: a message that does not fit beside its row is broken at blanks, below it.
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.text import Text

from gpucdi.api import fields
from gpucdi_cli.console import STATE_STYLES, plain_table, print_table

_WIDEST = 100
# A path or a name is never broken: it can be pasted.
_INDENTED: dict[str, Any] = {
    "initial_indent": "    ",
    "subsequent_indent": "    ",
    "break_long_words": False,
    "break_on_hyphens": False,
}
_STYLES = {"Warning": "bold red"}


def show_command(console: Console, command: str, note: str = "") -> None:
    """Print the command whose output, or the part of it that ``note`` names, follows."""
    told = (f"   # {note}", "dim") if note else ""
    console.print(Text.assemble(("$ ", "dim"), (command, "bold"), told))


def show_table(
    console: Console, definition: Mapping[str, object], items: Iterable[Mapping[str, object]]
) -> None:
    """Print custom objects by the columns that their definition names, as without ``-o wide``."""
    version = next(fields.objects(fields.mapping(definition, "spec"), "versions"))
    columns = [
        item
        for item in fields.objects(version, "additionalPrinterColumns")
        if not fields.integer(item, "priority")
    ]
    table = plain_table("name", *(fields.text(item, "name") for item in columns))
    for item in items:
        cells = [_cell(item, column) for column in columns]
        name = fields.text(fields.mapping(item, "metadata"), "name")
        table.add_row(name, *(Text(cell, style=STATE_STYLES.get(cell, "")) for cell in cells))
    print_table(console, table)


def _cell(item: Mapping[str, object], column: Mapping[str, object]) -> str:
    found: object = item
    for key in fields.text(column, "jsonPath").lstrip(".").split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    if found is None:
        return ""
    return age(str(found)) if fields.text(column, "type") == "date" else str(found)


def age(time: str) -> str:
    """Return how long ago a time of the API was, as kubectl writes the first two minutes."""
    return f"{max(0, int((datetime.now(UTC) - datetime.fromisoformat(time)).total_seconds()))}s"


def show_conditions(console: Console, node: Mapping[str, object]) -> None:
    """Print the conditions of a Node."""
    rows = [
        [*(fields.text(item, name) for name in ("type", "status", "reason")), _message(item)]
        for item in fields.objects(fields.mapping(node, "status"), "conditions")
    ]
    _show_rows(console, ["Type", "Status", "Reason", "Message"], rows)


def show_events(console: Console, events: Iterable[Mapping[str, object]]) -> None:
    """Print Events of core/v1, the oldest first."""
    rows = []
    for event in in_order(events):
        source = fields.text(fields.mapping(event, "source"), "component")
        seen = age(_moment(event)).ljust(5)
        who = source or fields.text(event, "reportingComponent")
        what = [fields.text(event, name) for name in ("type", "reason")]
        rows.append([*what, seen, who, _message(event)])
    _show_rows(console, ["Type", "Reason", "Age", "From", "Message"], rows)


def in_order(events: Iterable[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """Return Events by the time they were last seen."""
    return sorted(events, key=_moment)


def _moment(event: Mapping[str, object]) -> str:
    # Whole seconds from kubelet, microseconds from us: of one second, kubelet's comes first.
    moment = fields.text(event, "lastTimestamp") or fields.text(event, "eventTime")
    return moment.replace("Z", ".000000Z") if "." not in moment else moment


def _message(source: Mapping[str, object]) -> str:
    return fields.text(source, "message")


def _show_rows(console: Console, head: list[str], rows: list[list[str]]) -> None:
    """Print rows whose last cell is a text: beside them where it fits, else below."""
    widths = [max(len(row[at]) for row in [head, *rows]) + 2 for at in range(len(head) - 1)]
    page = min(shutil.get_terminal_size((_WIDEST, 24)).columns, _WIDEST)
    line = "".join(cell.ljust(width) for cell, width in zip(head, widths, strict=False))
    console.print(Text(f"  {line}{head[-1]}", style="dim"))
    for row in rows:
        cells = [
            (cell.ljust(width), _STYLES.get(cell, ""))
            for cell, width in zip(row, widths, strict=False)
        ]
        fits = 2 + sum(widths) + len(row[-1]) <= page
        above = Text.assemble("  ", *cells, row[-1] if fits else "")
        above.rstrip()
        console.print(above)
        if not fits:
            console.print(textwrap.fill(row[-1], page, **_INDENTED))
