"""The decoder of the library up to 1.1.0: YAML to JSON, and JSON strictly into the structs.

Owns: go-yaml v2's generic decoding in strict mode and sigs.k8s.io/yaml's conversion guided by the
target. Must not know: what a legal spec is, nor how JSON fills a struct (``json_filling``).

Sources: ``kubernetes-sigs/yaml`` yaml.go (v1.3.0 up to 0.8.1, v1.4.0 since 1.0.0), ``go-yaml/yaml``
v2 decode.go, Go encoding/json (texts of toolchains up to 1.26).
"""

from __future__ import annotations

import math
from typing import cast

from .decoding import AliasGuard, DecodeError, ErrorLines, Raw, binary
from .gotext import quote
from .json_filling import Filler, Json
from .nodetypes import AliasNode, MappingNode, Node, ScalarNode, SequenceNode
from .scalars import (
    BINARY,
    HINTS,
    MERGE,
    TagMismatchError,
    Value,
    float32_text,
    float64_text,
    resolve,
)
from .schema import Basic, Scalar, Sequence, Struct, TextMap, Type

_INT64_LIMIT = 2**63


def decode(
    root: Node | None, schema: Struct, *, capital_unsupported: bool, aliases: bool = True
) -> Raw | None:
    """Return the raw spec, or ``None`` for a null document; raise :class:`DecodeError`.

    ``capital_unsupported`` picks the spelling of sigs.k8s.io/yaml before 1.4.0; ``aliases`` is false
    when the text is known to have none.
    """
    if root is None:
        return None
    converter = _Converter(capital_unsupported=capital_unsupported, aliases=aliases)
    try:
        value = converter.value(root, schema)
        converter.check(value)
    except DecodeError as error:
        raise DecodeError(f"error converting YAML to JSON: {error}") from None
    filler = Filler()
    raw = filler.fill(value, schema, None)
    if filler.error is not None:
        raise DecodeError(f"error unmarshaling JSON: while decoding JSON: {filler.error}")
    return cast("Raw | None", raw)


class _Converter:
    """Nodes to JSON values; scalars become text where the target field is a string."""

    def __init__(self, *, capital_unsupported: bool, aliases: bool) -> None:
        self.duplicates = ErrorLines()
        self.unsupported_key: str | None = None
        self.has_unsupported_value = False
        self.guard = AliasGuard(counts=aliases)
        self.word = "Unsupported" if capital_unsupported else "unsupported"

    def check(self, value: Json) -> None:
        """Raise what went wrong on the way to ``value``, in the order in which the three steps would have met it."""
        if self.duplicates.lines:
            listed = "\n  ".join(self.duplicates.lines)
            problem = f"yaml: unmarshal errors:\n  {listed}"
        elif self.unsupported_key is not None:
            problem = self.unsupported_key
        elif self.has_unsupported_value:
            problem = f"json: unsupported value: {_first_unsupported(value)}"
        else:
            return
        raise DecodeError(problem)

    def value(self, node: Node, target: Type | None) -> Json:
        if self.guard.counts:
            self.guard.count(node)
        kind = type(node)
        if kind is ScalarNode:
            return self._scalar(cast("ScalarNode", node), target)
        if kind is MappingNode:
            mapping: dict[str, Json] = {}
            self._mapping(cast("MappingNode", node), target, mapping, set())
            return mapping
        if kind is SequenceNode:
            item = target.item if type(target) is Sequence else None
            return [self.value(each, item) for each in cast("SequenceNode", node).items]
        alias = cast("AliasNode", node)
        try:
            return self.value(self.guard.enter(alias), target)
        finally:
            self.guard.leave(alias)

    def _scalar(self, node: ScalarNode, target: Type | None) -> Json:
        value = _generic(node)
        if type(value) is str or value is None:
            return value
        if type(target) is Scalar and target.basic is Basic.STRING:
            return _key_text(value)
        if isinstance(value, float) and not math.isfinite(value):
            self.has_unsupported_value = True
        return value

    def _mapping(
        self,
        node: MappingNode,
        target: Type | None,
        into: dict[str, Json],
        seen: set[tuple[str, Value]],
    ) -> None:
        for key_node, value_node in node.pairs:
            if _is_merge(key_node):
                self._merge(value_node, target, into, seen)
                continue
            key = self._key(key_node)
            text = _json_key(key)
            value = self.value(value_node, _target_of(text, target))
            if text is None:
                text = self._unsupported(key, value)
            identity = (type(key).__name__, key)
            if identity in seen:
                self.duplicates.add(
                    f"line {value_node.line}: key {_go_syntax(key)} already set in map"
                )
                continue
            if key == key:  # noqa: PLR0124 - NaN differs from itself, also as a key of a Go map
                seen.add(identity)
            into[text] = value

    def _key(self, node: Node) -> Value:
        if self.guard.counts:
            self.guard.count()
        while isinstance(node, AliasNode):
            self.guard.count()
            node = node.target
            self.guard.repeat(node)
        if isinstance(node, ScalarNode):
            return _generic(node)
        value = self.value(node, None)
        raise DecodeError(f"yaml: invalid map key: {_go_syntax(value)}")

    def _unsupported(self, key: Value, value: Json) -> str:
        """Keep the text about a key that JSON cannot have, and return a stand-in for it."""
        if self.unsupported_key is None:
            go_type = "%!s(<nil>)" if key is None else "uint64"
            self.unsupported_key = (
                f"{self.word} map key of type: {go_type}, "
                f"key: {_go_syntax(key)}, value: {_go_syntax(value)}"
            )
        return "\0"

    def _merge(
        self,
        node: Node,
        target: Type | None,
        into: dict[str, Json],
        seen: set[tuple[str, Value]],
    ) -> None:
        parts = node.items[::-1] if isinstance(node, SequenceNode) else [node]
        for part in parts:
            self.guard.count()
            alias = part if isinstance(part, AliasNode) else None
            mapping = alias.target if alias else part
            if not isinstance(mapping, MappingNode):
                raise DecodeError("yaml: map merge requires map or sequence of maps as the value")
            if alias:
                self.guard.enter(alias)
                self.guard.count()
            self._mapping(mapping, target, into, seen)
            if alias:
                self.guard.leave(alias)


