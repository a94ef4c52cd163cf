"""The breaker as a function of what nodes say, then on a fleet with a bad roll-out."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.controller.scene import KIND, node_status

from gpucdi.api import Intent, RepairRecord
from gpucdi.api.policy import BreakerConfig, BreakerState, BreakerStatus
from gpucdi_kube.clock import rfc3339
from gpucdi_operator.breaker import step
from gpucdi_operator.store import StatusRecord

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
CONFIG = BreakerConfig(percent=20, min_nodes=5, window_minutes=10, pause_minutes=30)


def record(name: str, *, drifted: bool, ago_m: float, repaired: bool = False) -> StatusRecord:
    moment = rfc3339(NOW - timedelta(minutes=ago_m))
    status = node_status(drifted=drifted)
    condition = replace(status.conditions[0], last_transition_time=moment)
    repairs = (RepairRecord(moment, KIND, "f", "Succeeded", 2),) if repaired else ()
    status = replace(status, conditions=(condition,), repairs=repairs)
    return StatusRecord(name, "u", Intent(name), status, has_status=True)


def fleet(
    count: int, drifted: int, *, ago_m: float = 1, repaired: int = 0
) -> dict[str, StatusRecord]:
    records = {}
    for number in range(count):
        name = f"n{number:04d}"
        is_drifted, is_repaired = number < drifted, drifted <= number < drifted + repaired
        recent = is_drifted or is_repaired
        records[name] = record(
            name,
            drifted=is_drifted,
            ago_m=(ago_m - number * 1e-3) if recent else 10_000,
            repaired=is_repaired,
        )
    return records


def test_a_roll_out_opens_it_and_names_kind_cause_and_first_node() -> None:
    found = step(BreakerStatus(), CONFIG, fleet(1000, 300), NOW)
    assert found == BreakerStatus(
        BreakerState.OPEN, rfc3339(NOW), KIND, "OnlyAllDevice", "n0000", 300
    )


def test_drift_that_was_repaired_at_once_counts_as_well() -> None:
    found = step(BreakerStatus(), CONFIG, fleet(1000, 100, repaired=150), NOW)
    assert (found.state, found.nodes) == (BreakerState.OPEN, 250)


def test_a_few_nodes_of_a_small_fleet_are_no_roll_out() -> None:
    assert step(BreakerStatus(), CONFIG, fleet(4, 4), NOW).state is BreakerState.CLOSED


def test_the_limit_itself_does_not_open_it() -> None:
    assert step(BreakerStatus(), CONFIG, fleet(1000, 200), NOW).state is BreakerState.CLOSED
    assert step(BreakerStatus(), CONFIG, fleet(1000, 201), NOW).state is BreakerState.OPEN


def test_old_drift_does_not_count() -> None:
    assert step(BreakerStatus(), CONFIG, fleet(1000, 900, ago_m=11), NOW).state is (
        BreakerState.CLOSED
    )


@given(st.lists(st.floats(0, 10_000), min_size=20, max_size=60))
def test_drift_scattered_over_days_never_opens_it(minutes: list[float]) -> None:
    records = {f"n{i}": record(f"n{i}", drifted=True, ago_m=ago) for i, ago in enumerate(minutes)}
    recent = sum(ago <= CONFIG.window_minutes + 0.02 for ago in minutes)
    if recent * 100 <= CONFIG.percent * len(minutes):
        assert step(BreakerStatus(), CONFIG, records, NOW).state is BreakerState.CLOSED


def opened(
    minutes_ago: float, state: BreakerState = BreakerState.OPEN, **more: str
) -> BreakerStatus:
    since = rfc3339(NOW - timedelta(minutes=minutes_ago))
    return BreakerStatus(state, since, KIND, "OnlyAllDevice", "n0000", 300, more.get("trial", ""))


def test_it_stays_open_for_the_pause_and_then_tries_one_drifted_node() -> None:
    records = fleet(1000, 300, ago_m=31)
    assert step(opened(29), CONFIG, records, NOW) == opened(29)
    found = step(opened(30), CONFIG, records, NOW)
    assert (found.state, found.trial) == (BreakerState.HALF_OPEN, "n0000")


def test_nothing_left_to_try_resumes_at_once() -> None:
    found = step(opened(30), CONFIG, fleet(1000, 0), NOW)
    assert found.state is BreakerState.RECOVERING


def test_a_trial_that_resolves_lets_all_others_go() -> None:
    records = fleet(1000, 300, ago_m=40)
    records["n0000"] = record("n0000", drifted=False, ago_m=0, repaired=True)
    found = step(opened(1, BreakerState.HALF_OPEN, trial="n0000"), CONFIG, records, NOW)
    assert found.state is BreakerState.RECOVERING


def test_a_trial_that_does_not_resolve_opens_it_again() -> None:
    before = opened(5, BreakerState.HALF_OPEN, trial="n0000")
    found = step(before, CONFIG, fleet(1000, 300, ago_m=40), NOW)
    assert (found.state, found.since) == (BreakerState.OPEN, rfc3339(NOW))


def test_repairs_of_what_drifted_before_do_not_open_it_again() -> None:
    records = fleet(1000, 100, ago_m=40, repaired=0)
    for number in range(100, 300):
        name = f"n{number:04d}"
        records[name] = record(name, drifted=False, ago_m=1, repaired=True)
    before = opened(3, BreakerState.RECOVERING)
    assert step(before, CONFIG, records, NOW) == before


def test_a_second_roll_out_during_recovery_opens_it_again() -> None:
    before = opened(3, BreakerState.RECOVERING)
    assert step(before, CONFIG, fleet(1000, 300, ago_m=1), NOW).state is BreakerState.OPEN


def test_after_a_quiet_window_it_is_closed() -> None:
    before = opened(10, BreakerState.RECOVERING)
    assert step(before, CONFIG, fleet(1000, 0), NOW).state is BreakerState.CLOSED


@pytest.mark.parametrize("state", list(BreakerState))
def test_the_state_survives_being_stored(state: BreakerState) -> None:
    before = opened(3, state, trial="n1")
    assert BreakerStatus.from_json(before.to_json()) == before
