"""Server-side apply: who owns which field, conflicts, removal of what is no longer applied.

Owns the arithmetic on paths. A path is a tuple of field names and, for items of lists that merge,
of :class:`Item`. Source: kubernetes-sigs/structured-merge-diff ``merge/update.go``; what differs
from it on purpose: ownership is kept beside the object and is not published in managedFields.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from tests.fakeapi.resources import Body, MergeKeys


@dataclass(frozen=True, order=True)
class Item:
    """One item of a list that merges, by its identity."""

    identity: tuple[str, ...]


Path: TypeAlias = "tuple[str | Item, ...]"
FieldSet: TypeAlias = "frozenset[Path]"
# (manager, operation, subresource) -> the fields it owns.
Managers: TypeAlias = "dict[tuple[str, str, str], FieldSet]"

_NOT_OWNED = frozenset(
    {
        ("apiVersion",),
        ("kind",),
        *(
            ("metadata", name)
            for name in (
                "name",
                "namespace",
                "uid",
                "resourceVersion",
                "creationTimestamp",
                "generation",
                "managedFields",
            )
        ),
    }
)


class FieldConflict(Exception):  # noqa: N818  # the API's word
    """Another manager owns a field that the applied object sets to another value."""

    def __init__(self, manager: str, path: Path) -> None:
        dotted = ".".join(
            str(part) if isinstance(part, str) else f"[{part.identity}]" for part in path
        )
        super().__init__(f'conflict with "{manager}": .{dotted}')


def identity(item: Any, keys: tuple[str, ...] | None) -> Item:
    """Return what identifies an item of a list with these merge keys; () means a set."""
    return Item(tuple(str(item.get(key)) for key in keys) if keys else (repr(item),))


def values(body: Any, keys: MergeKeys, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield each leaf with its value; an item of a merging list is a leaf of its own as well."""
    if path in _NOT_OWNED:
        return
    names = tuple(part for part in path if isinstance(part, str))
    if isinstance(body, dict) and body and keys.get(names, ()) is not None:
        for name, inner in body.items():
            yield from values(inner, keys, (*path, name))
    elif isinstance(body, list) and names in keys and len(names) == len(path):
        for entry in body:
            item = (*path, identity(entry, keys[names]))
            yield item, None
            if keys[names]:
                yield from values(entry, keys, item)
    else:
        yield path, body


def applied(
    live: Body,
    wanted: Body,
    managers: Managers,
    who: tuple[str, str, str],
    keys: MergeKeys,
    *,
    force: bool,
) -> tuple[Body, Managers]:
    """Return the object and its managers after ``who`` has applied ``wanted``."""
    new, present = dict(values(wanted, keys)), dict(values(live, keys))
    after = dict(managers)
    for other, owned in managers.items():
        if other == who:
            continue
        # An empty map merges into whatever is there.
        clashes = {
            path
            for path in owned & new.keys()
            if present.get(path) != new[path] and new[path] != {}
        }
        if clashes and not force:
            raise FieldConflict(other[0], min(clashes, key=str))
        after[other] = owned - clashes
    dropped = managers.get(who, frozenset()) - new.keys()
    others = frozenset().union(*(owned for other, owned in after.items() if other != who))
    result = copy.deepcopy(live)
    # An item goes before its fields: without them it could not be found any more.
    for path in sorted({*dropped, *_given_up(dropped, others | new.keys())}, key=len):
        if path not in others and not any(other[: len(path)] == path for other in others):
            _remove(result, path, keys)
    after[who] = frozenset(new)
    return _merged(result, wanted, keys, ()), {key: owned for key, owned in after.items() if owned}


def _given_up(dropped: Iterable[Path], owned: Iterable[Path]) -> FieldSet:
    """Return the named fields around what is dropped in which nobody owns anything any more.

    They go with what is in them, though nobody owned it: a manager's set is taken with its parents.
    """
    kept = {path[:length] for path in owned for length in range(1, len(path) + 1)}
    around = {path[:length] for path in dropped for length in range(1, len(path))}
    return frozenset(
        path
        for path in around - kept
        if path != ("metadata",) and all(isinstance(part, str) for part in path)
    )


def updated(
    old: Body, new: Body, managers: Managers, who: tuple[str, str, str], keys: MergeKeys
) -> Managers:
    """Return the managers after an update: whoever changes a field takes it from the others."""
    before, after = dict(values(old, keys)), dict(values(new, keys))
    changed = frozenset(
        path for path, value in after.items() if path not in before or before[path] != value
    )
    gone = before.keys() - after.keys()
    result = {
        key: owned - gone - (changed if key != who else frozenset())
        for key, owned in managers.items()
    }
    result[who] = result.get(who, frozenset()) | changed
    return {key: owned for key, owned in result.items() if owned}


def _merged(live: Any, wanted: Any, keys: MergeKeys, path: tuple[str, ...]) -> Any:
    if keys.get(path, ()) is None:
        return copy.deepcopy(wanted)
    if isinstance(live, dict) and isinstance(wanted, dict):
        result = dict(live)
        for name, inner in wanted.items():
            result[name] = _merged(live.get(name), inner, keys, (*path, name))
        return result
    if isinstance(wanted, list) and path in keys:
        return _merged_list(live if isinstance(live, list) else [], wanted, keys, path)
    return copy.deepcopy(wanted)


def _merged_list(
    live: list[Any], wanted: list[Any], keys: MergeKeys, path: tuple[str, ...]
) -> list[Any]:
    by_identity = {identity(entry, keys[path]): entry for entry in live}
    for entry in wanted:
        key = identity(entry, keys[path])
        # Below an item no list merges any more: none of our resources has such a list.
        by_identity[key] = _merged(by_identity.get(key), entry, {}, ())
    return list(by_identity.values())


def _remove(at: Any, path: Path, keys: MergeKeys, names: tuple[str, ...] = ()) -> None:
    """Remove one field or item, and the containers that this leaves empty."""
    first, rest = path[0], path[1:]
    if isinstance(first, Item):
        found = [entry for entry in at if identity(entry, keys[names]) == first]
        if found and rest:
            _remove(found[0], rest, keys, names)
        if found and (not rest or not found[0]):
            at.remove(found[0])
    elif isinstance(at, dict) and first in at:
        if rest:
            _remove(at[first], rest, keys, (*names, first))
        if not rest or at[first] in ({}, []):
            del at[first]