def _generic(node: ScalarNode) -> Value:
    """Decode a scalar into ``interface{}`` as go-yaml v2 does."""
    if not node.tag:
        if not node.plain or (node.value and node.value[0] not in HINTS):
            return node.value
        return resolve("", node.value, v3=False)[1]
    try:
        if node.tag == BINARY:
            return binary(node.value)
        return resolve(node.tag, node.value, v3=False)[1]
    except TagMismatchError as error:
        raise DecodeError(f"yaml: {error}") from None


def _is_merge(node: Node) -> bool:
    return type(node) is ScalarNode and node.value == "<<" and (node.plain or node.tag == MERGE)


def _key_text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return float32_text(value) if isinstance(value, float) else str(value)


def _json_key(key: Value) -> str | None:
    """Return the key as text, ``None`` for null and for integers beyond int64."""
    if isinstance(key, str):
        return key
    if key is None or (type(key) is int and key >= _INT64_LIMIT):
        return None
    text = _key_text(key)
    if isinstance(key, float):
        return {"+Inf": ".inf", "-Inf": "-.inf", "NaN": ".nan"}.get(text, text)
    return text


def _target_of(key: str | None, target: Type | None) -> Type | None:
    if key is None:
        return None
    if type(target) is Struct:
        found = target.find(key)
        return found.type if found else None
    return Scalar(Basic.STRING) if type(target) is TextMap else None


def _go_syntax(value: Json) -> str:
    """Return ``fmt.Sprintf("%#v", value)`` for what go-yaml v2 decodes into an interface."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, list):
        return "[]interface {}{" + ", ".join(map(_nested_syntax, value)) + "}"
    if isinstance(value, dict):
        pairs = (f"{quote(key)}:{_nested_syntax(value[key])}" for key in sorted(value))
        return "map[interface {}]interface {}{" + ", ".join(pairs) + "}"
    if isinstance(value, float):
        return float64_text(value)
    return str(value) if value < _INT64_LIMIT else hex(value)


def _nested_syntax(value: Json) -> str:
    return "interface {}(nil)" if value is None else _go_syntax(value)


def _first_unsupported(value: Json) -> str | None:
    """Return the first number that JSON cannot hold, in the order of ``json.Marshal``."""
    if isinstance(value, float) and not math.isfinite(value):
        return float64_text(value)
    parts: list[Json] = []
    if isinstance(value, list):
        parts = value
    elif isinstance(value, dict):
        parts = [value[key] for key in sorted(value)]
    return next((found for found in map(_first_unsupported, parts) if found), None)
