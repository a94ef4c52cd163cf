"""Metrics and health over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gpucdi_agent.server import Answer, health, serve


@asynccontextmanager
async def served() -> AsyncIterator[int]:
    handlers = {"/metrics": lambda: Answer(b"m 1\n"), "/healthz": lambda: health("it is stuck")}
    server = await serve(handlers, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


async def exchange(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    writer.write_eof()
    answer = await asyncio.wait_for(reader.read(), 5)
    writer.close()
    await writer.wait_closed()
    return answer


def get(path: str, method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


@pytest.mark.parametrize(
    ("request_bytes", "start"),
    [
        (get("/metrics"), b"HTTP/1.1 200 OK"),
        (get("/metrics?x=1"), b"HTTP/1.1 200 OK"),
        (get("/healthz"), b"HTTP/1.1 503 Service Unavailable"),
        (get("/other"), b"HTTP/1.1 404 Not Found"),
        (get("/metrics", "POST"), b"HTTP/1.1 405 Method Not Allowed"),
        (b"nonsense\r\n\r\n", b"HTTP/1.1 400 Bad Request"),
        (b"", b""),
        (b"GET /" + b"x" * 40_000, b""),
    ],
)
async def test_each_request_gets_its_status(request_bytes: bytes, start: bytes) -> None:
    async with served() as port:
        assert (await exchange(port, request_bytes)).startswith(start)


async def test_the_body_says_what_is_wrong() -> None:
    async with served() as port:
        assert (await exchange(port, get("/healthz"))).endswith(b"\r\n\r\nit is stuck\n")


async def test_head_sends_no_body() -> None:
    async with served() as port:
        assert (await exchange(port, get("/metrics", "HEAD"))).endswith(b"\r\n\r\n")


def test_healthy_is_ok() -> None:
    assert health("") == Answer(b"ok\n")
