"""The agent's link to the API server, which may come late, go and come back.

Owns: connecting, and that the last status is shown as soon as there is somebody to show it to.
Must not know: what is published or followed (``publish``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gpucdi.api import Intent, NodeStatus
from gpucdi_agent.logs import log
from gpucdi_agent.publish import IntentWatch, LeaseKeeper, Publisher
from gpucdi_kube import Clock, CredentialsError, KubeApi

CREDENTIALS_RETRY_SECONDS = 60.0


@dataclass(slots=True)
class ClusterLink:
    """Publishes statuses and brings intents once ``connect`` succeeds."""

    node_name: str
    connect: Callable[[], Awaitable[KubeApi]]
    obey: Callable[[Intent, int | None], None]
    is_alive: Callable[[], bool]
    clock: Clock
    _latest: NodeStatus | None = None
    _publisher: Publisher | None = None

    def show(self, status: NodeStatus) -> None:
        """Publish ``status`` now, or when there is a connection."""
        self._latest = status
        if self._publisher is not None:
            self._publisher.show(status)

    async def run(self) -> None:
        """Keep the link until cancelled; a fault in it never ends the agent."""
        while True:
            try:
                await self._linked()
            except Exception as error:  # noqa: BLE001 - repairs go on without a link
                log("the link to the API server failed", logging.ERROR, error=repr(error))
            self._publisher = None
            await self.clock.sleep(CREDENTIALS_RETRY_SECONDS)

    async def _linked(self) -> None:
        api = await self._connected()
        publisher = self._publisher = Publisher(api, self.node_name, self.clock)
        if self._latest is not None:
            publisher.show(self._latest)
        intents = IntentWatch(api, self.node_name, self.clock, publisher, self.obey)
        lease = LeaseKeeper(api, self.node_name, self.clock, self.is_alive)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(publisher.run())
                tasks.create_task(intents.run())
                tasks.create_task(lease.run())
        finally:
            await api.close()

    async def _connected(self) -> KubeApi:
        told = False
        while True:
            try:
                return await self.connect()
            except CredentialsError as error:
                if not told:
                    log("no API server; the last known intent is obeyed", 30, error=str(error))
                told = True
                await self.clock.sleep(CREDENTIALS_RETRY_SECONDS)
