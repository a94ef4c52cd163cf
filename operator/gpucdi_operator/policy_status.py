"""What a policy's status says of itself. Pure; owns the conditions and their words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gpucdi.api import GROUP, VERSION, Condition, ConditionStatus
from gpucdi.api.conditions import stamp
from gpucdi.api.names import (
    CONDITION_GOVERNS,
    CONDITION_REPAIRS_ALLOWED,
    CONDITION_RESTARTS_ALLOWED,
    CONDITION_TAINTS_ALLOWED,
    KIND_POLICY,
)
from gpucdi.api.policy import BreakerState, BreakerStatus, Policy, RestartConfig, TaintEffect
from gpucdi_kube import KubeObject
from gpucdi_kube.clock import parse_time
from gpucdi_operator import breaker
from gpucdi_operator.groups import Group
from gpucdi_operator.rights import Feature, missing
from gpucdi_operator.store import PolicyRecord
from gpucdi_operator.taints import most

REASON_ENABLED = "Enabled"
REASON_RIGHT_MISSING = "RightMissing"
REASON_LIMITED = "LimitReached"
# More names than these say nothing to a person, and the schema bounds a message.
SHOWN = 5


def conditions(
    record: PolicyRecord,
    group: Group,
    state: BreakerStatus,
    refused: Mapping[Feature, Sequence[str]],
) -> tuple[Condition, ...]:
    """Return the conditions of a policy, without their times."""
    policy = record.policy
    found = [_repairs(policy, group, state), _governs(group)]
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


def head(record: PolicyRecord) -> KubeObject:
    """Return what says which policy is meant: with its uid, so that it is no other of its name."""
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND_POLICY,
        "metadata": {"name": record.name, "uid": record.uid},
    }


def stamped_since(
    wanted: Sequence[Condition], previous: Sequence[Condition], state: BreakerStatus, now: str
) -> tuple[Condition, ...]:
    """Give each condition its transition time; repairs are stopped, or go on, since the breaker says.

    By that time a later leader finds the Event that told of it, whatever the breaker did since.
    """
    ours = [item for item in wanted if item.type == CONDITION_REPAIRS_ALLOWED]
    since = state.since if parse_time(state.since) else now
    return stamp(wanted, (*previous, *stamp(ours, previous, since)), now)


def _repairs(policy: Policy, group: Group, state: BreakerStatus) -> Condition:
    if state.state.stops_repairs:
        return Condition(
            CONDITION_REPAIRS_ALLOWED,
            ConditionStatus.FALSE,
            state.state.value,
            f"{state.nodes} nodes drifted over {state.kind} ({state.cause}), the first of them "
            f"{state.first_node}{_trial(group, state)}",
        )
    going = (
        "repairs go their way"
        if group.acts(policy)
        else "nothing stops repairs, but no node of this policy is in mode Auto: none is repaired"
    )
    return Condition(CONDITION_REPAIRS_ALLOWED, ConditionStatus.TRUE, state.state.value, going)


def _trial(group: Group, state: BreakerStatus) -> str:
    if state.state is BreakerState.HALF_OPEN:
        return f"; {state.trial} is tried"
    if breaker.nothing_to_try(state, group.records, group.able):
        return (
            "; none of the drifted nodes can be tried now: each of them is held, silent or not in "
            "mode Auto"
        )
    return f"; {state.trial} was the last to be tried" if state.trial else ""


def _governs(group: Group) -> Condition:
    if not group.selected:
        reason = "SelectsNoNode"
    else:
        reason = "AllSelected" if group.governed == group.selected else "OutrankedOnSome"
    return Condition(
        CONDITION_GOVERNS,
        ConditionStatus.TRUE if group.governed else ConditionStatus.FALSE,
        reason,
        f"{group.governed} of {group.selected} selected nodes"
        + (f"; it outranks {_named(group.outranks)}" if group.outranks else "")
        + (f"; the others are governed by {_named(group.lost_to)}" if group.lost_to else ""),
    )


def _named(policies: Iterable[str]) -> str:
    names = sorted(policies)
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


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
