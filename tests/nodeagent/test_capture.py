"""``gpucdi-agent capture``: what every command says of the archive is what it says of the node."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.lab import incident
from tests.lab.fixtures import MakeNode
from tests.lab.node import Node
from tests.lab.programs import ProgramMissingError
from tests.lab.toolkits import OperatorToolkit
from tests.nodeagent import resident
from tests.trees import c00

from gpucdi.capture import open_tree
from gpucdi.host import CAPTURE_NAME
from gpucdi_agent.__main__ import main as agent
from gpucdi_cli.__main__ import main as gpucdi

REPOSITORY = Path(__file__).parents[2]
TREES = [
    c00.EXAMPLE,
    *sorted(path.parent for path in (REPOSITORY / "tests/places").glob(f"*/{CAPTURE_NAME}")),
]
POD = str(c00.EXAMPLE / "pod.yaml")
Call = Callable[..., tuple[int, object]]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Call:
    """Run a command and return its exit code and output, JSON without times and names."""

    def run(program: Callable[[list[str]], int], *arguments: str) -> tuple[int, object]:
        code = program(list(arguments))
        out, err = capsys.readouterr()
        assert code in {0, 1}, err
        return code, settled(json.loads(out)) if "json" in arguments else out

    return run


def settled(document: dict[str, object]) -> dict[str, object]:
    """Take out what differs between two looks at the same node."""
    document.pop("metadata", None)
    document.pop("spec", None)
    status = document.get("status", document)
    assert isinstance(status, dict)
    # systemd can be asked on a live node only; of a captured one this stays unknown.
    status.pop("refresh", None)
    for condition in status.get("conditions", ()):
        condition.pop("lastTransitionTime")
    return document


def captured(root: Path, folder: Path) -> Path:
    archive = folder / "node.tar.gz"
    assert agent(["capture", "--host-root", str(root), "--output", str(archive)]) == 0
    return archive


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.name)
def test_inspect_says_the_same_of_the_archive(tree: Path, tmp_path: Path, said: Call) -> None:
    archive = captured(tree, tmp_path)
    for program in (agent, gpucdi):
        of_tree = said(program, "inspect", "--root", str(tree), "-o", "json")
        assert said(program, "inspect", "--root", str(archive), "-o", "json") == of_tree


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.name)
@pytest.mark.parametrize(
    "request_of",
    [
        ("--env", "NVIDIA_VISIBLE_DEVICES=all"),
        ("--env", f"NVIDIA_VISIBLE_DEVICES=nvidia.com/gpu={c00.UUIDS[0]}"),
        ("--env", "NVIDIA_VISIBLE_DEVICES=all", "--env", "NVIDIA_IMEX_CHANNELS=0"),
        ("--cdi-device", f"k8s.device-plugin.nvidia.com/gpu={c00.UUIDS[1]}"),
    ],
    ids=["all", "qualified", "imex", "native"],
)
def test_predict_says_the_same_of_the_archive(
    tree: Path, request_of: tuple[str, ...], tmp_path: Path, said: Call
) -> None:
    archive = captured(tree, tmp_path)
    call = ("predict", "-f", POD, *request_of, "-o", "json", "--root")
    assert said(gpucdi, *call, str(archive)) == said(gpucdi, *call, str(tree))


def test_diff_explain_and_the_chain_say_the_same_of_the_archive(tmp_path: Path, said: Call) -> None:
    archive = captured(c00.EXAMPLE, tmp_path)
    chain = ("inspect", "--handler", "nvidia", "--settings", "--suggest", "mode=auto", "--root")
    for call in (("diff", "--content", "--root"), ("explain", POD, "--root"), chain):
        assert said(gpucdi, *call, str(archive)) == said(gpucdi, *call, str(c00.EXAMPLE))


def test_the_archive_is_small_private_and_free_of_what_no_verdict_needs(tmp_path: Path) -> None:
    root = c00.copy(tmp_path / "gpu-17").root
    (root / "etc/shadow").write_text("root:hunter2\n")
    (root / "etc/containerd/conf.d/50-registry.toml").write_text('password = "hunter2"\n')
    main_file = root / "etc/containerd/config.toml"
    assert "conf.d/*.toml" in main_file.read_text()
    archive = captured(root, tmp_path)
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    with open_tree(archive) as host:
        assert not host.exists("/etc/shadow")
        assert host.read("/etc/containerd/conf.d/50-registry.toml") == b'password = "REDACTED"\n'


def test_a_pipe_is_written_as_it_is(tmp_path: Path) -> None:
    into = tmp_path / "pipe"
    os.mkfifo(into)
    reader = os.open(into, os.O_RDONLY | os.O_NONBLOCK)
    assert agent(["capture", "--host-root", str(c00.EXAMPLE), "--output", str(into)]) == 0
    assert os.read(reader, 2) == b"\x1f\x8b"
    os.close(reader)


def test_the_standard_output_may_be_a_file(tmp_path: Path) -> None:
    call = ["capture", "--host-root", str(c00.EXAMPLE), "--output", "/dev/stdout"]
    with (tmp_path / "node.tar.gz").open("wb") as file:
        subprocess.run([*resident.AGENT, *call], stdout=file, stderr=subprocess.DEVNULL, check=True)
    assert Path("/dev/stdout").is_symlink()
    with open_tree(tmp_path / "node.tar.gz") as host:
        assert host.exists("/etc/cdi/nvidia.yaml")


def test_a_file_that_is_there_is_only_replaced_when_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "node.tar.gz"
    output.write_text("an earlier one")
    call = ["capture", "--host-root", str(c00.EXAMPLE), "--output", str(output)]
    assert agent(call) == 2
    assert f"{output} exists; give another name, or --force" in capsys.readouterr().err
    assert output.read_text() == "an earlier one"
    assert agent([*call, "--force"]) == 0
    assert output.read_bytes()[:2] == b"\x1f\x8b"
    assert list(tmp_path.iterdir()) == [output]


def test_a_link_that_somebody_laid_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    output = tmp_path / "node.tar.gz"
    output.symlink_to(victim)
    call = ["capture", "--host-root", str(c00.EXAMPLE), "--output", str(output)]
    assert agent(call) == 2
    assert agent([*call, "--force"]) == 0
    assert (victim.read_text(), output.is_symlink()) == ("untouched", False)


def test_a_place_that_cannot_be_written_is_said_and_nothing_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = str(tmp_path / "gone/node.tar.gz")
    assert agent(["capture", "--host-root", str(c00.EXAMPLE), "--output", output]) == 2
    assert f"{output} cannot be written: No such file" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_archive_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("no archive")
    assert agent(["inspect", "--root", str(tmp_path / "notes.txt")]) == 2
    assert "is no archive of a captured tree" in capsys.readouterr().err
    assert gpucdi(["inspect", "--root", str(tmp_path / "notes.txt")]) == 2
    assert "give what gpucdi-agent capture wrote" in capsys.readouterr().err


def test_a_broken_list_of_facts_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / CAPTURE_NAME).write_text("{")
    assert agent(["inspect", "--root", str(tmp_path)]) == 2
    assert CAPTURE_NAME in capsys.readouterr().err


@pytest.mark.parametrize("command", ["repair", "revert"])
def test_what_writes_takes_no_archive_and_says_so(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = captured(c00.EXAMPLE, tmp_path)
    with pytest.raises(SystemExit) as ended:
        agent([command, "--root", str(archive)])
    assert ended.value.code == 2
    assert "unpack it into a folder first" in capsys.readouterr().err


def lab_node(make_node: MakeNode) -> Node:
    try:
        node = make_node(resident.incident_node(OperatorToolkit("1.18.2")))
    except ProgramMissingError as missing:
        pytest.skip(str(missing))
    incident.write_specs(node)
    return node


@pytest.mark.lab
@pytest.mark.parametrize("from_outside", [False, True], ids=["on the node", "host mounted"])
def test_the_verdict_on_the_capture_is_the_verdict_on_the_live_node(
    make_node: MakeNode, tmp_path: Path, said: Call, *, from_outside: bool
) -> None:
    node = lab_node(make_node)
    archive = tmp_path / "node.tar.gz"
    if from_outside:
        archive = captured(node.root, tmp_path)
    else:
        output = "/var/lib/gpucdi/node.tar.gz"
        node.run([*resident.AGENT, "capture", "--output", output], check=True)
        archive.write_bytes(node.path(output).read_bytes())

    done = node.run([*resident.AGENT, "inspect", "--no-nvml", "-o", "json"])
    live = (done.returncode, settled(json.loads(done.stdout)))

    assert said(agent, "inspect", "--root", str(archive), "-o", "json") == live
    assert live[0] == 1


@pytest.mark.lab
def test_the_capture_of_a_live_node_foretells_the_text_of_the_incident(
    make_node: MakeNode, tmp_path: Path, said: Call
) -> None:
    archive = captured(lab_node(make_node).root, tmp_path)
    variable = f"NVIDIA_VISIBLE_DEVICES={incident.UUID}"
    call = ("predict", "-f", POD, "--root", str(archive), "--env", variable, "-o", "json")
    code, found = said(gpucdi, *call)
    assert isinstance(found, dict)
    [container] = found["containers"]
    assert (code, container["text"]) == (1, incident.RUNTIME_ERROR)
    assert container["toolkitVersion"] == "1.18.2"
