"""What is remembered of one Pod that is followed. Owns the values; must not know who uses them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

TEXTS_KEPT = 3


@dataclass(slots=True)
class Track:
    """One Pod. Times are monotonic.

    ``explained`` maps the causes by which the Pod fails to since when we know of it, ``due`` to when
    each is to be told again; ``looks`` counts how often it was looked at while nothing was heard.
    """

    seen_at: float
    heard_at: float = float("-inf")
    node: str = ""
    texts: deque[str] = field(default_factory=lambda: deque(maxlen=TEXTS_KEPT))
    explained: dict[str, float] = field(default_factory=dict)
    due: dict[str, float] = field(default_factory=dict)
    looks: int = 0

    def recheck_s(self, first_s: float, limit_s: float) -> float:
        """Return in how long to look again: each time twice as long, up to a limit."""
        wait_s = min(limit_s, first_s * 2.0 ** min(self.looks, 20))
        self.looks += 1
        return wait_s
