"""What ``gpucdi explain`` makes of the things that people pipe into it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from tests.cli.running import UUID, Ran, Run

Paste = Callable[..., Ran]

NAME = f"management.nvidia.com/gpu={UUID}"


@pytest.fixture
def paste(run: Run, monkeypatch: pytest.MonkeyPatch) -> Paste:
    """Pipe a text, or objects as YAML documents, into the command."""

    def piped(given: str | bytes | list[object], *flags: str) -> Ran:
        if isinstance(given, list):
            given = yaml.safe_dump_all(given)
        raw = given.encode() if isinstance(given, str) else given
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(raw)))
        return run("explain", *flags)

    return piped


@pytest.fixture
def pod(c00: Path) -> dict[str, object]:
    found = yaml.safe_load((c00 / "pod.yaml").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def named(pod: dict[str, object], name: str, **changed: object) -> dict[str, object]:
    """The same Pod under another name."""
    return {**pod, "metadata": {"name": name, "namespace": "ml"}, **changed}


def event(pod: str, message: str, **source: str) -> dict[str, object]:
    about = {"kind": "Pod", "namespace": "ml", "name": pod}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": about,
        "message": message,
        "source": source,
    }


def test_a_handler_that_the_tree_lacks_is_an_error_with_those_there_are(
    run: Run, c00: Path
) -> None:
    ran = run("explain", str(c00 / "pod.yaml"), "--root", str(c00), "--handler", "nope")
    assert (ran.code, ran.out) == (2, "")
    assert "no engine of this node has a handler 'nope'" in ran.err
    assert "there are: runc, nvidia, nvidia-cdi, nvidia-legacy" in ran.err


def test_without_a_tree_a_handler_is_carried_as_unknown(run: Run, c00: Path) -> None:
    ran = run("explain", str(c00 / "pod.yaml"), "--handler", "nope", "-o", "json")
    found = json.loads(ran.out)
    assert (ran.code, found["cause"]) == (0, "OnlyAllDevice")
    assert (
        "what the handler nope runs: only a captured node tells, behind --root"
        in (found["not_seen"])
    )


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "Job", "Node"])
def test_what_is_no_pod_is_named_and_the_way_to_its_pod_shown(
    paste: Paste, pod: dict[str, object], kind: str
) -> None:
    template = {"metadata": {"labels": {"app": "trainer"}}, "spec": pod["spec"]}
    ran = paste(
        [
            {
                "apiVersion": "apps/v1",
                "kind": kind,
                "metadata": {"name": "trainer", "namespace": "ml"},
                "spec": {"template": template},
            }
        ]
    )
    assert (ran.code, ran.out) == (2, "")
    assert f"this is a {kind} (trainer), not a Pod" in ran.err
    assert "kubectl get pod" in ran.err


def test_the_pods_of_a_deployment_are_asked_for_by_its_labels(
    paste: Paste, pod: dict[str, object]
) -> None:
    spec = {"selector": {"matchLabels": {"app": "t"}}, "template": {"spec": pod["spec"]}}
    metadata = {"name": "trainer", "namespace": "ml"}
    given = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
    assert "kubectl get pods -n ml -l app=t -o yaml | gpucdi explain" in paste([given]).err


def test_an_object_that_carries_the_failure_is_explained_whatever_it_is(paste: Paste) -> None:
    text = f"failed to inject CDI devices: unresolvable CDI devices {NAME}"
    given = {"apiVersion": "batch/v1", "kind": "Job", "status": {"message": text}}
    ran = paste([given], "-o", "json")
    assert (ran.code, json.loads(ran.out)["names"]) == (0, [NAME])


def test_a_manifest_without_a_status_is_told_from_a_pod_that_is_well(
    paste: Paste, pod: dict[str, object]
) -> None:
    manifest = {key: value for key, value in pod.items() if key != "status"}
    ran = paste([manifest])
    assert (ran.code, "this is a Pod (gpu-pod) without a status" in ran.err) == (2, True)
    well = paste([{**pod, "status": {"phase": "Running"}}])
    assert (well.code, well.out.count("NotCdi")) == (0, 1)


def test_a_manifest_is_explained_where_its_node_says_why(
    paste: Paste, pod: dict[str, object], c00: Path
) -> None:
    manifest = {key: value for key, value in pod.items() if key != "status"}
    ran = paste([manifest], "--root", str(c00), "-o", "json")
    assert (ran.code, json.loads(ran.out)["cause"]) == (0, "OnlyAllDevice")


def test_a_manifest_is_not_said_to_run(paste: Paste, pod: dict[str, object], c00: Path) -> None:
    manifest = {key: value for key, value in pod.items() if key != "status"}
    found = json.loads(paste([manifest], "--root", str(c00), "-o", "json").out)
    assert found["stage"] == "unknown"
    assert "the Pod at its start: it has no status" in found["not_seen"]
    started = {**pod, "status": {"phase": "Running"}}
    assert json.loads(paste([started], "--root", str(c00), "-o", "json").out)["stage"] == "running"


def test_a_pod_that_is_well_is_told_by_what_was_looked_at(
    paste: Paste, pod: dict[str, object]
) -> None:
    well = json.loads(paste([{**pod, "status": {"phase": "Running"}}], "-o", "json").out)
    assert well["summary"] == "The Pod shows no failure of CDI devices."
    assert well["not_seen"] == ["the node: its handlers, spec files and GPUs"]


def test_only_a_status_tells_whether_a_pod_fails_still(
    paste: Paste, pod: dict[str, object]
) -> None:
    failed = event("first", f"failed to inject CDI devices: unresolvable CDI devices {NAME}")
    assert json.loads(paste([failed], "-o", "json").out)["still_failing"] is None
    assert json.loads(paste([pod], "-o", "json").out)["still_failing"] is True
    assert (
        json.loads(paste(f"unresolvable CDI devices {NAME}", "-o", "json").out)["still_failing"]
        is None
    )


@pytest.mark.parametrize(
    "form", ["List", "PodList", "array", "lines of JSON", "documents of YAML", "indented JSON"]
)
def test_each_pod_of_a_list_is_explained(paste: Paste, pod: dict[str, object], form: str) -> None:
    pods = [pod, named(pod, "other")]
    given = {
        "List": json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}),
        "PodList": yaml.safe_dump({"kind": "PodList", "items": pods}),
        "array": json.dumps(pods),
        "lines of JSON": "\n".join(map(json.dumps, pods)),
        "documents of YAML": yaml.safe_dump_all(pods),
        "indented JSON": "\n".join(json.dumps(item, indent=2) for item in pods),
    }[form]
    found = json.loads(paste(given, "-o", "json").out)
    assert [item["pod"]["name"] for item in found] == ["gpu-pod", "other"]
    assert [item["cause"] for item in found] == ["OnlyAllDevice"] * 2


def test_pods_that_are_well_take_one_line_among_many(paste: Paste, pod: dict[str, object]) -> None:
    well = [named(pod, name, status={"phase": "Running"}) for name in ("a", "b")]
    lines = paste([well[0], pod, well[1]]).out.splitlines()
    assert lines[0] == "Pod default/gpu-pod on node gpu-17"
    assert lines[-1] == "No failure of CDI devices: ml/a, ml/b"
    assert sum(line.startswith("Cause: ") for line in lines) == 1


def test_events_go_to_the_pods_that_they_are_about(paste: Paste) -> None:
    failed = "Error: failed to inject CDI devices: unresolvable CDI devices"
    events = [
        event("first", f"{failed} nvidia.com/gpu=0", host="gpu-17"),
        event("second", f"{failed} nvidia.com/gpu=1"),
        event("third", "Started container"),
    ]
    found = json.loads(paste(events, "-o", "json").out)
    assert [(item["pod"], item["names"]) for item in found] == [
        ({"namespace": "ml", "name": "first", "node": "gpu-17"}, ["nvidia.com/gpu=0"]),
        ({"namespace": "ml", "name": "second", "node": ""}, ["nvidia.com/gpu=1"]),
    ]


def test_normal_events_report_no_failure(paste: Paste) -> None:
    told = {**event("first", f"unresolvable CDI devices {NAME}"), "type": "Normal"}
    failed = {**event("second", "unresolvable CDI devices nvidia.com/gpu=0"), "type": "Warning"}
    assert json.loads(paste([told, failed], "-o", "json").out)["names"] == ["nvidia.com/gpu=0"]


def test_a_runtime_class_of_which_the_handler_is_unknown_is_not_seen(
    paste: Paste, pod: dict[str, object], c00: Path
) -> None:
    spec = pod["spec"]
    assert isinstance(spec, dict)
    given = [{**pod, "spec": {**spec, "runtimeClassName": "gpu"}}]
    tree = ("--root", str(c00), "-o", "json")
    [unseen] = json.loads(paste(given, *tree).out)["not_seen"]
    assert unseen.startswith("the handler of RuntimeClass gpu: the node has none of that name")
    assert json.loads(paste(given, *tree, "--handler", "nvidia").out)["not_seen"] == []


def test_events_without_any_failure_are_one_verdict(paste: Paste) -> None:
    ran = paste([event("first", "Started container"), event("second", "Pulled")], "-o", "json")
    assert (ran.code, json.loads(ran.out)["cause"]) == (0, "NotCdi")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ('{"kind": "List", "apiVersion": "v1", "items": []}', "this is an empty list"),
        ("apiVersion: v1\nitems: []\nkind: List\n", "this is an empty list"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: x\n", "cannot be read: line 4: "),
        ('{"kind": "Status", "message": "pods \\"x\\" not found"}', 'said: pods "x" not found'),
        ("NAME  READY  STATUS  RESTARTS  AGE\nx  0/1  Pending  0  1m\n", "this is a table of Pods"),
        ("Name:  gpu-17\nRoles:  <none>\n", "this describes gpu-17, which is no Pod"),
        ("Name: t\nNamespace: ml\nPod Template:\n  Containers:\n", "this describes t"),
        ("kind: Pod\nspec: !!int ''\n", "a value that does not fit its tag"),
        (" \r\n\t\n", "standard input is empty"),
        ("", "standard input is empty"),
        (bytes(range(32)) * 40, "standard input is binary data"),
        (b"\x1f\x8b\x08" + bytes(100), "is a gzip archive"),
    ],
)
def test_what_no_failure_can_stand_in_is_refused_by_its_name(
    paste: Paste, given: str | bytes, says: str
) -> None:
    ran = paste(given)
    assert (ran.code, ran.out) == (2, "")
    assert says in ran.err
    assert len(ran.err.splitlines()) == 2


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_the_encodings_of_other_systems_read_the_same(
    paste: Paste, c00: Path, encoding: str, line_end: str
) -> None:
    text = (c00 / "pod.yaml").read_text(encoding="utf-8").replace("\n", line_end)
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    found = json.loads(paste((mark + text).encode(encoding), "-o", "json").out)
    assert (found["names"], found["pod"]["name"]) == ([NAME], "gpu-pod")


def test_more_than_can_be_meant_is_refused(paste: Paste) -> None:
    ran = paste(b"nvidia\n" * (5 * 1024 * 1024))
    assert (ran.code, "more than 32 MiB" in ran.err) == (2, True)


def test_a_long_list_of_pods_is_read_whole(paste: Paste, pod: dict[str, object]) -> None:
    pods = [named(pod, f"pod-{number}") for number in range(40)]
    found = json.loads(paste(json.dumps({"kind": "List", "items": pods}), "-o", "json").out)
    assert [item["pod"]["name"] for item in found] == [f"pod-{number}" for number in range(40)]


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("/",), "Is a directory"),
        (("",), "the name of the file is empty"),
        (("/nowhere",), "/nowhere cannot be read"),
        (("--root", ""), "--root is empty"),
    ],
)
def test_files_and_trees_that_are_none_are_named(
    paste: Paste, flags: tuple[str, ...], says: str
) -> None:
    ran = paste(f"unresolvable CDI devices {NAME}", *flags)
    assert (ran.code, ran.out, says in ran.err) == (2, "", True)
