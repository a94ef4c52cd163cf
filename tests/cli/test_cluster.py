"""``gpucdi nodes`` and ``gpucdi diff NODE`` against an API server over HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.cli.running import KIND, OTHER_UUID, UUID, Ran, Run
from tests.fakeapi.server import FakeApi, serving

from gpucdi.api import Condition, ConditionStatus, write_status
from gpucdi.host import HostTree
from gpucdi_cli.__main__ import main
from gpucdi_cli.node_look import look
from gpucdi_cli.nodes import since

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
clusters: [{{name: c, cluster: {{server: "{url}"}}}}]
contexts: [{{name: here, context: {{cluster: c, user: u}}}}]
users: [{{name: u, user: {{token: any}}}}]
"""


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[FakeApi]:
    async with serving() as found:
        (tmp_path / "kubeconfig").write_text(KUBECONFIG.format(url=found.url))
        yield found


def put(api: FakeApi, name: str, tree: Path, mode: str = "Observe") -> None:
    """Let an agent report on a node what the tree holds."""
    api.put(
        "gpucdistatuses",
        {
            "apiVersion": "gpucdi.io/v1alpha1",
            "kind": "GpuCdiStatus",
            "metadata": {"name": name},
            "spec": {"nodeName": name, "repair": {"mode": mode}},
            "status": write_status(look(HostTree(tree)).status),
        },
    )


def resolved(tree: Path) -> Path:
    """Give the management kind its names under another file, as a repair would."""
    spec = (tree / "etc/cdi/nvidia.yaml").read_text()
    own = spec.replace("kind: nvidia.com/gpu", f"kind: {KIND}")
    (tree / "run/cdi/management.nvidia.com-gpu.yaml").write_text(own)
    return tree


async def ran(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str) -> Ran:
    """Run a command beside the server; the command has an event loop of its own."""
    given = [*arguments, "--kubeconfig", str(folder / "kubeconfig")]
    code = await asyncio.to_thread(main, given)
    captured = capsys.readouterr()
    return Ran(code, captured.out, captured.err)


async def test_the_fleet_is_one_line_a_node(
    api: FakeApi, capsys: pytest.CaptureFixture[str], tmp_path: Path, c00: Path, copy: Path
) -> None:
    put(api, "gpu-17", c00)
    put(api, "gpu-01", resolved(copy), mode="Auto")
    found = await ran(capsys, tmp_path, "nodes")
    rows = [line.split() for line in found.out.splitlines()]
    assert rows[0] == ["NAME", "STATE", "GPUS", "KINDS", "MISSING", "CAUSE", "REPAIR", "SINCE"]
    assert rows[1][:-1] == ["gpu-01", "Resolved", "2", "3/3", "0", "-", "Auto"]
    assert rows[2][:-1] == ["gpu-17", "Drifted", "2", "2/3", "2", "OnlyAllDevice", "Observe"]
    assert found.code == 1


async def test_a_fleet_without_drift_is_exit_code_0(
    api: FakeApi, capsys: pytest.CaptureFixture[str], tmp_path: Path, copy: Path
) -> None:
    put(api, "gpu-01", resolved(copy))
    assert (await ran(capsys, tmp_path, "nodes")).code == 0
    assert "gpu-01" not in (await ran(capsys, tmp_path, "nodes", "--drifted")).out


async def test_wide_adds_near_miss_driver_and_modes(
    api: FakeApi, capsys: pytest.CaptureFixture[str], tmp_path: Path, c00: Path
) -> None:
    put(api, "gpu-17", c00)
    out = (await ran(capsys, tmp_path, "nodes", "-o", "wide")).out
    assert "nvidia.com/gpu (2)" in out
    assert "570.86.15" in out
    assert "nvidia=cdi,nvidia-cdi=cdi,nvidia-legacy=legacy" in out


async def test_json_holds_the_status_as_published(
    api: FakeApi, capsys: pytest.CaptureFixture[str], tmp_path: Path, c00: Path
) -> None:
    put(api, "gpu-17", c00)
    listed = json.loads((await ran(capsys, tmp_path, "nodes", "-o", "json")).out)
    stored = api.find("gpucdistatuses", "gpu-17")
    assert stored is not None
    assert listed == [{"name": "gpu-17", "status": stored["status"]}]


