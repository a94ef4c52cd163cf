"""Where the operator's three pages can be reached."""

from __future__ import annotations

import socket

import aiohttp
import pytest

from gpucdi_operator.health import serve


def nothing() -> str:
    return ""


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as found:
            found.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    ("address", "asked"),
    [
        ("127.0.0.1:0", "127.0.0.1"),
        ("[::1]:0", "[::1]"),
        (":{free}", "127.0.0.1"),
        (":{free}", "[::1]"),
    ],
)
async def test_the_pages_are_served_where_the_address_says(address: str, asked: str) -> None:
    if ":" in asked and not has_ipv6():
        pytest.skip("this machine has no IPv6")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = address.format(free=free.getsockname()[1])
    async with (
        serve(address, alive=nothing, ready=nothing, metrics=bytes) as port,
        aiohttp.ClientSession() as session,
        session.get(f"http://{asked}:{port}/healthz") as answer,
    ):
        assert (answer.status, await answer.text()) == (200, "ok\n")
