"""The resident agent: passes when something changed, and when nothing did for long.

Owns: what wakes a pass, that one runs at a time, and whether the loop is alive. Must not know: what
a pass does, nor how the API server is spoken to.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from traceback import format_exc

from gpucdi.api import Intent, NodeStatus, RepairMode
from gpucdi.host import HostTree
from gpucdi_agent.logs import log
from gpucdi_agent.metrics import Metrics
from gpucdi_agent.passes import NodePass, PassResult
from gpucdi_agent.state import StateStore
from gpucdi_agent.watch import Watcher, places_of
from gpucdi_kube.clock import Clock

# A pass that takes longer than this many periods means that the loop is stuck.
STALE_PERIODS = 2.0
STALE_AT_LEAST_SECONDS = 180.0
FAILED_PASS_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Settings:
    """How the loop runs. ``observe`` forbids every write whatever the intent says."""

    node_name: str
    interval_seconds: float = 300.0
    observe: bool = False


def _nobody(_: NodeStatus) -> None:
    """Publish nowhere."""


@dataclass(slots=True)
class Loop:
    """Runs passes until cancelled; ``publish`` gets each status."""

    settings: Settings
    host: HostTree
    node_pass: NodePass
    metrics: Metrics
    clock: Clock
    publish: Callable[[NodeStatus], None] = _nobody
    state: StateStore | None = None
    intent: Intent = field(default_factory=Intent)
    generation: int | None = None
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _woken_at: float | None = None
    _ended_at: float | None = None
    _inventory_seen: bool = False
    _watcher: Watcher = field(init=False)
    _shown: NodeStatus | None = None
    _started_at: float = field(init=False)

    def __post_init__(self) -> None:
        self._watcher = Watcher(self.host, self.wake)
        self._started_at = self.clock.monotonic()

    def wake(self) -> None:
        """Ask for a pass now; many askings while one runs make one more."""
        if self._woken_at is None:
            self._woken_at = self.clock.monotonic()
        self._wake.set()

    def obey(self, intent: Intent, generation: int | None) -> None:
        """Take a new spec, keep it for times without an API server, and act on it."""
        if (intent, generation) == (self.intent, self.generation):
            return
        self.intent, self.generation = intent, generation
        if self.state is not None and not self.settings.observe:
            try:
                self.state.remember_intent(intent, generation)
            except OSError as error:
                log("the intent is not remembered", 30, error=str(error))
        log("new intent", mode=intent.mode.value, generation=generation)
        self.wake()

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watcher.run())
            tasks.create_task(self._passes())

    def health_problem(self) -> str:
        """Return why the loop is not alive, empty if it is."""
        limit = max(STALE_AT_LEAST_SECONDS, STALE_PERIODS * self.settings.interval_seconds)
        age = self.clock.monotonic() - (self._ended_at or self._started_at)
        return f"no pass has ended for {age:.0f} s" if age > limit else ""

    def ready_problem(self) -> str:
        """Return why the agent knows nothing of its node yet, empty once it does."""
        return "" if self._inventory_seen else "no inventory has succeeded yet"

    async def _passes(self) -> None:
        while True:
            self._wake.clear()
            woken_at = self._woken_at or self.clock.monotonic()
            self._woken_at = None
            try:
                due = await self._one_pass(woken_at)
            except Exception as error:  # noqa: BLE001 - a fault of ours must not end repairs for good
                # /healthz tells when no pass ends any more; until then the next may fare better.
                log("a pass failed", logging.ERROR, error=repr(error), trace=format_exc())
                due = self.clock.monotonic() + FAILED_PASS_SECONDS
            await self._pause(due)

    async def _one_pass(self, woken_at: float) -> float | None:
        notices = self._watcher.notices()
        result = await asyncio.to_thread(
            self.node_pass.run, self._obeyed(), self.generation, notices
        )
        self._finish(result, self.clock.monotonic() - woken_at)
        places = await asyncio.to_thread(places_of, self.host, result.observation)
        if self._watcher.watch(places):
            # What changed between that look and this watch would wake nobody.
            await asyncio.sleep(0)
            self.wake()
        return result.due

    async def _pause(self, due: float | None) -> None:
        seconds = self.settings.interval_seconds * random.uniform(0.9, 1.1)  # noqa: S311 - spreads load
        if due is not None:
            seconds = min(seconds, max(0.0, due - self.clock.monotonic()) + 0.05)
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    def _obeyed(self) -> Intent:
        if not self.settings.observe:
            return self.intent
        return replace(self.intent, mode=RepairMode.OBSERVE)

    def _finish(self, result: PassResult, seconds: float) -> None:
        status = result.status
        self._ended_at = self.clock.monotonic()
        self._inventory_seen = self._inventory_seen or status.gpus.source != "none"
        for record in result.records:
            self.metrics.count_repair(record, result.cause_before)
            log(
                "spec file changed",
                file=record.file,
                kind=record.kind,
                result=record.result,
                added=record.added,
                removed=record.removed,
                problem=record.message,
            )
        (self.metrics.repair if result.records else self.metrics.detect).observe(seconds)
        self.metrics.show(status, self.clock.now().timestamp())
        if status != self._shown:
            self._tell(status)
            self._shown = status
            self._keep(status)
            self.publish(status)

    def _keep(self, status: NodeStatus) -> None:
        if self.state is None or self.settings.observe:
            return
        try:
            self.state.remember_status(status)
        except OSError as error:
            log("the status is not remembered", 30, error=str(error))

    def _tell(self, status: NodeStatus) -> None:
        before = self._shown
        known = set(before.findings) if before else set()
        log(
            "status changed",
            state=status.state.value,
            cause=status.cause.value if status.cause else None,
            missing=status.missing,
            hold=status.hold.reason if status.hold else None,
            gpus=status.gpus.count,
        )
        for finding in status.findings:
            if finding not in known:
                log(
                    "finding",
                    cause=finding.cause.value,
                    severity=finding.severity.value,
                    text=finding.message,
                    file=finding.file,
                    key=finding.key,
                    advice=finding.advice,
                )
