"""Tells a policy by an Event that its breaker stops repairs, or lets them go on: once, whoever leads.

Owns: which of the two is still to be told, and its words. The state is stored before it is told, so a
leader may end in between; the next one finds a state that it did not leave so, and asks for the Event
by its name before it writes it. That name follows from the time since when the condition
RepairsAllowed is what it is, which is the breaker's own and outlasts its later states. Must not know:
when a breaker makes a step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from gpucdi.api import ConditionStatus
from gpucdi.api.names import (
    CONDITION_REPAIRS_ALLOWED,
    EVENT_REPAIRS_RESUMED,
    EVENT_REPAIRS_STOPPED,
)
from gpucdi.api.policy import BreakerState, BreakerStatus
from gpucdi_kube import Clock
from gpucdi_kube.clock import parse_time
from gpucdi_operator.events import Note, Recorder
from gpucdi_operator.logs import log
from gpucdi_operator.policy_status import head
from gpucdi_operator.store import PolicyRecord

# Events of what is older have gone, whether they were written or not (kube-apiserver --event-ttl).
EVENT_LIVES = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class _News:
    """``since`` names the Event; what was ``found`` may have been told by an earlier leader."""

    reason: str
    state: BreakerStatus
    since: str
    found: bool = False


@dataclass(slots=True)
class BreakerNews:
    """See the module. ``_left`` are the states as our last step left them."""

    clock: Clock
    recorder: Recorder
    _left: dict[str, BreakerStatus] = field(default_factory=dict)
    _untold: dict[str, _News] = field(default_factory=dict)

    def saw(self, record: PolicyRecord) -> None:
        """Take a policy as a look finds it."""
        if self._left.get(record.name) != record.breaker:
            # Of what we left there nothing is left to be told.
            self._untold.pop(record.name, None)
            found = _found(record, self.clock.now())
            if found is not None:
                self._untold[record.name] = found

    def stepped(self, record: PolicyRecord, after: BreakerStatus) -> None:
        """Take what a step, which is stored, made of the state that ``record`` had."""
        before, self._left[record.name] = record.breaker, after
        if after == before:
            return
        if after.state is BreakerState.OPEN and before.state is not BreakerState.HALF_OPEN:
            self._untold[record.name] = _News(EVENT_REPAIRS_STOPPED, after, after.since)
        if after.state is BreakerState.RECOVERING:
            self._untold[record.name] = _News(EVENT_REPAIRS_RESUMED, after, after.since)

    def forget(self, policy: str) -> None:
        """Forget a policy that is gone."""
        self._left.pop(policy, None)
        self._untold.pop(policy, None)

    async def tell(self, record: PolicyRecord) -> None:
        """Tell what is still to be told; it stays to be told where that fails."""
        news = self._untold.get(record.name)
        if news is None:
            return
        about = head(record)
        if not news.found or not await self.recorder.last_told(about, news.reason, news.since):
            state = news.state
            log("breaker", policy=record.name, state=state.state.value, nodes=state.nodes)
            await self.recorder.record(about, _note(news, record))
        if self._untold.get(record.name) is news:
            # Else a look has found something newer meanwhile.
            del self._untold[record.name]


def _found(record: PolicyRecord, now: datetime) -> _News | None:
    """Return what whoever stored the state of a policy should have told of it lately."""
    state, stops = record.breaker, record.breaker.state.stops_repairs
    told = (item for item in record.conditions if item.type == CONDITION_REPAIRS_ALLOWED)
    condition = next(told, None)
    if condition is None or (condition.status is ConditionStatus.FALSE) is not stops:
        return None
    since = parse_time(condition.last_transition_time)
    if since is None or now - since >= EVENT_LIVES:
        return None
    if state.state is BreakerState.CLOSED:
        closed = parse_time(state.since)
        if closed is None or closed <= since:
            # Never open, or closed because nothing is repaired any more: nothing was resumed.
            return None
    reason = EVENT_REPAIRS_STOPPED if stops else EVENT_REPAIRS_RESUMED
    return _News(reason, state, condition.last_transition_time, found=True)


def _note(news: _News, record: PolicyRecord) -> Note:
    state, config = news.state, record.policy.breaker
    if news.reason == EVENT_REPAIRS_RESUMED:
        over = f"; they had been stopped over {state.kind}" if state.kind else ""
        return Note("Normal", news.reason, "Repair", f"Repairs are resumed{over}.", key=news.since)
    following = (
        f"on {state.trying}"
        if state.trying
        else f"again on one node in {config.pause_minutes} minutes"
    )
    text = (
        f"[{state.cause}] {state.nodes} nodes drifted over {state.kind} within "
        f"{config.window_minutes} minutes, the first of them {state.first_node}: this looks like a "
        f"roll-out. Repairs are stopped and tried {following}."
    )
    return Note("Warning", news.reason, "Repair", text, key=news.since)
