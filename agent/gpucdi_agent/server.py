"""``/metrics``, ``/healthz`` and ``/readyz`` in the few lines that they need.

Owns: this much of HTTP/1.1. Must not know: what is measured, nor what health means. A web framework
would cost the resident process several megabytes for three GET requests a minute.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

REQUEST_SECONDS = 5.0
_HEAD_LIMIT_BYTES = 16 * 1024
TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Answer:
    """A response; ``code`` is the HTTP status."""

    body: bytes
    code: int = 200
    content_type: str = TEXT


Handlers = Mapping[str, Callable[[], Answer]]
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed"}
_UNAVAILABLE = 503


async def serve(handlers: Handlers, host: str, port: int) -> asyncio.Server:
    """Listen and answer GET of the paths in ``handlers``; close the returned server to stop."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_response(_answer(handlers, head)))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a client that does not speak HTTP, or left
        finally:
            writer.close()

    return await asyncio.start_server(connected, host, port, limit=_HEAD_LIMIT_BYTES)


def _answer(handlers: Handlers, head: bytes) -> Answer:
    parts = head.split(b"\r\n", 1)[0].decode("latin-1").split()
    if len(parts) != len(("GET", "/", "HTTP/1.1")):
        return Answer(b"bad request\n", 400)
    method, target, _ = parts
    if method not in {"GET", "HEAD"}:
        return Answer(b"only GET\n", 405)
    handler = handlers.get(target.partition("?")[0])
    answer = handler() if handler else Answer(b"not found\n", 404)
    return Answer(b"", answer.code, answer.content_type) if method == "HEAD" else answer


def _response(answer: Answer) -> bytes:
    reason = _REASONS.get(answer.code, "Service Unavailable")
    head = (
        f"HTTP/1.1 {answer.code} {reason}\r\n"
        f"Content-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + answer.body


def health(problem: str) -> Answer:
    """Return 200 ``ok``, or 503 with the problem."""
    return Answer(f"{problem}\n".encode(), _UNAVAILABLE) if problem else Answer(b"ok\n")