async def test_an_object_without_a_status_is_shown_as_unknown(
    api: FakeApi, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    api.put("gpucdistatuses", {"metadata": {"name": "new"}, "spec": {"nodeName": "new"}})
    found = await ran(capsys, tmp_path, "nodes")
    assert found.code == 1
    assert found.out.splitlines()[1].split()[:3] == ["new", "Unknown", "0"]


async def test_diff_of_a_node_lists_what_its_agent_would_add(
    api: FakeApi, capsys: pytest.CaptureFixture[str], tmp_path: Path, c00: Path
) -> None:
    put(api, "gpu-17", c00)
    found = await ran(capsys, tmp_path, "diff", "gpu-17")
    assert found.code == 1
    assert found.out.splitlines() == [
        "+++ gpucdi-management.nvidia.com-gpu.yaml  (repair is Observe)",
        f"+ {KIND}={UUID}",
        f"+ {KIND}={OTHER_UUID}",
    ]


async def test_a_node_without_an_agent_is_named_with_those_there_are(
    api: FakeApi, capsys: pytest.CaptureFixture[str], tmp_path: Path, c00: Path
) -> None:
    found = await ran(capsys, tmp_path, "diff", "cpu-1")
    assert found.code == 2
    assert "no GpuCdiStatus is called cpu-1; no agent has reported yet" in found.err
    for number in range(6):
        put(api, f"gpu-{number}", c00)
    found = await ran(capsys, tmp_path, "diff", "cpu-1")
    assert "there are: gpu-0, gpu-1, gpu-2, gpu-3, gpu-4, …\n" in found.err


async def test_a_node_is_named_where_the_others_may_not_be_listed(
    api: FakeApi, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    api.faults.add(403, plurals=["gpucdistatuses"], verbs=["list"])
    found = await ran(capsys, tmp_path, "diff", "cpu-1")
    assert (found.code, "no GpuCdiStatus is called cpu-1" in found.err) == (2, True)


@pytest.mark.parametrize("command", [("nodes",), ("diff", "gpu-17")])
async def test_a_cluster_without_gpucdi_is_told_apart_from_one_without_drift(
    api: FakeApi, capsys: pytest.CaptureFixture[str], tmp_path: Path, command: tuple[str, ...]
) -> None:
    api.faults.add(404, plurals=["gpucdistatuses"])
    found = await ran(capsys, tmp_path, *command)
    assert found.code == 2
    [line] = found.err.splitlines()
    assert "gpucdi is not installed in this cluster" in line
    assert "kubectl apply -f crds/ -f manifests/install.yaml" in line


async def test_a_cluster_without_agents_is_told_from_one_that_is_resolved(
    api: FakeApi, capsys: pytest.CaptureFixture[str], tmp_path: Path, copy: Path
) -> None:
    assert "no agent has reported yet" in (await ran(capsys, tmp_path, "nodes")).out
    put(api, "gpu-01", resolved(copy))
    shown = (await ran(capsys, tmp_path, "nodes", "--drifted")).out
    assert shown == "every node is resolved\n"


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (401, "log in again: the credentials of this context were refused"),
        (403, "kubectl auth can-i list gpucdistatuses.gpucdi.io"),
    ],
)
async def test_a_refusal_is_passed_on_in_one_line(
    api: FakeApi, capsys: pytest.CaptureFixture[str], tmp_path: Path, code: int, says: str
) -> None:
    api.faults.add(code, plurals=["gpucdistatuses"])
    found = await ran(capsys, tmp_path, "nodes")
    assert found.code == 2
    [line] = found.err.splitlines()
    assert "the cluster did not answer as wanted: " in line
    assert says in line


@pytest.mark.parametrize("command", [("nodes",), ("diff", "gpu-17")])
def test_a_cluster_that_nobody_answers_for_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: tuple[str, ...]
) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        (tmp_path / "kubeconfig").write_text(KUBECONFIG.format(url=url))
        code = main([*command, "--kubeconfig", str(tmp_path / "kubeconfig")])
    [line] = capsys.readouterr().err.splitlines()
    assert code == 2
    assert line.startswith("gpucdi: the cluster does not answer: ")
    assert line.endswith("; see whether the API server of this context answers: kubectl version")


@pytest.mark.parametrize(
    ("content", "flags", "says"),
    [
        (None, (), "there is no kubeconfig {file}; name another with --kubeconfig FILE"),
        ("junk: [", (), "no cluster to ask: kubeconfig {file}: "),
        (KUBECONFIG, ("--context", "there"), "see kubectl config get-contexts"),
    ],
)
def test_a_kubeconfig_that_leads_nowhere_is_one_line(
    run_program: Run, tmp_path: Path, content: str | None, flags: tuple[str, ...], says: str
) -> None:
    file = tmp_path / "kubeconfig"
    if content is not None:
        file.write_text(content.format(url="http://127.0.0.1:1"))
    found = run_program("gpucdi", "nodes", "--kubeconfig", str(file), *flags)
    assert found.code == 2
    [line] = found.err.splitlines()
    assert says.format(file=file) in line


def test_without_any_kubeconfig_the_ways_on_are_named(run_program: Run, tmp_path: Path) -> None:
    found = run_program("gpucdi", "nodes", HOME=str(tmp_path), KUBECONFIG="")
    assert found.code == 2
    [line] = found.err.splitlines()
    assert "no cluster to ask: there is no kubeconfig ~/.kube/config" in line
    assert "name one with --kubeconfig FILE" in line


@pytest.mark.parametrize(
    ("age", "shown"),
    [
        (timedelta(seconds=45), "45s"),
        (timedelta(minutes=3, seconds=5), "3m"),
        (timedelta(hours=50), "2d"),
        (timedelta(days=41), "41d"),
        (timedelta(seconds=-5), "0s"),
    ],
)
def test_ages_are_written_as_kubectl_writes_them(age: timedelta, shown: str) -> None:
    now = datetime(2026, 7, 29, 12, 0, tzinfo=UTC)
    stamp = (now - age).isoformat().replace("+00:00", "Z")
    condition = Condition("Resolvable", ConditionStatus.FALSE, "OnlyAllDevice", "", stamp)
    assert since([condition], now) == shown


@pytest.mark.parametrize("stamp", ["", "yesterday", "2026-07-29T12:00:00"])
def test_an_unusable_time_is_a_question_mark(stamp: str) -> None:
    now = datetime(2026, 7, 29, 12, 0, tzinfo=UTC)
    condition = Condition("Resolvable", ConditionStatus.FALSE, "OnlyAllDevice", "", stamp)
    assert since([condition], now) == "?"
