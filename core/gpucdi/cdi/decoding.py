"""What both decoders share: failures, the bounds, and building the model from raw values.

Owns: the bounds on what a small text can be blown up to, the intermediate form (nested dicts by attribute, as a Go struct would hold it) and its way
into :mod:`gpucdi.cdi.model`. Must not know: either decoder's rules.
"""

from __future__ import annotations

import base64
import re
from types import MappingProxyType
from typing import cast

from .gotext import from_bytes
from .nodetypes import AliasNode, Node, OverBoundError, ScalarNode
from .schema import Scalar, Sequence, Struct, Type

Raw = dict[str, object]
"""A struct's fields by attribute; a field that was never set is absent."""

_ALIAS_FEW, _ALIAS_MANY = 400_000, 4_000_000
ALIASED_LIMIT_BYTES = 1024 * 1024
ERROR_LINES_LIMIT = 1000
ERROR_TEXT_LIMIT = 256 * 1024
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


class DecodeError(ValueError):
    """The file is not a spec; the message is what follows ``failed to unmarshal CDI Spec: ``."""


class ErrorLines:
    """The errors of one file, which the library lists one a line, however many there are.

    Raises :class:`~gpucdi.cdi.nodetypes.OverBoundError` for more than :data:`ERROR_LINES_LIMIT`
    lines or :data:`ERROR_TEXT_LIMIT` characters.
    """

    __slots__ = ("_characters", "lines")

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._characters = 0

    def add(self, line: str) -> None:
        """Keep one line."""
        self.make_room(1, len(line))
        self.lines.append(line)
        self._characters += len(line)

    def make_room(self, count: int, characters: int) -> None:
        """Raise if so many lines with so many characters altogether are too much, before any is made."""
        if len(self.lines) + count > ERROR_LINES_LIMIT:
            raise OverBoundError(f"more than {ERROR_LINES_LIMIT} errors")
        if self._characters + characters > ERROR_TEXT_LIMIT:
            raise OverBoundError(f"the text of its errors is longer than {ERROR_TEXT_LIMIT}")


class AliasGuard:
    """go-yaml's protection against aliases that contain themselves or grow without measure.

    Source: ``go-yaml/yaml`` decode.go, ``allowedAliasRatio``; the same in v2 and v3. It counts
    nodes; the text that they hold is bounded here, by :data:`ALIASED_LIMIT_BYTES`. Where a text has
    no alias, nothing need be counted, and ``counts`` is false.
    """

    __slots__ = ("_active", "_aliased", "_aliased_bytes", "_depth", "_seen", "counts")

    def __init__(self, *, counts: bool) -> None:
        self.counts = counts
        self._active: set[int] = set()
        self._seen = 0
        self._aliased = 0
        self._aliased_bytes = 0
        self._depth = 0

    def count(self, node: Node | None = None) -> None:
        """Count one decoded node."""
        self._seen += 1
        if self._depth:
            self._aliased += 1
            self.repeat(node)
            if self._aliased > 100 and self._seen > 1000:  # noqa: PLR2004 - go-yaml's numbers
                self._check_ratio()

    def _check_ratio(self) -> None:
        if self._seen <= _ALIAS_FEW:
            allowed = 0.99
        elif self._seen >= _ALIAS_MANY:
            allowed = 0.10
        else:
            allowed = 0.99 - 0.89 * (self._seen - _ALIAS_FEW) / (_ALIAS_MANY - _ALIAS_FEW)
        if self._aliased / self._seen > allowed:
            raise DecodeError("yaml: document contains excessive aliasing")

    def repeat(self, node: Node | None) -> None:
        """Count the text of a node that an alias repeats."""
        if isinstance(node, ScalarNode):
            self._aliased_bytes += len(node.value)
            if self._aliased_bytes > ALIASED_LIMIT_BYTES:
                raise OverBoundError(
                    f"aliases repeat more than {ALIASED_LIMIT_BYTES} bytes of text"
                )

    def enter(self, alias: AliasNode) -> Node:
        """Follow ``alias``; :meth:`leave` must be called when its target is decoded."""
        if id(alias) in self._active:
            raise DecodeError(f"yaml: anchor '{alias.name}' value contains itself")
        self._active.add(id(alias))
        self._depth += 1
        return alias.target

    def leave(self, alias: AliasNode) -> None:
        """Undo :meth:`enter`."""
        self._depth -= 1
        self._active.discard(id(alias))


def binary(text: str) -> str:
    """Decode a ``!!binary`` scalar as Go's base64.StdEncoding does (line breaks are skipped)."""
    compact = text.replace("\n", "").replace("\r", "")
    if not _BASE64.fullmatch(compact):
        raise DecodeError("yaml: !!binary value contains invalid base64 data")
    return from_bytes(base64.b64decode(compact))


def build(kind: Type, raw: object) -> object:
    """Turn the raw value of a field into what the model holds."""
    if isinstance(kind, Scalar):
        return raw
    if isinstance(kind, Struct):
        return _build_struct(kind, cast("Raw | None", raw))
    if raw is None:
        return None
    if isinstance(kind, Sequence):
        items = cast("list[object]", raw)
        if isinstance(kind.item, Scalar):
            return tuple(items)
        return tuple(each if each is kind.nil else build(kind.item, each) for each in items)
    return MappingProxyType(cast("dict[str, str]", raw))


def _build_struct(struct: Struct, raw: Raw | None) -> object:
    if raw is None:
        return None
    values = {}
    for each in struct.fields.values():
        value = raw.get(each.attribute)
        if value is not None:
            values[each.attribute] = build(each.type, value)
    return struct.build(**values)
