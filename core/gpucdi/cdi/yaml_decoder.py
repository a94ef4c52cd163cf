"""The decoder of the library from 1.1.1 on: yaml.v3 straight into the structs, known fields only.

Owns: go-yaml v3's decoding of nodes into typed fields with its texts. Must not know: what a legal
spec is.

Source: ``go.yaml.in/yaml/v3`` v3.0.5 decode.go.
"""

from __future__ import annotations

import math
from typing import cast

from .decoding import AliasGuard, DecodeError, ErrorLines, Raw, binary
from .gotext import quote, to_bytes
from .nodetypes import AliasNode, MappingNode, Node, ScalarNode, SequenceNode
from .scalars import (
    BINARY,
    HINTS,
    MAP,
    MERGE,
    NO,
    NULL,
    SEQ,
    STR,
    YES,
    TagMismatchError,
    Value,
    resolve,
)
from .schema import Basic, Scalar, Sequence, Struct, TextMap, Type

_SHOWN_BYTES = 10
_TEXT = Scalar(Basic.STRING)


class _Keep:
    """What a decoded node yields when it leaves its field alone (``good`` is false in Go)."""


_KEEP = _Keep()


def decode(root: Node | None, schema: Struct, *, aliases: bool = True) -> Raw | None:
    """Return the raw spec, or ``None`` for a null document; raise :class:`DecodeError`.

    ``aliases`` is false when the text is known to have none.
    """
    if root is None:
        raise DecodeError("EOF")
    decoder = _Decoder(aliases=aliases)
    raw = decoder.decode(root, schema, None)
    if decoder.errors.lines:
        listed = "\n  ".join(decoder.errors.lines)
        raise DecodeError(f"yaml: unmarshal errors:\n  {listed}")
    return None if raw is _KEEP else cast("Raw | None", raw)


class _Decoder:
    def __init__(self, *, aliases: bool) -> None:
        self.errors = ErrorLines()
        self.guard = AliasGuard(counts=aliases)
        self.merged: set[Value] | None = None

    def decode(self, node: Node, target: Type, old: object) -> object:
        """Return what the field holds afterwards, or ``_KEEP`` where it keeps ``old``."""
        if self.guard.counts:
            self.guard.count(node)
        kind = type(node)
        if kind is ScalarNode:
            return self._scalar(cast("ScalarNode", node), target)
        if kind is MappingNode:
            return self._mapping(cast("MappingNode", node), target, old)
        if kind is SequenceNode:
            return self._sequence(cast("SequenceNode", node), target)
        alias = cast("AliasNode", node)
        try:
            return self.decode(self.guard.enter(alias), target, old)
        finally:
            self.guard.leave(alias)

    def _scalar(self, node: ScalarNode, target: Type) -> object:
        tag = tag_of(node)
        is_text = type(target) is Scalar and target.basic is Basic.STRING
        if is_text and tag == STR:
            return node.value
        value = _resolved(node, tag)
        if value is None:
            return _null(target)
        if type(target) is not Scalar:
            return self._mismatch(node, tag, target)
        if is_text:
            return value if tag == BINARY else node.value
        found = _typed(value, target.basic)
        return self._mismatch(node, tag, target) if found is None else found

    def _mismatch(self, node: Node, tag: str, target: Type) -> _Keep:
        shown = ""
        if tag not in {SEQ, MAP}:
            text = node.value if isinstance(node, ScalarNode) else ""
            shown = f" `{_shortened(text)}`"
        # Told that a collection is null, go-yaml does not look behind the pointer.
        star = "*" if tag == NULL and getattr(target, "pointer", False) else ""
        self.errors.add(
            f"line {node.line}: cannot unmarshal {tag}{shown} into {star}{target.go_name}"
        )
        return _KEEP

    def _sequence(self, node: SequenceNode, target: Type) -> object:
        tag = node.tag or SEQ
        if type(target) is not Sequence:
            return self._mismatch(node, tag, target)
        items: list[object] = []
        for each in node.items:
            value = self.decode(each, target.item, None)
            if value is not _KEEP:
                items.append(target.nil if value is None else value)
        return items

    def _mapping(self, node: MappingNode, target: Type, old: object) -> object:
        if not self._keys_are_unique(node):
            return _KEEP
        if type(target) is Struct and not (target.pointer and node.tag == NULL):
            raw = cast("Raw", old) if isinstance(old, dict) else {}
            self._struct(node, target, raw)
            return raw
        if type(target) is TextMap:
            entries = cast("dict[str, str]", old) if isinstance(old, dict) else {}
            self._text_map(node, entries, is_new=not isinstance(old, dict))
            return entries
        return self._mismatch(node, node.tag or MAP, target)

    def _keys_are_unique(self, node: MappingNode) -> bool:
        first: dict[tuple[type[Node], str], list[Node]] = {}
        clash = False
        for key, _ in node.pairs:
            same = first.setdefault((type(key), _key_value(key)), [])
            clash = clash or bool(same)
            same.append(key)
        for (_, text), same in first.items() if clash else ():
            # Each key is told of each earlier one: the square of a small file is counted first.
            count = len(same) * (len(same) - 1) // 2
            self.errors.make_room(count, count * len(text))
            for index, earlier in enumerate(same):
                for later in same[index + 1 :]:
                    self.errors.add(
                        f"line {later.line}: mapping key {quote(text)} already defined "
                        f"at line {earlier.line}"
                    )
        return not clash

    def _struct(self, node: MappingNode, target: Struct, raw: Raw) -> None:
        merged, self.merged = self.merged, None
        merge: Node | None = None
        done: set[str] = set()
        for key, value in node.pairs:
            if is_merge(key):
                merge = value
                continue
            name = self.decode(key, _TEXT, None)
            if not isinstance(name, str):
                continue
            if merged is not None:
                if name in merged:
                    continue
                merged.add(name)
            field = target.fields.get(name)
            if field is None:
                self.errors.add(f"line {key.line}: field {name} not found in type {target.go_name}")
                continue
            if name in done:
                self.errors.add(
                    f"line {key.line}: field {name} already set in type {target.go_name}"
                )
                continue
            done.add(name)
            found = self.decode(value, field.type, raw.get(field.attribute))
            if found is not _KEEP:
                raw[field.attribute] = found
        self.merged = merged
        if merge is not None:
            self._merge(node, merge, target, raw)

    def _text_map(self, node: MappingNode, entries: dict[str, str], *, is_new: bool) -> None:
        merged, self.merged = self.merged, None
        merge: Node | None = None
        for key, value in node.pairs:
            if is_merge(key):
                merge = value
                continue
            name = self.decode(key, _TEXT, None)
            if not isinstance(name, str):
                continue
            if merged is not None:
                if name in merged:
                    continue
                merged.add(name)
            text = self.decode(value, _TEXT, None)
            if isinstance(text, str):
                entries[name] = text
            elif tag_of(value) == NULL and (is_new or name not in entries):
                entries[name] = ""
        self.merged = merged
        if merge is not None:
            self._merge(node, merge, TextMap(), entries)

    def _merge(self, parent: MappingNode, merge: Node, target: Type, into: object) -> None:
        merged = self.merged
        if merged is None:
            self.merged = {self._key(key) for key, _ in parent.pairs}
        parts = merge.items if isinstance(merge, SequenceNode) else [merge]
        for part in parts:
            aimed = part.target if isinstance(part, AliasNode) else part
            if not isinstance(aimed, MappingNode):
                raise DecodeError("yaml: map merge requires map or sequence of maps as the value")
            self.decode(part, target, into)
        self.merged = merged

    def _key(self, node: Node) -> Value:
        if self.guard.counts:
            self.guard.count()
        while isinstance(node, AliasNode):
            self.guard.count()
            node = node.target
            self.guard.repeat(node)
        if isinstance(node, ScalarNode):
            return _resolved(node, tag_of(node))
        kind = "map[string]interface {}" if isinstance(node, MappingNode) else "[]interface {}"
        raise DecodeError(f"yaml: runtime error: hash of unhashable type {kind}")


