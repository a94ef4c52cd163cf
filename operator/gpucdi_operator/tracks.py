"""What is remembered of one Pod that is followed. Owns the values; must not know who uses them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from gpucdi.failures import EventText, PodFailure
from gpucdi.failures.starts import last_start_of


@dataclass(slots=True)
class Track:
    """One Pod. Times are monotonic, but for those of starts.

    ``explained`` maps the causes by which the Pod fails to since when we know of it, ``due`` to when
    each is to be told again; of the causes in ``unsure`` the Pod may have been told without our knowing
    it. Of the containers in ``mentioned`` it was told once for all. ``looks`` counts how often it was
    looked at while nothing was heard; ``text_bytes`` is what ``texts``, the last one last, were counted with,
    ``told`` what else their Events say.

    ``failed`` are the containers that were seen to fail, with the latest start of each that the
    status showed then; a later one means that it got over it. ``""`` is the Pod as a whole, or that it
    is not known which. ``None`` is a start that is not known: something was heard since.
    """

    seen_at: float
    heard_at: float = float("-inf")
    node: str = ""
    texts: tuple[str, ...] = ()
    text_bytes: int = 0
    told: dict[str, EventText] = field(default_factory=dict)
    explained: dict[str, float] = field(default_factory=dict)
    due: dict[str, float] = field(default_factory=dict)
    unsure: set[str] = field(default_factory=set)
    mentioned: set[str] = field(default_factory=set)
    failed: dict[str, datetime | None] = field(default_factory=dict)
    looks: int = 0

    def recheck_s(self, first_s: float, limit_s: float) -> float:
        """Return in how long to look again: each time twice as long, up to a limit."""
        wait_s = min(limit_s, first_s * 2.0 ** min(self.looks, 20))
        self.looks += 1
        return wait_s

    def heard_again(self) -> None:
        """Take it that a container fails once more, and it is not known when."""
        self.failed = dict.fromkeys(self.failed)

    def saw_failing(self, pod: Mapping[str, object], failures: Iterable[PodFailure]) -> None:
        """Note which containers fail in a status, which may be older than one seen before."""
        for failure in failures:
            for name in failure.containers or (failure.container,):
                shown, known = last_start_of(pod, name), self.failed.get(name)
                self.failed[name] = shown if known is None else max(shown, known)

    def saw_waiting(self, pod: Mapping[str, object]) -> None:
        """Note the starts of those of which none is known, though they do not seem to fail."""
        for name in self.failed or ("",):
            if self.failed.get(name) is None:
                self.failed[name] = last_start_of(pod, name)

    def events(self) -> Iterator[EventText]:
        """Yield what was heard, each with which containers it is about and since when, if known.

        A failure of a container shows in its status sooner or later. So an Event that names none is
        about those that were seen to fail.
        """
        seen = tuple(name for name in self.failed if name)
        for text in self.texts:
            told = self.told.get(text) or EventText(text)
            containers = told.containers or seen
            times = (told.since, *(self.failed.get(name) for name in ("", *containers)))
            known = [time for time in times if time is not None]
            yield replace(told, containers=containers, since=max(known, default=None))
