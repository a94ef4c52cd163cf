"""The fake API server over real HTTP: discovery, lists, watches, writes, identities, faults.

Owns the protocol. It is measured against a real kube-apiserver by ``tests/kube/test_conformance*``:
where the two differ, this one is wrong.

``kmock`` 0.8 (PyPI, by the author of kopf) was looked at first: it has discovery, list, watch, the
plain patches, deletion with finalizers and a fine language for assertions. It lacks what this
operator is about: uids and resource versions (a watch replays everything as ADDED), selectors,
pages, bookmarks, 410, 409, server-side apply with field managers, and a ``/status`` of its own.
"""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from tests.fakeapi import discovery, evictions, fieldsets, selectors, watches, writes
from tests.fakeapi.faults import Fault, Faults
from tests.fakeapi.fieldsets import Managers
from tests.fakeapi.resources import BUILT_IN, NODES, Body, Resource, custom_resources
from tests.fakeapi.store import Change, Key, Store
from tests.fakeapi.writes import Refused, Write

LIST_LIMIT = 1_000_000


@dataclass(frozen=True, slots=True)
class Target:
    """What a request is about."""

    verb: str
    resource: Resource
    namespace: str
    name: str
    subresource: str


@dataclass(frozen=True, slots=True)
class Logged:
    """One request that was answered. ``verb`` is the API's word; a patch by apply is ``apply``."""

    user: str
    verb: str
    plural: str
    subresource: str
    namespace: str
    name: str
    code: int

    @property
    def title(self) -> str:
        inner = f"/{self.subresource}" if self.subresource else ""
        return f"{self.verb} {self.plural}{inner}"


Authorizer = Callable[[str, Target], bool]


