"""Public reports beside the shared ones: the rules must carry over to texts they were not made for."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.diagnosis.scenes import Scene, look

from gpucdi.diagnosis import Confidence, diagnose_all
from gpucdi.failures import extract
from gpucdi.findings import Cause

U0 = "GPU-4044aeb5-b7e4-8cb0-69a8-40490ce01a2f"
REPORTS = {
    "NixOS/nixpkgs#411150": (
        (
            'Error: OCI runtime error: unable to start container "4734c7": crun: error executing hook '
            "/nix/store/01a3-nvidia-container-toolkit-1.17.6-tools/bin/nvidia-cdi-hook (exit code: 1)"
        ),
        Cause.HOOK_FAILED,
        "start",
        "podman",
    ),
    "NVIDIA/nvidia-container-toolkit#2026": (
        (
            "createContainer hook #6: exit status 1, stderr:\nfailed to create application profiles "
            "directory:\nmkdirat etc/nvidia/nvidia-application-profiles-rc.d: read-only file system"
        ),
        Cause.HOOK_FAILED,
        "start",
        None,
    ),
    "NVIDIA/nvidia-container-toolkit#14": (
        (
            'level=error msg="Handler for POST /v1.41/containers/31/start returned error: OCI runtime '
            "create failed: container_linux.go:380: starting container process caused: "
            "process_linux.go:545: container init caused: Running hook #1:: error running hook: exit "
            r"status 3, stdout: , stderr: time=\"2022-02-13T11:11:05+11:00\" level=error "
            r"""msg=\"No help topic for 'prestart'\\n\": unknown\""""
        ),
        Cause.HOOK_TOO_OLD,
        "start",
        None,
    ),
    "NVIDIA/nvidia-docker#1252": (
        (
            "docker: Error response from daemon: OCI runtime create failed: container_linux.go:349: "
            r"""starting container process caused "process_linux.go:449: container init caused """
            r"""\"process_linux.go:432: running prestart hook 1 caused \\\"error running hook: exit """
            "status 1, stdout: , stderr: nvidia-container-cli: initialization error: driver error: "
            "failed to process request"
        ),
        Cause.NOT_CDI,
        "start",
        "docker",
    ),
    "void-linux/void-packages#52507": (
        (
            "Error: unable to start container: runc: runc create failed: unable to start container "
            "process: error during container init: error running hook #0: fork/exec "
            "/usr/bin/nvidia-cdi-hook: no such file or directory: OCI runtime attempted to invoke a "
            "command that was not found"
        ),
        Cause.HOOK_MISSING,
        "start",
        "podman",
    ),
    "NVIDIA/nvidia-container-toolkit#1376": (
        (
            "Oct 23 10:22:21 u systemd[1]: Starting nvidia-cdi-refresh.service - Refresh NVIDIA CDI "
            'specification file...\nOct 23 10:22:21 u nvidia-ctk[64294]: time="2025-10-23T10:22:21" '
            'level=error msg="invalid discovery mode: cdi"\nOct 23 10:22:21 u systemd[1]: '
            "nvidia-cdi-refresh.service: Failed with result 'exit-code'."
        ),
        Cause.GENERATOR_FAILED,
        "generate",
        None,
    ),
    "NVIDIA/nvidia-container-toolkit#1517": (
        (
            "systemd[1]: nvidia-cdi-refresh.service: Start request repeated too quickly.\nsystemd[1]: "
            "Failed to start nvidia-cdi-refresh.service - Refresh NVIDIA CDI specification file."
        ),
        Cause.REFRESH_UNIT_FAILED,
        "generate",
        None,
    ),
    "NVIDIA/gpu-operator#1298": (
        (
            'Error "Failled to create pod sandbox:rpc error code = Unknown desc = failed to find '
            "runtime handler nvidia from \nruntime list map [crun:0x0004dd5f0 runc: 0xc0004dd790]"
        ),
        Cause.HANDLER_MISSING,
        "sandbox",
        "cri-o",
    ),
    "NVIDIA/gpu-operator#236": (
        'rpc error: code = Unknown desc = RuntimeHandler "nvidia" not supported',
        Cause.HANDLER_MISSING,
        "sandbox",
        None,
    ),
    "ssst0n3/fake-nvidia#4": (
        (
            "nvidia-ctk: symbol lookup error: nvidia-ctk: undefined symbol: "
            "nvmlDeviceGetMaxMigDeviceCount"
        ),
        Cause.DRIVER_TOO_OLD,
        "generate",
        None,
    ),
    "NVIDIA/k8s-device-plugin#203": (
        "error: insufficient privileges to read device list from NVIDIA_VISIBLE_DEVICES envvar",
        Cause.ENV_REQUEST_REFUSED,
        "start",
        None,
    ),
    "cncf-tags/container-device-interface#46": (
        "Failed to initialize NVML: Unknown Error",
        Cause.DEVICE_ACCESS_DENIED,
        "running",
        None,
    ),
    "podman-container-tools/podman#23935": (
        (
            "Error: crun: cannot stat `/usr/lib64/libnvidia-egl-wayland.so.1.1.13`: No such file or "
            "directory: OCI runtime attempted to invoke a command that was not found"
        ),
        Cause.MOUNT_SOURCE_MISSING,
        "start",
        "podman",
    ),
    "podman-container-tools/podman#20257": (
        "Error: stat nvidia.com/gpu=0: no such file or directory",
        Cause.ENGINE_CDI_DISABLED,
        "create",
        None,
    ),
    "games-on-whales/wolf#386": (
        "docker: Error response from daemon: AMD CDI spec not found\n\nRun 'docker run --help'",
        Cause.KIND_HAS_NO_SPEC,
        "start",
        "docker",
    ),
}


@pytest.mark.parametrize("source", REPORTS)
def test_the_report_is_understood(source: str) -> None:
    text, cause, stage, engine = REPORTS[source]
    main = diagnose_all(extract(text))[0]
    assert main.cause is cause, main.summary
    assert main.failure.stage.value == stage
    assert (main.failure.engine and main.failure.engine.value) == engine
    assert main.advice


@pytest.mark.parametrize(
    "listed",
    ["=0…", f"={U0}, management.nvidia.com/gpu=GPU-9c1d2f60-3…", "=GPU-4044aeb5-b7", "=GP",
     "=GPU-4044aeb5-b7e4..."],
)  # fmt: skip
def test_a_name_that_is_cut_off_is_not_blamed_for_its_shape(listed: str) -> None:
    failures = extract(f"unresolvable CDI devices management.nvidia.com/gpu{listed}")
    (found,) = diagnose_all(failures)
    assert found.cause is not Cause.MALFORMED_REQUEST
    assert found.confidence is not Confidence.HIGH
    assert found.failure.truncated
    assert Cause.ONLY_ALL_DEVICE in {found.cause, *found.candidates}


def test_a_name_that_is_cut_off_takes_its_kinds_cause_where_the_node_tells(tmp_path: Path) -> None:
    failures = extract("unresolvable CDI devices management.nvidia.com/gpu=GPU-4044…")
    (found,) = diagnose_all(failures, node=look(Scene(), tmp_path / "root", failures))
    assert found.cause is Cause.ONLY_ALL_DEVICE
    assert found.confidence is Confidence.MEDIUM
