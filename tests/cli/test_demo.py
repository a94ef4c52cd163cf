"""The demo: seen, explained, healed, and only on a copy."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from pathlib import Path

import pytest
from tests.cli.running import KIND, OTHER_UUID, UUID, Ran, Run

from gpucdi_cli.demo_agent import choose_generator
from gpucdi_cli.standin_ctk import write_script

OWN_FILE = "/etc/cdi/gpucdi-management.nvidia.com-gpu.yaml"
WANTED = frozenset({UUID, OTHER_UUID})


def digest(tree: Path) -> str:
    """Every name, link and byte below a folder."""
    parts = []
    for path in sorted(tree.rglob("*")):
        what = (
            os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else ""
        )
        parts.append(repr((str(path.relative_to(tree)), what)))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@pytest.fixture(scope="module")
def told(run_program: Run, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The demo on a machine without nvidia-ctk."""
    ran = run_program("gpucdi", "demo", PATH=str(tmp_path_factory.mktemp("empty")))
    assert ran.code == 0, ran.err
    return ran


def test_it_ends_well_within_a_minute_and_leaves_the_example_alone(
    run_program: Run, c00: Path
) -> None:
    before, started = digest(c00), time.monotonic()
    ran = run_program("gpucdi", "demo")
    assert ran.code == 0, ran.err
    assert time.monotonic() - started < 60
    assert digest(c00) == before


def test_it_shows_the_literal_error_first(told: Ran) -> None:
    error = f"failed to inject CDI devices: unresolvable CDI devices {KIND}={UUID}"
    assert error in told.out
    assert told.out.index(error) < told.out.index("RuntimeClass")


def test_it_draws_the_chain_in_order(told: Ran) -> None:
    titles = ["RuntimeClass nvidia", "handler ", "binary ", "config ", "mode ", "kind ", "files "]
    places = [told.out.index(f"   {title}") for title in titles]
    assert places == sorted(places)


def test_it_names_cause_near_miss_and_the_misleading_file(told: Ran) -> None:
    assert "OnlyAllDevice: management.nvidia.com/gpu defines all; 2 of the 3" in told.out
    assert "Near miss: 2 of them exist as nvidia.com/gpu, in /etc/cdi/nvidia.yaml" in told.out
    assert "Trap: /etc/nvidia-container-runtime/config.toml says mode auto" in told.out


def test_it_says_that_the_generator_is_a_stand_in(told: Ran) -> None:
    assert "Generator: a stand-in of gpucdi, NOT nvidia-ctk" in told.out
    assert "because this machine has no nvidia-ctk" in told.out


def test_what_it_plans_is_what_the_agent_then_does(told: Ran) -> None:
    plan = told.out[told.out.index("4. Plan") : told.out.index("5. Repair")]
    assert f"+++ {OWN_FILE}  (new file)" in plan
    assert re.findall(r"^\+ (\S+)$", plan, re.MULTILINE) == [
        f"{KIND}={UUID}",
        f"{KIND}={OTHER_UUID}",
    ]
    assert f"Succeeded: {OWN_FILE}, 2 added, 0 removed" in told.out


def test_the_name_resolves_and_all_is_as_it_was(told: Ran) -> None:
    end = told.out[told.out.index("6. After") :]
    assert f"✔ {KIND}={UUID} resolves now" in end
    assert f"✔ {KIND}=all still resolves" in end
    assert "the same 8 device nodes as before" in end
    assert "✔ all 8 names that resolved before still do" in end
    assert "✘" not in end


def test_the_copy_is_gone_afterwards(told: Ran) -> None:
    command = re.search(r"^Command: gpucdi-agent repair --root (\S+)", told.out, re.MULTILINE)
    assert command is not None
    assert not Path(command[1]).parent.exists()


def test_a_kept_copy_holds_the_own_file_and_every_other_file_unchanged(
    run_program: Run, c00: Path, tmp_path: Path
) -> None:
    ran = run_program("gpucdi", "demo", "--keep", TMPDIR=str(tmp_path))
    copy = next(tmp_path.glob("gpucdi-demo-*")) / "node"
    assert ran.code == 0
    assert f"The repaired copy is in {copy}." in ran.out
    own = copy / OWN_FILE.lstrip("/")
    assert own.read_text().startswith("# Written by gpucdi.")
    own.unlink()
    shutil.rmtree(copy / "var/lib", ignore_errors=True)
    assert digest(copy) == digest(c00)


def test_a_node_without_the_fault_is_told_as_such(run: Run, copy: Path) -> None:
    spec = (copy / "etc/cdi/nvidia.yaml").read_text()
    own = spec.replace("kind: nvidia.com/gpu", f"kind: {KIND}")
    (copy / "etc/cdi/other.yaml").write_text(own)
    ran = run("demo", "--tree", str(copy))
    assert ran.code == 0
    assert "none: every name that this Pod asks for resolves" in ran.out
    assert "the agent changed nothing" in ran.out


def test_a_live_root_is_not_copied(run: Run) -> None:
    ran = run("demo", "--tree", "/")
    assert ran.code == 2
    assert "is no captured node" in ran.err


def test_a_tree_whose_pod_did_not_fail_over_cdi_is_refused(run: Run, copy: Path) -> None:
    pod = (copy / "pod.yaml").read_text()
    (copy / "pod.yaml").write_text(pod.replace("unresolvable CDI devices", "no such"))
    ran = run("demo", "--tree", str(copy))
    assert ran.code == 2
    assert "does not fail over CDI devices" in ran.err


def test_an_nvidia_ctk_that_generates_the_names_is_preferred(
    c00: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_script(tmp_path / "nvidia-ctk", c00)
    monkeypatch.setenv("PATH", str(tmp_path))
    choice = choose_generator(WANTED, KIND, None, tmp_path)
    assert choice.is_real
    assert choice.program == tmp_path / "nvidia-ctk"


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("echo 'level=error msg=\"ERROR_LIBRARY_NOT_FOUND\"' >&2; exit 1", "LIBRARY_NOT_FOUND"),
        ("echo 'kind: no spec'", "has no GPU-4044aeb5"),
    ],
)
def test_an_nvidia_ctk_that_cannot_is_passed_over_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, says: str
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "nvidia-ctk"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    choice = choose_generator(WANTED, KIND, None, tmp_path)
    assert not choice.is_real
    assert "is not usable for this tree" in choice.why
    assert says in choice.why


def test_a_given_generator_that_fails_leaves_the_demo_unhealed(run: Run) -> None:
    ran = run("demo", "--generator", "/bin/false")
    assert ran.code == 1
    assert "the agent changed nothing" in ran.out
    assert f"✘ {KIND}={UUID} does not resolve" in ran.out
    assert f"✔ {KIND}=all still resolves" in ran.out
