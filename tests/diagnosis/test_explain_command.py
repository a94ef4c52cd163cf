"""``gpucdi explain`` as people run it: stdin or file, with or without a node, three outputs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

EXAMPLE = Path(__file__).parents[2] / "examples" / "c00"
UUID = "GPU-4044aeb5-b7e4-8cb0-69a8-40490ce01a2f"
NAME = f"management.nvidia.com/gpu={UUID}"
TEXT = (
    "Error: failed to create containerd task: failed to create shim task: OCI runtime create "
    "failed: could not apply required modification to OCI specification: error modifying OCI spec: "
    f"failed to inject CDI devices: unresolvable CDI devices {NAME}\n"
)


def explain(*arguments: str, text: str | bytes = "") -> subprocess.CompletedProcess[bytes]:
    given = text.encode() if isinstance(text, str) else text
    return subprocess.run(
        [sys.executable, "-m", "gpucdi_cli", "explain", *arguments],
        input=given,
        capture_output=True,
        timeout=60,
        check=False,
    )


def document(*arguments: str, text: str = "") -> dict[str, object]:
    done = explain("-o", "json", *arguments, text=text)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def test_a_pasted_text_gives_the_verdict_on_the_terminal() -> None:
    done = explain(text=TEXT)
    assert done.returncode == 0
    assert done.stdout.decode().startswith("Cause: OnlyAllDevice (confidence medium)\n")
    assert done.stderr == b""


def test_the_incidents_pod_with_its_node_gives_everything() -> None:
    found = document(str(EXAMPLE / "pod.yaml"), "--root", str(EXAMPLE))
    assert found["is_cdi"] is True
    assert (found["stage"], found["engine"]) == ("start", "containerd")
    assert found["names"] == [NAME]
    assert (found["cause"], found["confidence"]) == ("OnlyAllDevice", "high")
    assert found["near_miss"] == {"kind": "nvidia.com/gpu", "count": 2}
    assert found["repairable"] is True
    assert found["not_seen"] == []
    assert found["pod"] == {"namespace": "default", "name": "gpu-pod", "node": "gpu-17"}
    assert (found["container"], found["reason"]) == ("ubuntu-container", "StartError")
    assert found["still_failing"] is True
    advice = found["advice"]
    assert isinstance(advice, list)
    assert [item["rank"] for item in advice] == list(range(1, len(advice) + 1))
    assert all(item["blast_radius"] for item in advice)
    files = {item["file"] for item in found["evidence"]}  # type: ignore[attr-defined]
    assert "/var/run/cdi/management.nvidia.com-gpu.yaml" in files


def test_a_runtime_class_in_the_paste_leads_to_the_handler() -> None:
    pod = yaml.safe_load((EXAMPLE / "pod.yaml").read_text(encoding="utf-8"))
    pod["spec"]["runtimeClassName"] = "gpu"
    runtime_class = {"kind": "RuntimeClass", "metadata": {"name": "gpu"}, "handler": "nvidia"}
    text = yaml.safe_dump_all([runtime_class, pod])
    found = document("--root", str(EXAMPLE), text=text)
    evidence = [item["text"] for item in found["evidence"]]  # type: ignore[attr-defined]
    assert "handler nvidia runs in mode cdi" in evidence


def test_the_handler_can_be_named() -> None:
    found = document("--root", str(EXAMPLE), "--handler", "nvidia-cdi", text=TEXT)
    evidence = [item["text"] for item in found["evidence"]]  # type: ignore[attr-defined]
    assert "handler nvidia-cdi runs in mode cdi" in evidence


def test_several_pods_are_an_array() -> None:
    pod = yaml.safe_load((EXAMPLE / "pod.yaml").read_text(encoding="utf-8"))
    done = explain("-o", "json", text=json.dumps({"kind": "PodList", "items": [pod, pod]}))
    assert [item["cause"] for item in json.loads(done.stdout)] == ["OnlyAllDevice"] * 2


def test_a_pod_that_runs_without_its_gpu_is_explained_by_its_node() -> None:
    pod = yaml.safe_load((EXAMPLE / "pod.yaml").read_text(encoding="utf-8"))
    pod["spec"]["runtimeClassName"] = "runc"
    pod["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    pod["status"] = {"phase": "Running"}
    found = document("--root", str(EXAMPLE), text=yaml.safe_dump(pod))
    assert (found["cause"], found["stage"]) == ("RequestNotRead", "running")


@pytest.mark.parametrize(
    ("text", "cause", "is_cdi"),
    [
        ("connection refused\n", "NotCdi", False),
        ("the CDI registry of nvidia.com/gpu=all\n", "Undetermined", True),
        ("nvidia-container-cli: device error: unknown device\n", "NotCdi", False),
        ('Back-off pulling image "x"\n', "NotCdi", False),
    ],
)
def test_a_text_without_a_known_failure_says_so(text: str, cause: str, *, is_cdi: bool) -> None:
    found = document(text=text)
    assert (found["cause"], found["is_cdi"]) == (cause, is_cdi)


def test_markdown_can_be_pasted_into_a_ticket() -> None:
    done = explain(str(EXAMPLE / "pod.yaml"), "-o", "markdown")
    assert done.stdout.decode().startswith("### Pod default/gpu-pod on node gpu-17\n\n**Cause:**")


@pytest.mark.parametrize(
    ("arguments", "text", "words"),
    [
        ((), b"", "nothing to explain"),
        (("/nowhere/pod.yaml",), b"", "cannot be read"),
        (("--root", "/nowhere"), TEXT.encode(), "/nowhere"),
    ],
)
def test_what_cannot_be_read_is_an_error_with_advice(
    arguments: tuple[str, ...], text: bytes, words: str
) -> None:
    done = explain(*arguments, text=text)
    assert done.returncode == 2
    assert words in done.stderr.decode()
    assert b"Traceback" not in done.stderr


def test_bytes_that_are_no_text_do_not_break_it() -> None:
    done = explain(text=b"\xff\xfe\x00" + TEXT.encode() + b"\x80")
    assert done.returncode == 0
    assert NAME.encode() in done.stdout
