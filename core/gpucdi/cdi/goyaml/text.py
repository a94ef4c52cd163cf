"""Scalars: plain, quoted and block, with folding and escapes.

Owns: their characters. Must not know: tokens around them.

Source: ``go-yaml/yaml`` v2.4.0 and ``go.yaml.in/yaml/v3`` v3.0.5, scannerc.go.
"""

from __future__ import annotations

import re

from .cursor import BLANKZ, BREAK, BREAKZ, HEX, Cursor, Mark, Token

_BLOCK_RUN = re.compile(r"(?:[^ \t\r\n\x85\u2028\u2029\0:]|:(?![ \t\r\n\x85\u2028\u2029\0]))+")
_FLOW_RUN = re.compile(
    r"(?:[^ \t\r\n\x85\u2028\u2029\0:,?\[\]{}]|:(?![ \t\r\n\x85\u2028\u2029\0]))+"
)
_SINGLE_RUN = re.compile(r"[^ \t\r\n\x85\u2028\u2029\0']+")
_DOUBLE_RUN = re.compile(r'[^ \t\r\n\x85\u2028\u2029\0"\\]+')
_ESCAPES = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f",
    "r": "\r", "e": "\x1b", " ": " ", '"': '"', "'": "'", "\\": "\\", "N": "\x85", "_": "\xa0",
    "L": "\u2028", "P": "\u2029",
}  # fmt: skip
_CODE_LENGTHS = {"x": 2, "u": 4, "U": 8}
_LAST_CODE_POINT = 0x10FFFF


def _block_header(cursor: Cursor, start: Mark) -> tuple[str, int]:
    chomping, increment = "", 0
    for _ in range(2):
        character = cursor.text[cursor.index]
        if character in "+-" and not chomping:
            chomping = character
        elif character in "0123456789" and not increment:
            if character == "0":
                raise cursor.error(start, "found an indentation indicator equal to 0")
            increment = int(character)
        else:
            break
        cursor.skip()
    return chomping, increment


def scan_block(cursor: Cursor, *, literal: bool) -> Token:
    """Read a literal or folded scalar from its indicator on."""
    start = cursor.mark
    cursor.skip()
    chomping, increment = _block_header(cursor, start)
    cursor.skip_blanks()
    if cursor.text[cursor.index] == "#":
        cursor.read_line()
    if cursor.text[cursor.index] not in BREAKZ:
        raise cursor.error(start, "did not find expected comment or line break")
    cursor.skip_line()
    indent = (max(cursor.indent, 0) + increment) if increment else 0
    indent, trailing = _block_breaks(cursor, indent, start)
    parts: list[str] = []
    leading, leading_blank = "", False
    while cursor.column == indent and cursor.text[cursor.index] != "\0":
        blank = cursor.text[cursor.index] in " \t"
        if not literal and not leading_blank and not blank and leading.startswith("\n"):
            if not trailing:
                parts.append(" ")
        else:
            parts.append(leading)
        parts.append(trailing)
        leading_blank = blank
        parts.append(cursor.read_line())
        leading = cursor.skip_line()
        indent, trailing = _block_breaks(cursor, indent, start)
    if chomping != "-":
        parts.append(leading)
    if chomping == "+":
        parts.append(trailing)
    return Token("scalar", start, cursor.mark, "".join(parts), quoted=True)


def _block_breaks(cursor: Cursor, indent: int, start: Mark) -> tuple[int, str]:
    deepest = 0
    breaks: list[str] = []
    while True:
        while (not indent or cursor.column < indent) and cursor.text[cursor.index] == " ":
            cursor.skip_blank()
        deepest = max(deepest, cursor.column)
        if (not indent or cursor.column < indent) and cursor.text[cursor.index] == "\t":
            raise cursor.error(
                start, "found a tab character where an indentation space is expected"
            )
        if cursor.text[cursor.index] not in BREAK:
            break
        breaks.append(cursor.skip_line())
    return indent or max(deepest, cursor.indent + 1, 1), "".join(breaks)


