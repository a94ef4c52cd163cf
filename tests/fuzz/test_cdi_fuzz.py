"""Whatever the bytes: an answer, one of the documented ones, soon and in little memory.

``GPUCDI_FUZZ_EXAMPLES`` sets the number of examples (300).
"""

from __future__ import annotations

import os
import time
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.differential.trees import RandomDraw, spec_bytes

from gpucdi.cdi import (
    SUPPORTED,
    Accepted,
    Crashes,
    InvalidNameError,
    Library,
    ReaderCrash,
    Rejected,
    annotation_key,
    decode_spec,
    dump_spec,
    minimum_version,
    parse_annotations,
    parse_qualified_name,
)

EXAMPLES = int(os.environ.get("GPUCDI_FUZZ_EXAMPLES", "300"))
# Processor time, and twice what it takes: the machine may be slow, or busy with something else.
SECONDS = 4
MEMORY_BYTES = 64 * 1024 * 1024

FUZZ = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
PIECES = st.sampled_from(
    [b": ", b"- ", b"? ", b"{", b"}", b"[", b"]", b",", b"\n", b"  ", b"\t", b"&a ", b"*a", b"<<: ",
     b"!!int ", b"!!binary ", b"!", b"'", b'"', b"|\n ", b">-\n ", b"#", b"%YAML 1.1\n", b"---\n",
     b"...\n", b"\xff", b"\xc3", b"\xe2\x80\xa8", b"\xef\xbb\xbf", b"\x00", b"\\x", b"\\u12", b"kind",
     b"devices", b"name", b"cdiVersion", b"containerEdits", b"env", b"null", b"~", b"1e400", b"0x",
     b"\r\n"]
)  # fmt: skip
SOUP = st.lists(PIECES, max_size=60).map(b"".join)
SPECS = st.integers(0, 2**32).map(lambda seed: spec_bytes(RandomDraw(seed)))
UTF16 = st.text(max_size=40).map(
    lambda text: b"\xff\xfe" + text.encode("utf-16-le", "surrogatepass")
)
FILES = st.one_of(st.binary(max_size=400), SOUP, SPECS, UTF16)
VERSIONS = st.sampled_from(SUPPORTED)


@FUZZ
@given(data=FILES, library=VERSIONS)
def test_any_file_gets_one_of_three_answers_soon(data: bytes, library: Library) -> None:
    began = time.process_time()

    outcome = decode_spec(data, "/etc/cdi/x.yaml", library)

    assert time.process_time() - began < SECONDS
    if isinstance(outcome, Accepted):
        assert minimum_version(outcome.spec, library)
    else:
        assert isinstance(outcome, (Rejected, Crashes))
        assert outcome.reason


@FUZZ
@given(data=SPECS)
def test_an_accepted_spec_can_be_written_and_is_accepted_again(data: bytes) -> None:
    library = SUPPORTED[-1]
    outcome = decode_spec(data, "/x.yaml", library)
    if not isinstance(outcome, Accepted):
        return

    again = decode_spec(dump_spec(outcome.spec), "/x.yaml", library)

    assert isinstance(again, Accepted), again
    assert again.spec.kind == outcome.spec.kind
    assert [each.name for each in again.spec.devices] == [
        each.name for each in outcome.spec.devices
    ]


def asked(call: Callable[[], object]) -> object:
    """Return the answer, or the one of the documented errors that came instead."""
    try:
        return call()
    except (InvalidNameError, ReaderCrash) as error:
        return error


@FUZZ
@given(text=st.text(st.characters(), max_size=60), library=VERSIONS)
def test_any_text_is_a_name_or_is_refused(text: str, library: Library) -> None:
    for name in (text, f"vendor.com/gpu={text}", f"{text}/gpu=0", f"vendor.com/{text}=0"):
        found = asked(lambda name=name: parse_qualified_name(name, library))  # type: ignore[misc] # bound at once
        assert str(found) == name or (isinstance(found, Exception) and str(found))


@FUZZ
@given(key=st.text(max_size=20), value=st.text(max_size=40), library=VERSIONS)
def test_any_annotation_is_read_or_refused(key: str, value: str, library: Library) -> None:
    read = asked(lambda: parse_annotations({f"cdi.k8s.io/{key}": value}, library))
    written = asked(lambda: annotation_key(key, value, library))

    assert isinstance(read, (tuple, Exception))
    assert isinstance(written, (str, Exception))


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 200_000,
        b"- " * 200_000,
        b"? " * 50_000,
        b"a: &a [x]\n" + b"".join(b"b%d: [*a, *a, *a]\n" % n for n in range(20_000)),
        b"\n".join(
            b"a%d: &a%d [%s]" % (n, n, b", ".join([b"*a%d" % max(n - 1, 0)] * 9)) for n in range(9)
        ),
        b'"' + b"\\u0041" * 100_000,
        b"k: " + b"x" * 1_000_000,
        b"#" * 1_000_000,
        b"\n" * 1_000_000,
        b"a: 1\n" * 6000,
        b"env: [&a " + b"x" * 2_000_000 + b"]\ndevices:\n" + b"- {*a : 1}\n" * 300,
        b"devices: [&a " + b"1_" * 200_000 + b"1, " + b"*a, " * 800 + b"x]\n",
        b'!x "' + b"a\n " * 1_300_000 + b'"',
        b"! [" + b"a," * 60_000,
        b"{" + b",".join(b"k%d: 1" % n for n in range(49_000)) + b"}",
    ],
    ids=[
        "flow",
        "block",
        "keys",
        "aliases",
        "bomb",
        "escapes",
        "long",
        "comment",
        "lines",
        "twice",
        "aliased key",
        "aliased number",
        "fold",
        "odd",
        "fields",
    ],
)
def test_files_made_to_hurt_cost_little(data: bytes) -> None:
    for library in (Library("1.1.0"), Library("1.1.2")):
        began = time.process_time()
        assert isinstance(decode_spec(data, "/x.yaml", library), Rejected)
        assert time.process_time() - began < SECONDS
        tracemalloc.start()
        try:
            decode_spec(data, "/x.yaml", library)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < MEMORY_BYTES
