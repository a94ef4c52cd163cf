r"""Texts as people paste them, made readable again. Owns escapes, wraps and decoration.

Several readings of one text exist, because a line break may stand for a space (folded YAML, mail)
or for nothing (a terminal that wraps at its edge): :func:`readings` gives them, the likelier first.
In a reading, a line break is ``\n``, a run of blanks two spaces, a plain blank one space. Must not
know what the text means.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from gpucdi.failures.edges import unwrapped

# Longer texts are logs; the failure is near the last of these words, else near the end.
TEXT_LIMIT = 1_000_000
_SIGNS = ("CDI device", "OCI runtime", "nvidia-c", "CDI spec", "CDI Spec")
# A message inside JSON inside a log line is escaped twice.
UNESCAPE_PASSES = 3

# As a terminal gets it, as `cat -v` and rsyslog write it, and as JSON and shells escape it.
_ESC = r"(?:\x1b|\^\[|#033|\\{1,4}(?:x1[bB]|033|e|u001[bB]))"
_ANSI = re.compile(rf"{_ESC}\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b\n]{{0,500}}(?:\x07|\x1b\\)")
_INVISIBLE = re.compile("[\u200b\u200c\u200d\u2060\ufeff\u00ad]")
_QUOTES = str.maketrans("\u201c\u201d\u201e\u2018\u2019\u201a", "\"\"\"'''")
# PyYAML breaks a double-quoted scalar with a backslash and starts the next line with another.
_YAML_BREAK = re.compile(r"\\\r?\n[ \t]*(?:\\(?=[ \t]))?")
_QUOTE_MARK = re.compile(r"^[ \t]*(?:>[ \t]?){1,9}", re.MULTILINE)
# Rows and boxes of tables, and lines that somebody joined with bars.
_BARS = "|\u2502\u2503\u2551"
_BAR = re.compile(rf"[ \t][{_BARS}](?=[ \t])")
_BULLET = re.compile(r"[ \t]*([#*+-]|//)[ \t]")
_TAG = re.compile(
    r"</?(br|p|pre|code|td|th|tr|span|div|li|font|b|i|em|strong|kbd|mark)\b[^<>\n]{0,200}>",
    re.IGNORECASE,
)
_MARKDOWN_LINK = re.compile(r"\[([^\[\]\n]{1,300})\]\(\s*<?(?:https?|mailto):[^()\s]*>?\s*\)")
_EMPHASIS = re.compile(r"^([ \t]*)([_*]{1,3})(?=[^\s_*])(.*[^\s_*])\2[ \t]*$", re.MULTILINE)
_ESCAPE = re.compile(r"""\\(u[0-9a-fA-F]{4}|[nrt"'\\/=_`*#\[\]])""")
# A quote inside a quoted field of CSV, or inside a string that YAML or a shell put in quotes.
_DOUBLED = re.compile(r"""(?<!["'\w\\])(["'])\1(?=[^\s"',;:)\]}])([^"'\n]{1,300})\1\1(?!["'])""")
_EMPTY_DOUBLED = re.compile(r'(?<!")"{4}(?!")')
_APOSTROPHE = re.compile(r"(?<=[a-z])''(?=[a-z])")
_SHELL_QUOTE = re.compile(r"'\\''")
_BLANKS = re.compile(r"[^\S\n]{2,}|[^\S\n]")
# Blank runs are short by then, which keeps this linear.
_BREAK = re.compile(r"[^\S\n]*\n\s*")
_SIMPLE = {"n": "\n", "r": "\n", "t": "  "}


def readings(text: str) -> Iterator[str]:
    """Yield the readings of ``text``, the likelier first; never raises, may yield one twice."""
    plain = _plain(_window(text))
    soft = _spaced(_undecorated(plain))
    found = unwrapped(plain)
    if found is None:
        yield soft
    else:
        at_the_edge, certain = found
        hard = _spaced(_undecorated(at_the_edge))
        yield from (hard, soft) if certain else (soft, hard)
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


def _plain(text: str) -> str:
    """Take away what stands around the lines, which leaves each as long as it was printed."""
    text = _INVISIBLE.sub("", _ANSI.sub("", text.replace("\r\n", "\n")))
    text = _QUOTE_MARK.sub("", _YAML_BREAK.sub("", text))
    if any(bar in text for bar in _BARS):
        text = _BAR.sub("\n", "\n".join(map(_without_edges, text.split("\n"))))
    return _without_bullets(text)


def _without_edges(line: str) -> str:
    row = line.strip()
    if len(row) > 1 and row[0] in _BARS and row[-1] in _BARS:
        return row[1:-1].removeprefix(" ").rstrip()
    return line


def _without_bullets(text: str) -> str:
    """Take away the sign that begins every line of a comment, a list or a diff."""
    lines = text.split("\n")
    marks = [_BULLET.match(line) for line in lines if line.strip()]
    if len({mark[1] if mark else "" for mark in marks}) != 1 or not all(marks):
        return text
    return "\n".join(_BULLET.sub("", line, count=1) for line in lines)


def _undecorated(text: str) -> str:
    text = _SHELL_QUOTE.sub("'", text)
    for _ in range(UNESCAPE_PASSES):
        unescaped = _ESCAPE.sub(_unescape, text)
        if unescaped == text:
            break
        text = unescaped
    for _ in range(UNESCAPE_PASSES):
        if "&" in text:
            text = html.unescape(text)
    text = _TAG.sub(lambda tag: "\n" if tag[1].lower() in {"br", "p", "tr"} else "", text)
    text = _EMPTY_DOUBLED.sub('""', text.translate(_QUOTES))
    text = _APOSTROPHE.sub("'", _DOUBLED.sub(r"\1\2\1", text))
    return _EMPHASIS.sub(r"\1\3", _MARKDOWN_LINK.sub(r"\1", text).replace("**", ""))


def _unescape(found: re.Match[str]) -> str:
    code = found.group(1)
    if code.startswith("u"):
        return chr(int(code[1:], 16))
    return _SIMPLE.get(code, code)


def _spaced(text: str) -> str:
    text = _BLANKS.sub(lambda run: "  " if len(run.group()) > 1 else " ", text)
    return _BREAK.sub("\n", text)
