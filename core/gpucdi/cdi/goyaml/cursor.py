"""A position in the text, tokens, and what goes wrong.

Owns: lines and columns as go-yaml counts them, the character classes. Must not know: the grammar.

Source: ``go-yaml/yaml`` v2.4.0 and ``go.yaml.in/yaml/v3`` v3.0.5, yamlprivateh.go and scannerc.go.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .reader import GoText


class Mark(NamedTuple):
    """A position; all three count from 0."""

    offset: int
    line: int
    column: int


class GoYamlError(Exception):
    """A text that go-yaml cannot parse; ``scanned`` tells scanner errors from parser errors."""

    def __init__(
        self, problem: str, mark: Mark, context_mark: Mark | None = None, *, scanned: bool
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = mark.line
        self.context_line = context_mark.line if context_mark else 0
        self.scanned = scanned


class Token:
    """A token; ``kind`` is a short name such as ``key`` or ``block-end``."""

    __slots__ = ("end", "kind", "quoted", "start", "suffix", "value")

    def __init__(
        self,
        kind: str,
        start: Mark,
        end: Mark,
        value: str = "",
        suffix: str = "",
        *,
        quoted: bool = False,
    ) -> None:
        self.kind = kind
        self.start = start
        self.end = end
        self.value = value
        self.suffix = suffix
        self.quoted = quoted


BREAK = frozenset("\r\n\x85\u2028\u2029")
BREAKZ = BREAK | {"\0"}
BLANKZ = BREAKZ | {" ", "\t"}
HEX = frozenset("0123456789abcdefABCDEF")
_ALPHA = re.compile(r"[0-9A-Za-z_-]*")
_LINE = re.compile(r"[^\r\n\x85\u2028\u2029\0]*")


class Cursor:
    """The text and a place in it; ``flow`` is the depth of brackets, ``indent`` the block's."""

    def __init__(self, source: GoText) -> None:
        self.source = source
        self.text = source.padded
        self.index = 0
        self.line = 0
        self.column = 0
        self.newlines = 0
        self.flow = 0
        self.indent = -1

    @property
    def mark(self) -> Mark:
        """The current position."""
        return Mark(self.index, self.line, self.column)

    def error(self, context_mark: Mark, problem: str) -> GoYamlError:
        """Return the scanner error for this place."""
        return GoYamlError(problem, self.mark, context_mark, scanned=True)

    def skip(self, count: int = 1) -> None:
        """Go over characters of one line; something that is not blank is among them."""
        self.index += count
        self.column += count
        self.newlines = 0
        self.source.reach(self.index)

    def skip_blank(self) -> None:
        """Go over one blank."""
        self.index += 1
        self.column += 1
        self.source.reach(self.index)

    def skip_line(self) -> str:
        """Go over a line break and return what it stands for in a scalar."""
        character = self.text[self.index]
        step = 2 if character == "\r" and self.text[self.index + 1] == "\n" else 1
        if character in BREAK:
            self.index += step
            self.line += 1
            self.column = 0
            self.newlines += 1
            self.source.reach(self.index)
            return character if character in "\u2028\u2029" else "\n"
        return ""

    def skip_blanks(self) -> None:
        """Go over blanks and tabs."""
        while self.text[self.index] in " \t":
            self.skip_blank()

    def read_alpha(self) -> str:
        """Return and go past letters, digits, ``_`` and ``-``."""
        found = _ALPHA.match(self.text, self.index)
        name = found[0] if found else ""
        if name:
            self.skip(len(name))
        return name

    def at_document_indicator(self) -> bool:
        """Tell whether ``---`` or ``...`` starts this line."""
        text, index = self.text, self.index
        return (
            self.column == 0
            and text[index : index + 3] in {"---", "..."}
            and text[index + 3] in BLANKZ
        )

    def read_line(self) -> str:
        """Return the rest of the line and go to its end."""
        found = _LINE.match(self.text, self.index)
        rest = found[0] if found else ""
        if rest:
            self.skip(len(rest))
        return rest
