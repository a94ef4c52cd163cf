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
        ("kind: Deployment\n", "holds 0 Pods, not one, but a Deployment"),
        ("kind: PodList\nitems: [{spec: {}}, {spec: {}}]\n", "holds 2 Pods, not one"),
        ("{", "cannot be read as YAML or JSON"),
        ("kind: Pod\nspec: {runtimeClassName: nvidia}\n", "has no containers"),
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


def test_the_pod_s_own_words_and_kubelet_s_reason_are_told(run: Run, c00: Path) -> None:
    found = predicted(run, c00)
    pod = yaml.safe_load((c00 / "pod.yaml").read_text())
    shown = pod["status"]["containerStatuses"][0]["lastState"]["terminated"]
    assert (found["podReason"], found["podMessage"]) == (shown["reason"], shown["message"])
    assert found["stage"] == "the nvidia runtime"


def test_an_unknown_handler_never_gets_past_the_sandbox(run: Run, c00: Path) -> None:
    found = predicted(run, c00, "--handler", "gvisor")
    assert (found["outcome"], found["stage"], found["code"]) == ("fails", "the Pod's sandbox", 1)
    assert found["podReason"] == "FailedCreatePodSandBox"
    assert 'no runtime for "gvisor" is configured' in str(found["podMessage"])
    assert "there are: runc, nvidia, nvidia-cdi, nvidia-legacy" in str(found["reason"])


def test_what_the_engine_injects_itself_needs_no_nvidia_runtime(run: Run, c00: Path) -> None:
    found = predicted(run, c00, "--handler", "runc", "--cdi-device", "nvidia.com/gpu=0")
    assert (found["outcome"], found["nativeNames"]) == ("starts with devices", ["nvidia.com/gpu=0"])
    assert "/dev/nvidia0" in str(found["deviceNodes"])
    assert found["origin"] == "--cdi-device"


def test_the_engine_refuses_before_the_runtime_is_asked(run: Run, c00: Path) -> None:
    found = predicted(run, c00, "--annotation", "cdi.k8s.io/plugin=nvidia.com/gpu=7")
    assert (found["podReason"], found["mode"]) == ("CreateContainerError", None)
    assert found["stage"] == "the engine's own CDI injection"
    assert found["unresolved"] == ["nvidia.com/gpu=7"]


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--annotation", "cdi.k8s.io/x"), "--annotation 'cdi.k8s.io/x' is not KEY=VALUE"),
        (("--annotation", "=x"), "--annotation '=x' is not KEY=VALUE"),
        (("--env", "NVIDIA_VISIBLE_DEVICES"), "give NAME=VALUE, for instance NVIDIA_VISIBLE"),
        (("--env", "=all"), "--env '=all' is not NAME=VALUE"),
        (("--cdi-device", ""), "--cdi-device is empty"),
    ],
)
def test_half_of_an_addition_is_a_usage_error_with_a_hint(
    run: Run, c00: Path, flags: tuple[str, str], says: str
) -> None:
    ran = run("predict", "-f", str(c00 / "pod.yaml"), "--root", str(c00), *flags)
    assert (ran.code, ran.out) == (2, "")
    assert says in ran.err


def runtime_class(handler: str) -> dict[str, object]:
    """The RuntimeClass that the Pod of the incident names."""
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "nvidia"},
        "handler": handler,
    }


@pytest.mark.parametrize("listed", [True, False])
def test_the_runtime_class_beside_the_pod_gives_the_handler(
    run: Run, c00: Path, tmp_path: Path, *, listed: bool
) -> None:
    pod = yaml.safe_load((c00 / "pod.yaml").read_text())
    both = [pod, runtime_class("nvidia-legacy")]
    file = tmp_path / "both.yaml"
    file.write_text(
        yaml.safe_dump({"kind": "List", "items": both}) if listed else yaml.safe_dump_all(both)
    )
    found = predicted(run, c00, pod=file)
    assert (found["handler"], found["mode"]) == ("nvidia-legacy", "legacy")
    given = predicted(run, c00, "--handler", "nvidia-cdi", pod=file)
    assert given["handler"] == "nvidia-cdi"


def test_another_runtime_class_in_the_file_says_nothing(
    run: Run, c00: Path, tmp_path: Path
) -> None:
    pod = yaml.safe_load((c00 / "pod.yaml").read_text())
    other = {**runtime_class("nvidia-legacy"), "metadata": {"name": "other"}}
    file = tmp_path / "both.yaml"
    file.write_text(yaml.safe_dump_all([other, pod]))
    assert predicted(run, c00, pod=file)["handler"] == "nvidia"


