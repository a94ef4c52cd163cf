"""Where a Pod carries its failures: every list, every state, cut texts, Events."""

from __future__ import annotations

import pytest

from gpucdi.failures import EventText, Stage, Symptom, pod_failures

P3 = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
    "could not apply required modification to OCI specification: error modifying OCI spec: "
    "failed to inject CDI devices: unresolvable CDI devices "
)
NATIVE = (
    "failed to create containerd container: CDI device injection failed: unresolvable CDI devices "
)
NAME = "management.nvidia.com/gpu=all"
LISTS = {
    "containerStatuses": "containers",
    "initContainerStatuses": "initContainers",
    "ephemeralContainerStatuses": "ephemeralContainers",
}


def pod(
    *statuses: dict[str, object],
    status_list: str = "containerStatuses",
    containers: int = 1,
    **status: object,
) -> dict[str, object]:
    declared = [{"name": f"c{number}"} for number in range(containers)]
    return {
        "metadata": {"name": "p"},
        "spec": {LISTS[status_list]: declared},
        "status": {"phase": "Running", **status, status_list: list(statuses)},
    }


def terminated(message: str, reason: str = "StartError", name: str = "c0") -> dict[str, object]:
    return {
        "name": name,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
        "lastState": {"terminated": {"reason": reason, "exitCode": 128, "message": message}},
    }


def waiting(reason: str, message: str, name: str = "c0") -> dict[str, object]:
    return {"name": name, "state": {"waiting": {"reason": reason, "message": message}}}


@pytest.mark.parametrize("status_list", LISTS)
def test_every_list_of_containers_is_read(status_list: str) -> None:
    (found,) = pod_failures(pod(terminated(P3 + NAME), status_list=status_list))
    assert found.container_list == status_list
    assert found.failure.names == (NAME,)


@pytest.mark.parametrize("reason", ["StartError", "ContainerCannotRun", "RunContainerError"])
def test_every_reason_of_a_container_that_never_ran_is_read(reason: str) -> None:
    (found,) = pod_failures(pod(terminated(P3 + NAME, reason)))
    assert found.reason == reason
    assert found.still_failing


def test_a_container_that_cannot_be_created_waits_with_the_text() -> None:
    (found,) = pod_failures(pod(waiting("CreateContainerError", NATIVE + NAME), phase="Pending"))
    assert found.failure.stage is Stage.CREATE
    assert found.still_failing


def test_a_pod_that_never_restarts_fails_for_good() -> None:
    state = {"terminated": {"reason": "StartError", "exitCode": 128, "message": P3 + NAME}}
    (found,) = pod_failures(pod({"name": "c0", "state": state}, phase="Failed"))
    assert found.still_failing


def test_the_same_failure_in_waiting_and_last_state_is_given_once() -> None:
    both = terminated(P3 + NAME) | {
        "state": {"waiting": {"reason": "RunContainerError", "message": P3 + NAME}}
    }
    (found,) = pod_failures(pod(both))
    assert found.failure.names == (NAME,)


def test_two_containers_are_two_failures() -> None:
    found = pod_failures(pod(terminated(P3 + NAME), terminated(P3 + NAME, name="c1"), containers=2))
    assert [item.container for item in found] == ["c0", "c1"]


@pytest.mark.parametrize("containers", [1, 2, 3, 5])
def test_a_message_that_kubelet_cut_loses_only_its_last_name(containers: int) -> None:
    names = [f"management.nvidia.com/gpu=card{number}" for number in range(400)]
    limit = 12_288 // containers
    message = (P3 + ", ".join(names))[:limit]
    (found,) = pod_failures(pod(terminated(message), containers=containers))
    assert found.failure.truncated
    kept = found.failure.names
    assert kept == tuple(names[: len(kept)])
    assert len(message) - len(P3 + ", ".join(kept)) <= len(names[0]) + 4


def test_a_message_of_any_other_length_keeps_its_last_name() -> None:
    (found,) = pod_failures(pod(terminated(P3 + NAME), containers=2))
    assert not found.failure.truncated


def test_the_uncut_text_of_waiting_wins_over_the_cut_one() -> None:
    names = [f"management.nvidia.com/gpu={number}" for number in range(600)]
    whole = P3 + ", ".join(names)
    both = terminated(whole[:12_288]) | {
        "state": {"waiting": {"reason": "RunContainerError", "message": whole}}
    }
    (found,) = pod_failures(pod(both))
    assert found.failure.names == tuple(names)
    assert not found.failure.truncated


SANDBOX = (
    "Failed to create pod sandbox: rpc error: code = Unknown desc = "
    'unable to get OCI runtime for sandbox "1": no runtime for "nvidia-typo" is configured'
)
PREPARE = (
    "Failed to prepare dynamic resources: prepare dynamic resources: DRA driver gpu.nvidia.com is "
    "not registered"
)


@pytest.mark.parametrize(
    ("text", "symptom"),
    [
        (SANDBOX, Symptom.HANDLER_MISSING),
        ("(combined from similar events): " + SANDBOX, Symptom.HANDLER_MISSING),
        (PREPARE, Symptom.PREPARE_FAILED),
    ],
)
def test_a_failure_that_only_an_event_tells_is_taken_from_it(text: str, symptom: Symptom) -> None:
    creating = pod(waiting("ContainerCreating", ""), phase="Pending")
    (found,) = pod_failures(creating, [EventText(text)])
    assert found.container_list == "events"
    assert found.failure.symptom is symptom
    assert found.still_failing


def test_an_event_that_repeats_the_status_adds_nothing() -> None:
    found = pod_failures(pod(terminated(P3 + NAME)), [EventText(f"Error: {P3}{NAME}")])
    assert [item.container_list for item in found] == ["containerStatuses"]


def test_an_old_event_of_a_running_pod_does_not_fail_any_longer() -> None:
    running = pod({"name": "c0", "state": {"running": {}}})
    (found,) = pod_failures(running, [EventText(f"Error: {P3}{NAME}")])
    assert not found.still_failing


def test_a_pod_that_admission_rejected_tells_in_its_own_status() -> None:
    rejected = pod(
        phase="Failed", reason="UnexpectedAdmissionError", message="Allocate failed: GPU is lost"
    )
    (found,) = pod_failures(rejected)
    assert found.container_list == "status"
    assert found.failure.symptom is Symptom.GPU_LOST


def test_an_image_that_cannot_be_pulled_is_no_cdi_failure() -> None:
    found = pod_failures(pod(waiting("ImagePullBackOff", 'Back-off pulling image "x"')))
    assert [item.failure.is_cdi for item in found] == [False]


def test_a_short_uuid_that_kubelet_gives_whole_is_what_was_asked_for() -> None:
    name = "management.nvidia.com/gpu=GPU-4044aeb5"
    state: dict[str, object] = {"waiting": {"reason": "A", "message": P3 + name}}
    waiting: dict[str, object] = {"name": "c0", "state": state}
    (of_status,) = pod_failures(pod(waiting))
    (of_event,) = pod_failures(pod(), [EventText(P3 + name)])
    assert of_status.failure.names == of_event.failure.names == (name,)
