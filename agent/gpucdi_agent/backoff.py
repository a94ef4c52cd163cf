"""Not trying the same thing again at once. Owns the waits between failed attempts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

FIRST_SECONDS = 5.0
LAST_SECONDS = 300.0


@dataclass(slots=True)
class Backoff:
    """Waits that double from failure to failure, by key; a success forgets them.

    Without it a full disk would make each failed write the event that starts the next one.
    """

    monotonic: Callable[[], float]
    _failures: dict[str, int] = field(default_factory=dict)
    _not_before: dict[str, float] = field(default_factory=dict)

    def allows(self, key: str) -> bool:
        """Tell whether another attempt is due."""
        return self.monotonic() >= self._not_before.get(key, 0.0)

    def next_due(self) -> float | None:
        """Return when (monotonic) the next attempt is due, ``None`` when nothing waits."""
        now = self.monotonic()
        return min((moment for moment in self._not_before.values() if moment > now), default=None)

    def note(self, key: str, *, failed: bool) -> None:
        """Take down how an attempt ended."""
        if not failed:
            self._failures.pop(key, None)
            self._not_before.pop(key, None)
            return
        count = self._failures.get(key, 0)
        wait = min(LAST_SECONDS, FIRST_SECONDS * 2.0**count)
        self._failures[key] = count + 1
        self._not_before[key] = self.monotonic() + wait