def tag_of(node: Node) -> str:
    """Return the tag that go-yaml v3 gives the node when it parses it (``Node.ShortTag``)."""
    if type(node) is ScalarNode:
        if node.tag and node.tag != "!":
            return node.tag
        if node.quoted:
            return STR
        value = node.value
        if value and value[0] not in HINTS:
            return MERGE if value == "<<" else STR
        return resolve("", value, v3=True)[0]
    if isinstance(node, AliasNode):
        return tag_of(node.target)
    return node.tag or (MAP if isinstance(node, MappingNode) else SEQ)


def is_merge(node: Node) -> bool:
    """Tell whether a key is ``<<`` without quotes or with the merge tag."""
    return type(node) is ScalarNode and node.value == "<<" and tag_of(node) == MERGE


def _resolved(node: ScalarNode, tag: str) -> Value:
    if tag == STR:
        return node.value
    if tag == BINARY:
        return binary(node.value)
    try:
        return resolve(tag, node.value, v3=True)[1]
    except TagMismatchError as error:
        raise DecodeError(f"yaml: {error}") from None


def _key_value(node: Node) -> str:
    if isinstance(node, ScalarNode):
        return node.value
    return node.name if isinstance(node, AliasNode) else ""


def _null(target: Type) -> object:
    if isinstance(target, (Sequence, TextMap)) or target.pointer:
        return None
    return _KEEP


def _typed(value: Value, basic: Basic) -> int | bool | None:
    """Return the value that go-yaml stores in a field that is no string, ``None`` for a mismatch."""
    if basic is Basic.BOOL:
        if isinstance(value, bool):
            return value
        return True if value in YES else False if value in NO else None
    if isinstance(value, (bool, str)) or value is None:
        return None
    number = value if isinstance(value, int) else _converted(value, basic)
    return number if number is not None and basic.holds(number) else None


def _converted(value: float, basic: Basic) -> int | None:
    """Convert as Go on amd64 does: towards zero, out of range to the smallest int64."""
    limit = 2.0**64 if basic.is_unsigned else 2.0**63
    if math.isnan(value) or value > limit:
        return None
    if not basic.is_unsigned:
        return int(value) if -(2.0**63) <= value < 2.0**63 else -(2**63)
    return int(value) if -1 < value < 2.0**64 else None


def _shortened(text: str) -> str:
    raw = to_bytes(text)
    if len(raw) <= _SHOWN_BYTES:
        return text
    return raw[:7].decode("utf-8", "surrogateescape") + "..."
