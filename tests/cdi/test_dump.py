"""Canonical text: the library's own spelling, and safe for every reader."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.differential.oracle import Oracle, reason_to_skip

from gpucdi import cdi
from gpucdi.cdi import (
    Accepted,
    ContainerEdits,
    Device,
    DeviceNode,
    Hook,
    IntelRdt,
    Library,
    Mount,
    NetDevice,
    Spec,
    decode_spec,
    dump_spec,
)

FULL = Spec(
    cdi_version="1.1.0",
    kind="vendor.com/gpu",
    annotations={"b": "2", "a10": "x", "a9": "y"},
    devices=(
        Device(
            "0",
            {"k": "v: w"},
            ContainerEdits(
                env=("A=b",),
                device_nodes=(
                    DeviceNode("/dev/x", "/dev/y", "c", 195, 1, 0o666, "rw", 0, 44),
                    DeviceNode("/dev/z"),
                ),
                net_devices=(NetDevice("eth0", "n0"),),
                hooks=(Hook("createContainer", "/bin/x", ("x", "--a", "1"), ("A=b",), 0),),
                mounts=(Mount("/a", "/b", ("ro", "bind"), "bind"),),
                intel_rdt=IntelRdt(),
                additional_gids=(0, 7),
            ),
        ),
        Device("all", edits=ContainerEdits(env=("A=b",))),
    ),
    edits=ContainerEdits(intel_rdt=IntelRdt("x", schemata=(), enable_monitoring=True)),
)


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    absent = reason_to_skip()
    if absent:
        pytest.skip(absent)
    with ExitStack() as stack:
        yield stack.enter_context(Oracle("1.1.2"))


def test_the_layout_is_struct_order_with_four_spaces() -> None:
    spec = Spec("0.5.0", "vendor.com/gpu", devices=(Device("0", edits=ContainerEdits(("A=b",))),))

    assert dump_spec(spec).decode() == (
        "---\n"
        "cdiVersion: 0.5.0\n"
        "kind: vendor.com/gpu\n"
        "devices:\n"
        '    - name: "0"\n'
        "      containerEdits:\n"
        "        env:\n"
        "            - A=b\n"
    )


def test_the_version_is_the_lowest_that_fits() -> None:
    spec = Spec("1.1.0", "vendor.com/gpu", devices=(Device("d", edits=ContainerEdits(("A=b",))),))

    assert b"cdiVersion: 0.3.0\n" in dump_spec(spec)
    assert b"cdiVersion: 1.1.0\n" in dump_spec(spec, keep_version=True)


def test_a_full_spec_survives_writing_and_reading() -> None:
    outcome = decode_spec(dump_spec(FULL), "/x.yaml", cdi.NEWEST)

    assert isinstance(outcome, Accepted)
    # An empty list of schemata is left out, as omitempty does.
    assert outcome.spec.devices == FULL.devices
    assert outcome.spec.annotations == FULL.annotations


def test_the_library_writes_the_same_bytes(tmp_path: Path, oracle: Oracle) -> None:
    assert_same(tmp_path, oracle, FULL)


TEXTS = st.one_of(
    st.sampled_from(
        ["", "1", "0x1", "yes", "y", "~", "null", "1:30", "a: b", "a #b", "- a", "-", "a:", "'", '"',
         "!x", "&a", "*a", "%a", "@a", "`a", "{a", "[a", "a,b", "|", ">", "?", "? a", "<<", "=", "é",
         "\u00a0", "a\tb", "\ta", " a", "a ", "a\nb", "a\nb\n", "\na", " a\nb", "a\n\n", "a\x07", "\x85",
         "\u2028", "\ufeff", "1e3", ".inf", "2001-01-01", "0b1", "0o7", "---", "...", "---a", "#a", ":a",
         "true", "True", "a\\b", "a'b", "\U0001f600"]
    ),
    st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), max_size=8),
)  # fmt: skip


def spec_with(text: str, key: str) -> Spec:
    edits = ContainerEdits(
        device_nodes=(DeviceNode(text or "/x", type="c", major=1),),
        hooks=(Hook("prestart", text or "/x", (text, "x")),),
        mounts=(Mount("/a", text or "/b", (text,)),),
    )
    return Spec("1.1.0", "vendor.com/gpu", {key: text}, (Device("d0", {key: text}, edits),))


def assert_same(tmp_path: Path, oracle: Oracle, spec: Spec) -> None:
    # JSON in, so that the reading cannot depend on what is tested.
    path = tmp_path / "in.yaml"
    path.write_bytes(dump_spec(spec))
    answer = oracle.ask({"op": "write", "path": str(path)})
    assert answer["err"] == ""
    assert answer["content"] == dump_spec(spec).decode()


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=TEXTS, key=st.sampled_from(["a", "a1", "1", "y"]))
def test_any_text_is_written_as_the_library_writes_it(
    tmp_path: Path, oracle: Oracle, text: str, key: str
) -> None:
    # In a list the library writes such a text in a way that no reader understands; we do not.
    assume(not (text[:1] in {" ", "\n"} and "\n" in text))
    # Nor are the rarer line breaks worth its folding: ours are escapes.
    assume(not set(text) & {"\x85", "\u2028", "\u2029"})
    assert_same(tmp_path, oracle, spec_with(text, key))


@settings(max_examples=150, deadline=None)
@given(text=TEXTS)
def test_any_text_comes_back_from_every_decoder(text: str) -> None:
    spec = spec_with(text, "a")
    data = dump_spec(spec)

    for library in (Library("0.6.0"), Library("1.1.0"), Library("1.1.2")):
        outcome = decode_spec(data, "/x.yaml", library)
        assert isinstance(outcome, Accepted), outcome
        assert outcome.spec.devices[0].edits.hooks[0].args == (text, "x")
        assert outcome.spec.devices[0].edits.device_nodes[0].path == (text or "/x")
        assert dict(outcome.spec.annotations) == {"a": text}


KEYS = st.one_of(
    st.text(alphabet="0019a-.z\u0663\u00e9_/ ", min_size=1, max_size=6),
    st.sampled_from(["a" * 128, "a" * 129, "9" * 5000, "a\nb", "a\n", "\u00e9" * 65, "x: " * 60]),
)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(keys=st.sets(KEYS, min_size=2, max_size=6))
def test_annotations_come_in_the_library_s_order(
    tmp_path: Path, oracle: Oracle, keys: set[str]
) -> None:
    edits = ContainerEdits(env=("A=b",))
    device = Device("d0", edits=edits)
    pairs = [
        Spec("0.6.0", "vendor.com/gpu", {one: "", other: ""}, (device,))
        for one in keys
        for other in keys
        if one < other
    ]

    # Two at a time: its order of three may be a circle, and then depends on Go's random walk.
    for spec in pairs:
        assert_same(tmp_path, oracle, spec)


def test_a_key_of_thousands_of_digits_is_written() -> None:
    keys = {"9" * 5000: "a", "9" * 4999 + "8": "b", "10": "c"}
    spec = Spec("0.6.0", "vendor.com/gpu", keys, (Device("d0", edits=ContainerEdits(("A=b",))),))

    outcome = decode_spec(dump_spec(spec), "/x.yaml", cdi.NEWEST)

    assert isinstance(outcome, Accepted)
    assert outcome.spec.annotations == keys