@dataclass
class FakeApi:
    """The server's whole state; tests read and change it directly."""

    store: Store = field(default_factory=Store)
    faults: Faults = field(default_factory=Faults)
    resources: tuple[Resource, ...] = field(
        default_factory=lambda: (*BUILT_IN, *custom_resources())
    )
    # Bearer token -> user. Without any, everybody is admin.
    tokens: dict[str, str] = field(default_factory=dict)
    authorizer: Authorizer | None = None
    log: deque[Logged] = field(default_factory=lambda: deque(maxlen=100_000))
    counts: Counter[str] = field(default_factory=Counter)
    bookmark_s: float = 60.0
    # A page of a list is never longer, whatever limit the client names.
    page_limit: int = LIST_LIMIT
    url: str = ""
    # The task that serves each watch, and whether that watch has fallen silent.
    _watches: dict[asyncio.Task[Any], asyncio.Event] = field(default_factory=dict)

    def requests(self, *verbs: str, plural: str = "") -> list[Logged]:
        """Return the logged requests of these verbs."""
        return [
            entry
            for entry in self.log
            if (not verbs or entry.verb in verbs) and (not plural or entry.plural == plural)
        ]

    def resource(self, plural: str, group: str | None = None) -> Resource:
        """Return the resource of that plural name."""
        return next(
            found
            for found in self.resources
            if found.plural == plural and (group is None or found.group == group)
        )

    def put(self, plural: str, body: Body) -> Body:
        """Create or overwrite an object from outside, with all of its fields, status included."""
        resource = self.resource(plural)
        meta = body["metadata"]
        old = self.store.get(resource, (meta.get("namespace", ""), meta["name"]))
        if old is None:
            return self.store.create(resource, body, _outsiders({}, body, {}, resource)).body
        new = {**old.body, **body, "metadata": {**old.body["metadata"], **meta}}
        owned = _outsiders(old.body, new, old.managers, resource)
        return self.store.update(resource, old, new, owned).body

    def find(self, plural: str, name: str, namespace: str = "") -> Body | None:
        """Return an object, or None."""
        stored = self.store.get(self.resource(plural), (namespace, name))
        return None if stored is None else stored.body

    def all(self, plural: str, namespace: str = "") -> list[Body]:
        """Return all objects of a resource."""
        return [item.body for item in self.store.listed(self.resource(plural), namespace)]

    def remove(self, plural: str, name: str, namespace: str = "") -> None:
        """Delete an object from outside."""
        resource = self.resource(plural)
        stored = self.store.get(resource, (namespace, name))
        if stored is not None:
            self.store.delete(resource, stored)

    def expire(self) -> None:
        """Make every version and token that clients hold expire, and end all watches."""
        self.store.forget()
        self.cut_watches()

    def cut_watches(self) -> None:
        """Break every watch's connection."""
        for task in list(self._watches):
            task.cancel()

    def silence_watches(self) -> None:
        """Let every open watch say nothing more and stay open, as where a connection died unnoticed.

        Not even its own time ends it. Watches that are opened from now on are heard.
        """
        for silent in self._watches.values():
            silent.set()

    def expire_pages(self) -> None:
        """Make the token of every list that is under way expire."""
        self.store.snapshots.clear()

    # The protocol ------------------------------------------------------------------------

    def application(self) -> web.Application:
        """Return the aiohttp application."""
        app = web.Application(client_max_size=8 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._handle)
        return app

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        found = discovery.document(request.path, self.resources)
        if found is not None:
            return web.json_response(found)
        target = self._target(request)
        if target is None:
            return _failure(404, "NotFound", "the server could not find the requested resource")
        user, response = self._user(request), None
        try:
            response = await self._answer(request, target, user)
        except Refused as refused:
            response = _failure(refused.code, refused.reason, str(refused))
        finally:
            self._note(user or "", target, 0 if response is None else response.status)
        return response

    async def _answer(
        self, request: web.Request, target: Target, user: str | None
    ) -> web.StreamResponse:
        if user is None:
            raise Refused(401, "Unauthorized", "Unauthorized")
        if self.authorizer is not None and not self.authorizer(user, target):
            inner = f"/{target.subresource}" if target.subresource else ""
            raise Refused(
                403,
                "Forbidden",
                f'{target.resource.plural} is forbidden: User "{user}" cannot {target.verb} '
                f'resource "{target.resource.plural}{inner}"',
            )
        body = await request.read()
        told = body or request.query_string.encode()
        fault = self.faults.next(target.verb, target.resource.plural, told)
        if fault is not None and (refusal := await self._meet(fault, request)) is not None:
            return refusal
        response = await self._serve(request, target, body)
        if fault is not None and fault.lose:
            _cut(request)
        return response

    async def _meet(self, fault: Fault, request: web.Request) -> web.StreamResponse | None:
        await asyncio.sleep(fault.delay_s)
        if fault.cut:
            _cut(request)
            return web.Response()
        if not fault.code:
            return None
        reason = {410: "Expired", 429: "TooManyRequests", 409: "Conflict"}.get(
            fault.code, "InternalError"
        )
        response = _failure(fault.code, reason, "a fault of the test")
        if fault.retry_after_s is not None:
            response.headers["Retry-After"] = str(fault.retry_after_s)
        return response

    async def _serve(self, request: web.Request, target: Target, body: bytes) -> web.StreamResponse:
        match target.verb:
            case "watch":
                return await self._watch(request, target)
            case "list":
                return self._list(request, target)
            case "get" | "delete":
                stored = self.store.get(target.resource, (target.namespace, target.name))
                if stored is None:
                    message = f'{target.resource.plural} "{target.name}" not found'
                    raise Refused(404, "NotFound", message)
                if target.verb == "delete":
                    options = _decoded(body) if body else {}
                    if (seconds := request.query.get("gracePeriodSeconds", "")).isdecimal():
                        options = {**options, "gracePeriodSeconds": int(seconds)}
                    stored = evictions.delete(self.store, target.resource, stored, options)
                return _json(writes.shown(target.resource, stored))
            case "create" if target.subresource == "eviction":
                return self._evict(target, _decoded(body))
        return self._write(request, target, _decoded(body))

    def _evict(self, target: Target, body: Any) -> web.Response:
        stored = self.store.get(target.resource, (target.namespace, target.name))
        if stored is None:
            raise Refused(404, "NotFound", f'pods "{target.name}" not found')
        answer = evictions.evict(self.store, stored, body)
        return _json(json.dumps(answer).encode(), code=201)

    def _write(self, request: web.Request, target: Target, body: Any) -> web.Response:
        query = request.query
        agent = request.headers.get("User-Agent", "").partition("/")[0]
        write = Write(
            target.resource,
            (target.namespace, target.name),
            target.subresource,
            query.get("fieldManager") or agent,
            force=query.get("force") == "true",
        )
        if target.verb == "create":
            stored = writes.create(self.store, write, body)
            return _json(writes.shown(target.resource, stored), code=201)
        before = self.store.version
        if target.verb == "update":
            stored = writes.replace(self.store, write, body)
        elif target.verb == "apply":
            if not query.get("fieldManager"):
                raise Refused(400, "BadRequest", "fieldManager is required for apply patch")
            existed = self.store.get(target.resource, write.key) is not None
            stored = writes.apply(self.store, write, body)
            created = not existed and self.store.version > before
            return _json(writes.shown(target.resource, stored), code=201 if created else 200)
        else:
            stored = writes.patch(self.store, write, body, request.content_type)
        return _json(writes.shown(target.resource, stored))

    # Reading -----------------------------------------------------------------------------

    def _list(self, request: web.Request, target: Target) -> web.Response:
        query = request.query
        token = query.get("continue", "")
        limit = min(int(query.get("limit", LIST_LIMIT)), self.page_limit)
        if token:
            ident, _, start_text = token.partition(":")
            if not start_text.isdecimal():
                raise Refused(400, "BadRequest", "continue key is not valid")
            if ident not in self.store.snapshots:
                raise Refused(410, "Expired", "The provided continue parameter is too old")
            version, items, start = *self.store.snapshots[ident], int(start_text)
        else:
            matches = self._predicate(request, target)
            alone = re.fullmatch(
                r"spec\.nodeName=([^,!=]+)", request.query.get("fieldSelector", "")
            )
            node = alone.group(1) if alone else ""
            listed = self.store.listed(target.resource, target.namespace, node)
            items = [item for item in listed if matches(item.body)]
            version, start, ident = self.store.version, 0, uuid.uuid4().hex
        meta: Body = {"resourceVersion": str(version)}
        if start + limit < len(items):
            self.store.snapshots[ident] = (version, items)
            meta["continue"] = f"{ident}:{start + limit}"
            meta["remainingItemCount"] = len(items) - start - limit
        else:
            self.store.snapshots.pop(ident, None)
        page = b",".join(
            writes.shown(target.resource, item) for item in items[start : start + limit]
        )
        head = {
            "apiVersion": target.resource.api_version,
            "kind": f"{target.resource.kind}List",
            "metadata": meta,
        }
        return _json(json.dumps(head).encode()[:-1] + b',"items":[' + page + b"]}")

    def _predicate(self, request: web.Request, target: Target) -> selectors.Predicate:
        try:
            fields = selectors.field_selector(
                request.query.get("fieldSelector", ""), target.resource
            )
            labels = selectors.label_selector(request.query.get("labelSelector", ""))
        except selectors.SelectorError as error:
            raise Refused(400, "BadRequest", str(error)) from error
        if target.name:
            return lambda body: body["metadata"]["name"] == target.name
        return lambda body: fields(body) and labels(body)

    async def _watch(self, request: web.Request, target: Target) -> web.StreamResponse:
        matches = self._predicate(request, target)
        collection = self.store.of(target.resource)
        text = request.query.get("resourceVersion", "")
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        queue: asyncio.Queue[Change] = asyncio.Queue()
        if text in {"", "0"}:
            initial = [
                Change(item.version, None, item)
                for item in self.store.listed(target.resource, target.namespace)
            ]
        else:
            missed = collection.since(int(text))
            if missed is None:
                return await watches.expired(request, text)
            initial = missed
        since = int(text or 0)
        for change in initial:
            queue.put_nowait(change)
            since = max(since, change.version)
        collection.watchers.add(queue)
        task = asyncio.current_task()
        assert task is not None
        silent = self._watches[task] = asyncio.Event()
        self.counts[f"watch {target.resource.plural}"] += 1
        try:
            await response.prepare(request)
            timeout_s = float(request.query.get("timeoutSeconds", 1800))
            every_s = (
                self.bookmark_s if request.query.get("allowWatchBookmarks") == "true" else None
            )
            view = watches.View(target.resource, target.namespace, matches)
            source = watches.Source(queue, lambda: self.store.version)
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    marks = watches.Bookmarks(every_s, timeout_s, since)
                    await watches.stream(response, source, view, marks, silent)
            if silent.is_set():
                collection.watchers.discard(queue)
                await watches.gone(request)
        except asyncio.CancelledError:
            _cut(request)
            raise
        finally:
            collection.watchers.discard(queue)
            del self._watches[task]
        return response

    # Who and what ------------------------------------------------------------------------

    def _user(self, request: web.Request) -> str | None:
        if not self.tokens:
            return "admin"
        return self.tokens.get(request.headers.get("Authorization", "").removeprefix("Bearer "))

    def _target(self, request: web.Request) -> Target | None:
        for resource in self.resources:
            rest = request.path.removeprefix(resource.root + "/")
            if rest == request.path:
                continue
            parts, namespace = rest.split("/"), ""
            if parts[0] == "namespaces" and len(parts) > 2:
                namespace, parts = parts[1], parts[2:]
            if parts[0] != resource.plural or bool(namespace) > resource.namespaced:
                continue
            name, subresource = (*parts[1:], "", "")[:2]
            verb = _verb(request, named=bool(name))
            return Target(verb, resource, namespace, name, subresource)
        return None

    def _note(self, user: str, target: Target, code: int) -> None:
        entry = Logged(
            user,
            target.verb,
            target.resource.plural,
            target.subresource,
            target.namespace,
            target.name,
            code,
        )
        self.log.append(entry)
        if target.verb != "watch":  # counted when it began
            self.counts[entry.title] += 1


