"""Go's way of writing strings in error texts.

Owns: ``%q`` and ``%c``. Must not know: which texts they stand in.

A Go string is bytes. Here it is a :class:`str` in which a byte that is not UTF-8 is a lone
surrogate, as Python's ``surrogateescape`` writes it.
"""

from __future__ import annotations

_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    '"': '\\"',
    "\\": "\\\\",
}
_DELETE = 0x7F
_LAST_OF_PLANE_0 = 0xFFFF
_BYTES = range(0xDC80, 0xDD00)
_SURROGATES = range(0xD800, 0xE000)
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def quote(text: str) -> str:
    """Return ``text`` as ``fmt.Sprintf("%q", text)`` would (``strconv.Quote``)."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(map(_quoted, text)) + '"'


def _quoted(character: str) -> str:
    escape = _ESCAPES.get(character)
    if escape is not None:
        return escape
    code = ord(character)
    if code in _BYTES:
        return f"\\x{code - 0xDC00:02x}"
    if code in _SURROGATES:
        return "\\ufffd"
    if character.isprintable():
        return character
    if code < ord(" ") or code == _DELETE:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= _LAST_OF_PLANE_0 else f"\\U{code:08x}"


def to_bytes(text: str) -> bytes:
    """Return the bytes of the Go string ``text``; a surrogate that is no byte becomes U+FFFD."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        kept = (
            REPLACEMENT if ord(each) in _SURROGATES and ord(each) not in _BYTES else each
            for each in text
        )
        return "".join(kept).encode("utf-8", "surrogateescape")


def from_bytes(raw: bytes) -> str:
    """Return the Go string made of ``raw``."""
    return raw.decode("utf-8", "surrogateescape")


def runes(raw: bytes) -> str:
    """Return what Go's ``range`` over the string ``raw`` yields: each bad byte is U+FFFD."""
    return "".join(
        REPLACEMENT if ord(character) in _SURROGATES else character for character in from_bytes(raw)
    )


def printable(text: str) -> str:
    """Return ``text`` fit for UTF-8: a byte that is no text becomes U+FFFD, as in Go's JSON."""
    if text.isascii():
        return text
    return "".join(REPLACEMENT if ord(each) in _SURROGATES else each for each in text)