def scan_quoted(cursor: Cursor, quote: str) -> Token:
    """Read a scalar in single or double quotes from the first of them on."""
    start = cursor.mark
    cursor.skip()
    parts: list[str] = []
    while True:
        if cursor.at_document_indicator():
            raise cursor.error(start, "found unexpected document indicator")
        if cursor.text[cursor.index] == "\0":
            raise cursor.error(start, "found unexpected end of stream")
        escaped_break = _quoted_run(cursor, quote, parts, start)
        if cursor.text[cursor.index] == quote:
            break
        parts.append(_fold(cursor, joined=escaped_break))
    cursor.skip()
    return Token("scalar", start, cursor.mark, "".join(parts), quoted=True)


def _quoted_run(cursor: Cursor, quote: str, parts: list[str], start: Mark) -> bool:
    """Read up to the next blank, break or closing quote; tell whether a break was escaped."""
    run = _SINGLE_RUN if quote == "'" else _DOUBLE_RUN
    while cursor.text[cursor.index] not in BLANKZ:
        found = run.match(cursor.text, cursor.index)
        if found:
            parts.append(found[0])
            cursor.skip(len(found[0]))
        elif quote == "'":
            if cursor.text[cursor.index + 1] != "'":
                return False
            parts.append("'")
            cursor.skip(2)
        elif cursor.text[cursor.index] == '"':
            return False
        elif cursor.text[cursor.index + 1] in BREAK:
            cursor.skip()
            cursor.skip_line()
            return True
        else:
            parts.append(_escape(cursor, start))
    return False


def _escape(cursor: Cursor, start: Mark) -> str:
    code = cursor.text[cursor.index + 1]
    length = _CODE_LENGTHS.get(code)
    if length is None:
        if code not in _ESCAPES:
            raise cursor.error(start, "found unknown escape character")
        cursor.skip(2)
        return _ESCAPES[code]
    cursor.skip(2)
    digits = cursor.text[cursor.index : cursor.index + length]
    if len(digits) < length or not set(digits) <= HEX:
        raise cursor.error(start, "did not find expected hexdecimal number")
    value = int(digits, 16)
    if 0xD800 <= value <= 0xDFFF or value > _LAST_CODE_POINT:  # noqa: PLR2004 - surrogates
        raise cursor.error(start, "found invalid Unicode character escape code")
    cursor.skip(length)
    return chr(value)


def _fold(cursor: Cursor, *, joined: bool) -> str:
    """Read blanks and breaks inside a quoted scalar and return what they stand for."""
    blanks, leading, trailing = "", "", ""
    broken = joined
    while True:
        character = cursor.text[cursor.index]
        if character in " \t":
            if not broken:
                blanks += character
            cursor.skip_blank()
        elif character in BREAK:
            if broken:
                trailing += cursor.skip_line()
            else:
                blanks, leading, broken = "", cursor.skip_line(), True
        else:
            break
    if not broken:
        return blanks
    return _folded(leading, trailing)


def scan_plain(cursor: Cursor) -> tuple[Token, bool]:
    """Read a plain scalar; tell whether it ended behind a line break."""
    parts: list[str] = []
    indent = cursor.indent + 1
    start = end = cursor.mark
    run = _FLOW_RUN if cursor.flow else _BLOCK_RUN
    between, broken = "", False
    while not cursor.at_document_indicator() and cursor.text[cursor.index] != "#":
        found = run.match(cursor.text, cursor.index)
        if found:
            parts += [between, found[0]]
            between, broken = "", False
            cursor.skip(len(found[0]))
            end = cursor.mark
        if cursor.text[cursor.index] not in " \t" and cursor.text[cursor.index] not in BREAK:
            break
        between, broken = _plain_space(cursor, start, indent)
        if not cursor.flow and cursor.column < indent:
            break
    return Token("scalar", start, end, "".join(parts)), broken


def _plain_space(cursor: Cursor, start: Mark, indent: int) -> tuple[str, bool]:
    blanks, leading, trailing = "", "", ""
    broken = False
    while True:
        character = cursor.text[cursor.index]
        if character in " \t":
            if broken and cursor.column < indent and character == "\t":
                raise cursor.error(start, "found a tab character that violates indentation")
            if not broken:
                blanks += character
            cursor.skip_blank()
        elif character in BREAK:
            if broken:
                trailing += cursor.skip_line()
            else:
                leading, broken = cursor.skip_line(), True
        else:
            break
    return (_folded(leading, trailing), True) if broken else (blanks, False)


def _folded(leading: str, trailing: str) -> str:
    if leading.startswith("\n"):
        return trailing or " "
    return leading + trailing
