"""Operations on TOML tables that know their sources: lookups, typed reads, deep merges.

Owns: the two ways in which an engine lays one table over another. Must not know: any engine.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpucdi.engines.tomlfile import Table
from gpucdi.findings import Sourced


def subtable(table: Table, *path: str) -> Table | None:
    """Return the table at ``path``, or ``None`` when there is none or something else is there."""
    current = table
    for part in path:
        found = current.get(part)
        if not isinstance(found, dict):
            return None
        current = found
    return current


def leaf(table: Table | None, name: str) -> Sourced[object] | None:
    """Return the value of a key, or ``None`` for a missing key and for a table."""
    found = None if table is None else table.get(name)
    return found if isinstance(found, Sourced) else None


def text_leaf(table: Table | None, name: str) -> Sourced[str] | None:
    """Return a key's value if it is a string."""
    found = leaf(table, name)
    if found is None or not isinstance(found.value, str):
        return None
    return Sourced(found.value, found.source)


def boolean_leaf(table: Table | None, name: str) -> Sourced[bool] | None:
    """Return a key's value if it is a boolean."""
    found = leaf(table, name)
    if found is None or not isinstance(found.value, bool):
        return None
    return Sourced(found.value, found.source)


def texts_leaf(table: Table | None, name: str) -> Sourced[tuple[str, ...]] | None:
    """Return a key's value if it is an array of strings."""
    found = leaf(table, name)
    if found is None or not isinstance(found.value, list):
        return None
    texts = tuple(item for item in found.value if isinstance(item, str))
    return Sourced(texts, found.source) if len(texts) == len(found.value) else None


def copied(table: Table) -> Table:
    """Return a deep copy of the tables; the leaves are immutable and shared."""
    return {name: copied(node) if isinstance(node, dict) else node for name, node in table.items()}


def overlay(below: Table, above: Table) -> Table:
    """Return both tables merged key by key, ``above`` winning; arrays are replaced, not joined."""
    merged = dict(below)
    for name, node in above.items():
        under = merged.get(name)
        if isinstance(node, dict) and isinstance(under, dict):
            merged[name] = overlay(under, node)
        else:
            merged[name] = node
    return merged


def replaced(below: Table, above: Table) -> Table:
    """Return ``below`` with each top-level key of ``above`` put in its place as a whole."""
    return {**below, **above}


def fill_missing(below: Table, extra: Table, skip: Iterable[str] = ()) -> Table:
    """Return ``below`` plus the keys of ``extra`` that it lacks, ``skip`` left out."""
    left_out = set(skip)
    additions = {k: v for k, v in extra.items() if k not in below and k not in left_out}
    return {**below, **additions}
