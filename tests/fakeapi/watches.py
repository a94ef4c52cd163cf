"""What a watch says, line by line. Must not know: which watches there are, nor for how long."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web
from tests.fakeapi import selectors, writes
from tests.fakeapi.resources import Resource
from tests.fakeapi.store import Change, Stored

BEFORE_THE_END_S = 2.0


class Bookmarks:
    """When a watch tells how far it has come: every so often, and once more shortly before its end.

    One that has come no further than what it had to tell at once (``since``) tells nothing, and so
    does one that was not asked to (``every_s`` is None).
    Source: kubernetes/kubernetes ``staging/src/k8s.io/apiserver/pkg/storage/cacher/cache_watcher.go``
    (``nextBookmarkTime``, ``processInterval``).
    """

    def __init__(self, every_s: float | None, timeout_s: float, since: int) -> None:
        self._clock = asyncio.get_running_loop().time
        self._every_s = every_s
        self._last = self._clock() + timeout_s - BEFORE_THE_END_S
        self._since = since
        self.due = self._next()

    def line(self, resource: Resource, version: int) -> bytes | None:
        """Return the mark that is due at this version of the store, if it tells anything."""
        self.due = self._next()
        return bookmark(resource, version) if version > self._since else None

    def _next(self) -> float | None:
        if self._every_s is None:
            return None
        now = self._clock()
        due = now + self._every_s
        return self._last if now < self._last < due else due


def bookmark(resource: Resource, version: int) -> bytes:
    """Return the event that tells nothing but how far a watch has come."""
    meta = {"resourceVersion": str(version), "creationTimestamp": None}
    told = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta}
    return json.dumps({"type": "BOOKMARK", "object": told}).encode()


@dataclass(frozen=True, slots=True)
class View:
    """What of a store's changes a watcher gets to see."""

    resource: Resource
    namespace: str
    matches: selectors.Predicate

    def line(self, change: Change) -> bytes | None:
        """Return the event that tells of a change, or None."""
        before, after = self._visible(change.before), self._visible(change.after)
        if after is not None:
            kind, shown = ("MODIFIED" if before is not None else "ADDED"), after
        elif before is not None:
            # An object that leaves the selector looks deleted; its version is that of the change.
            body = (change.after or before).body
            meta = {**body["metadata"], "resourceVersion": str(change.version)}
            kind, shown = "DELETED", Stored({**body, "metadata": meta}, change.version)
        else:
            return None
        data = writes.shown(self.resource, shown)
        return b'{"type":"' + kind.encode() + b'","object":' + data + b"}"

    def _visible(self, stored: Stored | None) -> Stored | None:
        if stored is None or not self.matches(stored.body):
            return None
        if self.namespace and stored.body["metadata"].get("namespace") != self.namespace:
            return None
        return stored


@dataclass(frozen=True, slots=True)
class Source:
    """Where a watch hears of changes; ``version`` is how far the store has come."""

    changes: asyncio.Queue[Change]
    version: Callable[[], int]


async def stream(
    response: web.StreamResponse,
    source: Source,
    view: View,
    marks: Bookmarks,
    silent: asyncio.Event,
) -> None:
    """Tell of every change until the client has gone, or until the watch falls silent."""
    while True:
        try:
            async with asyncio.timeout_at(marks.due):
                line = view.line(await source.changes.get())
        except TimeoutError:
            line = marks.line(view.resource, source.version())
        if line is None:
            continue
        if silent.is_set():
            return
        try:
            await response.write(line + b"\n")
        except ConnectionResetError:
            # Whoever watched has gone; the end of the request comes a moment later.
            return


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
