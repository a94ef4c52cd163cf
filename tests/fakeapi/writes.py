"""Create, replace, patch and apply, with status isolation, validation and field ownership.

Owns: what a write does to an object. Must not know: HTTP, watches, faults.
"""

from __future__ import annotations

import copy
import json
import random
import string
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jsonpatch
from tests.fakeapi import events, fieldsets, schema
from tests.fakeapi.resources import EVENTS, NODES, Body, Resource
from tests.fakeapi.store import Key, Store, Stored


class Refused(Exception):  # noqa: N818  # an answer, not a bug
    """The request gets an error answer."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Write:
    """Where a write goes and who makes it."""

    resource: Resource
    key: Key
    subresource: str
    manager: str
    force: bool = False

    def owner(self, operation: str) -> tuple[str, str, str]:
        return self.manager, operation, self.subresource


def create(store: Store, write: Write, body: Body) -> Stored:
    """POST."""
    meta = dict(body.get("metadata", {}))
    if not meta.get("name") and meta.get("generateName"):
        suffix = "".join(random.choices(string.ascii_lowercase + string.digits, k=5))  # noqa: S311
        meta["name"] = meta["generateName"] + suffix
    if write.resource.namespaced:
        if meta.get("namespace", write.key[0]) != write.key[0]:
            raise Refused(400, "BadRequest", "the namespace of the object does not match the URL")
        meta["namespace"] = write.key[0]
    name = meta.get("name", "")
    if not name:
        raise Refused(422, "Invalid", "metadata.name: Required value: name or generateName")
    if store.get(write.resource, (write.key[0], name)) is not None:
        raise Refused(409, "AlreadyExists", f'{write.resource.plural} "{name}" already exists')
    wanted = _admitted(write.resource, _stored_form(write.resource, {**body, "metadata": meta}))
    if write.resource.schema is not None and write.resource.has_status:
        wanted.pop("status", None)
    checked = _checked(write.resource, wanted, None)
    claimed = checked
    if write.resource.has_status:
        # A status that an object is created with belongs to nobody.
        claimed = {name: value for name, value in checked.items() if name != "status"}
    owned = fieldsets.updated({}, claimed, {}, write.owner("Update"), write.resource.merge_keys)
    return store.create(write.resource, checked, owned)


def replace(store: Store, write: Write, body: Body) -> Stored:
    """PUT."""
    old = _existing(store, write)
    return _update(store, write, old, _stored_form(write.resource, body))


def patch(store: Store, write: Write, patch_body: Any, content_type: str) -> Stored:
    """PATCH with a merge, strategic or JSON patch."""
    old = _existing(store, write)
    shown = _shown_form(write.resource, old.body)
    match content_type:
        case "application/merge-patch+json":
            new = merged(shown, patch_body)
        case "application/strategic-merge-patch+json":
            new = _strategic(shown, patch_body, write.resource, ())
        case "application/json-patch+json":
            try:
                new = jsonpatch.apply_patch(copy.deepcopy(shown), patch_body)
            except jsonpatch.JsonPatchTestFailed as error:
                raise Refused(422, "Invalid", str(error)) from error
            except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
                raise Refused(422, "Invalid", str(error)) from error
        case _:
            raise Refused(415, "UnsupportedMediaType", content_type)
    return _update(store, write, old, _stored_form(write.resource, new))


def apply(store: Store, write: Write, body: Body) -> Stored:
    """PATCH with an apply patch; creates the object, but not through a subresource."""
    meta = body.get("metadata", {})
    if meta.get("name", write.key[1]) != write.key[1] or not body.get("apiVersion"):
        raise Refused(400, "BadRequest", "the applied object needs apiVersion, kind and its name")
    if meta.get("managedFields"):
        raise Refused(400, "BadRequest", "metadata.managedFields must be nil")
    old = store.get(write.resource, write.key)
    wanted = _within_subresource(write, _stored_form(write.resource, body))
    if old is None:
        if write.subresource:
            raise _not_found(write)
        if meta.get("uid"):
            message = f"uid mismatch: the provided object specified uid {meta['uid']}"
            raise Refused(409, "Conflict", f"{message}, and no existing object was found")
        return create(store, write, {**wanted, "metadata": {**meta, "name": write.key[1]}})
    _same_version(old, body)
    try:
        new, managers = fieldsets.applied(
            old.body,
            wanted,
            old.managers,
            write.owner("Apply"),
            write.resource.merge_keys,
            force=write.force,
        )
    except fieldsets.FieldConflict as conflict:
        raise Refused(409, "Conflict", f"Apply failed with 1 {conflict}") from conflict
    return store.update(write.resource, old, _checked(write.resource, new, old.body), managers)


def merged(target: Any, change: Any) -> Any:
    """Return ``target`` after an RFC 7386 merge patch."""
    if not isinstance(change, dict):
        return change
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in change.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def _strategic(target: Any, change: Any, resource: Resource, path: tuple[str, ...]) -> Any:
    """Return ``target`` after a strategic merge patch of the lists that merge by key."""
    if resource.schema is not None:
        raise Refused(415, "UnsupportedMediaType", "custom resources know no strategic patch")
    if isinstance(change, list) and resource.merge_keys.get(path):
        keys = resource.merge_keys[path]
        items = {fieldsets.identity(item, keys): item for item in target or ()}
        for item in change:
            key = fieldsets.identity(item, keys)
            if item.get("$patch") == "delete":
                items.pop(key, None)
            else:
                items[key] = merged(items.get(key, {}), item)
        return list(items.values())
    if not isinstance(change, dict):
        return change
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in change.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _strategic(result.get(name), value, resource, (*path, name))
    return result


def _update(store: Store, write: Write, old: Stored, new: Body) -> Stored:
    _same_version(old, new)
    isolated = _isolated(write, old.body, new)
    checked = _checked(write.resource, isolated, old.body)
    managers = fieldsets.updated(
        old.body, checked, old.managers, write.owner("Update"), write.resource.merge_keys
    )
    return store.update(write.resource, old, checked, managers)


def _existing(store: Store, write: Write) -> Stored:
    found = store.get(write.resource, write.key)
    if found is None:
        raise _not_found(write)
    return found


def _not_found(write: Write) -> Refused:
    return Refused(404, "NotFound", f'{write.resource.plural} "{write.key[1]}" not found')


def _same_version(old: Stored, new: Body) -> None:
    version = new.get("metadata", {}).get("resourceVersion")
    if version and version != old.body["metadata"]["resourceVersion"]:
        raise Refused(409, "Conflict", "the object has been modified; please apply your changes")
    uid = new.get("metadata", {}).get("uid")
    if uid and uid != old.body["metadata"]["uid"]:
        raise Refused(409, "Conflict", "Precondition failed: UID in precondition does not match")


def _within_subresource(write: Write, body: Body) -> Body:
    """Return what an apply through this door may speak about."""
    if write.subresource == "status":
        return {name: value for name, value in body.items() if name != "spec"}
    if write.resource.has_status:
        return {name: value for name, value in body.items() if name != "status"}
    return body


def _isolated(write: Write, old: Body, new: Body) -> Body:
    if write.subresource == "status":
        return {**old, **({"status": new["status"]} if "status" in new else {})}
    if write.resource.has_status:
        kept = {"status": old["status"]} if "status" in old else {}
        return {**{name: item for name, item in new.items() if name != "status"}, **kept}
    return new


def _checked(resource: Resource, body: Body, old: Body | None) -> Body:
    """Return the body pruned and defaulted; refuse it when it is invalid."""
    found: Iterator[str] = iter(())
    if resource.schema is not None:
        body = schema.defaulted(schema.pruned(body, resource.schema), resource.schema)
        found = schema.problems(body, resource.schema)
    elif resource == EVENTS:
        found = events.problems(body, old)
    wrong = [*found, *(schema.rule_problems(body, old) if resource.schema else ())]
    if wrong:
        name = body["metadata"].get("name", "")
        raise Refused(422, "Invalid", f'{resource.kind} "{name}" is invalid: {"; ".join(wrong)}')
    return body


def _admitted(resource: Resource, body: Body) -> Body:
    """Return what admission makes of a new object: a Node begins with the taint not-ready."""
    if resource != NODES:
        return body
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    spec = body.get("spec") or {}
    return {**body, "spec": {**spec, "taints": [*spec.get("taints", ()), taint]}}


def _stored_form(resource: Resource, body: Any) -> Body:
    if not isinstance(body, dict):
        raise Refused(400, "BadRequest", "the body is no object")
    return events.to_core(body) if resource == EVENTS else body


def _shown_form(resource: Resource, body: Body) -> Body:
    return events.from_core(body) if resource == EVENTS else body


def shown(resource: Resource, stored: Stored) -> bytes:
    """Return the JSON of an object as this resource shows it."""
    if resource == EVENTS:
        return json.dumps(events.from_core(stored.body)).encode()
    return stored.encoded()
