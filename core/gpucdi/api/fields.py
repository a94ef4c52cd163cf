"""Reading untrusted JSON field by field. Owns the rule that a wrong type is an absent value.

A resource may have been written by an older or newer gpucdi, or by hand; whatever does not have
the expected type is left out, because half a status is worth more than none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

# The JSON edge: what json.loads returns, and what json.dumps takes.
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


def mapping(source: object, key: str) -> Mapping[str, object]:
    """Return the object at ``key``, or an empty one."""
    found = source.get(key) if isinstance(source, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def text(source: object, key: str, default: str = "") -> str:
    """Return the string at ``key``, or ``default``."""
    found = source.get(key) if isinstance(source, Mapping) else None
    return found if isinstance(found, str) else default


def optional_text(source: object, key: str) -> str | None:
    """Return the non-empty string at ``key``, or ``None``."""
    return text(source, key) or None


def integer(source: object, key: str, default: int = 0) -> int:
    """Return the integer at ``key``, or ``default``; ``true`` is not 1 here."""
    found = source.get(key) if isinstance(source, Mapping) else None
    return found if isinstance(found, int) and not isinstance(found, bool) else default


def optional_integer(source: object, key: str) -> int | None:
    """Return the integer at ``key``, or ``None``."""
    found = source.get(key) if isinstance(source, Mapping) else None
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def boolean(source: object, key: str, *, default: bool = False) -> bool:
    """Return the boolean at ``key``, or ``default``."""
    found = source.get(key) if isinstance(source, Mapping) else None
    return found if isinstance(found, bool) else default


def texts(source: object, key: str) -> tuple[str, ...]:
    """Return the strings of the list at ``key``; other items are left out."""
    found = source.get(key) if isinstance(source, Mapping) else None
    return tuple(item for item in found if isinstance(item, str)) if isinstance(found, list) else ()


def objects(source: object, key: str) -> Iterator[Mapping[str, object]]:
    """Yield the objects of the list at ``key``; other items are left out."""
    found = source.get(key) if isinstance(source, Mapping) else None
    for item in found if isinstance(found, list) else ():
        if isinstance(item, Mapping):
            yield item


def compact(**fields: Json) -> dict[str, Json]:
    """Return the fields that say something: ``None``, ``""`` and empty containers are left out.

    Zero and ``false`` are facts and stay.
    """
    return {
        name: value
        for name, value in fields.items()
        if value is not None and value not in ("", [], {})
    }
