"""The decoder of the library up to 1.1.0: YAML to JSON, and JSON strictly into the structs.

Owns: go-yaml v2's generic decoding in strict mode, sigs.k8s.io/yaml's conversion guided by the
target, and encoding/json's strict decoding with its texts. Must not know: what a legal spec is.

Sources: ``kubernetes-sigs/yaml`` yaml.go (v1.3.0 up to 0.8.1, v1.4.0 since 1.0.0), ``go-yaml/yaml``
v2 decode.go, Go encoding/json (texts of toolchains up to 1.26).
"""

from __future__ import annotations

import math
from typing import cast

from .decoding import AliasGuard, DecodeError, ErrorLines, Raw, binary
from .gotext import printable, quote
from .nodetypes import AliasNode, MappingNode, Node, ScalarNode, SequenceNode
from .scalars import (
    BINARY,
    HINTS,
    MERGE,
    TagMismatchError,
    Value,
    float32_text,
    float64_text,
    json_number,
    resolve,
)
from .schema import Basic, Scalar, Sequence, Struct, TextMap, Type

Json = str | int | float | bool | list["Json"] | dict[str, "Json"] | None

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
    filler = _Filler()
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


class _Filler:
    """JSON values into raw structs; keeps the first error and goes on, as encoding/json does."""

    def __init__(self) -> None:
        self.error: str | None = None
        self.struct = ""
        self.path: list[str] = []

    def fill(self, value: Json, target: Type, old: object) -> object:
        """Return what the field holds afterwards; ``old`` is what it held before."""
        kind = type(target)
        if kind is Scalar:
            return self._scalar(value, cast("Scalar", target), old)
        if kind is Struct:
            return self._struct(value, cast("Struct", target), old)
        if kind is Sequence:
            return self._sequence(value, cast("Sequence", target), old)
        return self._text_map(value, cast("TextMap", target), old)

    def _struct(self, value: Json, target: Struct, old: object) -> object:
        if value is None:
            return None if target.pointer else old
        if not isinstance(value, dict):
            return self._mismatch(value, target, old)
        raw = cast("Raw", old) if isinstance(old, dict) else {}
        outer = self.struct
        for key in sorted(value) if len(value) > 1 else value:
            found = target.fields.get(key) or target.find(key)
            if found is None:
                self._save(f"json: unknown field {quote(printable(key))}")
                continue
            self.struct = target.name
            self.path.append(found.name)
            attribute = found.attribute
            raw[attribute] = self.fill(value[key], found.type, raw.get(attribute))
            self.path.pop()
        self.struct = outer
        return raw

    def _sequence(self, value: Json, target: Sequence, old: object) -> object:
        if value is None:
            return None
        if not isinstance(value, list):
            return self._mismatch(value, target, old)
        before = old if isinstance(old, list) else []
        items: list[object] = []
        for index, each in enumerate(value):
            existing = before[index] if index < len(before) else None
            if existing is target.nil:
                existing = None
            if each is None and target.of_pointers:
                items.append(target.nil)
                continue
            items.append(_or_zero(self.fill(each, target.item, existing), target.item))
        return items

    def _text_map(self, value: Json, target: TextMap, old: object) -> object:
        if value is None:
            return None
        if not isinstance(value, dict):
            return self._mismatch(value, target, old)
        entries = dict(cast("dict[str, str]", old)) if isinstance(old, dict) else {}
        text = Scalar(Basic.STRING)
        for key in sorted(value):
            entry = self._scalar(value[key], text, None) or ""
            entries[printable(key)] = cast("str", entry)
        return entries

    def _scalar(self, value: Json, target: Scalar, old: object) -> object:
        if value is None:
            return None if target.pointer else old
        basic = target.basic
        if isinstance(value, str):
            if basic is Basic.STRING:
                return printable(value)
            return self._mismatch(value, target, old)
        if isinstance(value, bool):
            return value if basic is Basic.BOOL else self._mismatch(value, target, old)
        if isinstance(value, (list, dict)) or basic in {Basic.STRING, Basic.BOOL}:
            return self._mismatch(value, target, old)
        text = json_number(value)
        legal = text.isdecimal() or (text[:1] == "-" and text[1:].isdecimal())
        if not legal or (basic.is_unsigned and text[0] == "-") or not basic.holds(int(text)):
            return self._mismatch(value, target, old, f"number {text}")
        return int(text)

    def _mismatch(self, value: Json, target: Type, old: object, shown: str = "") -> object:
        where = f"struct field {self.struct}.{'.'.join(self.path)}" if self.path else "value"
        self._save(
            f"json: cannot unmarshal {shown or _json_kind(value)} "
            f"into Go {where} of type {target.go_name}"
        )
        return old

    def _save(self, text: str) -> None:
        if self.error is None:
            self.error = text


def _or_zero(value: object, item: Scalar | Struct) -> object:
    if value is not None:
        return value
    if isinstance(item, Struct):
        return {}
    return "" if item.basic is Basic.STRING else 0


def _json_kind(value: Json) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list):
        return "array"
    return "object" if isinstance(value, dict) else "number"
