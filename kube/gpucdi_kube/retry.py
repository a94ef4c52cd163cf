"""When to try again, and how fast to go at most. Pure arithmetic but for the sleeping."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from gpucdi_kube.clock import Clock, SystemClock


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential back-off with full jitter, within a deadline for the whole call (seconds)."""

    deadline_s: float = 30.0
    attempt_timeout_s: float = 15.0
    connect_timeout_s: float = 10.0
    first_delay_s: float = 0.1
    max_delay_s: float = 5.0

    def delay_s(self, attempt: int, *, retry_after_s: float | None = None) -> float:
        """Return how long to wait after the failed ``attempt`` (0 is the first).

        A server's Retry-After is the least we wait; jitter on top keeps a fleet from coming back
        as one.
        """
        ceiling = min(self.max_delay_s, self.first_delay_s * 2**attempt)
        jitter = random.uniform(0, ceiling)  # noqa: S311  # spreads load, guards nothing
        return jitter if retry_after_s is None else retry_after_s + jitter


NO_RETRY = RetryPolicy(deadline_s=0.0)


@dataclass(slots=True)
class TokenBucket:
    """At most ``burst`` requests at once and ``per_second`` after that; in order of asking."""

    per_second: float
    burst: float
    clock: Clock = field(default_factory=SystemClock)
    _level: float = field(init=False)
    _at: float = field(init=False)

    def __post_init__(self) -> None:
        self._level, self._at = self.burst, self.clock.monotonic()

    async def take(self) -> None:
        """Wait for one token. Asking reserves it, so waiters are served first come first."""
        now = self.clock.monotonic()
        self._level = min(self.burst, self._level + (now - self._at) * self.per_second)
        self._at = now
        self._level -= 1
        if self._level < 0:
            await self.clock.sleep(-self._level / self.per_second)
