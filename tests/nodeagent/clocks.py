"""The machine's clock, except that waits are written down and cut short."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from gpucdi_kube import SystemClock


@dataclass
class ShortClock:
    """``pause`` says how long a wait really takes; ``waits`` are what was asked for."""

    pause: Callable[[float], float]
    real: SystemClock = field(default_factory=SystemClock)
    waits: list[float] = field(default_factory=list)

    def now(self) -> datetime:
        return self.real.now()

    def monotonic(self) -> float:
        return self.real.monotonic()

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(self.pause(seconds))
