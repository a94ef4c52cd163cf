"""Takes secrets out of configuration text without moving a line.

Owns: the patterns. Must not know: any file format for certain; a pattern too many is better than
one too few.
"""

from __future__ import annotations

import re

REPLACEMENT = "REDACTED"

_SENSITIVE_KEYS = (
    r"(?:[\w.-]*(?:passw(?:or)?d|passphrase|secret|token|credential|api[_-]?key|private[_-]?key)"
    r"[\w.-]*|auth|username)"
)
# TOML, YAML, JSON and shell assignments: the key, the sign, and the quoted or bare value.
_ASSIGNED = re.compile(
    rf"""(?P<key>["']?\b{_SENSITIVE_KEYS}["']?\s*[=:]\s*)"""
    r"""(?P<value>"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[^\s"'\[{{,#][^\s,#]*)""",
    re.IGNORECASE,
)
_USER_INFORMATION = re.compile(r"(?<=://)[^/\s\"'@]+@")
_BEARER = re.compile(r"\b(Bearer|Basic)\s+[A-Za-z0-9+/._~=-]{8,}")
_KEY_BLOCK = re.compile(
    r"(-----BEGIN [A-Z ]*PRIVATE KEY-----)(.*?)(-----END [A-Z ]*PRIVATE KEY-----)", re.DOTALL
)


def redacted(content: bytes) -> bytes:
    """Return ``content`` with secrets replaced; content that is no text comes back unchanged."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return content
    text = _KEY_BLOCK.sub(_without_key, text)
    text = _ASSIGNED.sub(_without_value, text)
    text = _USER_INFORMATION.sub(f"{REPLACEMENT}@", text)
    return _BEARER.sub(rf"\1 {REPLACEMENT}", text).encode()


def _without_value(found: re.Match[str]) -> str:
    value = found["value"]
    if value.strip("\"'").lower() in {"true", "false", ""}:
        return found[0]
    quote = value[0] if value[0] in "\"'" else ""
    return f"{found['key']}{quote}{REPLACEMENT}{quote}"


def _without_key(found: re.Match[str]) -> str:
    return found[1] + "\n" * found[2].count("\n") + found[3]
