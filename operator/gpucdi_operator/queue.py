"""A queue of keys: each waits once, is worked on by one worker at a time, and backs off alone.

Owns: order, deduplication, delays. Must not know: what a key stands for. An item that is added
while it is worked on comes again afterwards, so no change is lost.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from gpucdi_kube import Clock
from gpucdi_kube.errors import KubeError, Remedy
from gpucdi_operator.leader import NotLeadingError
from gpucdi_operator.logs import log

K = TypeVar("K", bound=Hashable)
FIRST_DELAY_S = 0.05
LAST_DELAY_S = 300.0
NOT_LEADING_DELAY_S = 1.0
# A refusal (403, 422) is asked again seldom: only a person can change it.
REFUSED_DELAY_S = 60.0
_ERROR = 40


class KeyedQueue(Generic[K]):
    """See the module."""

    def __init__(
        self, name: str, clock: Clock, failed: Callable[[str], None] | None = None
    ) -> None:
        self.name = name
        self._clock = clock
        self._failed = failed
        self._waiting: OrderedDict[K, None] = OrderedDict()
        self._working: set[K] = set()
        self._again: set[K] = set()
        self._failures: dict[K, int] = {}
        self._later: list[tuple[float, int, K]] = []
        self._due: dict[K, float] = {}
        self._count = 0
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        """Return how many keys wait to be worked on, delayed ones not counted."""
        return len(self._waiting) + len(self._again)

    def __contains__(self, key: K) -> bool:
        """Tell whether ``key`` will be worked on, now or later; what is worked on does not count."""
        return key in self._waiting or key in self._again or key in self._due

    @property
    def is_idle(self) -> bool:
        """True when nothing waits and nothing is worked on; delayed keys may remain."""
        return not self._waiting and not self._working and not self._again

    def add(self, key: K, *, after_s: float = 0.0) -> None:
        """Have ``key`` worked on, now or after a while; the earlier of two delays counts."""
        if after_s > 0:
            due = self._clock.monotonic() + after_s
            if key not in self._due or due < self._due[key]:
                self._due[key] = due
                self._count += 1
                heapq.heappush(self._later, (due, self._count, key))
                self._wake.set()
            return
        self._due.pop(key, None)
        if key in self._working:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting[key] = None
            self._wake.set()

    def discard(self, key: K) -> None:
        """Forget what is delayed for ``key`` and its failures."""
        self._due.pop(key, None)
        self._failures.pop(key, None)

    def drop(self, key: K) -> None:
        """Forget ``key`` even where it waits to be worked on now."""
        self.discard(key)
        self._waiting.pop(key, None)

    def clear(self) -> None:
        """Forget every key but those that are worked on."""
        for kept in (self._waiting, self._again, self._due, self._later, self._failures):
            kept.clear()

    async def work(self, handle: Callable[[K], Awaitable[None]], workers: int) -> None:
        """Work with so many workers until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(self._worker(handle))

    async def _worker(self, handle: Callable[[K], Awaitable[None]]) -> None:
        while True:
            key = await self._next()
            try:
                await handle(key)
            except asyncio.CancelledError:
                # Unfinished work is not lost when a leader steps down and up again.
                self._done(key)
                self.add(key)
                raise
            except Exception as error:  # noqa: BLE001  # one object must not stop the others
                self._done(key)
                self._retry(key, error)
            else:
                self._failures.pop(key, None)
                self._done(key)

    async def _next(self) -> K:
        while True:
            self._promote()
            if self._waiting:
                key, _ = self._waiting.popitem(last=False)
                self._working.add(key)
                if self._waiting:
                    self._wake.set()
                return key
            self._wake.clear()
            timeout = self._later[0][0] - self._clock.monotonic() if self._later else None
            try:
                async with asyncio.timeout(timeout):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _promote(self) -> None:
        now = self._clock.monotonic()
        while self._later and self._later[0][0] <= now:
            due, _, key = heapq.heappop(self._later)
            if self._due.get(key) == due:
                self.add(key)

    def _done(self, key: K) -> None:
        self._working.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def _retry(self, key: K, error: Exception) -> None:
        if isinstance(error, NotLeadingError):
            # Nobody's fault: whoever leads next works on it.
            self.add(key, after_s=NOT_LEADING_DELAY_S)
            return
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        known = isinstance(error, KubeError)
        if count == 0 or not known:
            log(
                "not done, will be tried again",
                _ERROR,
                queue=self.name,
                key=str(key),
                error=f"{type(error).__name__}: {error}",
                trace=None if known else error,
            )
        if self._failed is not None:
            self._failed(self.name)
        ceiling = min(LAST_DELAY_S, FIRST_DELAY_S * 2.0 ** min(count, 20))
        if isinstance(error, KubeError) and error.remedy in {Remedy.ADMIN, Remedy.GIVE_UP}:
            ceiling = max(ceiling, REFUSED_DELAY_S)
        self.add(key, after_s=random.uniform(ceiling / 2, ceiling))  # noqa: S311  # spreads load
