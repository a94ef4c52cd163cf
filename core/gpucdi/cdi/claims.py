"""What a spec file means to define, even when no reader accepts it.

Owns: a lenient look at a file's kind and device names, used to explain and never to decide. Must
not know: versions.
"""

from __future__ import annotations

import re

from .nodes import first_document
from .nodetypes import (
    MappingNode,
    Node,
    OverBoundError,
    ScalarNode,
    SequenceNode,
    UnreadableYamlError,
)
from .outcome import Accepted, Judgement

_TRIED_AGAIN_BYTES = 32 * 1024
# Blanks only, no line breaks: with those, a file of empty lines would take the square of its size.
_KIND_TEXT = re.compile(
    rb"""^[ \t{,]*["']?kind["']?[ \t]*:[ \t]*["']?([\w./-]+)""", re.MULTILINE | re.IGNORECASE
)


def claims_of(data: bytes, judgement: Judgement) -> tuple[str, frozenset[str] | None]:
    """Return the kind and the device names; the names are ``None`` when nobody can tell."""
    outcome = judgement.outcome
    if isinstance(outcome, Accepted):
        spec = outcome.spec
        return spec.kind, frozenset(device.name for device in spec.devices)
    root = judgement.root or _root(data)
    if root is None:
        found = _KIND_TEXT.search(data)
        return (found[1].decode("ascii", "replace") if found else ""), None
    kind = _child(root, "kind")
    devices = _child(root, "devices")
    items = devices.items if isinstance(devices, SequenceNode) else []
    names = (_child(item, "name") for item in items)
    return _text(kind), frozenset(filter(None, map(_text, names)))


def _root(data: bytes) -> Node | None:
    """Return what a newer library makes of a text; an older one may have given up sooner."""
    if len(data) > _TRIED_AGAIN_BYTES:
        return None
    try:
        return first_document(data, v3=True).root
    except (UnreadableYamlError, OverBoundError):
        return None


def _child(node: Node | None, name: str) -> Node | None:
    if not isinstance(node, MappingNode):
        return None
    return next((value for key, value in node.pairs if _text(key).lower() == name), None)


def _text(node: Node | None) -> str:
    return node.value if isinstance(node, ScalarNode) else ""
