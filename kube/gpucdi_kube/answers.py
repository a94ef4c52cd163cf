"""What comes back from the API server: bodies, the lines of a watch, refusals.

Owns: decoding, and which error an answer becomes. ``title`` names the request in every message.
Must not know: connections, retries.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import aiohttp

from gpucdi.api import fields
from gpucdi_kube.api import KubeObject, WatchEvent
from gpucdi_kube.errors import KubeError, ServerError, error_of

_CHUNK = 1 << 16


def decoded(data: bytes, title: str, code: int) -> KubeObject:
    """Return the body of a 2xx answer; anything but a JSON object is a ``ServerError``."""
    try:
        found = json.loads(data)
    except ValueError as error:
        raise ServerError(f"{title}: HTTP {code} without JSON: {error}") from error
    if not isinstance(found, dict):
        raise ServerError(f"{title}: HTTP {code} with JSON that is no object")
    return found


async def refusal(response: aiohttp.ClientResponse, title: str) -> KubeError:
    """Return the error of an answer from 400 on."""
    data = await response.read()
    try:
        status: object = json.loads(data)
    except ValueError:
        # A proxy in front of the API server answers in its own words.
        status = {"message": data[:200].decode("utf-8", "replace").strip()}
    return error_of(
        response.status,
        status,
        request=title,
        retry_after_s=_retry_after_s(response.headers.get("Retry-After", ""), status),
    )


def _retry_after_s(header: str, status: object) -> float:
    if header.isdigit():
        return float(header)
    return float(fields.integer(fields.mapping(status, "details"), "retryAfterSeconds", 1))


async def lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Split a watch into lines of any length; aiohttp's own reader has a limit."""
    rest = b""
    async for chunk in response.content.iter_chunked(_CHUNK):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line.strip():
                yield line


def watch_event(line: bytes, title: str) -> WatchEvent:
    """Return one line of a watch; an ERROR event is raised as its error."""
    event = decoded(line, title, 200)
    kind, found = fields.text(event, "type"), dict(fields.mapping(event, "object"))
    if kind == "ERROR":
        raise error_of(fields.integer(found, "code", 500), found, request=title)
    return WatchEvent(kind, found)
