"""What people paste: objects, lists of objects, `kubectl describe`, plain text."""

from __future__ import annotations

import json

import pytest
import yaml

from gpucdi.failures import RequesterName, read_report

P3 = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
    "could not apply required modification to OCI specification: error modifying OCI spec: "
    "failed to inject CDI devices: unresolvable CDI devices "
)
NAME = "management.nvidia.com/gpu=GPU-4044aeb5-b7e4-8cb0-69a8-40490ce01a2f"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "gpu-pod", "namespace": "team"},
    "spec": {"nodeName": "gpu-17", "runtimeClassName": "gpu", "containers": [{"name": "main"}]},
    "status": {
        "containerStatuses": [
            {
                "name": "main",
                "lastState": {"terminated": {"reason": "StartError", "message": P3 + NAME}},
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            }
        ]
    },
}
EVENT = {
    "apiVersion": "v1",
    "kind": "Event",
    "involvedObject": {"kind": "Pod", "name": "gpu-pod"},
    "message": "Failed to prepare dynamic resources: DRA driver x.io is not registered",
}
CLASS = {"kind": "RuntimeClass", "metadata": {"name": "gpu"}, "handler": "nvidia"}
DESCRIBED = f"""\
Name:                gpu-pod
Namespace:           team
Priority:            0
Runtime Class Name:  nvidia
Node:                gpu-17/192.0.2.17
Annotations:         hami.io/vgpu-devices-allocated: GPU-4044aeb5,NVIDIA,8000,30:;
                     hami.io/vgpu-node: gpu-17
Status:              Running
Containers:
  main:
    Container ID:  containerd://c1
    State:          Waiting
      Reason:       CrashLoopBackOff
    Last State:     Terminated
      Reason:       StartError
      Message:      {P3}{NAME}
      Exit Code:    128
    Limits:
      nvidia.com/gpu:  1
    Environment:
      NVIDIA_VISIBLE_DEVICES:  all
    Mounts:
      /var/run/secrets from x (ro)
Conditions:
  Type  Status
Events:
  Type     Reason  Age  From     Message
  ----     ------  ---  ----     -------
  Warning  Failed  10s  kubelet  Error: {P3}{NAME}
"""


def test_a_pod_as_yaml_or_json_is_read_as_such() -> None:
    for content in (yaml.safe_dump(POD), json.dumps(POD)):
        (subject,) = read_report(content).subjects
        assert subject.pod is not None
        assert (subject.pod.name, subject.pod.node) == ("gpu-pod", "gpu-17")
        (found,) = subject.failures
        assert found.container == "main"
        assert found.failure.names == (NAME,)


def test_the_documents_of_one_paste_are_joined() -> None:
    report = read_report(yaml.safe_dump_all([CLASS, POD, EVENT]))
    (subject,) = report.subjects
    assert report.handlers == {"gpu": "nvidia"}
    assert [found.container_list for found in subject.failures] == ["containerStatuses", "events"]


def test_a_list_is_its_items_even_where_they_leave_their_kind_out() -> None:
    bare = {key: value for key, value in POD.items() if key != "kind"}
    report = read_report(json.dumps({"kind": "PodList", "items": [bare, POD]}))
    assert len(report.subjects) == 2


def test_events_without_their_pod_still_tell() -> None:
    (subject,) = read_report(json.dumps({"kind": "List", "items": [EVENT]})).subjects
    assert subject.pod is not None
    assert subject.pod.name == "gpu-pod"
    assert subject.failures[0].failure.subject == "x.io"


def test_the_output_of_describe_gives_the_pod_and_its_failure_once() -> None:
    (subject,) = read_report(DESCRIBED).subjects
    assert subject.pod is not None
    assert (subject.pod.namespace, subject.pod.name) == ("team", "gpu-pod")
    assert (subject.pod.node, subject.pod.runtime_class) == ("gpu-17", "nvidia")
    assert subject.pod.asked_by(RequesterName.HAMI) is not None
    main = subject.pod.container("main")
    assert main is not None
    assert (main.visible_devices, dict(main.resources)) == ("all", {"nvidia.com/gpu": "1"})
    (found,) = subject.failures
    assert found.failure.names == (NAME,)


def test_plain_text_has_no_pod() -> None:
    (subject,) = read_report(P3 + NAME).subjects
    assert subject.pod is None
    assert subject.failures[0].failure.names == (NAME,)


def test_yaml_that_is_broken_is_read_as_text() -> None:
    (subject,) = read_report(f"kind: Pod\nstatus: [\n  message: {P3}{NAME}\n").subjects
    assert subject.pod is None
    assert subject.failures[0].failure.names == (NAME,)


def about(**involved: str) -> str:
    event = EVENT | {"involvedObject": {"kind": "Pod", "name": "gpu-pod"} | involved}
    running = POD | {"metadata": POD_METADATA, "status": {"phase": "Pending"}}
    return json.dumps({"kind": "List", "items": [running, event]})


POD_METADATA = {"name": "gpu-pod", "namespace": "team", "uid": "u1"}


@pytest.mark.parametrize(
    "involved",
    [
        {},
        {"namespace": "team"},
        {"namespace": "team", "uid": "u1"},
        {"uid": "u1"},
    ],
)
def test_an_event_of_this_pod_counts(involved: dict[str, str]) -> None:
    (subject,) = read_report(about(**involved)).subjects
    assert len(subject.failures) == 1


@pytest.mark.parametrize(
    "involved",
    [
        {"namespace": "other"},
        {"namespace": "team", "uid": "that-of-the-pod-before"},
        {"name": "gpu-pod-2"},
        {"kind": "Job"},
    ],
)
def test_an_event_of_a_namesake_does_not_count(involved: dict[str, str]) -> None:
    (subject,) = read_report(about(**involved)).subjects
    assert subject.failures == ()


