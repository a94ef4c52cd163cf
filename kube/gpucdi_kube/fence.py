"""Asks once more whether a write may go out, when there is a connection to send it on.

Between the question before an attempt and its first byte a request may wait for a free connection,
for TCP and for TLS: seconds, in which a leader's time can run out. Owns that moment and nothing else.
"""

from __future__ import annotations

import ssl

import aiohttp
from aiohttp.client_reqrep import ClientRequest
from aiohttp.connector import Connection
from aiohttp.tracing import Trace

from gpucdi_kube.api import Guard


class FencedConnector(aiohttp.TCPConnector):
    """Gives a connection to a write only if ``guard`` still lets it pass."""

    def __init__(self, guard: Guard | None, *, limit: int, tls: ssl.SSLContext | bool) -> None:
        super().__init__(limit=limit, ssl=tls)
        self._fence = guard

    async def connect(
        self,
        req: ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109  # the name that aiohttp gives it
    ) -> Connection:
        """Raise what the guard raises; the connection is closed then."""
        connection = await super().connect(req, traces, timeout)
        if self._fence is not None and req.method != "GET":
            try:
                self._fence(req.method.lower())
            except BaseException:
                connection.close()
                raise
        return connection
