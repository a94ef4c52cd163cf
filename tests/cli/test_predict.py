"""``gpucdi predict`` on the captured incident."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from tests.cli.running import KIND, OTHER_UUID, UUID, Run


def predicted(run: Run, tree: Path, *flags: str, pod: Path | None = None) -> dict[str, object]:
    file = pod or tree / "pod.yaml"
    ran = run("predict", "-f", str(file), "--root", str(tree), "-o", "json", *flags)
    found = json.loads(ran.out)["containers"]
    assert len(found) == 1
    return dict(found[0], code=ran.code)


def changed_pod(tree: Path, folder: Path, **container: object) -> Path:
    """The Pod of the incident without HAMi, its container changed."""
    pod = yaml.safe_load((tree / "pod.yaml").read_text())
    del pod["metadata"]["annotations"], pod["status"]
    pod["spec"]["containers"][0].pop("resources")
    pod["spec"]["containers"][0] |= container
    file = folder / "changed.yaml"
    file.write_text(yaml.safe_dump(pod))
    return file


def test_it_foretells_the_text_that_the_pod_then_showed(run: Run, c00: Path) -> None:
    found = predicted(run, c00)
    pod = yaml.safe_load((c00 / "pod.yaml").read_text())
    shown = pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["message"]
    assert found["outcome"] == "fails"
    assert shown.endswith(f"OCI runtime create failed: {found['text']}")
    assert found["unresolved"] == [f"{KIND}={UUID}"]
    assert found["code"] == 1


def test_the_json_names_all_that_led_there(run: Run, c00: Path) -> None:
    found = predicted(run, c00)
    assert (found["engine"], found["engineVersion"]) == ("containerd", "2.1.5")
    assert (found["handler"], found["mode"], found["defaultKind"]) == ("nvidia", "cdi", KIND)
    assert (found["toolkitVersion"], found["specDirs"]) == ("1.18.1", ["/etc/cdi", "/var/run/cdi"])
    assert str(found["config"]).startswith("/usr/local/nvidia/toolkit/.config/")


def test_all_devices_of_the_management_kind_would_start(run: Run, c00: Path) -> None:
    found = predicted(run, c00, "--env", "NVIDIA_VISIBLE_DEVICES=all")
    assert (found["outcome"], found["code"]) == ("starts with devices", 0)
    assert "/dev/nvidia-caps/nvidia-cap1" in str(found["deviceNodes"])


def test_the_kind_that_has_the_device_would_start_when_named_in_full(run: Run, c00: Path) -> None:
    found = predicted(run, c00, "--env", f"NVIDIA_VISIBLE_DEVICES=nvidia.com/gpu={UUID}")
    assert (found["outcome"], found["code"]) == ("starts with devices", 0)


def test_the_legacy_handler_looks_at_no_spec(run: Run, c00: Path) -> None:
    found = predicted(run, c00, "--handler", "nvidia-legacy")
    assert (found["mode"], found["code"]) == ("legacy", 0)


def test_a_handler_that_is_no_nvidia_runtime_gives_no_gpu(run: Run, c00: Path) -> None:
    found = predicted(run, c00, "--handler", "runc")
    assert (found["outcome"], found["code"]) == ("starts without GPU", 1)
    assert "runs no NVIDIA runtime" in str(found["reason"])


def test_the_containers_own_variable_counts(run: Run, c00: Path, tmp_path: Path) -> None:
    variable = {"name": "NVIDIA_VISIBLE_DEVICES", "value": OTHER_UUID}
    pod = changed_pod(c00, tmp_path, env=[variable])
    found = predicted(run, c00, pod=pod)
    assert found["unresolved"] == [f"{KIND}={OTHER_UUID}"]
    assert found["origin"] == "the container's env"


def test_what_a_device_plugin_would_add_is_said_to_be_unseen(
    run: Run, c00: Path, tmp_path: Path
) -> None:
    pod = changed_pod(c00, tmp_path, resources={"limits": {"nvidia.com/gpu": 1}})
    found = predicted(run, c00, pod=pod)
    assert "device plugin of nvidia.com/gpu" in str(found["unseen"])
    assert found["code"] == 1


def test_a_second_container_takes_its_own_share_of_hami(
    run: Run, c00: Path, tmp_path: Path
) -> None:
    pod = yaml.safe_load((c00 / "pod.yaml").read_text())
    pod["spec"]["containers"].append({"name": "second", "image": "ubuntu:22.04"})
    pod["metadata"]["annotations"]["hami.io/vgpu-devices-allocated"] = (
        f"{UUID},NVIDIA,8000,30:;{UUID},NVIDIA,1,1:{OTHER_UUID},NVIDIA,1,1:;"
    )
    file = tmp_path / "two.yaml"
    file.write_text(yaml.safe_dump(pod))
    ran = run("predict", "-f", str(file), "--root", str(c00), "-o", "json")
    first, second = json.loads(ran.out)["containers"]
    assert first["names"] == [f"{KIND}={UUID}"]
    assert second["names"] == [f"{KIND}={UUID}", f"{KIND}={OTHER_UUID}"]


def test_the_text_form_tells_the_same(run: Run, c00: Path) -> None:
    ran = run("predict", "-f", str(c00 / "pod.yaml"), "--root", str(c00))
    assert ran.code == 1
    assert "fails (mode cdi)" in ran.out
    assert f"✘ {KIND}={UUID}" in ran.out
    assert "asked for by: HAMi" in ran.out


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("kind: Deployment\n", "holds 0 Pods"),
        ("{", "cannot be read as YAML or JSON"),
        ("kind: Pod\nspec: {runtimeClassName: nvidia}\n", "has no containers"),
        ("kind: Pod\nspec: {runtimeClassName: gvisor}\n", "has the handler 'gvisor'; there are"),
    ],
)
def test_what_is_no_pod_for_this_node_is_refused_with_a_reason(
    run: Run, c00: Path, tmp_path: Path, content: str, says: str
) -> None:
    file = tmp_path / "input.yaml"
    file.write_text(content)
    ran = run("predict", "-f", str(file), "--root", str(c00))
    assert ran.code == 2
    assert says in ran.err
