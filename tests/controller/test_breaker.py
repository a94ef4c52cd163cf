"""The breaker as a function of what nodes say, then on a fleet with a bad roll-out."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.controller.scene import KIND, node_status

from gpucdi.api import ConditionStatus, Intent, RepairRecord
from gpucdi.api.policy import BreakerConfig, BreakerState, BreakerStatus
from gpucdi.findings import Cause
from gpucdi_kube.clock import rfc3339
from gpucdi_operator.breaker import step
from gpucdi_operator.store import StatusRecord

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
CONFIG = BreakerConfig(percent=20, min_nodes=5, window_minutes=10, pause_minutes=30)


def record(
    name: str,
    *,
    drifted: bool,
    ago_m: float,
    repaired: bool = False,
    cause: Cause = Cause.ONLY_ALL_DEVICE,
    kind: str = KIND,
) -> StatusRecord:
    moment = rfc3339(NOW - timedelta(minutes=ago_m))
    status = node_status(drifted=drifted)
    status = replace(
        status,
        cause=cause if drifted else None,
        kinds=(replace(status.kinds[0], kind=kind),),
    )
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
    found = step(opened(30), CONFIG, records, NOW, able=records.keys())
    assert (found.state, found.trial) == (BreakerState.HALF_OPEN, "n0000")


def test_repairs_of_a_recovery_do_not_look_like_the_next_roll_out() -> None:
    # 300 nodes were repaired one after the other while it recovered, the last a moment ago.
    records = {
        f"n{number:04d}": record(f"n{number:04d}", drifted=False, ago_m=ago, repaired=number < 300)
        for number, ago in ((i, 9.9 * (1 - i / 300) if i < 300 else 10_000) for i in range(1000))
    }
    closed = step(opened(10, BreakerState.RECOVERING), CONFIG, records, NOW)
    assert closed == BreakerStatus(since=rfc3339(NOW))
    assert step(closed, CONFIG, records, NOW + timedelta(seconds=10)) == closed


@pytest.mark.parametrize(
    ("minutes", "able", "state"),
    [
        (11, True, BreakerState.RECOVERING),
        (11, False, BreakerState.CLOSED),
        (359, True, BreakerState.RECOVERING),
        (360, True, BreakerState.CLOSED),
    ],
)
def test_it_recovers_until_those_that_could_repair_are_through_but_not_for_ever(
    minutes: float, state: BreakerState, *, able: bool
) -> None:
    records = fleet(1000, 1, ago_m=minutes + 1)
    found = step(
        opened(minutes, BreakerState.RECOVERING),
        CONFIG,
        records,
        NOW,
        able=frozenset({"n0000"} if able else ()),
    )
    assert found.state is state


def test_scattered_drift_never_stops_a_long_recovery() -> None:
    records = fleet(1000, 0)
    for number in range(300):
        name = f"n{number:04d}"
        records[name] = record(name, drifted=True, ago_m=number + 1)
    found = step(opened(301, BreakerState.RECOVERING), CONFIG, records, NOW)
    assert found.state is not BreakerState.OPEN


def test_nothing_left_to_try_resumes_at_once() -> None:
    found = step(opened(30), CONFIG, fleet(1000, 0), NOW)
    assert found.state is BreakerState.RECOVERING


def test_a_trial_that_resolves_lets_all_others_go() -> None:
    records = fleet(1000, 300, ago_m=40)
    records["n0000"] = record("n0000", drifted=False, ago_m=0, repaired=True)
    before = opened(1, BreakerState.HALF_OPEN, trial="n0000")
    found = step(before, CONFIG, records, NOW, able=records.keys())
    assert (found.state, found.trial) == (BreakerState.RECOVERING, "")


def test_a_trial_that_does_not_resolve_opens_it_again() -> None:
    before = opened(5, BreakerState.HALF_OPEN, trial="n0000")
    records = fleet(1000, 300, ago_m=40)
    found = step(before, CONFIG, records, NOW, able=records.keys())
    assert (found.state, found.since) == (BreakerState.OPEN, rfc3339(NOW))


@pytest.mark.parametrize(
    ("last", "following"),
    [("", "n0000"), ("n0000", "n0001"), ("n0001", "n0002"), ("n0002", "n0000")],
)
def test_after_a_trial_that_failed_the_next_node_is_tried(last: str, following: str) -> None:
    records = fleet(10, 3, ago_m=40)
    found = step(opened(30, trial=last), CONFIG, records, NOW, able=records.keys())
    assert (found.state, found.trial) == (BreakerState.HALF_OPEN, following)


def test_the_last_node_that_was_tried_is_known_after_it_failed() -> None:
    before, records = opened(5, BreakerState.HALF_OPEN, trial="n0001"), fleet(10, 3, ago_m=40)
    again = step(before, CONFIG, records, NOW, able=records.keys())
    assert (again.trial, again.trying) == ("n0001", "")
    kept = BreakerStatus.from_json(again.to_json())
    later = step(kept, CONFIG, records, NOW + timedelta(minutes=30), able=records.keys())
    assert later.trying == "n0002"


def test_only_a_node_that_could_repair_is_tried() -> None:
    found = step(opened(30), CONFIG, fleet(10, 5, ago_m=40), NOW, able={"n0003", "n0004"})
    assert found.trying == "n0003"


def test_with_nothing_to_try_it_stays_open_and_tries_the_first_node_that_can_be() -> None:
    before, records = opened(30), fleet(10, 5, ago_m=40)
    assert step(before, CONFIG, records, NOW, able=frozenset()) == before
    assert step(before, CONFIG, records, NOW, able={"n0004"}).trying == "n0004"


def test_a_node_that_drifted_over_another_kind_proves_nothing() -> None:
    records = fleet(10, 5, ago_m=40)
    records["n0000"] = record("n0000", drifted=True, ago_m=40, kind="example.com/gpu")
    found = step(opened(30), CONFIG, records, NOW, able=records.keys())
    assert found.trying == "n0001"


def test_a_trial_that_is_gone_is_no_success_and_the_next_node_is_tried() -> None:
    before, records = opened(1, BreakerState.HALF_OPEN, trial="n0001"), fleet(10, 5, ago_m=40)
    del records["n0001"]
    found = step(before, CONFIG, records, NOW, able=records.keys())
    assert (found.trying, found.since) == ("n0002", rfc3339(NOW))
    found = step(before, CONFIG, records, NOW, able=frozenset())
    assert found.state is BreakerState.OPEN


@pytest.mark.parametrize("drifted", [True, False])
def test_a_trial_that_is_held_or_silent_proves_nothing(*, drifted: bool) -> None:
    before, records = opened(1, BreakerState.HALF_OPEN, trial="n0001"), fleet(10, 5, ago_m=40)
    records["n0001"] = record("n0001", drifted=drifted, ago_m=1)
    found = step(before, CONFIG, records, NOW, able=records.keys() - {"n0001"})
    assert found.trying == "n0002"


def test_a_trial_of_which_nothing_is_known_is_no_success() -> None:
    records = fleet(10, 5, ago_m=40)
    known = records["n0001"]
    told = replace(known.status.conditions[0], status=ConditionStatus.UNKNOWN)
    status = replace(known.status, conditions=(told,))
    records["n0001"] = replace(known, status=status)
    before = opened(4, BreakerState.HALF_OPEN, trial="n0001")
    assert step(before, CONFIG, records, NOW, able=records.keys()) == before
    before = opened(5, BreakerState.HALF_OPEN, trial="n0001")
    found = step(before, CONFIG, records, NOW, able=records.keys())
    assert (found.state, found.trial) == (BreakerState.OPEN, "n0001")


def test_the_common_cause_is_that_of_most_nodes_and_the_first_node_the_first() -> None:
    records = fleet(100, 30)
    records["n0000"] = record("n0000", drifted=True, ago_m=5, cause=Cause.STALE_UUID)
    found = step(BreakerStatus(), CONFIG, records, NOW)
    assert (found.cause, found.first_node) == ("OnlyAllDevice", "n0000")


def test_of_two_causes_that_are_as_frequent_the_first_by_name_is_told() -> None:
    causes = (Cause.STALE_UUID, Cause.ONLY_ALL_DEVICE)
    records = {
        f"n{number}": record(f"n{number}", drifted=True, ago_m=1, cause=causes[number % 2])
        for number in range(6)
    }
    assert step(BreakerStatus(), CONFIG, records, NOW).cause == "OnlyAllDevice"


def test_the_cause_of_nodes_that_are_repaired_already_is_not_made_up() -> None:
    records = fleet(100, 5, repaired=25)
    assert step(BreakerStatus(), CONFIG, records, NOW).cause == "OnlyAllDevice"
    assert step(BreakerStatus(), CONFIG, fleet(100, 0, repaired=30), NOW).cause == "Undetermined"


def test_where_nothing_is_repaired_it_is_closed() -> None:
    records = fleet(100, 30)
    assert step(BreakerStatus(), CONFIG, records, NOW, acts=False) == BreakerStatus()
    found = step(opened(3), CONFIG, records, NOW, acts=False)
    assert found == BreakerStatus(since=rfc3339(NOW))


@pytest.mark.parametrize("since", ["", "soon", "2026-13-01T00:00:00Z"])
@pytest.mark.parametrize("state", [item for item in BreakerState if item.stops_repairs])
def test_a_moment_that_nobody_can_read_is_written_once_and_then_passes(
    state: BreakerState, since: str
) -> None:
    records = fleet(10, 5, ago_m=40)
    before = replace(opened(0, state, trial="n0001"), since=since)
    begun = step(before, CONFIG, records, NOW, able=records.keys())
    assert begun == replace(before, since=rfc3339(NOW))
    assert step(begun, CONFIG, records, NOW, able=records.keys()) == begun
    later = step(begun, CONFIG, records, NOW + timedelta(minutes=30), able=records.keys())
    assert later.state is not state


def test_a_closed_breaker_needs_no_moment_but_keeps_none_that_nobody_can_read() -> None:
    assert step(BreakerStatus(), CONFIG, fleet(10, 0), NOW) == BreakerStatus()
    unread = step(BreakerStatus(since="soon"), CONFIG, fleet(10, 0), NOW)
    assert unread == BreakerStatus(since=rfc3339(NOW))


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
