"""Stops writing where another writer undoes the same again and again.

Owns: how often one thing was written to one object within a minute. Must not know: what is written.
A second installation, or a controller that sets a field back, would else be answered at once, for
ever; the agent does the same for its files (``Disputed``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from gpucdi_kube import Clock, KubeError

MOST = 10
WITHIN_S = 60.0


class DisputedError(KubeError):
    """What we wrote was undone too often; it is written again when the minute is over."""


class _Written(NamedTuple):
    what: object
    at: tuple[float, ...]


@dataclass(slots=True)
class Disputes:
    """See the module. An object's name stands for it: one made anew begins with its last dispute."""

    clock: Clock
    _written: dict[str, _Written] = field(default_factory=dict)

    def check(self, name: str, what: object, about: str) -> None:
        """Raise :class:`DisputedError` if ``what`` was written often enough."""
        if len(self._recent(name, what)) >= MOST:
            raise DisputedError(
                f"{about} was written {MOST} times within a minute and undone each time; does "
                "another operator, or a controller, write it as well?"
            )

    def wrote(self, name: str, what: object) -> None:
        """Count that ``what`` was written; what was refused nobody has undone."""
        at = (*self._recent(name, what), self.clock.monotonic())
        self._written[name] = _Written(what, at)

    def _recent(self, name: str, what: object) -> tuple[float, ...]:
        now, last = self.clock.monotonic(), self._written.get(name)
        if last is None or last.what != what:
            return ()
        return tuple(moment for moment in last.at if now - moment < WITHIN_S)

    def forget(self, name: str) -> None:
        """Forget an object that is gone."""
        self._written.pop(name, None)
