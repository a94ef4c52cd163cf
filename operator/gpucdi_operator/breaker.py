"""When repairs stop: many nodes that drift at once are one roll-out, not many broken nodes.

Owns the state machine, as a pure function of what the nodes' own statuses say, the time, and the
state kept in the policy's status; so a restart or another leader goes on where the last one was.

    Closed ── more than the limit drift within the window ──► Open
    Open ── the pause is over ──► HalfOpen: one drifted node may repair
    HalfOpen ── that node resolves ──► Recovering: all may; what drifted before is forgiven
    HalfOpen ── it does not ──► Open
    Recovering ── the window is over, and what was forgiven is repaired ──► Closed

A status tells when a node was repaired, not since when it had been drifted. So what is repaired
while it recovers counts for nothing afterwards, and it recovers until those are through that could
repair: their repairs, in turn or slow, would else look like the next roll-out.

Nodes are tried in turn, by name, and only those that could repair: one that is held, silent or
broken in a way of its own must not stop the others for ever. Where no node repairs at all there is
nothing to stop, and the breaker is Closed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from gpucdi.api import ConditionStatus
from gpucdi.api.policy import BreakerConfig, BreakerState, BreakerStatus
from gpucdi.findings import Cause
from gpucdi_kube.clock import parse_time, rfc3339
from gpucdi_operator.store import StatusRecord

# A node that is tried gets so long to resolve.
TRIAL = timedelta(minutes=5)
# Two leaders' clocks differ by less; a moment that lies further ahead was written by a wrong one.
AHEAD = timedelta(minutes=1)
# Nobody waits longer for nodes that could repair and do not get there.
RECOVERY_LIMIT = timedelta(hours=6)
_CAUSE_CHARACTERS = 64


@dataclass(frozen=True, slots=True)
class Drift:
    """That a node drifted: when, over which kind, and whether it is drifted still.

    ``cause`` is empty where the node was repaired: its status does not tell any more.
    """

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
    status, condition = record.status, record.resolvable
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
    return Drift(record.name, at, done.kind, "", lasts=False)


def step(
    before: BreakerStatus,
    config: BreakerConfig,
    records: Mapping[str, StatusRecord],
    now: datetime,
    *,
    able: AbstractSet[str] = frozenset(),
    acts: bool = True,
) -> BreakerStatus:
    """Return the state of the breaker; ``records`` are the nodes that its policy governs.

    ``able`` are those of the drifted nodes, and of the one that is tried, that could repair if
    nothing stopped them; ``acts`` tells whether any node of the policy may repair at all.
    """
    since = _since(before, now)
    if since is None:
        # Waiting for the clock to get there might take for ever; what was begun begins anew.
        return replace(before, since=rfc3339(now))
    if not acts:
        return before if before.state is BreakerState.CLOSED else BreakerStatus(since=rfc3339(now))
    drifts = _drifts(records)
    window = timedelta(minutes=config.window_minutes)
    match before.state:
        case BreakerState.CLOSED:
            closed = parse_time(before.since)
            recent = [drift for drift in drifts if drift.at >= now - window]
            counted = [drift for drift in recent if drift.lasts or not closed or drift.at > closed]
            return _tripped(counted, config, len(records), now) or before
        case BreakerState.RECOVERING:
            begun = max(since, now - window)
            recent = [drift for drift in drifts if drift.lasts and drift.at > begun]
            tripped = _tripped(recent, config, len(records), now)
            over = now - since >= window and not _recovers(drifts, since, able, now)
            return tripped or (BreakerStatus(since=rfc3339(now)) if over else before)
        case BreakerState.OPEN:
            if now - since < timedelta(minutes=config.pause_minutes):
                return before
            return _try_next(before, drifts, able, now)
        case BreakerState.HALF_OPEN:
            return _judged(before, records, able, now)


def _since(before: BreakerStatus, now: datetime) -> datetime | None:
    """Return since when the state is what it is; ``None`` where what stands there cannot be.

    A breaker that never opened has no such time and needs none.
    """
    if not before.since and before.state is BreakerState.CLOSED:
        return now
    since = parse_time(before.since)
    return None if since is None or since - now > AHEAD else since


def _recovers(
    drifts: Iterable[Drift], since: datetime, able: AbstractSet[str], now: datetime
) -> bool:
    """Tell whether nodes that were forgiven and could repair are drifted still."""
    if now - since >= RECOVERY_LIMIT:
        return False
    return any(drift.lasts and drift.at <= since and drift.node in able for drift in drifts)


def nothing_to_try(
    state: BreakerStatus, records: Mapping[str, StatusRecord], able: AbstractSet[str]
) -> bool:
    """Tell whether nodes are drifted of which none could be tried now."""
    drifts = _drifts(records)
    return any(drift.lasts for drift in drifts) and not _candidates(state, drifts, able)


def _drifts(records: Mapping[str, StatusRecord]) -> list[Drift]:
    return [drift for record in records.values() if (drift := drift_of(record)) is not None]


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
    cause = _common_cause(group)
    return BreakerStatus(BreakerState.OPEN, rfc3339(now), kind, cause, first.node, len(group))


def _common_cause(group: Iterable[Drift]) -> str:
    """Return the cause of most nodes, of equals the first by name."""
    causes = Counter(drift.cause for drift in group if drift.cause)
    if not causes:
        return Cause.UNDETERMINED.value
    return min(causes, key=lambda cause: (-causes[cause], cause))


def _candidates(
    before: BreakerStatus, drifts: Iterable[Drift], able: AbstractSet[str]
) -> list[str]:
    """Return the nodes that may be tried, by name.

    While nodes are drifted over what opened the breaker, another kind's would prove nothing.
    """
    lasting = [drift for drift in drifts if drift.lasts]
    telling = [drift for drift in lasting if drift.kind == before.kind] or lasting
    return sorted(drift.node for drift in telling if drift.node in able)


def _try_next(
    before: BreakerStatus, drifts: Iterable[Drift], able: AbstractSet[str], now: datetime
) -> BreakerStatus:
    """Try the node that follows the last one tried, and after the last node the first."""
    drifts = list(drifts)
    if not any(drift.lasts for drift in drifts):
        return replace(before, state=BreakerState.RECOVERING, since=rfc3339(now), trial="")
    names = _candidates(before, drifts, able)
    if not names:
        # An Open one does not begin its pause anew: as soon as a node can be tried, it is.
        waits = before.state is BreakerState.OPEN
        return before if waits else replace(before, state=BreakerState.OPEN, since=rfc3339(now))
    chosen = next((name for name in names if name > before.trial), names[0])
    return replace(before, state=BreakerState.HALF_OPEN, since=rfc3339(now), trial=chosen)


def _judged(
    before: BreakerStatus,
    records: Mapping[str, StatusRecord],
    able: AbstractSet[str],
    now: datetime,
) -> BreakerStatus:
    record = records.get(before.trial)
    if record is None or before.trial not in able:
        # Gone, silent, held, or not in mode Auto any more: whatever it says proves nothing.
        return _try_next(before, _drifts(records), able, now)
    told = record.resolvable
    if told is not None and told.status is ConditionStatus.TRUE:
        return replace(before, state=BreakerState.RECOVERING, since=rfc3339(now), trial="")
    if now - (parse_time(before.since) or now) >= TRIAL:
        return replace(before, state=BreakerState.OPEN, since=rfc3339(now))
    return before
