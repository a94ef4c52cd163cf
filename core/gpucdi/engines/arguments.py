"""Options on a running engine's command line.

Owns: reading one option. Must not know: which options an engine has.
"""

from __future__ import annotations

from gpucdi.programs import EngineProcess


def option(process: EngineProcess | None, *names: str) -> str | None:
    """Return the last value of an option in any of its spellings (``c``, ``config``).

    One and two dashes mean the same, as in Go; ``None`` when the command line has none of them or
    is not known.
    """
    arguments = (process.arguments if process is not None else None) or ()
    value = None
    for index, argument in enumerate(arguments):
        name, equals, text = argument.partition("=")
        if not name.startswith("-") or name.lstrip("-") not in names:
            continue
        if equals:
            value = text
        elif index + 1 < len(arguments):
            value = arguments[index + 1]
    return value
