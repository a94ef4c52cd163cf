"""Lines that a terminal broke at its edge, put together. Owns how such lines are told from others.

A terminal breaks in the middle of a word, and all lines that it broke are equally long. Must not
know what the text means.
"""

from __future__ import annotations

import re

# Below it, equal lengths say nothing.
NARROWEST_COLUMNS = 40
# Two records of a log or a table begin alike; the rest of a broken line does not.
_ALIKE_CHARACTERS = 4
# How a line begins that goes on with nothing: kinds of log lines, and what tools print.
_RECORD = re.compile(
    r"\s*(?:[EWIF]\d{4} |\d{4}[-/]\d\d[-/]\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:|<\d+>|time=|level=|[{\[]\""
    r"|\[?(?:ERROR?|WARN(?:ING)?|INFO|DEBUG?|FATAL?)\b|Warning\s|Normal\s|(?:\w+: )?Error: |docker: "
    r"|failed to )"
)
# A line that is folded at blanks is at least so long, and this often the ones at an edge outnumber it.
_FOLDED = 0.6
_OUTNUMBER = 3
# Within a word: prose breaks at none of these signs.
_TORN = re.compile(r"[-_/=]\n\w|\w\n[-_/=.]\w")


def unwrapped(text: str) -> tuple[str, bool] | None:
    """Return ``text`` without the breaks of a terminal's edge, ``None`` if it shows none.

    The second value says whether the edge is certain: several lines or a torn word show it, and few
    lines end elsewhere and go on.
    """
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    width = max(map(len, lines))
    if width < NARROWEST_COLUMNS:
        return None
    going_on = [
        number for number, line in enumerate(lines[:-1]) if _goes_on(line, lines[number + 1])
    ]
    # Who copies from a terminal may lose the blank at the edge.
    broken = {number for number in going_on if len(lines[number]) >= width - 1}
    if not broken:
        return None
    parts = (
        f"{line}{' ' * (width - len(line))}" if number in broken else f"{line}\n"
        for number, line in enumerate(lines)
    )
    return "".join(parts).removesuffix("\n"), _is_certain(lines, width, going_on)


def _is_certain(lines: list[str], width: int, going_on: list[int]) -> bool:
    full = [number for number in going_on if len(lines[number]) == width]
    torn = any(_TORN.search(f"{lines[number][-1]}\n{lines[number + 1][:2]}") for number in full)
    # Folded at blanks: its lines are nearly as long as each other.
    folded = sum(1 for number in going_on if width * _FOLDED < len(lines[number]) < width - 1)
    return (torn or len(full) > 1) and len(full) >= _OUTNUMBER * folded


def _goes_on(line: str, following: str) -> bool:
    if not following.strip() or _RECORD.match(following):
        return False
    return line[:_ALIKE_CHARACTERS] != following[:_ALIKE_CHARACTERS]
