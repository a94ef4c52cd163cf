"""The whole operator put together and kept running.

Owns: which tasks run when. Both replicas watch and stay warm; only the leader works. A task that
ends by itself (kopf gives up on an expired list page) ends the process, which starts anew.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

from gpucdi_kube import (
    Clock,
    Credentials,
    HttpKubeApi,
    KubeError,
    RetryPolicy,
    SystemClock,
    TokenBucket,
)
from gpucdi_kube.credentials import find
from gpucdi_kube.retry import NO_RETRY
from gpucdi_operator import adapters, health
from gpucdi_operator.events import Recorder
from gpucdi_operator.fleet import Fleet
from gpucdi_operator.forwarding import Beat
from gpucdi_operator.governor import Governor
from gpucdi_operator.leader import Elector
from gpucdi_operator.logs import log
from gpucdi_operator.metrics import Metrics
from gpucdi_operator.nodes import NodeReconciler
from gpucdi_operator.options import Options
from gpucdi_operator.podfacts import PodKey
from gpucdi_operator.pods import PodReconciler
from gpucdi_operator.queue import KeyedQueue
from gpucdi_operator.repairs import Repairs
from gpucdi_operator.restarter import Restarter
from gpucdi_operator.rights import Rights
from gpucdi_operator.silence import Silence
from gpucdi_operator.store import Store
from gpucdi_operator.taints import Tainter

BEAT_S = 5.0
STUCK_S = 60.0
STOP_S = 5.0
USER_AGENT = "gpucdi-operator"


class Operator:
    """One replica. Make it inside a running event loop."""

    def __init__(
        self, options: Options, credentials: Credentials, clock: Clock | None = None
    ) -> None:
        self.options = options
        self.credentials = credentials
        self.clock = clock or SystemClock()
        self.metrics = Metrics()
        self.store = Store()
        self.identity = options.identity or f"{socket.gethostname()}-{os.getpid()}"
        self.elector = self._elector()
        self._bucket = TokenBucket(options.requests_per_second, options.burst, self.clock)
        self.api = self._client(RetryPolicy())
        self.evicting = self._client(NO_RETRY)
        failed = self.metrics.failed
        self.node_queue: KeyedQueue[str] = KeyedQueue("nodes", self.clock, failed)
        self.pod_queue: KeyedQueue[PodKey] = KeyedQueue("pods", self.clock, failed)
        self.rights = Rights(self.clock, self.metrics, options.timing.right_asked_again_s)
        tainter = Tainter(self.api, self.metrics, self.rights)
        self.nodes = NodeReconciler(self.api, self.store, self.clock, self.metrics, tainter)
        recorder = Recorder(self.api, self.clock, self.metrics, self.identity)
        self.pods = self._pods(recorder)
        self.governor = Governor(
            self.api,
            self.store,
            self.clock,
            self.metrics,
            recorder,
            self.nodes,
            self.node_queue,
            self.rights,
            options.timing.governor_s,
        )
        self.fleet = Fleet(
            self.api,
            self.store,
            self.metrics,
            self.pods,
            self.node_queue,
            self.governor,
            Repairs(self.metrics, self._counts, self.clock.now()),
        )
        self.silence = Silence(self.api, self.store, self.clock, options.timing, options.namespace)
        self.port = 0
        self.seeded = asyncio.Event()
        self.watching = asyncio.Event()
        self._stopping = asyncio.Event()
        self._beat = self.clock.monotonic()
        self.watch_beat = Beat()

    def stop(self) -> None:
        """Ask :meth:`run` to end: the Lease is given back first."""
        self._stopping.set()

    async def run(self) -> None:
        """Run until stopped; raises when a part that must not end has ended."""
        options = self.options
        async with AsyncExitStack() as stack:
            for api in (self.api, self.evicting, self.elector.api):
                stack.push_async_callback(api.close)
            self.port = await stack.enter_async_context(
                health.serve(
                    options.http, alive=self._alive, ready=self._unready, metrics=self._exposition
                )
            )
            log("started", identity=self.identity, http=self.port)
            await self._run_parts()

    async def _run_parts(self) -> None:
        stop_watching = threading.Event()
        watches = asyncio.create_task(self._watch(stop_watching))
        stopping = asyncio.create_task(self._stopping.wait())
        lasting = {
            watches,
            asyncio.create_task(self._stand()),
            asyncio.create_task(self._lead_when_elected()),
            asyncio.create_task(self._keep_beat()),
        }
        passing = {asyncio.create_task(self._seed())}
        try:
            done, _ = await asyncio.wait({stopping, *lasting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop_watching.set()
            if not self.seeded.is_set():
                watches.cancel()
            await _cancelled(stopping, *passing, *(lasting - {watches}))
            await self.elector.release()
            await asyncio.wait({watches}, timeout=STOP_S)
            await _cancelled(watches)
        for part in done - {stopping}:
            part.result()
        if not self._stopping.is_set():
            raise RuntimeError("a part of the operator ended without being asked to")

    async def _watch(self, stop: threading.Event) -> None:
        """Watch when the lists are in.

        kopf lists everything itself before it watches, so nothing is missed; at the same time it
        would take half of the processor from the lists that readiness waits for.
        """
        await self.seeded.wait()
        await adapters.watch(
            self.fleet,
            self.credentials,
            self.watching,
            stop,
            beat=self.watch_beat,
            idle_s=self.options.timing.watch_idle_s,
        )

    async def _seed(self) -> None:
        """Fill the store before we call ourselves ready."""
        await self._once(self.fleet.resync)
        self.seeded.set()
        log("ready", nodes=len(self.store.nodes), statuses=len(self.store.statuses))

    async def _stand(self) -> None:
        """Stand for election when the lists are in: who cannot read would lead and do nothing."""
        await self.seeded.wait()
        await self.elector.run()

    async def _lead_when_elected(self) -> None:
        while True:
            await self._elected(wanted=True)
            self.metrics.leader.set(1)
            leading = asyncio.create_task(self._lead())
            deposed = asyncio.create_task(self._elected(wanted=False))
            try:
                await asyncio.wait({leading, deposed}, return_when=asyncio.FIRST_COMPLETED)
                if leading.done():
                    # Nothing in there ends by itself; whatever it raised ends the process.
                    leading.result()
            finally:
                self.metrics.leader.set(0)
                # What only a leader learns would stand there for ever.
                self.metrics.breaker.clear()
                self.store.silent = set()
                self.rights.forget()
                await _cancelled(leading, deposed)

    async def _elected(self, *, wanted: bool) -> None:
        while self.elector.is_leader is not wanted:
            self.elector.changed.clear()
            await self.elector.changed.wait()

    def _counts(self) -> bool:
        """Tell whether this replica counts for the fleet. What its first lists bring is history."""
        return self.seeded.is_set() and self.elector.is_leader

    async def _lead(self) -> None:
        timing = self.options.timing
        self.pods.begin()
        self.pods.restarter.begin()
        self.silence.begin()
        self.governor.begin()
        # Who is silent comes first, or each silent node would look well for a moment.
        await self._tried(self._sweep)
        await self._tried(self.governor.look)
        self.fleet.enqueue_all()
        async with asyncio.TaskGroup() as group:
            workers = self.options.workers
            group.create_task(self.node_queue.work(self.nodes.reconcile, workers))
            group.create_task(self.pod_queue.work(self.pods.reconcile, workers))
            group.create_task(self.fleet.node_pods.run())
            group.create_task(self._once(self.fleet.take_over))
            group.create_task(self._once(self.governor.run))
            group.create_task(self._once(self.governor.tell_on))
            group.create_task(self._every(timing.lease_sweep_s, self._sweep))
            group.create_task(self._every(timing.pod_resync_s, self.fleet.node_pods.resync))
            group.create_task(self._every(timing.resync_s, self._resync, first=False))

    async def _sweep(self) -> None:
        for node in await self.silence.sweep():
            self.node_queue.add(node)

    async def _resync(self) -> None:
        await self.fleet.resync()
        self.fleet.enqueue_all()

    async def _once(self, action: Callable[[], Awaitable[None]]) -> None:
        while not await self._tried(action):
            await self.clock.sleep(self.options.timing.retry_s)

    async def _every(
        self, seconds: float, action: Callable[[], Awaitable[None]], *, first: bool = True
    ) -> None:
        if not first:
            await self.clock.sleep(seconds)
        while True:
            await self._once(action)
            await self.clock.sleep(seconds)

    async def _tried(self, action: Callable[[], Awaitable[None]]) -> bool:
        """Tell whether it was done; an error that nobody foresaw stops no other part either."""
        try:
            await action()
        except KubeError as error:
            log("will be tried again", 30, action=action.__name__, error=str(error))
        except Exception as error:  # noqa: BLE001  # told with its traceback, and counted
            self.metrics.failed("fleet")
            told = f"{type(error).__name__}: {error}"
            log("will be tried again", 40, action=action.__name__, error=told, trace=error)
        else:
            return True
        return False

    async def _keep_beat(self) -> None:
        while True:
            self._beat = self.clock.monotonic()
            await self.clock.sleep(BEAT_S)

    def _alive(self) -> str:
        for loop, stuck_s in (
            ("loop", self.clock.monotonic() - self._beat),
            ("loop of the watches", self.watch_beat.age_s()),
        ):
            if stuck_s > STUCK_S:
                return f"the {loop} has been stuck for {stuck_s:.0f} s"
        return ""

    def _unready(self) -> str:
        if not self.watching.is_set():
            return "the watches are not under way"
        return "" if self.seeded.is_set() else "the first lists are not done"

    def _exposition(self) -> bytes:
        self.metrics.fleet(self.store)
        # A replica that leads no more does not learn how it went on.
        self.metrics.pods_failing.set(self.pods.failing if self.elector.is_leader else 0)
        for queue in (self.node_queue, self.pod_queue):
            self.metrics.queue_depth.labels(queue.name).set(len(queue))
        return self.metrics.text()

    def _client(self, policy: RetryPolicy) -> HttpKubeApi:
        return HttpKubeApi(
            self.credentials,
            user_agent=USER_AGENT,
            policy=policy,
            bucket=self._bucket,
            observe=self.metrics.request,
            guard=self.elector.guard,
            clock=self.clock,
        )

    def _elector(self) -> Elector:
        timing = self.options.timing
        api = HttpKubeApi(
            self.credentials,
            user_agent=USER_AGENT,
            policy=RetryPolicy(
                deadline_s=0.0, attempt_timeout_s=timing.lease_s / 3, connect_timeout_s=2.0
            ),
            observe=self.metrics.request,
            clock=self.clock,
        )
        return Elector(api, self.clock, timing, self.identity, self.options.namespace)

    def _pods(self, recorder: Recorder) -> PodReconciler:
        timing, rights = self.options.timing, self.rights
        kept = (self.store, self.clock, self.metrics, timing, recorder)
        restarter = Restarter(self.evicting, *kept, self.nodes, rights)
        return PodReconciler(
            self.api, *kept, self.pod_queue, self.node_queue, self.nodes, restarter
        )


async def _cancelled(*tasks: asyncio.Task[Any]) -> None:
    """Cancel the tasks and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def run(options: Options) -> None:
    """Find credentials and run one replica until SIGTERM or SIGINT."""
    operator = Operator(options, await find(options.kubeconfig))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, operator.stop)
    await operator.run()
