"""Any list of legal names in any wrapper comes back exactly; random text gives nothing."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable

import pytest
import yaml
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from gpucdi.failures import extract, pod_failures, pod_view, read_report
from gpucdi.failures.names import UUID, device_of

LETTER = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
ALNUM = LETTER + "0123456789"
PARTS = st.builds(
    lambda first, rest: first + rest,
    st.sampled_from(LETTER),
    st.from_regex(r"(?:[A-Za-z0-9_.-]{0,12}[A-Za-z0-9])?", fullmatch=True),
)
DEVICES = st.one_of(
    st.from_regex(r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]{0,16}[A-Za-z0-9])?", fullmatch=True),
    st.uuids().map(lambda value: f"GPU-{value}"),
    st.uuids().map(lambda value: f"MIG-{value}"),
    st.integers(0, 15).map(str),
    st.sampled_from(["all", "none", "0:1", "gpu-0", "mig0:1", "0000:af:02.0"]),
)
NAMES = st.builds("{}/{}={}".format, PARTS, PARTS, DEVICES)
LISTS = st.lists(NAMES, min_size=1, max_size=17, unique=True)

P1 = "failed to create containerd container: "
P2 = "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
INJECT = "failed to inject CDI devices: unresolvable CDI devices "
P3 = (
    P2 + "could not apply required modification to OCI specification: error modifying OCI spec: "
) + INJECT
DOCKER = "docker: Error response from daemon: "
NATIVE = "CDI device injection failed: unresolvable CDI devices "


def joined(names: list[str]) -> str:
    return ", ".join(names)


def fold(text: str, width: int, indent: str) -> str:
    lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    return f"\n{indent}".join(lines)


SANDBOX = f'Failed to create pod sandbox: rpc error: code = Unknown desc = failed to start sandbox "0f": {P3}'
CRIO = (
    'container create failed: time="2026-01-04T09:19:12Z" level=error msg="could not apply '
    f"required modification to OCI specification: error modifying OCI spec: {INJECT}"
)
WRAPPERS: dict[str, Callable[[list[str]], str]] = {
    "M01": lambda names: f"Error: {P3}{joined(names)}",
    "M01 of a container": lambda names: f"spec.containers{{main}}: Error: {P3}{joined(names)}",
    "M01u": lambda names: f"{P3}{joined(names)}: unknown",
    "M01u docker": lambda names: (
        f"{DOCKER}failed to create task for container: failed to create shim task: OCI runtime "
        f"create failed: could not apply required modification: {INJECT}{joined(names)}: unknown."
    ),
    "M02": lambda names: (
        "CrashLoopBackOff (back-off 40s restarting failed container=a pod=b_c(d)) | Last state: "
        f"Terminated with 128: StartError ({P3}{joined(names)}), started: Thu, Jan 1 1970"
    ),
    "M03": lambda names: f"CreateContainerError — {INJECT}{joined(names)}",
    "M04": lambda names: f"    message: >-\n      {fold(P3 + joined(names), 60, '      ')}\n",
    "M05": lambda names: (
        '{"level":"warning","msg":"could not resolve CDI devices: ['
        + " ".join(names)
        + ']","time":"2025-03-14T17:28:25Z"}'
    ),
    "M06": lambda names: f"Error: setting up CDI devices: unresolvable CDI devices {joined(names)}",
    "M06m": lambda names: (
        "Error: error setting up CDI devices: unresolvable CDI devices "
        + ", ".join(f"[{name}](http://{name.replace('=', '-')})" for name in names)
        + "."
    ),
    "M07": lambda names: f"{DOCKER}{NATIVE}{joined(names)}.",
    "M08": lambda names: f"unresolvable CDI devices {joined(names)}",
    "M09": lambda names: (
        f"{P1}CDI device injection failed:\nunresolvable CDI devices {joined(names)}"
    ),
    "M13": lambda names: (
        'Error: unable to start container "8d": setting up CDI devices: unresolvable CDI devices '
        + joined(names)
    ),
    "M23": lambda names: (
        f'failed to generate container "f9" spec: failed to generate spec: {NATIVE}{joined(names)}'
    ),
    "M38": lambda names: (
        f"CDI devices ({joined(names)}) requested but CDI support is explicitly disabled"
    ),
    "M48": lambda names: json.dumps(
        f'"cold plug: CDI device injection failed: {NATIVE}{joined(names)}"'
    ),
    "sandbox": lambda names: SANDBOX + joined(names),
    "CRI-O": lambda names: f'{CRIO}{joined(names)}"\n',
    "a Pod as JSON": lambda names: json.dumps({"message": P3 + joined(names)}),
    "a Pod as YAML": lambda names: yaml.safe_dump({"status": {"message": P3 + joined(names)}}),
    "quoted YAML": lambda names: yaml.safe_dump({"a": P3 + joined(names)}, default_style='"'),
    "JSON in JSON": lambda names: json.dumps(json.dumps({"message": P3 + joined(names)})),
    "kubectl describe": lambda names: (
        "Events:\n  Type     Reason   Age   From     Message\n  ----     ------   ---   ----\n"
        f"  Warning  Failed   10s (x2 over 10s)  kubelet  Error: {P3}{joined(names)}\n"
        "  Warning  BackOff  3s    kubelet  Back-off restarting failed container main in pod p\n"
    ),
    "quoted mail": lambda names: "\n".join(
        f"> {line}" for line in fold(P3 + joined(names), 72, "").splitlines()
    ),
    "a wrapped word": lambda names: (
        f"{INJECT.replace('devices ', 'de          vices ')}{joined(names)}"
    ),
    "HTML": lambda names: f"<td>{(P3 + joined(names)).replace('/', '&#47;')}</td>",
    "colours": lambda names: f"\x1b[31m{P3}\x1b[1m{joined(names)}\x1b[0m",
}


def looks_cut(names: list[str]) -> bool:
    """Return whether the last name reads as a UUID cut short."""
    last = device_of(names[-1])
    if UUID.fullmatch(last) or re.fullmatch(r"GP?|MI?|(GPU|MIG)(-[0-9a-fA-F-]*)?", last) is None:
        return False
    behind_whole = len(names) > 1 and all(UUID.fullmatch(device_of(name)) for name in names[:-1])
    return behind_whole or last.startswith(("GPU-", "MIG-"))


@pytest.mark.parametrize("wrapper", WRAPPERS.values(), ids=WRAPPERS.keys())
@settings(max_examples=30, deadline=None)
@given(names=LISTS)
@example(names=["management.nvidia.com/gpu=GPU-4044aeb5-b7e4-8cb0-69a8-40490ce01a2f"])
@example(names=[f"management.nvidia.com/gpu={index}" for index in range(8)])
@example(names=["D.0123abcd/gpu=0", "vendor..com/x.y=0000:af:02.0"])
def test_the_names_come_back_exactly(wrapper: Callable[[list[str]], str], names: list[str]) -> None:
    assume(not looks_cut(names))
    (failure,) = extract(wrapper(names))
    assert failure.names == tuple(names)
    assert failure.malformed == ()
    assert failure.is_cdi


@settings(deadline=None)
@given(value=st.uuids(), cut=st.integers(1, 39), indent=st.integers(0, 12))
def test_a_uuid_broken_by_a_terminal_is_put_together(value: object, cut: int, indent: int) -> None:
    device = f"GPU-{value}"
    name = f"management.nvidia.com/gpu={device[:cut]}\n{' ' * indent}{device[cut:]}"
    (failure,) = extract(f"{P3}{name}, a.b/c=d: unknown")
    assert failure.names == (f"management.nvidia.com/gpu={device}", "a.b/c=d")


WHOLE = "GPU-9c1d2f60-3a57-1e84-b0c6-5d7e81f2a943"
KIND = "management.nvidia.com/gpu"


@settings(deadline=None)
@given(kept=st.integers(1, 39), whole=st.integers(0, 3), tail=st.sampled_from(["", "\n", "  "]))
def test_a_uuid_that_a_text_ends_in_is_dropped_and_its_kind_is_kept(
    kept: int, whole: int, tail: str
) -> None:
    names = [f"{KIND}=GPU-9c1d2f60-3a57-1e84-b0c6-5d7e81f2a94{number}" for number in range(whole)]
    (failure,) = extract(P3 + joined([*names, f"other.nvidia.com/gpu={WHOLE[:kept]}"]) + tail)
    assert failure.names == tuple(names)
    assert failure.malformed == ()
    assert failure.truncated
    assert failure.kinds[-1] == "other.nvidia.com/gpu"


@settings(deadline=None)
@given(
    kept=st.text(ALNUM + "-:", max_size=12),
    mark=st.sampled_from(["…", "...", "....", " …", "[...]", " (...)"]),
    behind=st.sampled_from(["", ": unknown", '"', "\n  Warning  BackOff"]),
)
def test_what_stands_before_an_ellipsis_is_no_name(kept: str, mark: str, behind: str) -> None:
    (failure,) = extract(f"{P3}{KIND}={WHOLE}, {KIND}={kept}{mark}{behind}")
    assert failure.names == (f"{KIND}={WHOLE}",)
    assert failure.truncated


@pytest.mark.parametrize("text", [f"={WHOLE}…", f"={WHOLE}...", f"={WHOLE}, …", f"={WHOLE}, ..."])
def test_a_whole_uuid_before_an_ellipsis_stays(text: str) -> None:
    (failure,) = extract(f"{P3}{KIND}{text}")
    assert failure.names == (f"{KIND}={WHOLE}",)
    assert failure.truncated


@settings(deadline=None)
@given(
    kept=st.integers(5, 39).filter(lambda length: WHOLE[length - 1] != "-"),
    behind=st.sampled_from([": unknown", '"', '"}', ": unknown.", "'\n", f", {KIND}=all"]),
)
def test_a_short_uuid_that_the_text_goes_on_behind_is_what_was_asked_for(
    kept: int, behind: str
) -> None:
    (failure,) = extract(f"{P3}{KIND}={WHOLE[:kept]}{behind}")
    assert failure.names[0] == f"{KIND}={WHOLE[:kept]}"
    assert not failure.truncated


@settings(deadline=None)
@given(cut=st.integers(1, 24))
def test_a_kind_broken_by_a_terminal_is_put_together(cut: int) -> None:
    kind = "management.nvidia.com/gpu"
    (failure,) = extract(f"{P3}{kind[:cut]}\n    {kind[cut:]}=all")
    assert failure.names == ("management.nvidia.com/gpu=all",)


@settings(deadline=None)
@given(st.text())
def test_random_text_yields_no_device(text: str) -> None:
    assert [name for failure in extract(text) for name in failure.names] == []


FRAGMENTS = st.sampled_from(
    [
        "unresolvable CDI devices",
        "could not resolve CDI devices: [",
        "CDI devices (",
        'conflicting device "',
        "stat ",
        "nvidia.com/gpu=",
        "nvidia.com/",
        "=",
        ", ",
        ": unknown.",
        "\n   ",
        "\\n",
        "\\u003d",
        "GPU-4044aeb5-b7e4-8cb0",
        "error running hook #0: ",
        "failed to generate CDI spec: ",
        'error mounting "/',
        "](http://",
        "'",
        "{",
    ]
)


@settings(deadline=None)
@given(st.lists(st.one_of(FRAGMENTS, st.text(max_size=12)), max_size=24).map("".join))
def test_shuffled_wordings_never_raise_nor_invent_a_kind(text: str) -> None:
    plain = re.sub(r"\s|\\n|\\u003d", "", text)
    for failure in extract(text):
        for kind in failure.kinds:
            assert re.sub(r"\s", "", kind.partition("/")[0]) in plain
    read_report(text)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "metadata",
                    "annotations",
                    "spec",
                    "status",
                    "containers",
                    "containerStatuses",
                    "state",
                    "lastState",
                    "terminated",
                    "message",
                    "env",
                    "name",
                    "resources",
                    "limits",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=25,
)


@settings(deadline=None)
@given(JSON_VALUES)
def test_a_pod_of_any_shape_never_raises(value: object) -> None:
    pod = value if isinstance(value, dict) else {"status": value, "spec": value}
    assert pod_failures(pod) == ()
    pod_view(pod)
