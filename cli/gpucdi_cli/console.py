"""Where output goes and how wide it is. Owns the terminal; must not know what is printed.

Paths and names are printed in full: a cut path cannot be pasted into a shell. Lines are therefore
never wrapped or cropped by rich; a terminal wraps what is too long for it.
"""

from __future__ import annotations

import shutil
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

STATE_STYLES = {
    "Resolved": "green",
    "Drifted": "bold red",
    "Repairing": "yellow",
    "Held": "yellow",
    "Unknown": "yellow",
}
_WIDEST = 1000


class _Console(Console):
    """rich's console, but the program alone decides how it ends."""

    def on_broken_pipe(self) -> None:
        """Pass on that the reader went away; rich would exit with a code of its own."""
        raise BrokenPipeError


def make_console(file: TextIO | None = None, *, width: int | None = None) -> Console:
    """Return a console that prints text as it is: no markup, no guessing of numbers and paths."""
    return _Console(
        file=file,
        width=width or _WIDEST,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=True,
    )


def rule(console: Console, title: str) -> None:
    """Print a heading with a line behind it, as wide as the terminal but no wider than 100."""
    width = min(shutil.get_terminal_size((100, 24)).columns, 100)
    line = "─" * max(3, width - len(title) - 1)
    console.print(Text.assemble((title, "bold"), " ", (line, "dim")))


def plain_table(*columns: str) -> Table:
    """Return a table as kubectl prints them: upper-case headings, two spaces between columns."""
    table = Table(box=None, show_edge=False, pad_edge=False, padding=(0, 3, 0, 0))
    for column in columns:
        table.add_column(column.upper(), no_wrap=True, overflow="ignore")
    return table


def print_table(console: Console, table: Table) -> None:
    """Print a table without the blanks that pad its last column."""
    with console.capture() as capture:
        console.print(table)
    for line in capture.get().splitlines():
        console.print(Text.from_ansi(line.rstrip()))
