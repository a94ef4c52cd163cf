"""A whole container: native CDI, the runtime behind the handler, and what the Pod shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from gpucdi.cdi import ContainerEdits, Device, DeviceNode, Mount, Spec, dump_spec
from gpucdi.engines import Engine, discover_engines
from gpucdi.host import HostTree
from gpucdi.programs import CapturedPrograms
from gpucdi.toolkit import (
    PodContainer,
    PodOutcome,
    PodReason,
    RequestMount,
    Verdict,
    predict_pod,
)

MakeTree = Callable[[Mapping[str, str | bytes]], HostTree]

U = "GPU-4044aeb5-b7e4-8cb0-69a8-40490ce01a2f"
RUNTIME = "/usr/bin/nvidia-container-runtime"
NVIDIA = f"""version = 2
[plugins."io.containerd.grpc.v1.cri"]
enable_cdi = true
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]
runtime_type = "io.containerd.runc.v2"
container_annotations = ["cdi.k8s.io/*"]
pod_annotations = ["nvidia.com/*"]
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]
BinaryName = "{RUNTIME}"
"""
CONFIG = """[nvidia-container-runtime]
mode = "cdi"
[nvidia-container-runtime.modes.cdi]
default-kind = "management.nvidia.com/gpu"
annotation-prefixes = ["cdi.k8s.io/", "nvidia.com/"]
"""
FILES: dict[str, str | bytes] = {
    "/etc/containerd/config.toml": NVIDIA,
    RUNTIME: b"\x7fELF",
    "/etc/nvidia-container-runtime/config.toml": CONFIG,
}
P2 = "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
CNA = "could not apply required modification to OCI specification: error modifying OCI spec: "


def spec(kind: str, *names: str, edits: ContainerEdits | None = None) -> bytes:
    common = edits or ContainerEdits(env=("NVIDIA_VISIBLE_DEVICES=void",))
    node = DeviceNode("/dev/x0", type="c", major=1, minor=3)
    devices = tuple(Device(name, edits=ContainerEdits(device_nodes=(node,))) for name in names)
    return dump_spec(Spec("0.5.0", kind, devices=devices, edits=common))


def run(
    host: HostTree,
    container: PodContainer,
    *,
    handler: str = "nvidia",
    containerd: str = "2.2.7",
    toolkit: str = "1.18.1",
) -> PodOutcome:
    stated = {RUNTIME: f"NVIDIA Container Runtime version {toolkit}"}
    programs = CapturedPrograms(stated, {"containerd": containerd})
    return predict_pod(host, programs, engine(host, programs), handler, container)


def engine(host: HostTree, programs: CapturedPrograms) -> Engine:
    [found] = discover_engines(host, programs)
    return found


def visible(value: str) -> PodContainer:
    return PodContainer(environment=(f"NVIDIA_VISIBLE_DEVICES={value}",))


@pytest.mark.parametrize(("containerd", "suffix"), [("2.2.7", ""), ("1.7.35", ": unknown")])
def test_the_first_incident_word_by_word(make_tree: MakeTree, containerd: str, suffix: str) -> None:
    host = make_tree({**FILES, "/etc/cdi/m.yaml": spec("management.nvidia.com/gpu", "all")})
    found = run(host, visible(U), containerd=containerd)
    assert found.verdict is Verdict.FAILS
    assert found.text is not None
    assert found.text.reason is PodReason.START_ERROR
    assert found.text.message == (
        f"{P2}{CNA}failed to inject CDI devices: unresolvable CDI devices "
        f"management.nvidia.com/gpu={U}{suffix}"
    )
    assert found.runtime is not None
    assert found.runtime.unresolved == (f"management.nvidia.com/gpu={U}",)


def test_the_device_of_the_kind_starts_with_its_nodes(make_tree: MakeTree) -> None:
    host = make_tree({**FILES, "/etc/cdi/m.yaml": spec("management.nvidia.com/gpu", "all")})
    found = run(host, visible("all"))
    assert found.verdict is Verdict.DEVICES
    assert found.runtime is not None
    assert found.runtime.nodes == ("/dev/x0",)


def test_native_devices_keep_the_runtime_out(make_tree: MakeTree) -> None:
    host = make_tree({**FILES, "/etc/cdi/n.yaml": spec("vendor.com/gpu", "0")})
    container = PodContainer(
        environment=(f"NVIDIA_VISIBLE_DEVICES={U}",), cdi_devices=("vendor.com/gpu=0",)
    )
    found = run(host, container)
    assert found.verdict is Verdict.DEVICES
    assert found.native is not None
    assert found.native.nodes == ("/dev/x0",)
    assert found.runtime is not None
    assert found.runtime.verdict is Verdict.WITHOUT_GPU


def test_a_native_name_that_does_not_resolve_fails_before_the_runtime(
    make_tree: MakeTree,
) -> None:
    found = run(make_tree(FILES), PodContainer(cdi_devices=("vendor.com/gpu=9",)))
    assert found.text is not None
    assert found.text.reason is PodReason.CREATE_CONTAINER_ERROR
    assert found.text.message == (
        "failed to create containerd container: CDI device injection failed: "
        "unresolvable CDI devices vendor.com/gpu=9"
    )
    assert found.runtime is None


def test_a_bad_container_annotation_has_its_own_text(make_tree: MakeTree) -> None:
    container = PodContainer(container_annotations={"cdi.k8s.io/x": "vendor.com/gpu=0,"})
    found = run(make_tree(FILES), container)
    assert found.text is not None
    assert found.text.message == (
        "failed to create containerd container: failed to parse CDI device annotations: "
        'invalid CDI device name ""'
    )


def test_cdi_switched_off_drops_devices_silently_before_2_3(make_tree: MakeTree) -> None:
    files = {**FILES, "/etc/containerd/config.toml": NVIDIA.replace("cdi = true", "cdi = false")}
    container = PodContainer(cdi_devices=("vendor.com/gpu=0",))
    silent = run(make_tree(files), container)
    assert silent.verdict is Verdict.WITHOUT_GPU
    assert silent.native is not None
    assert "drops the devices" in str(silent.native.reason)
    loud = run(make_tree(files), container, containerd="2.3.7")
    assert loud.text is not None
    assert "CDI support is explicitly disabled" in str(loud.text.message)
    missing = run(make_tree(files), container, containerd="2.4.2")
    assert "unresolvable CDI devices vendor.com/gpu=0" in str(missing.text)


def test_only_annotations_that_the_handler_lets_through_reach_the_runtime(
    make_tree: MakeTree,
) -> None:
    host = make_tree(FILES)
    passed = run(host, PodContainer(pod_annotations={"nvidia.com/a": "vendor.com/gpu=1"}))
    assert passed.runtime is not None
    assert passed.runtime.names == ("vendor.com/gpu=1",)
    kept = run(host, PodContainer(pod_annotations={"cdi.k8s.io/a": "vendor.com/gpu=1"}))
    assert kept.verdict is Verdict.WITHOUT_GPU


def test_the_void_mount_of_a_newer_spec_trips_an_older_runtime(make_tree: MakeTree) -> None:
    void = Mount("/dev/null", "/var/run/nvidia-container-devices/void")
    edits = ContainerEdits(env=("NVIDIA_VISIBLE_DEVICES=void",), mounts=(void,))
    config = "accept-nvidia-visible-devices-as-volume-mounts = true\n" + CONFIG
    files = {
        **FILES,
        "/etc/nvidia-container-runtime/config.toml": config,
        "/etc/cdi/n.yaml": spec("vendor.com/gpu", "0", edits=edits),
    }
    container = PodContainer(cdi_devices=("vendor.com/gpu=0",))
    old = run(make_tree(files), container)
    assert old.verdict is Verdict.FAILS
    assert "management.nvidia.com/gpu=void" in str(old.text)
    new = run(make_tree(files), container, toolkit="1.20.2")
    assert new.verdict is Verdict.DEVICES


def test_an_unknown_handler_and_a_missing_binary_stop_the_sandbox(make_tree: MakeTree) -> None:
    host = make_tree(FILES)
    unknown = run(host, visible("all"), handler="nvidia-typo")
    assert unknown.text is not None
    assert unknown.text.reason is PodReason.FAILED_CREATE_POD_SANDBOX
    assert 'no runtime for "nvidia-typo" is configured' in str(unknown.text.message)
    host.outside(RUNTIME).unlink()
    gone = predict_pod(
        host,
        CapturedPrograms(engines={"containerd": "2.2.7"}),
        engine(host, CapturedPrograms(engines={"containerd": "2.2.7"})),
        "nvidia",
        visible("all"),
    )
    assert gone.verdict is Verdict.FAILS
    assert f"fork/exec {RUNTIME}: no such file or directory" in str(gone.text)


def test_a_broken_config_fails_every_container_without_a_word_of_its_own(
    make_tree: MakeTree,
) -> None:
    files = {**FILES, "/etc/nvidia-container-runtime/config.toml": "mode = [\n"}
    found = run(make_tree(files), visible("all"))
    assert found.verdict is Verdict.FAILS
    assert found.text is not None
    assert "unable to retrieve OCI runtime error" in str(found.text.message)
    assert "config.toml" in str(found.reason)


def test_runc_gives_no_gpu_and_says_nothing(make_tree: MakeTree) -> None:
    found = run(make_tree(FILES), visible("all"), handler="runc")
    assert found.verdict is Verdict.WITHOUT_GPU


def test_mounts_reach_the_runtime(make_tree: MakeTree) -> None:
    config = "accept-nvidia-visible-devices-as-volume-mounts = true\n" + CONFIG
    files = {**FILES, "/etc/nvidia-container-runtime/config.toml": config}
    mount = RequestMount("/dev/null", "/var/run/nvidia-container-devices/7")
    found = run(make_tree(files), PodContainer(mounts=(mount,)))
    assert found.runtime is not None
    assert found.runtime.names == ("management.nvidia.com/gpu=7",)


def test_crio_puts_the_runtimes_log_line_into_the_message(make_tree: MakeTree) -> None:
    crio = f'[crio.runtime.runtimes.nvidia]\nruntime_path = "{RUNTIME}"\n'
    files = {path: text for path, text in FILES.items() if "containerd" not in path}
    host = make_tree({**files, "/etc/crio/crio.conf": crio})
    stated = {RUNTIME: "NVIDIA Container Runtime version 1.18.1"}
    programs = CapturedPrograms(stated, {"cri-o": "1.34.0"})
    found = predict_pod(host, programs, engine(host, programs), "nvidia", visible(U))
    assert found.text is not None
    assert found.text.reason is PodReason.CREATE_CONTAINER_ERROR
    assert str(found.text.message).startswith('container create failed: time=… level=error msg="')
