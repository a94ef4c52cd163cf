"""kopf, and nothing but kopf: its settings, its credentials, and handlers that only hand over.

Owns: how the watches are run. Handlers are ``on.event`` alone, which stores nothing on any object;
they return ``None``, because kopf would write a value into the object's status. Must not know: what
is decided. The reasons for each setting were measured on 1.45.2: lists in chunks keep the memory
flat; a null difference base halves the cost of an event; an endless back-off outlives any outage of
the API server, where the default gives up after 54 seconds and ends the process.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import random
import threading
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import kopf

from gpucdi.api.names import GROUP, PLURAL_POLICY, PLURAL_STATUS, VERSION
from gpucdi_kube import Credentials
from gpucdi_operator.forwarding import Beat, Forwarder, Listener

TOKEN_LIFETIME = timedelta(minutes=10)
# aiohttp only begins to close its TLS connections; a loop that ends at once leaves them behind.
CLOSING_S = 0.25
# kopf holds a page's objects until each was taken: of 5,000 Nodes at 13 kB, pages of 500 leave 25 MiB
# more in the heap than these, and 37 at the highest.
CHUNK = 100
# The server sends a bookmark a minute, once anything has changed since the watch began. One that says
# nothing for longer is a dead connection or has nothing to tell; to open it anew costs one request.
WATCH_IDLE_S = 70.0
# Loud reasons of Warning Events that never carry a CDI text; the server leaves them out.
LOUD = (
    "BackOff",
    "Unhealthy",
    "FailedScheduling",
    "FailedMount",
    "FailedAttachVolume",
    "FailedKillPod",
    "Evicted",
    "NodeNotReady",
    "DNSConfigForming",
)
EVENT_SELECTOR = ",".join(
    ("involvedObject.kind=Pod", "type=Warning", *(f"reason!={reason}" for reason in LOUD))
)


class NullDiffBase(kopf.DiffBaseStorage):
    """Stores nothing and compares nothing: there are no handlers that would."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        """Return an empty essence."""
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> kopf.BodyEssence | None:
        """Return that nothing is stored."""
        return None

    def store(self, **_: Any) -> None:
        """Store nothing."""


class NullProgress(kopf.ProgressStorage):
    """Stores no progress: ``on.event`` has none."""

    def fetch(self, **_: Any) -> None:
        """Return that nothing is stored."""

    def store(self, **_: Any) -> None:
        """Store nothing."""

    def purge(self, **_: Any) -> None:
        """Remove nothing."""

    def touch(self, **_: Any) -> None:
        """Write nothing."""

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        """Return the essence as it is, instead of a deep copy."""
        return essence


@dataclass(frozen=True, slots=True)
class Endless:
    """Delays for ever, in seconds: 1 to 30, with jitter. Can be iterated again and again."""

    last_s: float = 30.0

    def __iter__(self) -> Iterator[float]:
        """Yield the delays."""
        ceiling = 2.0
        while True:
            yield random.uniform(ceiling / 2, ceiling)  # noqa: S311  # spreads load
            ceiling = min(ceiling * 2, self.last_s)


def settings(idle_s: float = WATCH_IDLE_S) -> kopf.OperatorSettings:
    """Return the settings of the watches; one that is silent for ``idle_s`` is opened anew."""
    chosen = kopf.OperatorSettings()
    watching = chosen.watching
    watching.chunk_size = CHUNK
    watching.server_timeout = 600
    watching.client_timeout = 660
    watching.inactivity_timeout = idle_s
    watching.reconnect_backoff = 1.0
    watching.field_selectors["", "v1", "events"] = EVENT_SELECTOR
    chosen.networking.request_timeout = 60
    chosen.networking.connect_timeout = 10
    chosen.networking.error_backoffs = Endless()
    chosen.queueing.idle_timeout = 0.5
    chosen.queueing.worker_limit = None
    chosen.scanning.disabled = True
    chosen.peering.standalone = True
    chosen.posting.enabled = False
    chosen.persistence.diffbase_storage = NullDiffBase()
    chosen.persistence.progress_storage = NullProgress()
    # It would kill the process from its thread; when to end is the application's to say.
    chosen.process.ultimate_exiting_timeout = None
    return chosen


def registry(listener: Listener, credentials: Credentials) -> kopf.OperatorRegistry:
    """Return a registry of our own, so that no other program's handlers are met."""
    made = kopf.OperatorRegistry()

    async def login(**_: Any) -> kopf.ConnectionInfo:
        return await connection(credentials)

    async def node(event: kopf.RawEvent, **_: Any) -> None:
        listener.saw_node(event["object"], deleted=event["type"] == "DELETED")

    async def status(event: kopf.RawEvent, **_: Any) -> None:
        listener.saw_status(event["object"], deleted=event["type"] == "DELETED")

    async def policy(event: kopf.RawEvent, **_: Any) -> None:
        listener.saw_policy(event["object"], deleted=event["type"] == "DELETED")

    async def runtime_class(event: kopf.RawEvent, **_: Any) -> None:
        listener.saw_runtime_class(event["object"], deleted=event["type"] == "DELETED")

    async def warning(event: kopf.RawEvent, **_: Any) -> None:
        if event["type"] != "DELETED":
            listener.saw_event(event["object"])

    kopf.on.login(registry=made)(login)
    kopf.on.event("", "v1", "nodes", registry=made)(node)
    kopf.on.event(GROUP, VERSION, PLURAL_STATUS, registry=made)(status)
    kopf.on.event(GROUP, VERSION, PLURAL_POLICY, registry=made)(policy)
    kopf.on.event("node.k8s.io", "v1", "runtimeclasses", registry=made)(runtime_class)
    kopf.on.event("", "v1", "events", registry=made)(warning)
    return made