def test_a_static_pods_events_carry_kubelets_own_id() -> None:
    event = EVENT | {"involvedObject": {"kind": "Pod", "name": "gpu-pod", "uid": "hash"}}
    metadata = POD_METADATA | {"annotations": {"kubernetes.io/config.hash": "hash"}}
    both = [POD | {"metadata": metadata, "status": {}}, event]
    (subject,) = read_report(json.dumps({"kind": "List", "items": both})).subjects
    assert len(subject.failures) == 1


LONE_EVENT = """
apiVersion: v1
kind: Event
metadata: {name: train.18, namespace: team-a}
involvedObject: {kind: Pod, namespace: team-a, name: train, uid: 5f5d6a5c}
reason: Failed
source: {component: kubelet, host: gpu-17}
message: "Error: unresolvable CDI devices nvidia.com/gpu=3"
"""
NEW_EVENT = """
apiVersion: events.k8s.io/v1
kind: Event
metadata: {name: infer.9, namespace: team-b}
regarding: {kind: Pod, namespace: team-b, name: infer}
reason: Failed
reportingController: kubelet
reportingInstance: gpu-03
note: "Error: unresolvable CDI devices nvidia.com/gpu=4"
"""


def test_a_lone_event_names_its_pod_and_the_node_that_reported_it() -> None:
    (subject,) = read_report(LONE_EVENT).subjects
    assert subject.pod is not None
    assert (subject.pod.namespace, subject.pod.name, subject.pod.node) == (
        "team-a", "train", "gpu-17",
    )  # fmt: skip
    assert not subject.pod.is_whole


def test_events_of_two_pods_are_two_subjects_and_the_new_kind_is_read_as_well() -> None:
    subjects = read_report(f"{LONE_EVENT}---{NEW_EVENT}---{LONE_EVENT}").subjects
    assert [(item.pod and item.pod.name, item.pod and item.pod.node) for item in subjects] == [
        ("train", "gpu-17"),
        ("infer", "gpu-03"),
    ]


def test_what_reported_an_event_is_a_node_only_where_it_is_kubelet() -> None:
    other = LONE_EVENT.replace("component: kubelet", "component: default-scheduler")
    (subject,) = read_report(other).subjects
    assert subject.pod is not None
    assert subject.pod.node == ""


def test_events_that_tell_no_failure_are_one_subject_without_a_pod() -> None:
    quiet = LONE_EVENT.replace("unresolvable CDI devices nvidia.com/gpu=3", "pulled")
    (subject,) = read_report(f"{quiet}---{NEW_EVENT.replace('unresolvable', 'no')}").subjects
    assert subject.pod is None
    assert not subject.failures


def test_an_event_of_a_node_names_no_pod() -> None:
    (subject,) = read_report(LONE_EVENT.replace("kind: Pod", "kind: Node")).subjects
    assert subject.pod is None
    assert subject.failures


@pytest.mark.parametrize("value", ["!!int ''", "!!bool x", "!!float z", "[" * 5_000, "&a [*a]"])
def test_yaml_that_no_loader_takes_is_read_as_text(value: str) -> None:
    (subject,) = read_report(f"kind: Pod\nspec: {value}\n# {P3}{NAME}\n").subjects
    assert subject.pod is None or subject.failures == ()


def test_a_value_that_does_not_fit_its_tag_hides_no_failure() -> None:
    (subject,) = read_report(f"kind: Pod\ncount: !!int ''\nmessage: {P3}{NAME}\n").subjects
    assert subject.failures[0].failure.names == (NAME,)


def test_events_of_one_pod_are_one_subject_whoever_reported_them() -> None:
    events = [
        {**EVENT, "source": {"component": "default-scheduler"}, "message": P3 + "nvidia.com/gpu=0"},
        {**EVENT, "source": {"component": "kubelet", "host": "gpu-17"}, "message": P3 + NAME},
    ]
    (subject,) = read_report(yaml.safe_dump_all(events)).subjects
    assert subject.pod is not None
    assert subject.pod.node == "gpu-17"
    assert [found.failure.names for found in subject.failures] == [("nvidia.com/gpu=0",), (NAME,)]


def test_two_objects_that_are_no_pods_stay_two() -> None:
    events = [
        {**EVENT, "involvedObject": {"kind": "Node", "name": name}, "message": f"{P3}a.b/c={name}"}
        for name in ("one", "two")
    ]
    found = read_report(json.dumps({"kind": "EventList", "items": events})).subjects
    assert [subject.failures[0].failure.names for subject in found] == [
        ("a.b/c=one",),
        ("a.b/c=two",),
    ]


def test_a_normal_event_tells_no_failure() -> None:
    told = {**EVENT, "type": "Normal", "message": P3 + NAME}
    pod = {**POD, "status": {"phase": "Running"}}
    for given in ([told], [pod, told]):
        (subject,) = read_report(yaml.safe_dump_all(given)).subjects
        assert subject.failures == ()


@pytest.mark.parametrize(
    ("state", "still"), [("Running", False), ("Waiting", True), ("Terminated", True)]
)
def test_describe_tells_whether_the_pod_fails_still(state: str, still: bool) -> None:
    text = (
        "Name:  p\nStatus:  Running\nContainers:\n  main:\n"
        f"    State:          {state}\n    Last State:     Terminated\n"
        f"      Message:      {P3}{NAME}\n"
    )
    (subject,) = read_report(text).subjects
    assert [found.still_failing for found in subject.failures] == [still]
