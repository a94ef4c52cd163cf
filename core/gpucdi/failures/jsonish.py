"""Fields of a Pod as JSON gives them. A wrong type is an absent value; nothing here raises.

Owns: that rule. Must not know: which fields a Pod has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping


def mapping(source: object, key: str) -> Mapping[str, object]:
    """Return the object at ``key``, or an empty one."""
    found = source.get(key) if isinstance(source, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def text(source: object, key: str) -> str:
    """Return the string at ``key``, or an empty one."""
    found = source.get(key) if isinstance(source, Mapping) else None
    return found if isinstance(found, str) else ""


def items(source: object, key: str) -> Iterator[Mapping[str, object]]:
    """Yield the objects of the list at ``key``."""
    found = source.get(key) if isinstance(source, Mapping) else None
    for item in found if isinstance(found, list | tuple) else ():
        if isinstance(item, Mapping):
            yield item


def texts(source: object, key: str) -> dict[str, str]:
    """Return the entries of the object at ``key`` that are scalars, as text."""
    return {
        str(name): str(value)
        for name, value in mapping(source, key).items()
        if isinstance(value, str | int | float | bool)
    }
