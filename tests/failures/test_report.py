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
    assert subject.pod is None
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
