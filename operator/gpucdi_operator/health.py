"""What a probe and a scrape get to see. Owns three small pages over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

Check = Callable[[], str]  # what is wrong, or nothing


@asynccontextmanager
async def serve(
    address: str, *, alive: Check, ready: Check, metrics: Callable[[], bytes]
) -> AsyncIterator[int]:
    """Serve ``/healthz``, ``/readyz`` and ``/metrics`` at ``host:port``; yield the port.

    Without a host it listens on all addresses, of IPv6 too: kubelet probes a Pod where its cluster
    lives. An IPv6 address stands in brackets.
    """

    async def page(check: Check) -> web.Response:
        wrong = check()
        return web.Response(text=(wrong or "ok") + "\n", status=503 if wrong else 200)

    async def healthz(_: web.Request) -> web.Response:
        return await page(alive)

    async def readyz(_: web.Request) -> web.Response:
        return await page(ready)

    async def exposition(_: web.Request) -> web.Response:
        return web.Response(body=metrics(), content_type="text/plain", charset="utf-8")

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", exposition)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    host, _, port = address.rpartition(":")
    try:
        await web.TCPSite(runner, host.strip("[]") or None, int(port)).start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()
