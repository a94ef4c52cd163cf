"""Texts for people: limits in bytes, literal names, whatever the lengths."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from gpucdi.api import NearMiss
from gpucdi.diagnosis import (
    Advice,
    BlastRadius,
    Confidence,
    Diagnosis,
    Evidence,
    as_markdown,
    as_text,
    condition_message,
    diagnose,
    event_note,
)
from gpucdi.diagnosis.render import devices, fit
from gpucdi.failures import Failure, Stage, Symptom, extract
from gpucdi.findings import Cause, Who

UUIDS = [f"GPU-4044aeb5-b7e4-8cb0-69a8-40490ce01a{number:02x}" for number in range(16)]
KIND = "management.nvidia.com/gpu"
LIST = ", ".join(f"{KIND}={uuid}" for uuid in UUIDS)
SIXTEEN = diagnose(extract(f"unresolvable CDI devices {LIST}")[0])
TEXTS = st.text(max_size=400)


@given(text=TEXTS, limit=st.integers(3, 500))
@settings(deadline=None)
def test_a_fitted_text_keeps_its_limit_and_its_beginning(text: str, limit: int) -> None:
    found = fit(text, limit)
    assert len(found.encode()) <= limit
    whole = text.encode("utf-8", "replace").decode()
    assert whole.startswith(found.removesuffix("…")) or found == whole


@given(
    summary=TEXTS,
    places=st.lists(TEXTS, max_size=5),
    advice=TEXTS,
    names=st.lists(TEXTS, max_size=20),
    node=TEXTS,
    resource=TEXTS,
)
@settings(deadline=None)
def test_note_and_condition_keep_their_limits_whatever_they_say(
    *,
    summary: str,
    places: list[str],
    advice: str,
    names: list[str],
    node: str,
    resource: str,
) -> None:
    failure = Failure("M01", Symptom.UNRESOLVABLE, Stage.START, names=tuple(names))
    diagnosis = Diagnosis(
        failure,
        Cause.ONLY_ALL_DEVICE,
        summary,
        Confidence.HIGH,
        evidence=tuple(Evidence(place, place, place) for place in places),
        advice=(Advice(advice, BlastRadius.POD, Who.USER),),
    )
    assert len(event_note(diagnosis, node=node, resource=resource).encode()) <= 1024
    assert len(condition_message(diagnosis).encode()) <= 512


def test_as_many_names_as_fit_are_shown_with_the_number_of_the_others() -> None:
    text = devices([f"{KIND}={uuid}" for uuid in UUIDS], 180)
    assert text.startswith(f"{KIND}={UUIDS[0]}, {UUIDS[1]}")
    assert text.endswith(" and 13 more")
    assert len(text.encode()) <= 180


def test_each_kind_of_a_mixed_request_is_shown() -> None:
    text = devices([f"{KIND}=all", "nvidia.com/gpu=0", "nvidia.com/gpu=1"], 180)
    assert text == f"{KIND}=all; nvidia.com/gpu=0, 1"


def test_the_note_of_sixteen_devices_still_has_its_fix() -> None:
    note = event_note(SIXTEEN, node="gpu-17", resource="gpu-17")
    assert "16 devices" in note
    assert "on node gpu-17" in note
    assert "Fix: " in note
    assert note.endswith("See: kubectl get gpucdistatus gpu-17 -o yaml")


CONFIG = "/usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml"
MODE = Evidence("handler nvidia runs in mode cdi", CONFIG, "nvidia-container-runtime.mode")
DEFINES = Evidence(f"defines 1 device of {KIND}", "/var/run/cdi/management.nvidia.com-gpu.yaml")


def long(text: str, path: str) -> Evidence:
    return Evidence(text, f"{path}/{'deep/' * 2}a.toml", f"section.{'inner.' * 12}key")


def test_a_key_that_does_not_fit_is_left_out_and_its_file_stays() -> None:
    crowded = replace(SIXTEEN, evidence=(DEFINES, MODE, long("third", "/etc")))
    note = event_note(crowded, node="gpu-17", resource="gpu-17")
    assert f"Seen in: {DEFINES}; {MODE}" in note
    assert "third (/etc/deep/" in note
    assert "inner." not in note
    assert len(note.encode()) <= 1024


def test_evidence_that_does_not_fit_is_left_out_as_a_whole() -> None:
    far = Evidence("words " * 80, "/etc/a.toml", "key")
    note = event_note(replace(SIXTEEN, evidence=(far, MODE)))
    assert f"Seen in: {MODE}. Fix: " in note
    only = event_note(replace(SIXTEEN, evidence=(far,)))
    assert "Seen in: /etc/a.toml. Fix: " in only
    assert "words" not in only + condition_message(replace(SIXTEEN, evidence=(far,)))


def test_a_name_that_does_not_fit_behind_see_leaves_no_half_of_a_command() -> None:
    assert "See:" not in event_note(SIXTEEN, resource="n" * 253)


WORDS = st.lists(st.from_regex(r"[a-z]{1,40}", fullmatch=True), min_size=1, max_size=90)


@given(
    summary=WORDS,
    fix=WORDS,
    evidence=st.lists(st.tuples(WORDS, WORDS, WORDS), max_size=4),
    names=st.integers(1, 16),
)
@settings(deadline=None)
def test_neither_note_nor_condition_ends_within_a_word(
    summary: list[str],
    fix: list[str],
    evidence: list[tuple[list[str], list[str], list[str]]],
    names: int,
) -> None:
    told = replace(
        SIXTEEN,
        failure=replace(SIXTEEN.failure, names=SIXTEEN.failure.names[:names]),
        summary=" ".join(summary),
        evidence=tuple(
            Evidence(" ".join(text), "/" + "".join(path), ".".join(key))
            for text, path, key in evidence
        ),
        advice=(Advice(" ".join(fix), BlastRadius.POD, Who.USER),),
    )
    frame = "[OnlyAllDevice] Asked for and more on node gpu-17. Seen in: Fix: See: kubectl get"
    whole = {*summary, *fix, *frame.split(), "gpucdistatus", "gpu-17", "-o", "yaml", str(names)}
    whole |= {word for text, _, _ in evidence for word in text}
    whole |= {str(one) for item in told.evidence for one in (item.file, item.key)}
    note = event_note(told, node="gpu-17", resource="gpu-17")
    message = condition_message(told)
    assert len(note.encode()) <= 1024
    assert len(message.encode()) <= 512
    for word in (note + " " + message).split():
        bare = word.strip("().,;…")
        assert bare in whole | {w.strip(".:") for w in whole} or "GPU-" in word or bare.isdigit()


def test_the_terminal_text_ranks_advice_with_its_blast_radius() -> None:
    text = as_text(SIXTEEN)
    assert text.startswith("Cause: OnlyAllDevice (confidence medium)\n")
    assert "\n  1. let gpucdi add" in text
    assert "touches one new file on this node" in text
    assert "      $ kubectl label node NODE gpucdi.io/repair=auto --overwrite\n" in text
    assert "What not to do:\n" in text
    assert "Not seen:\n" in text


def test_markdown_is_markdown() -> None:
    text = as_markdown(replace(SIXTEEN, near_miss=NearMiss("nvidia.com/gpu", 16)))
    assert text.startswith("**Cause:** OnlyAllDevice")
    assert "\n**Near miss:** nvidia.com/gpu has 16 of the missing names\n" in text
    assert "\n1. let gpucdi add" in text
    assert text.count("```") % 2 == 0


def test_without_evidence_there_is_no_heading_for_it() -> None:
    bare = replace(SIXTEEN, evidence=())
    assert "Evidence:" not in as_text(bare) + as_markdown(bare)
    assert "What to do:" in as_text(bare)
    assert "Evidence:" in as_text(SIXTEEN)


def test_an_advice_that_changes_nothing_is_not_said_to_touch_anything() -> None:
    looking = Advice("look", BlastRadius.NOTHING, Who.ADMIN)
    changing = Advice("restart", BlastRadius.NODE, Who.ADMIN)
    text = as_text(replace(SIXTEEN, advice=(looking, changing)))
    assert "(admin; nothing changes, it only looks; all versions)" in text
    assert "(admin; touches every GPU container that starts on this node; all versions)" in text
