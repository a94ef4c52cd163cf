"""What is remembered of one Pod that is followed. Owns the values; must not know who uses them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Track:
    """One Pod. Times are monotonic.

    ``explained`` maps the causes by which the Pod fails to since when we know of it, ``due`` to when
    each is to be told again; of the causes in ``unsure`` the Pod may have been told without our knowing
    it. ``looks`` counts how often it was looked at while nothing was heard;
    ``text_bytes`` is what ``texts``, the last one last, were counted with.
    """

    seen_at: float
    heard_at: float = float("-inf")
    node: str = ""
    texts: tuple[str, ...] = ()
    text_bytes: int = 0
    explained: dict[str, float] = field(default_factory=dict)
    due: dict[str, float] = field(default_factory=dict)
    unsure: set[str] = field(default_factory=set)
    looks: int = 0

    def recheck_s(self, first_s: float, limit_s: float) -> float:
        """Return in how long to look again: each time twice as long, up to a limit."""
        wait_s = min(limit_s, first_s * 2.0 ** min(self.looks, 20))
        self.looks += 1
        return wait_s
