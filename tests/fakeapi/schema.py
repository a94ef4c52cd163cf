"""Structural schemas as the API server applies them: prune, default, validate.

Owns the keywords that our CRDs use; an unknown keyword is an error here, so that a CRD cannot rely
on something that the fake silently ignores. CEL rules are left to the real server, except the two
that every write of ours depends on.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from tests.fakeapi.resources import Body

_KNOWN = frozenset(
    [
        "type",
        "description",
        "properties",
        "required",
        "items",
        "enum",
        "default",
        "pattern",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minimum",
        "maximum",
        "format",
        "additionalProperties",
        "maxProperties",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-validations",
        "x-kubernetes-int-or-string",
        "x-kubernetes-map-type",
    ]
)
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


def unknown_keywords(schema: Body) -> Iterator[str]:
    """Yield the keywords of ``schema`` that this module does not know."""
    yield from set(schema) - _KNOWN
    for inner in schema.get("properties", {}).values():
        yield from unknown_keywords(inner)
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from unknown_keywords(schema[name])


def pruned(value: Any, schema: Body, *, root: bool = True) -> Any:
    """Return ``value`` without fields that ``schema`` does not have; ``metadata`` is left alone."""
    if isinstance(value, dict) and "properties" in schema:
        return {
            name: item if root and name == "metadata" else pruned(item, inner, root=False)
            for name, item in value.items()
            if (inner := schema["properties"].get(name)) is not None
        }
    if isinstance(value, list) and "items" in schema:
        return [pruned(item, schema["items"], root=False) for item in value]
    return value


def defaulted(value: Any, schema: Body) -> Any:
    """Return ``value`` with the defaults of ``schema`` filled in."""
    if isinstance(value, dict):
        filled = dict(value)
        for name, inner in schema.get("properties", {}).items():
            if name not in filled and "default" in inner:
                filled[name] = copy.deepcopy(inner["default"])
            if name in filled:
                filled[name] = defaulted(filled[name], inner)
        return filled
    if isinstance(value, list) and "items" in schema:
        return [defaulted(item, schema["items"]) for item in value]
    return value


def problems(value: Any, schema: Body, path: str = "") -> Iterator[str]:
    """Yield what is wrong with ``value``, in the manner of the API server's messages."""
    if not _has_type(value, schema.get("type", "")):
        yield f"{path}: Invalid value: must be of type {schema['type']}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: Unsupported value: {value!r}: supported values: {schema['enum']}"
    if isinstance(value, str):
        yield from _text_problems(value, schema, path)
    elif isinstance(value, list):
        yield from _list_problems(value, schema, path)
    elif isinstance(value, dict):
        yield from _object_problems(value, schema, path)
    elif isinstance(value, int | float) and not (
        schema.get("minimum", value) <= value <= schema.get("maximum", value)
    ):
        yield f"{path}: Invalid value: {value}: out of range"


def _has_type(value: Any, wanted: str) -> bool:
    if wanted in {"integer", "number"} and isinstance(value, bool):
        return False
    return not wanted or isinstance(value, _TYPES[wanted])


def _text_problems(value: str, schema: Body, path: str) -> Iterator[str]:
    if len(value) > schema.get("maxLength", len(value)):
        yield f"{path}: Too long: may not be more than {schema['maxLength']} bytes"
    if len(value) < schema.get("minLength", 0):
        yield f"{path}: Invalid value: should be at least {schema['minLength']} chars long"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{path}: Invalid value: {value!r}: should match '{schema['pattern']}'"
    if schema.get("format") == "date-time":
        try:
            datetime.fromisoformat(value)
        except ValueError:
            yield f"{path}: Invalid value: {value!r}: must be of type date-time"


def _list_problems(value: list[Any], schema: Body, path: str) -> Iterator[str]:
    if len(value) > schema.get("maxItems", len(value)):
        yield f"{path}: Too many: {len(value)}: must have at most {schema['maxItems']} items"
    if len(value) < schema.get("minItems", 0):
        yield f"{path}: Invalid value: should have at least {schema['minItems']} items"
    keys = schema.get("x-kubernetes-list-map-keys", ())
    kind = schema.get("x-kubernetes-list-type")
    if kind in {"map", "set"}:
        identities = [
            repr(item) if kind == "set" else repr([item.get(key) for key in keys]) for item in value
        ]
        if len(set(identities)) < len(identities):
            yield f"{path}: Duplicate value"
    for number, item in enumerate(value):
        yield from problems(item, schema.get("items", {}), f"{path}[{number}]")


def _object_problems(value: Body, schema: Body, path: str) -> Iterator[str]:
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{path}.{name}: Required value".lstrip(".")
    inner = schema.get("properties", {})
    extra = schema.get("additionalProperties")
    for name, item in value.items():
        found = inner.get(name, extra)
        if isinstance(found, dict):
            yield from problems(item, found, f"{path}.{name}".lstrip("."))


def rule_problems(body: Body, old: Body | None) -> Iterator[str]:
    """Yield violations of the CEL rules of GpuCdiStatus that writes depend on."""
    if body.get("kind") != "GpuCdiStatus":
        return
    name = body.get("spec", {}).get("nodeName")
    if name != body["metadata"]["name"]:
        yield f"metadata.name must be the name of the Node: write {name}"
    if old is not None and old["spec"].get("nodeName") != name:
        yield "spec.nodeName cannot change; create another object"
