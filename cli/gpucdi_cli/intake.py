"""What was given as a file or on standard input, as one text.

Owns: reading it within a bound, the encodings that people's shells write, and telling a text from
something that is none. Must not know: what the text says.
"""

from __future__ import annotations

import codecs
import sys
from pathlib import Path

from gpucdi_cli.problems import CliError

INPUT_LIMIT_BYTES = 32 * 1024 * 1024

_GZIP = b"\x1f\x8b"
_SAMPLE_BYTES = 65_536
# A log may hold a stray byte or colour codes; a program or an image holds many more.
_MOST_ODD = 0.1
_WIDE_ORDERS = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


def read_text(file: str, *, verb: str, advice: str) -> str:
    """Return the text of ``file``, ``-`` being standard input.

    ``verb`` says what is done with it (``explain``), ``advice`` how to get what is wanted.
    Raises :class:`CliError` for what cannot be read, is too long, empty, or no text. Single bytes
    that are no UTF-8 are replaced: they do not keep anybody from reading the rest.
    """
    raw = _bytes_of(file)
    shown = "standard input" if file == "-" else file
    if len(raw) > INPUT_LIMIT_BYTES:
        limit = INPUT_LIMIT_BYTES // (1024 * 1024)
        raise CliError(f"more than {limit} MiB were given", "give the part that holds the failure")
    if raw.startswith(_GZIP):
        raise CliError(
            f"{shown} is a gzip archive, nothing to {verb}",
            "a captured node goes behind --root, beside the Pod",
        )
    text = _decoded(raw)
    if not text.strip():
        raise CliError(f"there is nothing to {verb}: {shown} is empty", advice)
    if _is_binary(text):
        raise CliError(f"{shown} is binary data, nothing to {verb}", advice)
    return text


def _bytes_of(file: str) -> bytes:
    if not file:
        raise CliError("the name of the file is empty", "give a file, or - for standard input")
    try:
        if file != "-":
            with Path(file).open("rb") as opened:
                return opened.read(INPUT_LIMIT_BYTES + 1)
        # Python has no standard input at all where the shell closed it.
        return b"" if sys.stdin is None else sys.stdin.buffer.read(INPUT_LIMIT_BYTES + 1)
    except OSError as error:
        raise CliError(f"{file} cannot be read: {error.strerror}") from error


def _decoded(raw: bytes) -> str:
    """Decode UTF-8, with or without its mark, and the UTF-16 that PowerShell's ``>`` writes."""
    for mark, encoding in _WIDE_ORDERS:
        # Every other byte of an English text is zero then; two stray bytes alone mean nothing.
        if raw.startswith(mark) and raw[:_SAMPLE_BYTES].count(0) * 4 > len(raw[:_SAMPLE_BYTES]):
            return raw[len(mark) :].decode(encoding, "replace")
    return raw.decode("utf-8", "replace").removeprefix("\ufeff")


def _is_binary(text: str) -> bool:
    sample = text[:_SAMPLE_BYTES]
    odd = sum(1 for sign in sample if sign == "\ufffd" or (sign < " " and sign not in "\t\n\r\x1b"))
    return odd > _MOST_ODD * len(sample)
