"""JSON values strictly into the structs, as encoding/json does for the library up to 1.1.0.

Owns: which value a field takes, and the texts of what it refuses. Must not know: YAML.

Source: Go encoding/json decode.go (texts of toolchains up to 1.26).
"""

from __future__ import annotations

from typing import cast

from .decoding import Raw
from .gotext import printable, quote
from .scalars import json_number
from .schema import Basic, Scalar, Sequence, Struct, TextMap, Type

Json = str | int | float | bool | list["Json"] | dict[str, "Json"] | None


class Filler:
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
