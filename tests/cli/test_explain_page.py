"""The JSON of ``gpucdi explain`` is what docs/explain.md says: every field, of every type, no other."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from tests.cli.running import CHECKOUT, UUID, Run

PAGE = (CHECKOUT / "docs/explain.md").read_text(encoding="utf-8")
_ROW = re.compile(r"^\| (?P<names>`[^|]*`) \| (?P<type>[^|]*) \|", re.MULTILINE)
_TYPES: dict[str, type] = {"string": str, "bool": bool, "number": int, "object": dict}
# What the project promised to programs from its first day on.
PROMISED = {
    "is_cdi",
    "stage",
    "engine",
    "names",
    "cause",
    "contributing",
    "evidence",
    "near_miss",
    "advice",
    "repairable",
    "confidence",
}


def documented() -> dict[str, str]:
    """Return the type of each documented field."""
    section = PAGE.partition("## The JSON document")[2].partition("\n## ")[0]
    return {
        name: row["type"].strip()
        for row in _ROW.finditer(section)
        for name in re.findall(r"`(\w+)`", row["names"])
    }


FIELDS = documented()
# Those of the Pod stand at the top only.
OF_THE_POD = {"pod", "container", "reason", "still_failing"}


def fits(value: object, wanted: str) -> bool:
    """Tell whether a value is of a documented type: ``[string]``, ``{`kind`, …} or null``, …"""
    if value is None:
        return wanted.endswith(" or null")
    wanted = wanted.removesuffix(" or null")
    if wanted.startswith("["):
        inner = wanted.removeprefix("[").removesuffix("]")
        return isinstance(value, list) and all(fits(item, inner) for item in value)
    if wanted.startswith("{"):
        return isinstance(value, dict) and set(value) == set(re.findall(r"`(\w+)`", wanted))
    return type(value) is _TYPES[wanted]


@pytest.fixture(params=["Pod with node", "Pod", "text", "nothing", "several failures", "describe"])
def document(
    run: Run, c00: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> dict[str, object]:
    """One document of each way into the command."""
    name = f"management.nvidia.com/gpu={UUID}"
    texts = {
        "text": f"unresolvable CDI devices {name}",
        "nothing": "connection refused",
        "several failures": f"unresolvable CDI devices {name}\n"
        "nvidia-container-cli: device error: unknown device\n",
        "describe": "Name:  gpu-pod\nNamespace:  ml\nNode:  gpu-17/10.0.0.1\nStatus:  Pending\n"
        f"Containers:\n  a:\nEvents:\n  Warning  Failed  unresolvable CDI devices {name}\n",
    }
    file, flags = c00 / "pod.yaml", ["-o", "json"]
    if request.param in texts:
        file = tmp_path / "given.txt"
        file.write_text(texts[request.param])
    if request.param == "Pod with node":
        flags += ["--root", str(c00)]
    ran = run("explain", str(file), *flags)
    assert ran.code == 0
    found = json.loads(ran.out)
    assert isinstance(found, dict)
    return found


def test_every_promised_field_is_documented() -> None:
    assert set(FIELDS) >= PROMISED
    assert "blast_radius" in FIELDS["advice"]


def test_a_document_has_the_documented_fields_and_no_other(document: dict[str, object]) -> None:
    assert set(document) == set(FIELDS)


def test_each_value_is_of_its_documented_type(document: dict[str, object]) -> None:
    wrong = {name: value for name, value in document.items() if not fits(value, FIELDS[name])}
    assert wrong == {}


def test_further_failures_have_the_fields_above_and_their_types(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_text("unresolvable CDI devices nvidia.com/gpu=0\nnvidia-container-cli: x error: y\n")
    [other] = json.loads(run("explain", str(file), "-o", "json").out)["others"]
    assert set(other) == set(FIELDS) - OF_THE_POD
    assert [name for name, value in other.items() if not fits(value, FIELDS[name])] == []


def test_advice_is_ranked_and_says_what_it_touches(run: Run, c00: Path) -> None:
    pod, flags = str(c00 / "pod.yaml"), ("--root", str(c00), "-o", "json")
    advice = json.loads(run("explain", pod, *flags).out)["advice"]
    assert [item["rank"] for item in advice] == list(range(1, len(advice) + 1))
    flat = " ".join(PAGE.split())
    assert all(f"`{item['blast_radius']}`" in flat for item in advice)


@pytest.mark.parametrize(
    ("given", "wanted", "right"),
    [
        (None, "string", False),
        (None, "string or null", True),
        (True, "number", False),
        (["a", 1], "[string]", False),
        ([{"kind": "a"}], "[{`kind`, `count`}]", False),
        ({"kind": "a", "count": 1}, "{`kind`, `count`} or null", True),
    ],
)
def test_the_types_tell_right_from_wrong(given: object, wanted: str, *, right: bool) -> None:
    assert fits(given, wanted) is right


def test_several_pods_are_an_array_of_documents(run: Run, c00: Path, tmp_path: Path) -> None:
    pod = yaml.safe_load((c00 / "pod.yaml").read_text())
    file = tmp_path / "pods.json"
    file.write_text(json.dumps({"kind": "List", "items": [pod, pod]}))
    found = json.loads(run("explain", str(file), "-o", "json").out)
    assert [set(item) for item in found] == [set(FIELDS)] * 2