@asynccontextmanager
async def serving(api: FakeApi | None = None, port: int = 0) -> AsyncIterator[FakeApi]:
    """Serve on a free loopback port until the block ends."""
    api = api or FakeApi()
    runner = web.AppRunner(api.application(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    host, bound = runner.addresses[0][:2]
    api.url = f"http://{host}:{bound}"
    try:
        yield api
    finally:
        api.cut_watches()
        await runner.cleanup()


def kubeconfig(url: str, token: str = "") -> str:
    """Return the text of a kubeconfig for the server at ``url``."""
    user = {"token": token} if token else {}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "fake",
            "clusters": [{"name": "fake", "cluster": {"server": url}}],
            "users": [{"name": "fake", "user": user}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
        }
    )


def _outsiders(old: Body, new: Body, managers: Managers, resource: Resource) -> Managers:
    """Return a Node's managers after kubelet's write: what kubelet owns, no apply takes away.

    Nodes alone: nobody applies to Pods, and the paths of 100,000 Pods would fill the memory.
    """
    if resource != NODES:
        return managers
    kubelet = ("kubelet", "Update", "status")
    return fieldsets.updated(old, new, managers, kubelet, resource.merge_keys)


def _verb(request: web.Request, *, named: bool) -> str:
    if request.method == "GET":
        if request.query.get("watch") in {"true", "1"}:
            return "watch"
        return "get" if named else "list"
    if request.method == "PATCH":
        is_apply = request.content_type == "application/apply-patch+yaml"
        return "apply" if is_apply else "patch"
    return {"POST": "create", "PUT": "update", "DELETE": "delete"}[request.method]


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError as error:
        raise Refused(400, "BadRequest", f"the body is no JSON: {error}") from error


def _json(data: bytes, code: int = 200) -> web.Response:
    return web.Response(body=data, status=code, content_type="application/json")


def _failure(code: int, reason: str, message: str) -> web.Response:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }
    return _json(json.dumps(status).encode(), code)


def _cut(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


__all__ = ["FakeApi", "Key", "Logged", "Target", "kubeconfig", "serving"]
