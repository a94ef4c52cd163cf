"""Lines that a terminal broke are put together, and lines that merely are as long are not."""

from __future__ import annotations

import pytest

from gpucdi.failures import extract

INJECT = (
    "Error: failed to create containerd task: failed to create shim task: OCI runtime create failed: "
    "failed to inject CDI devices: unresolvable CDI devices "
)


def at_edge(text: str, width: int) -> str:
    return "\n".join(text[start : start + width] for start in range(0, len(text), width))


@pytest.mark.parametrize("width", range(40, 121))
def test_a_path_is_whole_wherever_the_edge_was(width: int) -> None:
    text = (
        "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
        "runc create failed: unable to start container process: error during container init: error "
        'mounting "/usr/lib/x86_64-linux-gnu/libcuda.so.570.86.15" to rootfs at "/usr/lib/x": stat '
        "/usr/lib/x86_64-linux-gnu/libcuda.so.570.86.15: no such file or directory: unknown"
    )
    (failure,) = extract(at_edge(text, width))
    assert failure.path == "/usr/lib/x86_64-linux-gnu/libcuda.so.570.86.15"
    assert failure.is_cdi


@pytest.mark.parametrize("width", range(40, 121))
def test_a_claim_is_whole_wherever_the_edge_was(width: int) -> None:
    name = "gpu.example.com/claim=973c9807-4b59-a216-7e46-f5733c39173f-gpu-0"
    (failure,) = extract(at_edge(f"{INJECT}{name}: unknown", width))
    assert failure.names == (name,)


@pytest.mark.parametrize("indent", ["", "      "])
@pytest.mark.parametrize("cut", range(1, 12))
def test_a_name_within_a_list_is_whole_wherever_it_broke(cut: int, indent: str) -> None:
    device = "0000:af:25.0"
    torn = f"{device[:cut]}\n{indent}{device[cut:]}"
    (failure,) = extract(f"{INJECT}a.b/c=1, a.b/c={torn}, a.b/c=2: unknown")
    assert failure.names == ("a.b/c=1", f"a.b/c={device}", "a.b/c=2")


def test_a_name_that_broke_before_a_sign_is_whole_at_the_end() -> None:
    (failure,) = extract(f"{INJECT}a.b/c=claim-7\n    -gpu-3\n")
    assert failure.names == ("a.b/c=claim-7-gpu-3",)


@pytest.mark.parametrize(
    "following",
    [
        "Back-off restarting failed container main in pod train_default(0f8e)",
        "E1109 00:34:53.1    1 a.go:1] the next record of the same log, as long as the line above",
        'time="2026-11-09T00:34:53Z" level=info msg="the next record"',
        "b",
        "- another item of a list",
        "--device nvidia.com/gpu=all",
        "second, third",
        "",
        "_",
        ".",
    ],
)
def test_the_line_behind_a_name_is_no_part_of_it(following: str) -> None:
    line = f"{INJECT}nvidia.com/gpu=all"
    (failure,) = extract(f"before\n{line}\n{following}\n")
    assert failure.names == ("nvidia.com/gpu=all",)


def test_records_of_one_length_are_not_one_line() -> None:
    records = [f"10:00:0{number} {INJECT}nvidia.com/gpu={number}" for number in range(8)]
    names = [name for failure in extract("\n".join(records)) for name in failure.names]
    assert names == [f"nvidia.com/gpu={number}" for number in range(8)]


def test_devices_that_a_list_gives_a_line_each_stay_apart() -> None:
    devices = [f"GPU-9c1d2f60-3a57-1e84-b0c6-5d7e81f2a94{number}" for number in range(4)]
    names = [f"management.nvidia.com/gpu={device}" for device in devices]
    (failure,) = extract(INJECT + ",\n".join(names))
    assert failure.names == tuple(names)


def test_a_paragraph_folded_at_blanks_is_not_taken_for_a_terminal() -> None:
    text = (
        "The following error was triggered when refreshing the CDI registry: failed to load CDI Spec "
        'failed to parse CDI Spec\n"/etc/cdi/nvidia.yaml": failed to unmarshal CDI Spec: error '
        "unmarshaling JSON: while decoding JSON: json: unknown field\n"
        '"additionalGids" failed to load CDI Spec failed to parse CDI Spec "/var/run/cdi/nvidia.yaml": '
        "failed to unmarshal CDI\nSpec: json: unknown field"
        ' "additionalGids"\n'
    )
    first, second = extract(text)
    assert first.detail.endswith('unknown field "additionalGids"')
    assert second.path == "/var/run/cdi/nvidia.yaml"


def test_an_engines_reason_ends_where_the_failure_begins() -> None:
    first, second = extract(
        'failed to load CDI Spec failed to parse CDI Spec "/etc/cdi/a.yaml": json: unknown field '
        '"hostPath" Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all'
    )
    assert first.detail == 'json: unknown field "hostPath"'
    assert (second.names, second.engine) == (("nvidia.com/gpu=all",), "podman")
