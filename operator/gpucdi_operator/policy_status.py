"""What a policy's status says of itself. Pure; owns the conditions and their words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpucdi.api import Condition, ConditionStatus
from gpucdi.api.names import (
    CONDITION_GOVERNS,
    CONDITION_REPAIRS_ALLOWED,
    CONDITION_RESTARTS_ALLOWED,
    CONDITION_TAINTS_ALLOWED,
)
from gpucdi.api.policy import BreakerStatus, RestartConfig, TaintEffect
from gpucdi_operator.rights import Feature, missing
from gpucdi_operator.store import PolicyRecord, StatusRecord
from gpucdi_operator.taints import most

REASON_ENABLED = "Enabled"
REASON_RIGHT_MISSING = "RightMissing"
REASON_LIMITED = "LimitReached"
# More names than these say nothing to a person, and the schema bounds a message.
SHOWN = 5


@dataclass(slots=True)
class Group:
    """The nodes that one policy governs; ``selected`` counts those it lost as well.

    ``drifted`` counts those that should carry a taint, ``tainted`` are those that may, ``carrying``
    those that did when we looked.
    """

    records: dict[str, StatusRecord] = field(default_factory=dict)
    selected: int = 0
    governed: int = 0
    lost_to: set[str] = field(default_factory=set)
    drifted: int = 0
    tainted: frozenset[str] = frozenset()
    carrying: set[str] = field(default_factory=set)


def conditions(
    record: PolicyRecord,
    group: Group,
    state: BreakerStatus,
    refused: Mapping[Feature, Sequence[str]],
) -> tuple[Condition, ...]:
    """Return the conditions of a policy, without their times."""
    found = [_repairs(state), _governs(group)]
    policy = record.policy
    if policy.restarts is not None:
        found.append(_restarts(policy.restarts, state, refused.get(Feature.RESTARTS, ())))
    if policy.taint is not TaintEffect.NONE:
        limit = most(policy, len(group.records))
        found.append(
            _of_breaker(CONDITION_TAINTS_ALLOWED, state)
            if state.state.stops_repairs
            else _taints(group, limit, policy.breaker.percent, refused.get(Feature.TAINTS, ()))
        )
    return tuple(
        Condition(
            item.type,
            item.status,
            item.reason,
            item.message,
            observed_generation=record.generation,
        )
        for item in found
    )


def _repairs(state: BreakerStatus) -> Condition:
    if state.state.stops_repairs:
        return Condition(
            CONDITION_REPAIRS_ALLOWED,
            ConditionStatus.FALSE,
            state.state.value,
            f"{state.nodes} nodes drifted over {state.kind} ({state.cause}), the first of them "
            f"{state.first_node}",
        )
    return Condition(
        CONDITION_REPAIRS_ALLOWED,
        ConditionStatus.TRUE,
        state.state.value,
        "repairs go their way",
    )


def _governs(group: Group) -> Condition:
    winners = sorted(group.lost_to)
    named = ", ".join(winners[:SHOWN])
    if len(winners) > SHOWN:
        named += f" and {len(winners) - SHOWN} more"
    if not group.selected:
        reason = "SelectsNoNode"
    else:
        reason = "AllSelected" if group.governed == group.selected else "OutrankedOnSome"
    return Condition(
        CONDITION_GOVERNS,
        ConditionStatus.TRUE if group.governed else ConditionStatus.FALSE,
        reason,
        f"{group.governed} of {group.selected} selected nodes"
        + (f"; the others are governed by {named}" if named else ""),
    )


def _restarts(config: RestartConfig, state: BreakerStatus, refused: Sequence[str]) -> Condition:
    if state.state.stops_repairs:
        return _of_breaker(CONDITION_RESTARTS_ALLOWED, state)
    if refused:
        return _without_right(CONDITION_RESTARTS_ALLOWED, Feature.RESTARTS, refused)
    where = (
        f"the Namespaces {', '.join(config.namespaces)}"
        if config.namespaces
        else "the Namespaces that namespaceSelector chooses"
    )
    return Condition(
        CONDITION_RESTARTS_ALLOWED,
        ConditionStatus.TRUE,
        REASON_ENABLED,
        f"in {where}, at most {config.per_minute} Pods a minute, {config.after_s} s after the names "
        "of a node resolve again",
    )


def _taints(group: Group, limit: int, percent: int, refused: Sequence[str]) -> Condition:
    if refused:
        return _without_right(CONDITION_TAINTS_ALLOWED, Feature.TAINTS, refused)
    bound = f"at most {limit} of {len(group.records)} (breaker.percent {percent})"
    if group.drifted > limit:
        return Condition(
            CONDITION_TAINTS_ALLOWED,
            ConditionStatus.FALSE,
            REASON_LIMITED,
            f"{group.drifted} nodes are drifted; {bound} carry the taint",
        )
    return Condition(
        CONDITION_TAINTS_ALLOWED,
        ConditionStatus.TRUE,
        REASON_ENABLED,
        f"{group.drifted} nodes are drifted; {bound} may carry the taint",
    )


def _of_breaker(kind: str, state: BreakerStatus) -> Condition:
    return Condition(
        kind,
        ConditionStatus.FALSE,
        "BreakerOpen",
        f"not while the breaker is {state.state.value}: see the condition "
        f"{CONDITION_REPAIRS_ALLOWED}",
    )


def _without_right(kind: str, feature: Feature, where: Sequence[str]) -> Condition:
    return Condition(kind, ConditionStatus.FALSE, REASON_RIGHT_MISSING, missing(feature, where))
