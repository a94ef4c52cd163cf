"""Tags and directives.

Owns: their characters. Must not know: what a tag means.

Source: ``go-yaml/yaml`` v2.4.0 and ``go.yaml.in/yaml/v3`` v3.0.5, scannerc.go.
"""

from __future__ import annotations

from .cursor import BLANKZ, BREAKZ, HEX, Cursor, Mark, Token

_URI = frozenset(";/?:@&=+$,.!~*'()[]%-_") | frozenset(
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)


def scan_directive(cursor: Cursor) -> Token:
    """Read a directive with its line break."""
    start = cursor.mark
    cursor.skip()
    name = cursor.read_alpha()
    if not name:
        raise cursor.error(start, "could not find expected directive name")
    if cursor.text[cursor.index] not in BLANKZ:
        raise cursor.error(start, "found unexpected non-alphabetical character")
    if name == "YAML":
        token = _version_directive(cursor, start)
    elif name == "TAG":
        token = _tag_directive(cursor, start)
    else:
        raise cursor.error(start, "found unknown directive name")
    cursor.skip_blanks()
    if cursor.text[cursor.index] == "#":
        cursor.read_line()
    if cursor.text[cursor.index] not in BREAKZ:
        raise cursor.error(start, "did not find expected comment or line break")
    cursor.skip_line()
    return token


def _version_directive(cursor: Cursor, start: Mark) -> Token:
    cursor.skip_blanks()
    major = _version_number(cursor, start)
    if cursor.text[cursor.index] != ".":
        raise cursor.error(start, "did not find expected digit or '.' character")
    cursor.skip()
    minor = _version_number(cursor, start)
    return Token("version-directive", start, cursor.mark, f"{major}.{minor}")


def _version_number(cursor: Cursor, start: Mark) -> int:
    digits = ""
    while cursor.text[cursor.index] in "0123456789":
        digits += cursor.text[cursor.index]
        if len(digits) > 2:  # noqa: PLR2004 - go-yaml's limit
            raise cursor.error(start, "found extremely long version number")
        cursor.skip()
    if not digits:
        raise cursor.error(start, "did not find expected version number")
    return int(digits)


def _tag_directive(cursor: Cursor, start: Mark) -> Token:
    cursor.skip_blanks()
    handle = _tag_handle(cursor, start, directive=True)
    if cursor.text[cursor.index] not in " \t":
        raise cursor.error(start, "did not find expected whitespace")
    cursor.skip_blanks()
    prefix = _tag_uri(cursor, "", start)
    if cursor.text[cursor.index] not in BLANKZ:
        raise cursor.error(start, "did not find expected whitespace or line break")
    return Token("tag-directive", start, cursor.mark, handle, prefix)


def scan_tag(cursor: Cursor) -> Token:
    """Read a tag; a lone ``!`` has an empty handle and itself as suffix."""
    start = cursor.mark
    if cursor.text[cursor.index + 1] == "<":
        cursor.skip(2)
        handle, suffix = "", _tag_uri(cursor, "", start)
        if cursor.text[cursor.index] != ">":
            raise cursor.error(start, "did not find the expected '>'")
        cursor.skip()
    else:
        handle = _tag_handle(cursor, start, directive=False)
        if len(handle) > 1 and handle.endswith("!"):
            suffix = _tag_uri(cursor, "", start)
        else:
            suffix = _tag_uri(cursor, handle, start)
            handle = "!"
            if not suffix:
                handle, suffix = "", "!"
    if cursor.text[cursor.index] not in BLANKZ:
        raise cursor.error(start, "did not find expected whitespace or line break")
    return Token("tag", start, cursor.mark, handle, suffix)


def _tag_handle(cursor: Cursor, start: Mark, *, directive: bool) -> str:
    if cursor.text[cursor.index] != "!":
        raise cursor.error(start, "did not find expected '!'")
    cursor.skip()
    handle = "!" + cursor.read_alpha()
    if cursor.text[cursor.index] == "!":
        cursor.skip()
        return handle + "!"
    if directive and handle != "!":
        raise cursor.error(start, "did not find expected '!'")
    return handle


def _tag_uri(cursor: Cursor, head: str, start: Mark) -> str:
    parts = [head[1:].encode()]
    found = bool(head)
    while cursor.text[cursor.index] in _URI:
        found = True
        if cursor.text[cursor.index] == "%":
            parts.append(_uri_escape(cursor, start))
        else:
            parts.append(cursor.text[cursor.index].encode())
            cursor.skip()
    if not found:
        raise cursor.error(start, "did not find expected tag URI")
    return b"".join(parts).decode("utf-8", "surrogateescape")


def _uri_escape(cursor: Cursor, start: Mark) -> bytes:
    octets = bytearray()
    width = 1
    while len(octets) < width:
        digits = cursor.text[cursor.index + 1 : cursor.index + 3]
        if cursor.text[cursor.index] != "%" or len(digits) < 2 or not set(digits) <= HEX:  # noqa: PLR2004 - two digits
            raise cursor.error(start, "did not find URI escaped octet")
        octet = int(digits, 16)
        if not octets:
            width = _utf8_width(octet)
            if not width:
                raise cursor.error(start, "found an incorrect leading UTF-8 octet")
        elif octet & 0xC0 != 0x80:  # noqa: PLR2004 - UTF-8's continuation bits
            raise cursor.error(start, "found an incorrect trailing UTF-8 octet")
        octets.append(octet)
        cursor.skip(3)
    return bytes(octets)


def _utf8_width(octet: int) -> int:
    """Return the length of the UTF-8 sequence that ``octet`` opens, 0 for none."""
    limits = ((0x80, 0x00, 1), (0xE0, 0xC0, 2), (0xF0, 0xE0, 3), (0xF8, 0xF0, 4))
    return next((width for mask, bits, width in limits if octet & mask == bits), 0)
