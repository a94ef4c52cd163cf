"""What passes between the loop on which kopf watches and ours.

Owns: the listener that watches tell, the hand-over from one loop to the other, and the beat by which
ours knows that the other still goes round. Must not know: kopf, and what is decided.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol

BEAT_S = 1.0


class Listener(Protocol):
    """Whoever takes what the watches tell. ``deleted`` may also mean: left the selector."""

    def saw_node(self, body: Mapping[str, object], *, deleted: bool) -> None:
        """Take a Node."""

    def saw_status(self, body: Mapping[str, object], *, deleted: bool) -> None:
        """Take a GpuCdiStatus."""

    def saw_policy(self, body: Mapping[str, object], *, deleted: bool) -> None:
        """Take a GpuCdiPolicy."""

    def saw_runtime_class(self, body: Mapping[str, object], *, deleted: bool) -> None:
        """Take a RuntimeClass."""

    def saw_event(self, body: Mapping[str, object]) -> None:
        """Take a Warning Event about a Pod."""


@dataclass(slots=True)
class Beat:
    """When the loop of the watches went round last. Written by its thread, read by any other."""

    now: Callable[[], float] = time.monotonic
    at: float | None = None

    def strike(self) -> None:
        """Note that the loop goes round at this moment."""
        self.at = self.now()

    def age_s(self) -> float:
        """Return for how many seconds the loop has not gone round; 0 before it was started."""
        return 0.0 if self.at is None else self.now() - self.at

    async def keep(self) -> None:
        """Strike for as long as the loop that this runs on goes round."""
        while True:
            self.strike()
            await asyncio.sleep(BEAT_S)


@dataclass(frozen=True, slots=True)
class Forwarder:
    """Hands everything to a listener that lives on another event loop, in order."""

    listener: Listener
    loop: asyncio.AbstractEventLoop

    def saw_node(self, body: Mapping[str, object], *, deleted: bool) -> None:
        """Pass on a Node."""
        self._pass(partial(self.listener.saw_node, body, deleted=deleted))

    def saw_status(self, body: Mapping[str, object], *, deleted: bool) -> None:
        """Pass on a GpuCdiStatus."""
        self._pass(partial(self.listener.saw_status, body, deleted=deleted))

    def saw_policy(self, body: Mapping[str, object], *, deleted: bool) -> None:
        """Pass on a GpuCdiPolicy."""
        self._pass(partial(self.listener.saw_policy, body, deleted=deleted))

    def saw_runtime_class(self, body: Mapping[str, object], *, deleted: bool) -> None:
        """Pass on a RuntimeClass."""
        self._pass(partial(self.listener.saw_runtime_class, body, deleted=deleted))

    def saw_event(self, body: Mapping[str, object]) -> None:
        """Pass on a Warning Event."""
        self._pass(partial(self.listener.saw_event, body))

    def _pass(self, call: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop is closed: the program is ending
            self.loop.call_soon_threadsafe(call)
