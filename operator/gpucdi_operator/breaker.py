"""When repairs stop: many nodes that drift at once are one roll-out, not many broken nodes.

Owns the state machine, as a pure function of what the nodes' own statuses say, the time, and the
state kept in the policy's status; so a restart or another leader goes on where the last one was.

    Closed ── more than the limit drift within the window ──► Open
    Open ── the pause is over ──► HalfOpen: one drifted node may repair
    HalfOpen ── that node resolves ──► Recovering: all may; what drifted before is forgiven
    HalfOpen ── it does not ──► Open                 Recovering ── the window is over ──► Closed
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from gpucdi.api import ConditionStatus
from gpucdi.api.names import CONDITION_RESOLVABLE
from gpucdi.api.policy import BreakerConfig, BreakerState, BreakerStatus
from gpucdi_kube.clock import parse_time, rfc3339
from gpucdi_operator.store import StatusRecord

# A node that is tried gets so long to resolve.
TRIAL = timedelta(minutes=5)
# Two leaders' clocks differ by less; a moment that lies further ahead was written by a wrong one.
AHEAD = timedelta(minutes=1)
_CAUSE_CHARACTERS = 64


@dataclass(frozen=True, slots=True)
class Drift:
    """That a node drifted: when, over which kind, and whether it is drifted still."""

    node: str
    at: datetime
    kind: str
    cause: str
    lasts: bool


def drift_of(record: StatusRecord) -> Drift | None:
    """Return the last drift that a node's status tells of.

    A node that was repaired at once does not look drifted any more, but its last repair says that
    it was.
    """
    status = record.status
    condition = next((c for c in status.conditions if c.type == CONDITION_RESOLVABLE), None)
    if condition is None:
        return None
    if condition.status is ConditionStatus.FALSE:
        kind = next((item for item in status.kinds if not item.is_resolved), None)
        began = parse_time(condition.last_transition_time)
        cause = status.cause.value if status.cause else condition.reason
        if began is None:
            return None
        named = kind.kind if kind else ""
        return Drift(record.name, began, named, cause[:_CAUSE_CHARACTERS], lasts=True)
    done = next((item for item in reversed(status.repairs) if item.result == "Succeeded"), None)
    at = parse_time(done.time) if done is not None else None
    if done is None or at is None:
        return None
    return Drift(record.name, at, done.kind, condition.reason[:_CAUSE_CHARACTERS], lasts=False)


def step(
    before: BreakerStatus, config: BreakerConfig, records: Mapping[str, StatusRecord], now: datetime
) -> BreakerStatus:
    """Return the state of the breaker; ``records`` are the nodes that its policy governs."""
    drifts = [drift for record in records.values() if (drift := drift_of(record)) is not None]
    since = parse_time(before.since) or now
    if since - now > AHEAD:
        # Waiting for the clock to get there might take for ever; what was begun begins anew.
        return replace(before, since=rfc3339(now))
    match before.state:
        case BreakerState.CLOSED:
            start = now - timedelta(minutes=config.window_minutes)
            recent = [drift for drift in drifts if drift.at >= start]
            return _tripped(recent, config, len(records), now) or before
        case BreakerState.RECOVERING:
            recent = [drift for drift in drifts if drift.lasts and drift.at > since]
            tripped = _tripped(recent, config, len(records), now)
            over = now - since >= timedelta(minutes=config.window_minutes)
            return tripped or (BreakerStatus(since=rfc3339(now)) if over else before)
        case BreakerState.OPEN:
            if now - since < timedelta(minutes=config.pause_minutes):
                return before
            return _half_open(before, drifts, now)
        case BreakerState.HALF_OPEN:
            return _judged(before, {drift.node for drift in drifts if drift.lasts}, since, now)


def _tripped(
    recent: Iterable[Drift], config: BreakerConfig, governed: int, now: datetime
) -> BreakerStatus | None:
    by_kind: dict[str, list[Drift]] = defaultdict(list)
    for drift in recent:
        by_kind[drift.kind].append(drift)
    if not by_kind:
        return None
    kind, group = max(by_kind.items(), key=lambda item: (len(item[1]), item[0]))
    if len(group) < config.min_nodes or len(group) * 100 <= config.percent * governed:
        return None
    first = min(group, key=lambda drift: (drift.at, drift.node))
    return BreakerStatus(BreakerState.OPEN, rfc3339(now), kind, first.cause, first.node, len(group))


def _half_open(before: BreakerStatus, drifts: Iterable[Drift], now: datetime) -> BreakerStatus:
    drifted = sorted(drift.node for drift in drifts if drift.lasts)
    if not drifted:
        return replace(before, state=BreakerState.RECOVERING, since=rfc3339(now), trial="")
    return replace(before, state=BreakerState.HALF_OPEN, since=rfc3339(now), trial=drifted[0])


def _judged(
    before: BreakerStatus, drifted: set[str], since: datetime, now: datetime
) -> BreakerStatus:
    if before.trial not in drifted:
        return replace(before, state=BreakerState.RECOVERING, since=rfc3339(now), trial="")
    if now - since >= TRIAL:
        return replace(before, state=BreakerState.OPEN, since=rfc3339(now), trial="")
    return before
