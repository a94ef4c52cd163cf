"""Until when an Event's text holds: a container that has started since has got over it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpucdi.failures import EventText, PodFailure, pod_failures
from gpucdi.failures.starts import NEVER, last_start_of

INJECT = "CDI device injection failed: unresolvable CDI devices management.nvidia.com/gpu=gone"
CREATE = f"Error: failed to create containerd container: {INJECT}"
SANDBOX = (
    "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to start sandbox "
    '"1": failed to create containerd task: failed to create shim task: OCI runtime create failed: '
    "could not apply required modification to OCI specification: error modifying OCI spec: "
    "failed to inject CDI devices: unresolvable CDI devices management.nvidia.com/gpu=gone"
)
PREPARE = (
    "Failed to prepare dynamic resources: prepare dynamic resources: DRA driver gpu.nvidia.com is "
    "not registered"
)
BEFORE, AT, AFTER = (f"2026-11-30T10:00:0{second}Z" for second in (4, 5, 6))
SINCE = datetime(2026, 11, 30, 10, 0, 5, tzinfo=UTC)
LISTS = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


def ended(started: str | None, reason: str = "Error", code: int = 1) -> dict[str, object]:
    exit_of_its_own = {"reason": reason, "exitCode": code, "message": "ImportError: torch"}
    return {"terminated": exit_of_its_own | ({"startedAt": started} if started else {})}


def crashes(started: str | None, name: str = "gpu") -> dict[str, object]:
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}}
    return {"name": name, "state": waiting, "lastState": ended(started)}


def waits(reason: str, name: str = "gpu") -> dict[str, object]:
    return {"name": name, "state": {"waiting": {"reason": reason}}, "lastState": {}}


def runs(started: str, name: str = "gpu") -> dict[str, object]:
    return {"name": name, "state": {"running": {"startedAt": started}}, "lastState": {}}


def pod(*containers: object, phase: str = "Running", **lists: object) -> dict[str, object]:
    return {"status": {"phase": phase, "containerStatuses": list(containers), **lists}}


def told(text: str = CREATE, *containers: str, since: datetime | None = SINCE) -> EventText:
    return EventText(text, containers, since)


def still(shown: dict[str, object], *events: EventText) -> list[bool]:
    return [found.still_failing for found in pod_failures(shown, events)]


# A container ------------------------------------------------------------------------------------


@pytest.mark.parametrize("containers", [("gpu",), ()])
def test_who_has_started_since_crashes_for_another_reason(containers: tuple[str, ...]) -> None:
    assert still(pod(crashes(AFTER)), told(CREATE, *containers)) == [False]


@pytest.mark.parametrize("containers", [("gpu",), ()])
@pytest.mark.parametrize("started", [BEFORE, AT, None, "soon", "1970-01-01T00:00:00Z"])
def test_who_is_not_known_to_have_started_since_still_fails(
    started: str | None, containers: tuple[str, ...]
) -> None:
    assert still(pod(crashes(started)), told(CREATE, *containers)) == [True]


def test_where_it_is_not_known_when_an_event_was_no_start_is_known_to_be_later() -> None:
    assert still(pod(crashes(AFTER)), told(CREATE, "gpu", since=None)) == [True]


@pytest.mark.parametrize("reason", ["StartError", "ContainerCannotRun"])
def test_a_container_that_could_not_start_has_not_started(reason: str) -> None:
    failed = crashes(None) | {"lastState": ended(AFTER, reason, 128)}
    assert still(pod(failed), told(CREATE, "gpu")) == [True]


@pytest.mark.parametrize("phase", ["Running", "Pending"])
@pytest.mark.parametrize("well", [runs(BEFORE), {"name": "gpu", "state": ended(None, code=0)}])
def test_who_runs_or_has_ended_well_does_not_fail(well: dict[str, object], phase: str) -> None:
    shown = pod(well, waits("PodInitializing", "other"), phase=phase)
    assert still(shown, told(CREATE, "gpu")) == [False]


def test_another_container_that_crashes_does_not_keep_the_failure_alive() -> None:
    shown = pod(runs(AFTER), crashes(None, "sidecar"))
    assert still(shown, told(CREATE, "gpu")) == [False]
    assert still(shown, told(CREATE)) == [True]


def test_a_container_that_waits_for_its_image_has_not_come_to_its_devices() -> None:
    assert still(pod(runs(BEFORE), waits("ImagePullBackOff", "other")), told()) == [False]
    assert still(pod(runs(BEFORE), waits("ContainerCreating", "other")), told()) == [True]


def test_the_same_text_about_two_containers_holds_while_one_of_them_fails() -> None:
    shown = pod(crashes(BEFORE, "a"), crashes(AFTER, "b"))
    found = pod_failures(shown, [told(CREATE, "a"), told(CREATE, "b")])
    assert [(item.containers, item.still_failing) for item in found] == [
        (("a",), True),
        (("b",), False),
    ]


@pytest.mark.parametrize("shown", [pod(phase="Pending"), pod(crashes(AFTER, "other")), {}])
def test_a_container_that_the_status_does_not_show_is_not_known_to_have_started(
    shown: dict[str, object],
) -> None:
    waiting = {"status": {"phase": "Pending"}} | shown
    assert still(waiting, told(CREATE, "gpu")) == [True]


@pytest.mark.parametrize("later", [runs(AFTER, "init"), crashes(AFTER, "init")])
def test_an_init_container_has_got_over_it_while_the_others_wait_for_it(
    later: dict[str, object],
) -> None:
    waiting = waits("PodInitializing")
    shown = pod(waiting, phase="Pending", initContainerStatuses=[later])
    assert still(shown, told(CREATE, "init")) == [False]
    failed = pod(waiting, phase="Pending", initContainerStatuses=[crashes(BEFORE, "init")])
    assert still(failed, told(CREATE, "init")) == [True]


def test_a_pod_that_is_never_restarted_has_failed_by_itself_once_it_has_started() -> None:
    own = {"name": "gpu", "state": ended(AFTER)}
    assert still(pod(own, phase="Failed"), told(CREATE, "gpu")) == [False]
    old = {"name": "gpu", "state": ended(BEFORE)}
    assert still(pod(old, phase="Failed"), told(CREATE, "gpu")) == [True]


# The Pod as a whole -----------------------------------------------------------------------------


@pytest.mark.parametrize("text", [SANDBOX, PREPARE])
@pytest.mark.parametrize("up", [runs(BEFORE), crashes(AFTER)])
def test_a_sandbox_is_up_once_any_container_has_started(text: str, up: dict[str, object]) -> None:
    shown = pod(up, waits("ContainerCreating", "other"))
    assert still(shown, told(text)) == [False]


@pytest.mark.parametrize("text", [SANDBOX, PREPARE])
@pytest.mark.parametrize(
    "shown", [pod(phase="Pending"), pod(waits("ContainerCreating")), pod(crashes(BEFORE))]
)
def test_a_sandbox_is_not_known_to_be_up_before(text: str, shown: dict[str, object]) -> None:
    assert still(shown, told(text)) == [True]


# What the status itself tells -------------------------------------------------------------------


def start_error(name: str = "gpu") -> dict[str, object]:
    failed = {"reason": "StartError", "exitCode": 128, "message": CREATE}
    return {"name": name, "state": {"terminated": failed | {"startedAt": "1970-01-01T00:00:00Z"}}}


def found_in(shown: dict[str, object]) -> PodFailure:
    (found,) = pod_failures(shown)
    return found


def test_nothing_can_end_the_failure_of_an_ephemeral_container() -> None:
    final = found_in(pod(runs(AFTER), ephemeralContainerStatuses=[start_error("debug")]))
    assert (final.still_failing, final.is_final) == (True, True)


def test_an_ephemeral_container_that_was_not_made_yet_is_tried_again() -> None:
    waiting = {"waiting": {"reason": "CreateContainerError", "message": CREATE}}
    tried = {"name": "debug", "state": waiting}
    found = found_in(pod(runs(AFTER), ephemeralContainerStatuses=[tried]))
    assert (found.still_failing, found.is_final) == (True, False)


def test_no_other_failure_is_final() -> None:
    assert not found_in(pod(start_error(), phase="Failed")).is_final


def test_an_ephemeral_container_that_has_ended_does_not_keep_an_events_text_alive() -> None:
    shown = pod(crashes(AFTER), ephemeralContainerStatuses=[{"name": "d", "state": ended(None)}])
    assert still(shown, told()) == [False]


def test_a_failure_before_a_start_that_ended_by_itself_is_over() -> None:
    last = {"lastState": start_error()["state"]}
    assert still(pod({"name": "gpu", "state": ended(AFTER)} | last, phase="Failed")) == [False]
    assert still(pod({"name": "gpu", "state": ended(None)} | last, phase="Failed")) == [True]


# Reading ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "containers"),
    [
        ("spec.containers{gpu}", ("gpu",)),
        ("spec.initContainers{init-a}", ("init-a",)),
        ("spec.ephemeralContainers{debugger-x}", ("debugger-x",)),
        ("spec.containers[0]", ()),
        ("spec.containers{" + "x" * 64 + "}", ()),
        ("", ()),
    ],
)
@pytest.mark.parametrize("about", ["involvedObject", "regarding"])
def test_an_event_names_its_container(about: str, path: str, containers: tuple[str, ...]) -> None:
    event = {about: {"kind": "Pod", "fieldPath": path}, "message": CREATE}
    assert EventText.of(event) == EventText(CREATE, containers, None)


@pytest.mark.parametrize(
    "times",
    [
        {"firstTimestamp": BEFORE, "lastTimestamp": AT, "eventTime": None},
        {"deprecatedLastTimestamp": AT},
        {"eventTime": "2026-11-30T10:00:05.000000Z"},
        {"eventTime": BEFORE, "series": {"count": 2, "lastObservedTime": AT}},
    ],
)
def test_an_event_was_when_it_was_observed_last(times: dict[str, object]) -> None:
    assert EventText.of({"note": CREATE, **times}) == EventText(CREATE, (), SINCE)


@given(st.text() | st.datetimes().map(str) | st.none() | st.integers())
def test_no_time_that_anybody_writes_hinders(written: object) -> None:
    state = {"running": {"startedAt": written}, "terminated": {"startedAt": written}}
    shown = pod({"name": "gpu", "state": state})
    assert last_start_of(shown, "gpu") >= NEVER
    assert last_start_of(shown, "other") == NEVER
    EventText.of({"lastTimestamp": written, "series": {"lastObservedTime": written}})
    pod_failures(shown, [told()])


@pytest.mark.parametrize("written", ["0001-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59"])
def test_a_moment_before_all_is_no_start(written: str) -> None:
    assert last_start_of(pod(runs(written))) == NEVER
