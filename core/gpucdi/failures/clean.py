r"""Texts as people paste them, made readable again. Owns escapes, wraps and decoration.

Two readings of one text exist, because a line break may stand for a space (folded YAML, mail) or
for nothing (a terminal that wraps at its edge): :func:`readings` gives both, the likelier first.
In a reading, a line break is ``\n``, a run of blanks two spaces, a plain blank one space. Must not
know what the text means.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

# Longer texts are logs; the failure is near the last of these words, else near the end.
TEXT_LIMIT = 1_000_000
_SIGNS = ("CDI device", "OCI runtime", "nvidia-c", "CDI spec", "CDI Spec")
# A message inside JSON inside a log line is escaped twice.
UNESCAPE_PASSES = 3

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_INVISIBLE = re.compile("[\u200b\u200c\u200d\u2060\ufeff\u00ad]")
# PyYAML breaks a double-quoted scalar with a backslash and starts the next line with another.
_YAML_BREAK = re.compile(r"\\\r?\n[ \t]*(?:\\(?=[ \t]))?")
_QUOTE_MARK = re.compile(r"^[ \t]*>[ \t]?", re.MULTILINE)
_MARKDOWN_LINK = re.compile(r"\[([^\[\]\n]{1,300})\]\(\s*<?(?:https?|mailto):[^()\s]*>?\s*\)")
_ESCAPE = re.compile(r'\\(u[0-9a-fA-F]{4}|[nrt"\'\\/=])')
_BLANKS = re.compile(r"[^\S\n]{2,}|[^\S\n]")
# Blank runs are short by then, which keeps this linear.
_BREAK = re.compile(r"[^\S\n]*\n\s*")
_SIMPLE = {"n": "\n", "r": "\n", "t": "  "}


def readings(text: str) -> Iterator[str]:
    """Yield the readings of ``text``, the likelier first; never raises, may yield one twice."""
    soft = _spaced(_undecorated(_window(text)))
    yield soft
    yield re.sub(r"\n|  ", "", soft)


def _window(text: str) -> str:
    if len(text) <= TEXT_LIMIT:
        return text
    last = max(text.rfind(sign) for sign in _SIGNS)
    if last < 0:
        return text[-TEXT_LIMIT:]
    start = max(0, last - TEXT_LIMIT // 2)
    return text[start : start + TEXT_LIMIT]


def flat(text: str) -> str:
    """Return ``text`` in one line with single blanks."""
    return " ".join(text.split())


def _undecorated(text: str) -> str:
    text = _INVISIBLE.sub("", _ANSI.sub("", text))
    text = _QUOTE_MARK.sub("", _YAML_BREAK.sub("", text))
    for _ in range(UNESCAPE_PASSES):
        unescaped = _ESCAPE.sub(_unescape, text)
        if unescaped == text:
            break
        text = unescaped
    if "&" in text:
        text = html.unescape(text)
    return _MARKDOWN_LINK.sub(r"\1", text).replace("**", "")


def _unescape(found: re.Match[str]) -> str:
    code = found.group(1)
    if code.startswith("u"):
        return chr(int(code[1:], 16))
    return _SIMPLE.get(code, code)


def _spaced(text: str) -> str:
    text = _BLANKS.sub(lambda run: "  " if len(run.group()) > 1 else " ", text)
    return _BREAK.sub("\n", text)