async def connection(credentials: Credentials) -> kopf.ConnectionInfo:
    """Return our credentials as kopf wants them; they expire, so that a token is read again."""
    await credentials.authorization.renew()
    scheme, _, token = (await credentials.authorization.header() or "").partition(" ")
    return kopf.ConnectionInfo(
        server=credentials.server,
        ca_path=credentials.ca_file,
        insecure=not credentials.verify,
        scheme=scheme or None,
        token=token or None,
        certificate_path=credentials.cert_file,
        private_key_path=credentials.key_file,
        proxy_url=credentials.proxy,
        expiration=datetime.now(UTC) + TOKEN_LIFETIME if token else None,
    )


async def watch(
    listener: Listener,
    credentials: Credentials,
    ready: asyncio.Event,
    stop: threading.Event,
    *,
    beat: Beat,
    idle_s: float = WATCH_IDLE_S,
) -> None:
    """Run the watches until ``stop`` is set; ``ready`` is set when they are under way.

    kopf gets a thread and an event loop of its own. On ours it would take SIGTERM for itself, and
    at its end it cancels every task that began while it ran, ours included. A refusal (403) is asked
    again for ever. ``beat`` tells whether that loop still goes round. Raises, or returns early, when kopf gives up (an expired list page, an unknown
    error in a watch): the process must then end and start anew.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    started: concurrent.futures.Future[Any] = concurrent.futures.Future()
    started.add_done_callback(lambda _: loop.call_soon_threadsafe(ready.set))
    forwarder = Forwarder(listener, loop)

    def tell(error: BaseException | None) -> None:
        if ended.done():
            return
        if error is None:
            ended.set_result(None)
        else:
            ended.set_exception(error)

    def run() -> None:
        error: BaseException | None = None
        try:
            asyncio.run(_beating(beat, _operator(forwarder, credentials, started, stop, idle_s)))
        except BaseException as caught:  # noqa: BLE001  # it is raised again on the other loop
            error = caught
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(tell, error)

    # From here on: a thread that never comes to its loop is stuck as well.
    beat.strike()
    threading.Thread(target=run, name="kopf", daemon=True).start()
    await ended


async def _beating(beat: Beat, work: Coroutine[Any, Any, None]) -> None:
    keeping = asyncio.create_task(beat.keep())
    try:
        await work
    finally:
        keeping.cancel()


async def _operator(
    listener: Listener,
    credentials: Credentials,
    ready: concurrent.futures.Future[Any],
    stop: threading.Event,
    idle_s: float,
) -> None:
    try:
        await kopf.operator(
            registry=registry(listener, credentials),
            settings=settings(idle_s),
            standalone=True,
            clusterwide=True,
            ready_flag=ready,
            stop_flag=stop,
        )
    finally:
        # A thread of this loop waits for the flag; unset, it would keep the loop from ending.
        stop.set()
        await asyncio.sleep(CLOSING_S)
