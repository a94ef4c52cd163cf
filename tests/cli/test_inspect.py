"""``gpucdi inspect`` and ``gpucdi diff`` on the captured incident."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml
from tests.cli.running import CHECKOUT, KIND, OTHER_UUID, UUID, Run

from gpucdi.api import NodeState, read_status
from gpucdi.findings import Cause

OWN_FILE = "/etc/cdi/gpucdi-management.nvidia.com-gpu.yaml"


def test_the_table_says_what_is_wrong_and_where(run: Run, c00: Path) -> None:
    ran = run("inspect", "--root", str(c00))
    assert ran.code == 1
    assert ran.out.startswith("Drifted (OnlyAllDevice); 2 GPUs by proc, driver 570.86.15\n")
    assert f"missing: {KIND}={UUID}" in ran.out
    assert "nvidia.com/gpu (2)" in ran.out
    assert "/var/run/cdi/management.nvidia.com-gpu.yaml" in ran.out


def test_no_line_of_the_table_ends_in_blanks(run: Run, c00: Path) -> None:
    lines = run("inspect", "--root", str(c00)).out.splitlines()
    assert [line for line in lines if line != line.rstrip()] == []


def test_json_and_yaml_are_the_same_status(run: Run, c00: Path) -> None:
    as_json = run("inspect", "--root", str(c00), "-o", "json")
    as_yaml = run("inspect", "--root", str(c00), "-o", "yaml")
    status = read_status(json.loads(as_json.out))
    assert status.state is NodeState.DRIFTED
    assert status.cause is Cause.ONLY_ALL_DEVICE
    first, second = json.loads(as_json.out), yaml.safe_load(as_yaml.out)
    for each in (first, second):
        for condition in each["conditions"]:
            del condition["lastTransitionTime"]
    assert first == second


def test_the_chain_of_a_handler_names_every_file_with_its_line(run: Run, c00: Path) -> None:
    ran = run("inspect", "--root", str(c00), "--handler", "nvidia")
    assert "/etc/containerd/conf.d/99-nvidia.toml:19" in ran.out
    assert "line 21 of it: nvidia-container-runtime.mode" in ran.out
    assert "line 28 of it: nvidia-container-runtime.modes.cdi.default-kind" in ran.out
    assert "not read: says mode auto, default-kind nvidia.com/gpu" in ran.out


def test_the_lines_that_the_chain_names_are_the_right_ones(c00: Path) -> None:
    folder = c00 / "usr/local/nvidia/toolkit/.config/nvidia-container-runtime"
    lines = (folder / "config.toml").read_text().splitlines()
    assert lines[21 - 1].strip() == 'mode = "cdi"'
    assert lines[28 - 1].strip() == f'default-kind = "{KIND}"'


def test_a_handler_in_legacy_mode_ends_before_the_spec_files(run: Run, c00: Path) -> None:
    ran = run("inspect", "--root", str(c00), "--handler", "nvidia-legacy")
    assert "by the name of the binary; no spec file is looked at" in ran.out
    assert "management.nvidia.com-gpu.yaml" not in ran.out


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
@pytest.mark.parametrize("handler", ["kata", ""])
def test_an_unknown_handler_is_answered_with_those_there_are(
    run: Run, c00: Path, handler: str, output: str
) -> None:
    ran = run("inspect", "--root", str(c00), "--handler", handler, "-o", output)
    assert (ran.code, ran.out) == (2, "")
    assert "there are: runc, nvidia, nvidia-cdi, nvidia-legacy" in ran.err


def test_json_of_one_handler_has_its_row_alone(run: Run, c00: Path) -> None:
    ran = run("inspect", "--root", str(c00), "--handler", "nvidia-cdi", "-o", "json")
    assert [row["handler"] for row in json.loads(ran.out)["handlerTable"]] == ["nvidia-cdi"]


def test_a_suggested_edit_is_shown_as_a_diff_and_not_made(run: Run, copy: Path) -> None:
    folder = copy / "usr/local/nvidia/toolkit/.config/nvidia-container-runtime"
    before = (folder / "config.toml").read_text()
    call = ("inspect", "--root", str(copy), "--handler", "nvidia", "--suggest")
    ran = run(*call, "default-kind=nvidia.com/gpu")
    changed = [line for line in ran.out.splitlines() if re.match(r"[+-] ", line)]
    assert changed == [
        f'-      default-kind = "{KIND}"',
        '+      default-kind = "nvidia.com/gpu"',
    ]
    assert "NVIDIA_CONTAINER_RUNTIME_MODES_CDI_DEFAULT_KIND=nvidia.com/gpu" in ran.out
    assert (folder / "config.toml").read_text() == before
    assert "none: it says so already" in run(*call, "mode=cdi").out


def test_every_setting_is_listed_with_its_value_and_origin(run: Run, c00: Path) -> None:
    out = run("inspect", "--root", str(c00), "--handler", "nvidia", "--settings").out
    rows = [re.split(r"  +", line) for line in out.splitlines()]
    file = "/usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml"
    assert ["nvidia-container-runtime.mode", '"cdi"', f"{file}:21", "-"] in rows
    default = "the default, no file sets it"
    assert ["features.ignore-imex-channel-requests", "false", default, "1.17.5"] in rows


@pytest.mark.parametrize(
    "flags",
    [
        ("--suggest", "mode=auto"),
        ("--settings", "--suggest", "mode=auto"),
        ("--handler", "nvidia", "--suggest", "mode"),
        ("--handler", "nvidia", "--suggest", "debug=x"),
        ("--handler", "nvidia", "--suggest", "mode=auto", "-o", "json"),
    ],
)
def test_a_suggestion_that_makes_no_sense_is_a_usage_error(
    run: Run, c00: Path, flags: tuple[str, ...]
) -> None:
    ran = run("inspect", "--root", str(c00), *flags)
    assert (ran.code, "--suggest" in ran.err) == (2, True)


def test_a_broken_config_is_a_finding_and_no_crash(run: Run, copy: Path) -> None:
    folder = copy / "usr/local/nvidia/toolkit/.config/nvidia-container-runtime"
    (folder / "config.toml").write_text("mode is cdi\n")
    ran = run("inspect", "--root", str(copy))
    assert ran.code == 1
    assert "ConfigUnreadable" in ran.out
    assert f"in /{folder.relative_to(copy)}/config.toml" in ran.out


def test_diff_shows_the_own_file_and_just_the_missing_names(run: Run, c00: Path) -> None:
    ran = run("diff", "--root", str(c00))
    assert ran.code == 1
    assert ran.out.splitlines() == [
        f"+++ {OWN_FILE}  (new file)",
        f"+ {KIND}={UUID}",
        f"+ {KIND}={OTHER_UUID}",
    ]


def test_diff_writes_nothing(run: Run, copy: Path) -> None:
    before = sorted(copy.rglob("*"))
    run("diff", "--root", str(copy), "--content")
    assert sorted(copy.rglob("*")) == before


def test_diff_of_a_node_with_nothing_missing_is_empty_and_fine(run: Run, copy: Path) -> None:
    shown = run("diff", "--root", str(copy), "--content").out
    content = shown[shown.index("# Written by gpucdi.") :]
    (copy / OWN_FILE.lstrip("/")).write_text(content)
    ran = run("diff", "--root", str(copy))
    assert (ran.code, ran.out) == (0, "nothing to add: every name that should resolve does\n")
    assert run("inspect", "--root", str(copy)).code == 0


def test_diff_without_a_driver_in_the_tree_says_so(run: Run, copy: Path) -> None:
    for name in ("nvidia0", "nvidia1"):
        capture = json.loads((copy / "gpucdi-capture.json").read_text())
        capture["devices"] = [item for item in capture["devices"] if item["path"] != f"/dev/{name}"]
        (copy / "gpucdi-capture.json").write_text(json.dumps(capture))
    ran = run("diff", "--root", str(copy))
    assert ran.code == 1
    assert "empty device edits" in ran.out
    assert "+++" not in ran.out


def test_diff_promises_nothing_of_a_node_without_known_gpus(run: Run, copy: Path) -> None:
    shutil.rmtree(copy / "proc")
    ran = run("diff", "--root", str(copy))
    assert ran.code == 1
    assert "it cannot be told what is missing: the node's state is Unknown" in ran.out
    assert f"see why: gpucdi inspect --root {copy}" in ran.out


def test_diff_of_a_drifted_node_without_a_missing_name_says_both(run: Run) -> None:
    ran = run("diff", "--root", str(CHECKOUT / "tests/places/rke2"))
    assert ran.code == 0
    assert ran.out.startswith("nothing to add, and yet the node is Drifted (HandlerMissing)\n")


def test_whole_files_are_shown_of_a_tree_only(run: Run) -> None:
    ran = run("diff", "gpu-17", "--content")
    assert (ran.code, "--content goes with --root TREE" in ran.err) == (2, True)


def test_diff_wants_either_a_node_or_a_tree(run: Run, c00: Path) -> None:
    assert run("diff").code == 2
    assert run("diff", "").code == 2
    assert run("diff", "--root", "").code == 2
    assert run("diff", "gpu-17", "--root", str(c00)).code == 2
