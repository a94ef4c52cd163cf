"""What a watch says, line by line. Must not know: which watches there are, nor for how long."""

from __future__ import annotations

import asyncio
import json

from aiohttp import web
from tests.fakeapi import selectors, writes
from tests.fakeapi.resources import Resource
from tests.fakeapi.store import Change, Stored


def bookmark(resource: Resource, version: int) -> bytes:
    """Return the event that tells nothing but how far a watch has come."""
    meta = {"resourceVersion": str(version), "creationTimestamp": None}
    told = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta}
    return json.dumps({"type": "BOOKMARK", "object": told}).encode()


def line(
    change: Change, resource: Resource, namespace: str, matches: selectors.Predicate
) -> bytes | None:
    """Return the event a watcher with this selector sees, or None."""
    before = _visible(change.before, namespace, matches)
    after = _visible(change.after, namespace, matches)
    if after is not None:
        kind, shown = ("MODIFIED" if before is not None else "ADDED"), after
    elif before is not None:
        # An object that leaves the selector looks deleted; its version is that of the change.
        kind, shown = (
            "DELETED",
            Stored(
                {
                    **(change.after or before).body,
                    "metadata": {
                        **(change.after or before).body["metadata"],
                        "resourceVersion": str(change.version),
                    },
                },
                change.version,
            ),
        )
    else:
        return None
    data = writes.shown(resource, shown)
    return b'{"type":"' + kind.encode() + b'","object":' + data + b"}"


def _visible(stored: Stored | None, namespace: str, matches: selectors.Predicate) -> Stored | None:
    if stored is None or not matches(stored.body):
        return None
    if namespace and stored.body["metadata"].get("namespace") != namespace:
        return None
    return stored


async def expired(request: web.Request, version: str) -> web.StreamResponse:
    """Answer as the real server does: a stream, 200, whose only event is the error."""
    told = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"too old resource version: {version}",
        "reason": "Expired",
        "code": 410,
    }
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    await response.write(json.dumps({"type": "ERROR", "object": told}).encode() + b"\n")
    return response


async def gone(request: web.Request) -> None:
    """Wait until the client has closed the connection; aiohttp tells it in no other way."""
    while request.transport is not None:  # noqa: ASYNC110  # there is no event to wait for
        await asyncio.sleep(0.1)
