"""go-yaml's reader: bytes to characters, and the point at which a bad byte is noticed.

Owns: encodings, the characters that YAML allows, the reader's texts. Must not know: tokens.

Source: ``go-yaml/yaml`` readerc.go. It decodes 512 bytes at a time, so that a bad byte hides
whatever is wrong in the same piece of text before it.
"""

from __future__ import annotations

import re

_CHUNK_BYTES = 512
_ILLEGAL = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_PADDING = "\0" * 12
_BOM = "\ufeff"


class GoReaderError(Exception):
    """A byte sequence that is no text to go-yaml; the message is its problem."""


class GoText:
    """The decoded text; ``padded`` ends in NULs, ``keeps_bom`` tells of a second byte order mark.

    go-yaml looks for a byte order mark at the start of its buffer wherever it stands itself, so
    that a file with two of them loses the first character of every line.
    """

    __slots__ = ("_error", "_limit", "keeps_bom", "padded")

    def __init__(self, data: bytes) -> None:
        text, self._error, self._limit = _decode(data)
        self.padded = text + _PADDING
        self.keeps_bom = text.startswith(_BOM)
        self.reach(0)

    def reach(self, index: int) -> None:
        """Raise :class:`GoReaderError` when the scanner at ``index`` makes the reader go on."""
        if self._error and index + 1 > self._limit:
            raise GoReaderError(self._error)


_BOMS = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"), (b"\xef\xbb\xbf", "utf-8"))


def _decode(data: bytes) -> tuple[str, str, int]:
    """Return the text, what is wrong behind it, and how many characters can be had before that."""
    bom, encoding = next((each for each in _BOMS if data.startswith(each[0])), (b"", "utf-8"))
    data = data[len(bom) :]
    error, bad_at = "", len(data)
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as problem:
        bad_at = problem.start
        text = data[:bad_at].decode(encoding)
        rest = data[bad_at:]
        error = (
            _utf8_problem(rest)
            if encoding == "utf-8"
            else _utf16_problem(rest, big=encoding.endswith("be"))
        )
    illegal = _ILLEGAL.search(text)
    if illegal:
        text = text[: illegal.start()]
        error, bad_at = "control characters are not allowed", len(text.encode(encoding))
    if not error or error.startswith("incomplete"):
        # Half a character at the end is only noticed when the reader asks for more.
        return text, error, len(text)
    seen = bad_at + len(bom)
    chunk = max(seen - seen % _CHUNK_BYTES - len(bom), 0)
    return text, error, len(data[:chunk].decode(encoding, "ignore"))


def _utf8_problem(data: bytes) -> str:
    first = data[0]
    width = 2 if first & 0xE0 == 0xC0 else 3 if first & 0xF0 == 0xE0 else 4  # noqa: PLR2004 - UTF-8
    if first & 0xC0 == 0x80 or first >= 0xF8:  # noqa: PLR2004 - UTF-8
        return "invalid leading UTF-8 octet"
    if len(data) < width:
        return "incomplete UTF-8 octet sequence"
    if any(octet & 0xC0 != 0x80 for octet in data[1:width]):  # noqa: PLR2004 - UTF-8
        return "invalid trailing UTF-8 octet"
    value = first & (0xFF >> (width + 1))
    for octet in data[1:width]:
        value = value << 6 | octet & 0x3F
    shortest = {2: 0x80, 3: 0x800, 4: 0x10000}[width]
    return "invalid length of a UTF-8 sequence" if value < shortest else "invalid Unicode character"


def _utf16_problem(data: bytes, *, big: bool) -> str:
    if len(data) < 2:  # noqa: PLR2004 - one unit
        return "incomplete UTF-16 character"
    unit = int.from_bytes(data[:2], "big" if big else "little")
    if unit & 0xFC00 == 0xDC00:  # noqa: PLR2004 - a low surrogate
        return "unexpected low surrogate area"
    if len(data) < 4:  # noqa: PLR2004 - two units
        return "incomplete UTF-16 surrogate pair"
    return "expected low surrogate area"
