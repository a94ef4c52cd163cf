"""TOML files of a host with the line of every key, so that each value can say where it came from.

Owns: reading TOML as the Go programs do (byte order mark and CRLF accepted) and finding keys'
lines. Must not know: which keys mean what, nor how engines merge files.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from gpucdi.findings import Source, Sourced, SourceKind
from gpucdi.host import HostTree

Table: TypeAlias = "dict[str, Sourced[object] | Table]"
"""A TOML table whose leaves know their file, dotted key and line; arrays are leaves."""

TOML_LIMIT_BYTES = 1024 * 1024
# Longer texts are no configuration that anybody wrote, and are not worth the memory.
_KEPT_LENGTH = 32 * 1024

_Lines: TypeAlias = "Mapping[tuple[str, ...], int]"
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_POSITION = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_QUOTES = ('"""', "'''", '"', "'")


class TomlError(Exception):
    """A file that TOML readers refuse; ``line`` counts from 1 where it is known."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line


@dataclass(frozen=True, slots=True)
class TomlDocument:
    """One parsed file: its text (no BOM, line feeds only) and its values with their places."""

    path: str
    text: str
    table: Table = field(default_factory=dict)


def read_toml(host: HostTree, path: str, *, lenient: bool = False) -> TomlDocument:
    """Read the TOML file at a host path.

    ``lenient`` takes bytes that are no UTF-8, control characters and lone carriage returns as
    go-toml 1.9 does. Raises :class:`TomlError` for content that is no TOML and :class:`OSError` for a file that
    cannot be read, missing ones included.
    """
    return parse_toml(host.read(path, TOML_LIMIT_BYTES), path, lenient=lenient)


def parse_toml(content: bytes, path: str, *, lenient: bool = False) -> TomlDocument:
    """Parse TOML ``content``; ``path`` is only what its values name as their file."""
    try:
        text = content.decode("utf-8-sig", "replace" if lenient else "strict")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise TomlError("is not valid UTF-8", line) from None
    text = text.replace("\r\n", "\n")
    if lenient:
        text = _CONTROL.sub("\ufffd", text.replace("\r", "\n"))
    try:
        values, lines = _recent(text) if len(text) <= _KEPT_LENGTH else _understood(text)
    except tomllib.TOMLDecodeError as error:
        found = _POSITION.search(str(error))
        place = None if found is None else int(found[1] or text.count("\n") + 1)
        raise TomlError(_POSITION.sub("", str(error)), place) from None
    except RecursionError:
        raise TomlError("is nested too deeply") from None
    return TomlDocument(path, text, _with_sources(values, path, (), lines))


def _understood(text: str) -> tuple[Mapping[str, object], _Lines]:
    """Return the values of a text and the line of each key's first mention; nobody changes them."""
    return tomllib.loads(text), dict(reversed(list(_key_lines(text))))


# The handlers of a node share a few files, and most looks at them find what the last one found.
_recent = functools.lru_cache(maxsize=16)(_understood)


def dotted(key: tuple[str, ...]) -> str:
    """Write a key path as TOML does, parts quoted where a bare key will not do."""
    return ".".join(part if _BARE.fullmatch(part) else f'"{part}"' for part in key)


def _with_sources(
    values: Mapping[str, object],
    path: str,
    above: tuple[str, ...],
    lines: _Lines,
) -> Table:
    table: Table = {}
    for name, value in values.items():
        key = (*above, name)
        if isinstance(value, dict):
            table[name] = _with_sources(value, path, key, lines)
        else:
            # A key inside an inline table has no line of its own; its nearest ancestor does.
            line = next(
                (lines[key[:end]] for end in range(len(key), 0, -1) if key[:end] in lines), None
            )
            table[name] = Sourced(value, Source(SourceKind.FILE, path, dotted(key), line))
    return table


def _key_lines(text: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield ``(key path, line)`` for every table header and assignment of a *valid* document."""
    position, line = 0, 1
    header: tuple[str, ...] = ()
    while position < len(text):
        character = text[position]
        if character in " \t\n":
            line += character == "\n"
            position += 1
        elif character == "#":
            position = _line_end(text, position)
        elif character == "[":
            start = position + (2 if text.startswith("[[", position) else 1)
            header, position = _read_key(text, start)
            yield header, line
            position = _line_end(text, position)
        else:
            key, position = _read_key(text, position)
            yield header + key, line
            end = _value_end(text, position)
            line += text.count("\n", position, end)
            position = end


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end


def _read_key(text: str, position: int) -> tuple[tuple[str, ...], int]:
    """Read a possibly dotted, possibly quoted key up to ``=`` or ``]``."""
    parts: list[str] = []
    while position < len(text) and text[position] not in "=]\n":
        if text[position] in " \t.":
            position += 1
        elif text[position] in "\"'":
            end = _string_end(text, position)
            parts.append(str(tomllib.loads(f"k = {text[position:end]}")["k"]))
            position = end
        else:
            bare = _BARE.match(text, position)
            if bare is None:
                return tuple(parts), position + 1
            parts.append(bare[0])
            position = bare.end()
    return tuple(parts), position


def _string_end(text: str, position: int) -> int:
    quote = next(quote for quote in _QUOTES if text.startswith(quote, position))
    position += len(quote)
    while position < len(text) and not text.startswith(quote, position):
        position += 2 if quote[0] == '"' and text[position] == "\\" else 1
    position += len(quote)
    # Up to two quotes may stand directly before the closing three.
    while len(quote) > 1 and text.startswith(quote[0], position):
        position += 1
    return position


def _value_end(text: str, position: int) -> int:
    """Return the end of the line on which the value at ``position`` ends."""
    depth = 0
    while position < len(text):
        character = text[position]
        if character in "\"'":
            position = _string_end(text, position)
            continue
        if character == "#":
            position = _line_end(text, position)
            continue
        if character == "\n" and depth == 0:
            return position
        depth += (character in "[{") - (character in "]}")
        position += 1
    return position
