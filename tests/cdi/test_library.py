"""Versions of the library: order, spelling, and which program ships which."""

from __future__ import annotations

import pytest

from gpucdi import cdi
from gpucdi.cdi import Library, reader_library


def test_versions_sort_by_number() -> None:
    assert sorted([Library("1.1.0"), Library("0.10.0"), Library("0.9.1")]) == [
        Library("0.9.1"),
        Library("0.10.0"),
        Library("1.1.0"),
    ]


def test_a_leading_v_makes_no_difference() -> None:
    assert Library.parse("v1.1.0") == Library("1.1.0")


def test_a_pre_release_lies_between_the_releases() -> None:
    assert Library("1.0.1") < Library("1.0.2-dev") < Library("1.0.2")


@pytest.mark.parametrize(
    "text", ["", "1", "1.1", "one", "1.1.0.0", "1.1.0 x", f"1.1.{'9' * 5000}", "1.1.\u0663"]
)
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a version"):
        Library.parse(text)


def test_the_newest_supported_version_is_the_last() -> None:
    assert cdi.SUPPORTED[-1] == cdi.NEWEST
    assert list(cdi.SUPPORTED) == sorted(cdi.SUPPORTED)


@pytest.mark.parametrize(
    ("between", "like"), [("0.6.2", "0.6.2"), ("0.8.0", "0.8.1"), ("1.0.0", "1.0.1")]
)
def test_a_version_in_between_has_the_changes_before_it(between: str, like: str) -> None:
    assert Library(between).behaviour == Library(like).behaviour


def test_0_6_1_is_the_first_to_list_only_what_is_unresolved() -> None:
    assert Library("0.6.0").behaviour.lists_all_requested
    assert not Library("0.6.1").behaviour.lists_all_requested


@pytest.mark.parametrize(
    ("program", "version", "library"),
    [
        ("containerd", "1.7.11", "0.5.4"),
        ("containerd", "v1.7.27", "0.8.1"),
        ("containerd", "2.0.2", "0.8.0"),
        ("containerd", "2.2.0", "1.0.1"),
        ("containerd", "2.2.9", "1.1.0"),
        ("containerd", "2.3.7-k3s1", "1.1.0"),
        ("containerd", "2.4.2", "1.1.1"),
        ("cri-o", "1.28.4", "0.6.0"),
        ("cri-o", "1.32.0", "0.8.0"),
        ("cri-o", "1.36.1", "1.1.0"),
        ("docker", "25.0.16", "0.6.2"),
        ("docker", "25.0.17", "0.8.1"),
        ("docker", "26.0.0", "0.6.2"),
        ("docker", "29.0.0", "1.0.1"),
        ("podman", "4.9.4", "0.6.2"),
        ("nvidia-container-toolkit", "1.17.4", "0.8.0"),
        ("nvidia-container-toolkit", "1.18.1", "1.0.2-dev"),
        ("nvidia-container-toolkit", "1.20.0", "1.1.0"),
        ("nvidia-container-toolkit", "1.20.1", "1.1.1"),
        ("k8s-device-plugin", "0.17.3", "0.8.1"),
        ("dra-driver", "25.8.1", "1.0.1"),
        ("dra-driver", "0.4.0", "1.1.0"),
        ("dra-driver", "0.4.7", "1.1.0"),
        ("docker", "29.2.9", "1.1.0"),
        ("docker", "29.8.0", "1.1.0"),
        ("podman", "5.8.99", "1.0.1"),
    ],
)
def test_a_release_has_its_library(program: str, version: str, library: str) -> None:
    assert reader_library(program, version) == Library(library)


@pytest.mark.parametrize(
    ("program", "version"),
    [
        ("containerd", "1.6.36"),
        ("containerd", "3.0.0"),
        ("docker", "24.0.9"),
        ("docker", "29.8.1"),
        ("docker", "29.999.0"),
        ("docker", "30.0.0"),
        ("dra-driver", "0.5.0"),
        ("dra-driver", "1.0.0"),
        ("dra-driver", "26.1.0"),
        ("containerd", f"1.7.{'9' * 5000}"),
        ("containerd", f"{'x' * 100_000}1.7.27"),
        ("rkt", "1.0.0"),
        ("containerd", "main"),
    ],
)
def test_what_has_no_cdi_or_is_not_known_has_no_library(program: str, version: str) -> None:
    assert reader_library(program, version) is None
