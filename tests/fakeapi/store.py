"""Objects with one resource version for all, history for watches, snapshots for paged lists.

Owns: identity, versions, generation, garbage collection by owner. Must not know: HTTP, patches.
Stored objects are never changed in place, so snapshots and history share them.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeAlias

from tests.fakeapi.fieldsets import Managers
from tests.fakeapi.resources import Body, Resource

Key: TypeAlias = tuple[str, str]  # namespace, name
HISTORY = 50_000
# As on a real server, what clients may know of begins long after version 1.
FIRST_VERSION = 100


@dataclass(slots=True)
class Stored:
    """One version of one object."""

    body: Body
    version: int
    managers: Managers = field(default_factory=dict)
    _encoded: bytes | None = None

    def encoded(self) -> bytes:
        if self._encoded is None:
            self._encoded = json.dumps(self.body, separators=(",", ":")).encode()
        return self._encoded


@dataclass(frozen=True, slots=True)
class Change:
    """One write: ``before`` is None for a creation, ``after`` for a deletion."""

    version: int
    before: Stored | None
    after: Stored | None


class Collection:
    """All objects of one storage.

    ``on_node`` and ``owned`` find the few of 100,000 Pods that are on a node, or that an owner's end
    takes along; kube-apiserver and its controllers keep the same indices.
    """

    def __init__(self) -> None:
        self.objects: dict[Key, Stored] = {}
        self.on_node: defaultdict[str, set[Key]] = defaultdict(set)
        self.owned: defaultdict[str, set[Key]] = defaultdict(set)
        self.history: deque[Change] = deque(maxlen=HISTORY)
        self.floor = FIRST_VERSION
        self.watchers: set[asyncio.Queue[Change]] = set()

    def index(self, change: Change) -> None:
        """Keep the indices; every change of the collection comes by."""
        for stored, act in ((change.before, set.discard), (change.after, set.add)):
            if stored is not None:
                key = key_of(stored.body)
                act(self.on_node[node_of(stored.body)], key)
                for uid in owners_of(stored.body):
                    act(self.owned[uid], key)

    def since(self, version: int) -> list[Change] | None:
        """Return the changes after ``version``, or None when they are no longer known."""
        if version < self.floor:
            return None
        found = []
        for change in reversed(self.history):
            if change.version <= version:
                break
            found.append(change)
        return found[::-1]


class Store:
    """The whole cluster."""

    def __init__(self) -> None:
        self.version = FIRST_VERSION
        self.collections: dict[str, Collection] = {}
        self.snapshots: dict[str, tuple[int, list[Stored]]] = {}

    def of(self, resource: Resource) -> Collection:
        return self.collections.setdefault(resource.stored_as, Collection())

    def get(self, resource: Resource, key: Key) -> Stored | None:
        return self.of(resource).objects.get(key)

    def listed(self, resource: Resource, namespace: str = "", node: str = "") -> Iterator[Stored]:
        """Yield the objects by name; with ``node`` those whose spec names that node."""
        collection = self.of(resource)
        for key in sorted(collection.on_node[node] if node else collection.objects):
            if not namespace or key[0] == namespace:
                yield collection.objects[key]

    def create(self, resource: Resource, body: Body, managers: Managers | None = None) -> Stored:
        """Store a new object; the caller has checked that the name is free."""
        meta = dict(body.get("metadata", {}))
        meta.setdefault("uid", str(uuid.uuid4()))
        meta["creationTimestamp"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        meta["generation"] = 1
        made = {"apiVersion": resource.api_version, "kind": resource.kind, **body, "metadata": meta}
        return self._write(resource, None, made, managers or {})

    def update(
        self, resource: Resource, old: Stored, body: Body, managers: Managers | None = None
    ) -> Stored:
        """Store a new version; nothing happens when nothing differs, as on the real server."""
        if managers is None:
            managers = old.managers
        if _without_version(body) == _without_version(old.body):
            old.managers = managers
            return old
        meta = dict(body["metadata"])
        for name in ("uid", "creationTimestamp", "generation"):
            meta[name] = old.body["metadata"][name]
        if _intent(body) != _intent(old.body):
            meta["generation"] += 1
        return self._write(resource, old, {**body, "metadata": meta}, managers)

    def delete(self, resource: Resource, old: Stored) -> Stored:
        """Remove an object, and what only it owned."""
        self.version += 1
        collection = self.of(resource)
        del collection.objects[key_of(old.body)]
        self._tell(collection, Change(self.version, old, None))
        self._collect_garbage(old.body["metadata"]["uid"])
        return old

    def forget(self) -> None:
        """Expire every resource version and continue token, as a compaction does."""
        self.version += 1
        self.snapshots.clear()
        for collection in self.collections.values():
            collection.floor = self.version
            collection.history.clear()

    def _write(
        self, resource: Resource, old: Stored | None, body: Body, managers: Managers
    ) -> Stored:
        self.version += 1
        meta = {**body["metadata"], "resourceVersion": str(self.version)}
        stored = Stored({**body, "metadata": meta}, self.version, managers)
        collection = self.of(resource)
        collection.objects[key_of(stored.body)] = stored
        self._tell(collection, Change(self.version, old, stored))
        return stored

    def _tell(self, collection: Collection, change: Change) -> None:
        if len(collection.history) == HISTORY:
            collection.floor = collection.history[0].version
        collection.history.append(change)
        collection.index(change)
        for watcher in collection.watchers:
            watcher.put_nowait(change)

    def _collect_garbage(self, uid: str) -> None:
        for collection in self.collections.values():
            for key in list(collection.owned.pop(uid, ())):
                stored = collection.objects[key]
                if all(owner == uid for owner in owners_of(stored.body)):
                    self.version += 1
                    del collection.objects[key]
                    self._tell(collection, Change(self.version, stored, None))


def owners_of(body: Body) -> list[str]:
    return [str(owner.get("uid")) for owner in body["metadata"].get("ownerReferences") or ()]


def node_of(body: Body) -> str:
    """Return the node that an object's spec names; tests also store what no server would take."""
    spec = body.get("spec")
    name = spec.get("nodeName") if isinstance(spec, dict) else None
    return name if isinstance(name, str) else ""


def key_of(body: Body) -> Key:
    meta = body["metadata"]
    return meta.get("namespace", ""), meta["name"]


def _without_version(body: Body) -> Body:
    hidden = {"resourceVersion", "generation", "managedFields"}
    meta = {name: value for name, value in body["metadata"].items() if name not in hidden}
    return {**body, "metadata": meta}


def _intent(body: Body) -> Body:
    return {name: value for name, value in body.items() if name not in {"metadata", "status"}}
