"""The foreground commands over a captured tree, as somebody types them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from tests.trees import c00

from gpucdi.host import HostTree
from gpucdi_agent.__main__ import main

OWN = "/etc/cdi/gpucdi-management.nvidia.com-gpu.yaml"


@pytest.fixture
def host(tmp_path: Path) -> HostTree:
    return c00.copy(tmp_path / "gpu-17")


@pytest.fixture
def stand_in(tmp_path: Path) -> str:
    """Write a program that prints a spec, whatever it is asked."""
    spec = tmp_path / "spec.yaml"
    spec.write_bytes(c00.generated((*c00.UUIDS, "all")))
    program = tmp_path / "stand-in"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\ncat {spec}\n')
    program.chmod(0o755)
    return str(program)


def tree_files(host: HostTree) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for path in sorted(host.root.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def run(capsys: pytest.CaptureFixture[str], arguments: Sequence[str]) -> tuple[int, str]:
    code = main(list(arguments))
    return code, capsys.readouterr().out


def test_inspect_shows_the_chain_the_cause_and_the_near_miss(
    host: HostTree, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = run(capsys, ["inspect", "--root", str(host.root)])

    assert code == 1
    assert out.startswith("gpu-17: Drifted (OnlyAllDevice)")
    assert "/usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml" in out
    assert "as nvidia.com/gpu" in out


def test_inspect_changes_nothing(host: HostTree, capsys: pytest.CaptureFixture[str]) -> None:
    before = tree_files(host)

    run(capsys, ["inspect", "--root", str(host.root)])

    assert tree_files(host) == before


def test_json_and_yaml_say_the_same_and_say_it_again(
    host: HostTree, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["inspect", "--root", str(host.root), "--node-name", "n1", "-o"]
    _, first = run(capsys, [*call, "json"])
    _, second = run(capsys, [*call, "json"])
    _, as_yaml = run(capsys, [*call, "yaml"])

    found = json.loads(first)
    again = json.loads(second)
    for each in (found, again):
        for condition in each["status"]["conditions"]:
            del condition["lastTransitionTime"]
    assert found == again
    assert found["metadata"]["name"] == found["spec"]["nodeName"] == "n1"
    assert yaml.safe_load(as_yaml)["status"]["state"] == "Drifted"


def test_repair_writes_our_file_and_shows_the_plan(
    host: HostTree, stand_in: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    call = ["repair", "--root", str(host.root), "--generator", stand_in]
    code, out = run(capsys, call)

    assert code == 0
    assert out.startswith(f"write   {OWN}")
    assert "Resolved" in out
    assert host.exists(OWN)
    assert "--vendor management.nvidia.com" in (tmp_path / "asked").read_text()


def test_a_dry_run_shows_the_plan_and_writes_no_spec(
    host: HostTree, stand_in: str, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["repair", "--root", str(host.root), "--generator", stand_in, "--dry-run"]
    _, out = run(capsys, call)

    assert out.startswith(f"write   {OWN}")
    assert not host.exists(OWN)


def test_a_repair_for_programs(
    host: HostTree, stand_in: str, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["repair", "--root", str(host.root), "--generator", stand_in, "-o", "json"]
    _, out = run(capsys, call)

    found = json.loads(out)
    assert [record["result"] for record in found["records"]] == ["Succeeded"]
    assert found["node"]["status"]["state"] == "Resolved"


def test_a_generator_that_is_not_there_is_said_with_its_name(
    host: HostTree, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["repair", "--root", str(host.root), "--generator", "/nonexistent/ctk"]
    code, out = run(capsys, call)

    assert code == 1
    assert "/nonexistent/ctk" in out
    assert not host.exists(OWN)


def test_revert_takes_back_exactly_what_repair_did(
    host: HostTree, stand_in: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: text for path, text in tree_files(host).items() if "/cdi/" in path}
    run(capsys, ["repair", "--root", str(host.root), "--generator", stand_in])

    code, out = run(capsys, ["revert", "--root", str(host.root)])

    after = {path: text for path, text in tree_files(host).items() if "/cdi/" in path}
    assert (code, after) == (0, before)
    assert out.startswith(f"remove  {OWN}")


def test_a_root_that_is_no_directory_is_a_wrong_call(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["inspect", "--root", "/nonexistent"])

    assert ended.value.code == 2
    assert "is no directory" in capsys.readouterr().err


def test_an_empty_tree_is_no_gpu_node_and_no_crash(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = run(capsys, ["inspect", "--root", str(tmp_path)])

    assert code == 1
    assert "0 GPUs" in out
