"""Faults on demand. Owns which request meets which fault; the server carries it out."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Fault:
    """What happens to the next ``times`` requests that match; empty sets match everything.

    ``code`` answers with an error; ``cut`` closes the connection without an answer; ``lose``
    carries the request out and then cuts, so that the caller cannot know. ``probability`` lets
    only some of the matching requests meet the fault, ``telling`` those whose body, or query where
    there is no body, has the text: ``continue=`` means every page of a list but the first.
    """

    code: int = 0
    verbs: frozenset[str] = frozenset()
    plurals: frozenset[str] = frozenset()
    times: int = 1_000_000_000
    retry_after_s: int | None = None
    delay_s: float = 0.0
    cut: bool = False
    lose: bool = False
    probability: float = 1.0
    telling: bytes = b""
    met: int = 0

    def matches(self, verb: str, plural: str, told: bytes, dice: random.Random) -> bool:
        return (
            self.times > 0
            and (not self.verbs or verb in self.verbs)
            and (not self.plurals or plural in self.plurals)
            and self.telling in told
            and (self.probability >= 1.0 or dice.random() < self.probability)
        )


@dataclass(slots=True)
class Faults:
    """The present faults."""

    active: list[Fault] = field(default_factory=list)
    dice: random.Random = field(
        default_factory=lambda: random.Random(1)  # noqa: S311  # repeatable is the point
    )

    def add(
        self,
        code: int = 0,
        *,
        verbs: Iterable[str] = (),
        plurals: Iterable[str] = (),
        **more: object,
    ) -> Fault:
        """Add a fault and return it."""
        fault = Fault(code, frozenset(verbs), frozenset(plurals))
        for name, value in more.items():
            setattr(fault, name, value)
        self.active.append(fault)
        return fault

    def clear(self) -> None:
        """End all faults."""
        self.active.clear()

    def next(self, verb: str, plural: str, told: bytes = b"") -> Fault | None:
        """Return the fault that a request meets, used up by one. ``told`` is its body or query."""
        for fault in self.active:
            if fault.matches(verb, plural, told, self.dice):
                fault.times -= 1
                fault.met += 1
                return fault
        return None
