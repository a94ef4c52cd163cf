"""What is remembered of a file is what its bytes say, and never more than a bound."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from tests.cdi.support import DIRS, Tree

from gpucdi import cdi
from gpucdi.cdi import Accepted, Library, Reader
from gpucdi.cdi.remembered import VERDICTS, VerdictStore

OLD = Library("0.5.4")
PATH = "/etc/cdi/a.yaml"


def text(kind: str = "vendor.com/gpu", devices: int = 1, version: str = "0.5.0") -> bytes:
    lines = [f"cdiVersion: {version}", f"kind: {kind}", "devices:"]
    lines += [f"- {{name: d{n}, containerEdits: {{env: [A=b]}}}}" for n in range(devices)]
    return "\n".join(lines).encode()


@pytest.fixture
def store() -> VerdictStore:
    return VerdictStore(limit_nodes=1000)


def test_the_same_bytes_are_judged_once(store: VerdictStore) -> None:
    first = store.verdict(text(), PATH, OLD)

    assert store.verdict(text(), PATH, OLD) is first


def test_other_bytes_another_library_and_another_path_are_other_questions(
    store: VerdictStore,
) -> None:
    new = text(version="1.0.0")
    known = store.verdict(new, PATH, OLD)

    assert not isinstance(known.outcome, Accepted)
    assert isinstance(store.verdict(new, PATH, cdi.NEWEST).outcome, Accepted)
    assert isinstance(store.verdict(text(), PATH, OLD).outcome, Accepted)
    assert "/etc/cdi/b.yaml" in str(store.verdict(b"[", "/etc/cdi/b.yaml", OLD).outcome)
    assert PATH in str(store.verdict(b"[", PATH, OLD).outcome)


def test_what_was_not_asked_for_longest_is_dropped_first(store: VerdictStore) -> None:
    often = store.verdict(text(), PATH, OLD)
    once = store.verdict(text(devices=2), PATH, OLD)

    for number in range(100):
        store.verdict(text(f"vendor.com/k{number}"), PATH, OLD)
        assert store.verdict(text(), PATH, OLD) is often

    again = store.verdict(text(devices=2), PATH, OLD)
    assert again is not once
    assert again == once


def test_a_file_as_large_as_the_store_does_not_empty_it(store: VerdictStore) -> None:
    small = store.verdict(text(), PATH, OLD)
    large = store.verdict(text(devices=500), PATH, OLD)

    assert store.verdict(text(), PATH, OLD) is small
    assert store.verdict(text(devices=500), PATH, OLD) is not large


def test_a_long_error_counts_as_well(store: VerdictStore) -> None:
    names = [b"k%04d%s: 1\n" % (n, b"x" * 400) for n in range(100)]
    wordy = b"".join(names)

    store.verdict(wordy, PATH, OLD)
    first = store.verdict(wordy, PATH, cdi.NEWEST)

    assert store.verdict(wordy, PATH, cdi.NEWEST) is not first


def test_a_rewrite_that_no_time_or_size_betrays_is_seen(
    tree: Tree, spec_text: Callable[..., str]
) -> None:
    VERDICTS.forget()
    path = "/etc/cdi/a.yaml"
    host = tree({path: spec_text("vendor.com/gpu", "d0")})
    reader = Reader(DIRS, cdi.NEWEST)
    before = reader.load(host)
    place = host.outside(path)
    kept = place.stat()

    place.write_text(spec_text("vendor.com/gpu", "d1"))
    os.utime(place, ns=(kept.st_atime_ns, kept.st_mtime_ns))

    assert set(before.devices) == {"vendor.com/gpu=d0"}
    assert set(reader.load(host).devices) == {"vendor.com/gpu=d1"}