@pytest.mark.parametrize("kind", ["Deployment", "CronJob"])
def test_the_template_of_what_makes_pods_stands_for_its_pod(
    run: Run, c00: Path, tmp_path: Path, kind: str
) -> None:
    pod = yaml.safe_load((c00 / "pod.yaml").read_text())
    spec = {"template": {"metadata": pod["metadata"], "spec": pod["spec"]}}
    if kind == "CronJob":
        spec = {"jobTemplate": {"spec": spec}}
    file = tmp_path / "maker.yaml"
    file.write_text(yaml.safe_dump({"kind": kind, "spec": spec}))
    assert predicted(run, c00, pod=file)["unresolved"] == [f"{KIND}={UUID}"]


def test_a_variable_that_asks_for_nothing_leaves_the_request_as_it_is(run: Run, c00: Path) -> None:
    found = predicted(run, c00, "--env", "CUDA_VERSION=12.8")
    assert found["unresolved"] == [f"{KIND}={UUID}"]
    assert "HAMi" in str(found["origin"])


def test_a_variable_that_asks_for_nothing_leaves_the_plugin_unseen(
    run: Run, c00: Path, tmp_path: Path
) -> None:
    pod = changed_pod(c00, tmp_path, resources={"limits": {"nvidia.com/gpu": 1}})
    found = predicted(run, c00, "--env", "CUDA_VERSION=12.8", pod=pod)
    assert "device plugin of nvidia.com/gpu" in str(found["unseen"])


@pytest.fixture
def automatic(copy: Path) -> Path:
    """The node, its handler in mode auto, where release 1.18 generates specifications itself."""
    folder = copy / "usr/local/nvidia/toolkit/.config/nvidia-container-runtime"
    text = (folder / "config.toml").read_text()
    (folder / "config.toml").write_text(text.replace('mode = "cdi"', 'mode = "auto"'))
    return copy


def test_a_just_in_time_request_is_answered_from_the_kernel_s_list(
    run: Run, automatic: Path
) -> None:
    found = predicted(run, automatic)
    assert (found["mode"], found["outcome"]) == ("jit-cdi", "starts with devices")
    assert found["names"] == [f"runtime.nvidia.com/gpu={UUID}"]
    assert found["gpus"] == [UUID]


def test_an_index_that_only_nvml_knows_stays_unknown(run: Run, automatic: Path) -> None:
    found = predicted(run, automatic, "--env", "NVIDIA_VISIBLE_DEVICES=1")
    assert (found["outcome"], found["code"]) == ("unknown", 1)
    assert found["reason"]


def test_a_mount_of_a_host_path_asks_where_the_node_accepts_mounts(
    run: Run, c00: Path, copy: Path, tmp_path: Path
) -> None:
    folder = copy / "usr/local/nvidia/toolkit/.config/nvidia-container-runtime"
    key = "accept-nvidia-visible-devices-as-volume-mounts"
    text = (folder / "config.toml").read_text()
    kept = [line for line in text.splitlines() if not line.startswith(key)]
    (folder / "config.toml").write_text("\n".join([f"{key} = true", *kept]))
    pod = yaml.safe_load(changed_pod(c00, tmp_path).read_text())
    pod["spec"]["volumes"] = [{"name": "ask", "hostPath": {"path": "/dev/null"}}]
    place = "/var/run/nvidia-container-devices/all"
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "ask", "mountPath": place}]
    file = tmp_path / "mount.yaml"
    file.write_text(yaml.safe_dump(pod))
    found = predicted(run, copy, pod=file)
    assert found["names"] == [f"{KIND}=all"]
    assert found["origin"] == "the container's volume mounts"


def test_an_engine_that_the_node_lacks_is_answered_with_those_there_are(
    run: Run, c00: Path
) -> None:
    file = str(c00 / "pod.yaml")
    ran = run("predict", "-f", file, "--root", str(c00), "--engine", "cri-o")
    assert (ran.code, "there are: containerd" in ran.err) == (2, True)


@pytest.mark.parametrize("value", ["void", ""])
def test_a_container_that_wants_no_device_is_fine_without_one(
    run: Run, c00: Path, tmp_path: Path, value: str
) -> None:
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": value}]
    found = predicted(run, c00, pod=changed_pod(c00, tmp_path, env=env))
    assert (found["outcome"], found["origin"], found["code"]) == ("starts without GPU", None, 0)
