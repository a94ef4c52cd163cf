"""The adapter: ``KubeApi`` over HTTP.

Owns connections, retries and deadlines. Bodies stay the JSON objects that they are; nothing is
validated here. Must not know: what is asked, or why, and how answers are read (``answers``).
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlencode

import aiohttp

from gpucdi.api import fields
from gpucdi_kube import answers
from gpucdi_kube.api import APPLY_PATCH, Guard, KubeObject, Observer, RequestRecord, WatchEvent
from gpucdi_kube.clock import Clock, SystemClock
from gpucdi_kube.credentials import Credentials, CredentialsError, find
from gpucdi_kube.errors import (
    Gone,
    KubeError,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from gpucdi_kube.fence import FencedConnector
from gpucdi_kube.retry import RetryPolicy, TokenBucket

_LIST_RESTARTS = 3
_WATCH_PAGE = 500
_WATCH_GRACE_S = 15.0


@dataclass(frozen=True, slots=True)
class _Request:
    verb: str
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: object = None
    content_type: str = "application/json"
    # Sent twice, these end as if sent once. A create may already have happened when it fails.
    repeatable: bool = True

    @property
    def title(self) -> str:
        return f"{self.verb} {self.path}"


class HttpKubeApi:
    """``KubeApi`` over one aiohttp session. Make it inside a running event loop, and close it."""

    def __init__(
        self,
        credentials: Credentials,
        *,
        user_agent: str = "gpucdi",
        policy: RetryPolicy | None = None,
        bucket: TokenBucket | None = None,
        observe: Observer | None = None,
        guard: Guard | None = None,
        clock: Clock | None = None,
        connections: int = 16,
    ) -> None:
        self._credentials = credentials
        self._policy = policy or RetryPolicy()
        self._bucket = bucket
        self._observe = observe
        self._guard = guard
        self._clock = clock or SystemClock()
        self._agent = user_agent
        self._session = aiohttp.ClientSession(
            connector=FencedConnector(guard, limit=connections, tls=credentials.ssl_context()),
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def get(self, path: str) -> KubeObject | None:
        """Return the object, or ``None`` when there is none (404)."""
        try:
            return await self._call(_Request("get", "GET", path))
        except NotFound:
            return None

    async def list(
        self,
        path: str,
        *,
        field_selector: str = "",
        label_selector: str = "",
        limit: int = 500,
        cached: bool = False,
    ) -> AsyncIterator[KubeObject]:
        """Yield the items page by page."""
        query = _selectors(field_selector, label_selector) | {"limit": str(limit)}
        if cached:
            # Any version will do: the watch cache answers, which keeps Pods by node.
            query["resourceVersion"] = "0"
        async for page in self._pages(path, query):
            for item in fields.objects(page, "items"):
                yield dict(item)

    async def _pages(self, path: str, query: Mapping[str, str]) -> AsyncIterator[KubeObject]:
        """Yield the pages of a collection; start anew, a few times, when the token expires."""
        token, restarts = "", 0
        while True:
            paged = {**query, **({"continue": token} if token else {})}
            try:
                page = await self._call(_Request("list", "GET", path, paged))
            except Gone:
                restarts += 1
                if not token or restarts > _LIST_RESTARTS:
                    raise
                token = ""
                continue
            yield page
            token = fields.text(fields.mapping(page, "metadata"), "continue")
            if not token:
                return

    async def apply(
        self, path: str, body: KubeObject, *, field_manager: str, force: bool = False
    ) -> KubeObject:
        """Server-side apply; JSON is YAML, so the body goes out as it is."""
        query = {"fieldManager": field_manager, "force": "true" if force else "false"}
        return await self._call(_Request("apply", "PATCH", path, query, body, APPLY_PATCH))

    async def create(self, path: str, body: KubeObject) -> KubeObject:
        """Create; repeated only when the server has certainly not seen it."""
        return await self._call(_Request("create", "POST", path, body=body, repeatable=False))

    async def replace(self, path: str, body: KubeObject) -> KubeObject:
        """Replace; a lost answer may come back as ``Conflict`` with ourselves."""
        return await self._call(_Request("replace", "PUT", path, body=body))

    async def patch(self, path: str, body: object, *, content_type: str) -> KubeObject:
        """Patch."""
        return await self._call(
            _Request("patch", "PATCH", path, body=body, content_type=content_type)
        )

    async def delete(self, path: str) -> None:
        """Delete; 404 is success."""
        try:
            await self._call(_Request("delete", "DELETE", path))
        except NotFound:
            return

    async def watch(
        self, path: str, *, field_selector: str = "", resource_version: str = "", timeout_s: int
    ) -> AsyncIterator[WatchEvent]:
        """Yield events; a cut connection raises ``Unreachable``, an ERROR event its error.

        Where to start is always said: a watch without a version makes the server ask its store
        for progress, which etcd below 3.5 cannot tell (HTTP 500, RequestWatchProgress disabled).
        """
        selectors = _selectors(field_selector, "")
        if not resource_version:
            async for page in self._pages(path, selectors | {"limit": str(_WATCH_PAGE)}):
                for item in fields.objects(page, "items"):
                    yield WatchEvent("ADDED", dict(item))
                resource_version = fields.text(fields.mapping(page, "metadata"), "resourceVersion")
        query = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(timeout_s)}
        query["resourceVersion"] = resource_version
        request = _Request("watch", "GET", path, query | selectors)
        timeout = aiohttp.ClientTimeout(
            total=timeout_s + _WATCH_GRACE_S, sock_connect=self._policy.connect_timeout_s
        )
        async with self._answer(request, timeout) as response:
            async for line in answers.lines(response):
                yield answers.watch_event(line, request.title)

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def _call(self, request: _Request) -> KubeObject:
        """Send until there is an answer, the deadline is near, or trying again is wrong."""
        started, attempt, renewed = self._clock.monotonic(), 0, False
        while True:
            if self._bucket is not None:
                await self._bucket.take()
            try:
                return await self._once(request)
            except Unauthorized as error:
                # The kubelet rotates tokens under us; one fresh read decides.
                if renewed:
                    raise
                renewed = True
                await self._renew(request, error)
                continue
            except KubeError as error:
                wait = self._wait_s(request, error, attempt)
                if wait is None or self._spent(started) + wait >= self._policy.deadline_s:
                    raise
            await self._clock.sleep(wait)
            attempt += 1

    async def _renew(self, request: _Request, refused: Unauthorized) -> None:
        try:
            await self._credentials.authorization.renew()
        except CredentialsError as error:
            raise Unauthorized(f"{request.title}: {error}", code=refused.code) from error

    def _spent(self, started: float) -> float:
        return self._clock.monotonic() - started

    def _wait_s(self, request: _Request, error: KubeError, attempt: int) -> float | None:
        """Return the pause before trying again, or ``None`` when that is wrong."""
        if isinstance(error, TooManyRequests):
            return self._policy.delay_s(attempt, retry_after_s=error.retry_after_s)
        refused = isinstance(error.__cause__, aiohttp.ClientConnectorError)
        if isinstance(error, ServerError | Unreachable) and (request.repeatable or refused):
            return self._policy.delay_s(attempt)
        return None

    async def _once(self, request: _Request) -> KubeObject:
        if self._guard is not None:
            self._guard(request.verb)
        timeout = aiohttp.ClientTimeout(
            total=self._policy.attempt_timeout_s, sock_connect=self._policy.connect_timeout_s
        )
        async with self._answer(request, timeout) as response:
            return answers.decoded(await response.read(), request.title, response.status)

    @asynccontextmanager
    async def _answer(
        self, request: _Request, limits: aiohttp.ClientTimeout
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send once; yield a 2xx answer, raise the error of any other, and tell the observer."""
        started, code = time.perf_counter(), 0
        try:
            async with self._session.request(
                request.method,
                self._url(request),
                data=None if request.body is None else json.dumps(request.body),
                headers=await self._headers(request),
                timeout=limits,
                proxy=self._credentials.proxy,
                server_hostname=self._credentials.tls_server_name,
            ) as response:
                code = response.status
                if code >= 400:  # noqa: PLR2004  # HTTP's own boundary
                    raise await answers.refusal(response, request.title)
                yield response
        except (aiohttp.ClientError, TimeoutError) as error:
            told = str(error) or type(error).__name__
            raise Unreachable(f"{request.title}: {told}") from error
        finally:
            if self._observe is not None:
                seconds = time.perf_counter() - started
                self._observe(RequestRecord(request.verb, request.path, code, seconds))

    def _url(self, request: _Request) -> str:
        query = f"?{urlencode(request.query)}" if request.query else ""
        return f"{self._credentials.server}{request.path}{query}"

    async def _headers(self, request: _Request) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": self._agent}
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        try:
            authorization = await self._credentials.authorization.header()
        except CredentialsError as error:
            raise Unauthorized(f"{request.title}: {error}", code=401) from error
        if authorization:
            headers["Authorization"] = authorization
        return headers


def _selectors(field_selector: str, label_selector: str) -> dict[str, str]:
    chosen = {"fieldSelector": field_selector, "labelSelector": label_selector}
    return {name: value for name, value in chosen.items() if value}


async def connect(
    kubeconfig: str | None = None,
    *,
    context: str | None = None,
    user_agent: str = "gpucdi",
    policy: RetryPolicy | None = None,
    bucket: TokenBucket | None = None,
    observe: Observer | None = None,
    guard: Guard | None = None,
) -> HttpKubeApi:
    """Return a connection: the Pod's service account, or a kubeconfig when one is named or needed.

    Nothing is sent yet. Raises ``CredentialsError`` when there is neither.
    """
    return HttpKubeApi(
        await find(kubeconfig, context),
        user_agent=user_agent,
        policy=policy,
        bucket=bucket,
        observe=observe,
        guard=guard,
    )
