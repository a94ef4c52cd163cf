"""Names beyond the recorded vectors: the values, and texts that no file can hold."""

from __future__ import annotations

import pytest

from gpucdi.cdi import (
    InvalidNameError,
    Library,
    QualifiedName,
    ReaderCrash,
    is_qualified_name,
    parse_annotations,
    parse_qualified_name,
    split_device,
    split_kind,
    validate_class,
    validate_device_name,
    validate_vendor,
)


def test_a_name_knows_its_kind_and_its_text() -> None:
    name = parse_qualified_name("nvidia.com/gpu=GPU-1", Library("1.1.0"))

    assert name == QualifiedName("nvidia.com", "gpu", "GPU-1")
    assert name.kind == "nvidia.com/gpu"
    assert str(name) == "nvidia.com/gpu=GPU-1"


def test_splitting_cuts_at_the_first_separator() -> None:
    assert split_device("a/b/c=d=e") == ("a", "b/c", "d=e")
    assert split_kind("a/b/c") == ("a", "b/c")


@pytest.mark.parametrize("text", ["", "/dev/null", "a", "a=b", "a/b=", "/b=c", "a/=c"])
def test_what_is_no_full_name_stays_in_one_piece(text: str) -> None:
    assert split_device(text) == ("", "", text)


def test_a_class_with_a_dot_is_legal_from_0_6_0_on() -> None:
    validate_class("g.pu", Library("0.6.0"))
    with pytest.raises(InvalidNameError, match=r"invalid character '\.' in device class"):
        validate_class("g.pu", Library("0.5.4"))


def test_one_letter_kills_readers_before_1_1_1() -> None:
    validate_vendor("v", Library("1.1.1"))
    with pytest.raises(ReaderCrash, match="slice bounds out of range"):
        validate_vendor("v", Library("1.1.0"))


def test_one_bad_character_is_an_error_before_it_can_kill() -> None:
    with pytest.raises(InvalidNameError, match='"1", should start with letter'):
        validate_vendor("1", Library("1.1.0"))


def test_a_newline_at_the_end_is_no_part_of_a_name() -> None:
    with pytest.raises(InvalidNameError, match="should end with a letter or digit"):
        validate_device_name("a\n")


def test_lone_surrogates_are_judged_and_not_raised() -> None:
    assert not is_qualified_name("vendor.com/gpu=a\ud800b")
    assert not is_qualified_name("vendor.com/gpu=a\udcffb")


def test_a_byte_that_is_no_text_is_shown_as_go_shows_it() -> None:
    with pytest.raises(InvalidNameError) as caught:
        validate_device_name("a\udcffb")

    assert str(caught.value) == "invalid character '\ufffd' in device name \"a\\xffb\""


def test_annotations_may_kill_a_reader_too() -> None:
    with pytest.raises(ReaderCrash):
        parse_annotations({"cdi.k8s.io/x": "v/gpu=0"}, Library("1.1.0"))
