"""What a Node should carry, from what is known of it. Pure."""

from __future__ import annotations

from dataclasses import replace

from gpucdi.api import Condition, ConditionStatus, NodeState
from gpucdi.api.names import CONDITION_LIMIT_BYTES, NODE_CONDITION
from gpucdi.diagnosis.render import fit
from gpucdi_operator.store import StatusRecord

REASON_SILENT = "AgentSilent"
REASON_NOT_OBSERVED = "NotObserved"
REASON_RESOLVES = "AllNamesResolve"
_OPPOSITE = {
    ConditionStatus.TRUE: ConditionStatus.FALSE,
    ConditionStatus.FALSE: ConditionStatus.TRUE,
    ConditionStatus.UNKNOWN: ConditionStatus.UNKNOWN,
}


def node_condition(record: StatusRecord | None, *, silent: bool) -> Condition | None:
    """Return the condition that the Node should carry, without its time; ``None`` for none.

    The agent's own ``Resolvable`` decides, with its sign turned: on a Node, True means a problem.
    An agent that has stopped reporting makes the condition Unknown, never stale.
    """
    if record is None:
        return None
    if silent:
        return _condition(
            ConditionStatus.UNKNOWN,
            REASON_SILENT,
            "The gpucdi agent of this node no longer renews its Lease; what it reported last "
            f"({record.status.state.value}) may be out of date.",
        )
    if not record.has_status:
        return _condition(
            ConditionStatus.UNKNOWN, REASON_NOT_OBSERVED, "The gpucdi agent has not reported yet."
        )
    return _of_report(record)


def _of_report(record: StatusRecord) -> Condition:
    status, told = record.status, record.resolvable
    if told is not None:
        return _condition(_OPPOSITE[told.status], told.reason or REASON_NOT_OBSERVED, told.message)
    if status.missing or status.state is NodeState.DRIFTED:
        reason = status.cause.value if status.cause else "NamesMissing"
        return _condition(
            ConditionStatus.TRUE, reason, f"{status.missing} device names do not resolve."
        )
    if status.state is NodeState.RESOLVED:
        return _condition(
            ConditionStatus.FALSE, REASON_RESOLVES, "Every expected CDI device name resolves."
        )
    return _condition(
        ConditionStatus.UNKNOWN, REASON_NOT_OBSERVED, "The agent cannot tell what resolves."
    )


def _condition(status: ConditionStatus, reason: str, message: str) -> Condition:
    return Condition(NODE_CONDITION, status, reason, fit(message, CONDITION_LIMIT_BYTES))


def difference(wanted: Condition | None, present: Condition | None, now: str) -> Condition | None:
    """Return what to write so that the Node carries ``wanted``, or ``None`` when it does already.

    The transition time changes with the status only, never with reason or message.
    """
    if wanted is None:
        return None
    time = now
    if present is not None:
        if replace(present, last_transition_time="") == wanted:
            return None
        if present.status is wanted.status and present.last_transition_time:
            time = present.last_transition_time
    return replace(wanted, last_transition_time=time)
