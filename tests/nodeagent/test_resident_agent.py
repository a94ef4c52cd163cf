"""The real agent in a node of the lab, with the real nvidia-ctk and the real NVIDIA runtime."""

from __future__ import annotations

import json
import signal
import subprocess
from dataclasses import replace

import pytest
from tests.lab import hardware, incident
from tests.lab.fixtures import MakeNode
from tests.lab.node import Node
from tests.lab.programs import TOOLKIT_VERSIONS, ProgramMissingError
from tests.lab.toolkits import MANAGEMENT_KIND, OperatorToolkit, PackageToolkit
from tests.nodeagent import resident

from gpucdi.api import Intent, NodeState, RepairMode
from gpucdi.findings import Cause

pytestmark = pytest.mark.lab


def start_node(make_node: MakeNode, version: str = "1.18.2") -> Node:
    try:
        node = make_node(resident.incident_node(OperatorToolkit(version)))
    except ProgramMissingError as missing:
        pytest.skip(str(missing))
    incident.write_specs(node)
    return node


def names_in_registry(node: Node) -> set[str]:
    """Return what the toolkit's own registry resolves, by its own program."""
    folder = OperatorToolkit().folder
    return set(node.run([f"{folder}/nvidia-ctk", "cdi", "list"], check=True).stdout.split())


EVERY_NAME = {
    f"{MANAGEMENT_KIND}={name}" for name in ("0", "1", hardware.UUID_0, hardware.UUID_1, "all")
}


@pytest.mark.parametrize("version", TOOLKIT_VERSIONS)
def test_the_first_incident_is_repaired_with_every_toolkit(
    make_node: MakeNode, version: str
) -> None:
    node = start_node(make_node, version)
    before = names_in_registry(node)

    agent = resident.start(node)
    resident.until(lambda: node.path(resident.OWN_FILE).exists())
    agent.terminate()

    assert agent.wait(10) == 0
    assert f"{MANAGEMENT_KIND}={hardware.UUID_0}" not in before
    assert names_in_registry(node) == before | EVERY_NAME
    assert resident.inspect(node).state is NodeState.RESOLVED


def test_observing_writes_nothing_and_says_why_pods_fail(make_node: MakeNode) -> None:
    node = start_node(make_node)
    before = resident.files_below(node, "/etc/cdi", "/var/run/cdi")

    with resident.JsonLog() as log:
        agent = resident.start(node, RepairMode.AUTO, "--observe", log=log.file)
        changed = resident.until(lambda: log.find("status changed"))
        agent.terminate()
        agent.wait(10)

    assert (changed["state"], changed["cause"]) == ("Drifted", Cause.ONLY_ALL_DEVICE.value)
    assert resident.files_below(node, "/etc/cdi", "/var/run/cdi") == before


def test_our_file_shrinks_at_once_when_somebody_else_defines_its_names(
    make_node: MakeNode,
) -> None:
    node = start_node(make_node)
    agent = resident.start(node)
    resident.until(lambda: node.path(resident.OWN_FILE).exists())

    # What mig-manager 0.13 leaves: every name in the toolkit's own file.
    everything = incident.generate(node, "--vendor", "management.nvidia.com")
    node.write("/etc/cdi/foreign.yaml", everything)

    resident.until(lambda: not node.path(resident.OWN_FILE).exists())
    agent.terminate()
    agent.wait(10)
    assert names_in_registry(node) >= EVERY_NAME


def test_our_file_comes_back_when_somebody_deletes_it(make_node: MakeNode) -> None:
    node = start_node(make_node)
    agent = resident.start(node)
    own = node.path(resident.OWN_FILE)
    resident.until(own.exists)

    own.unlink()

    resident.until(own.exists)
    agent.terminate()
    agent.wait(10)


def test_killed_between_write_and_verify_and_started_again_it_ends_the_same(
    make_node: MakeNode,
) -> None:
    node = start_node(make_node)
    resident.remember(node, resident.automatic())
    # The fourth fsync: the journal has two, the spec file one before its rename and one after.
    done = node.run([*resident.killed_at("fsync", 4), *resident.RUN], timeout=30)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert node.path(f"{resident.STATE}/journal.json").exists()
    assert node.path(resident.OWN_FILE).exists()
    history = node.path(f"{resident.STATE}/history.json")
    assert not history.exists()

    agent = resident.start(node)
    resident.until(history.exists)
    agent.terminate()
    agent.wait(10)

    repairs = json.loads(history.read_text())["repairs"]
    assert [(each["result"], each["added"]) for each in repairs] == [("Succeeded", 4)]
    assert not node.path(f"{resident.STATE}/journal.json").exists()
    assert resident.inspect(node).state is NodeState.RESOLVED
    assert names_in_registry(node) >= EVERY_NAME


def test_from_outside_with_the_hosts_root_mounted_it_writes_host_paths(
    make_node: MakeNode,
) -> None:
    node = start_node(make_node)
    resident.remember(node, resident.automatic())
    # As in its container: another root, the host's own below a directory.
    command = [*resident.RUN, "--host-root", str(node.root)]

    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as agent:
        resident.until(lambda: node.path(resident.OWN_FILE).exists())
        agent.terminate()
        assert agent.wait(10) == 0

    assert str(node.root) not in node.path(resident.OWN_FILE).read_text()
    assert names_in_registry(node) >= EVERY_NAME
    assert resident.inspect(node).state is NodeState.RESOLVED


def test_revert_removes_what_the_agent_wrote(make_node: MakeNode) -> None:
    node = start_node(make_node)
    before = resident.files_below(node, "/etc/cdi", "/var/run/cdi")
    agent = resident.start(node)
    resident.until(lambda: node.path(resident.OWN_FILE).exists())
    agent.terminate()
    agent.wait(10)

    done = node.run([*resident.AGENT, "revert"])

    assert done.returncode == 0, done.stderr
    assert resident.files_below(node, "/etc/cdi", "/var/run/cdi") == before


NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs")


def test_without_any_privilege_observing_says_the_same(make_node: MakeNode) -> None:
    node = start_node(make_node)
    node.run(["chmod", "-R", "go-w", "/usr/local/nvidia/toolkit"], check=True)
    privileged = resident.inspect(node)

    with resident.JsonLog() as log:
        agent = node.popen([*NOBODY, *resident.RUN, "--observe"], stderr=log.file)
        line = resident.until(lambda: log.find("status changed"))
        agent.terminate()
        agent.wait(10)

    assert line["state"] == privileged.state.value
    assert line["cause"] == (privileged.cause.value if privileged.cause else None)
    # Where NVML cannot be asked, the kernel's list knows no index: fewer names are expected then.
    assert line["missing"] in {privileged.missing, len(incident.MACHINE.gpus)}


def test_a_directory_that_cannot_be_read_is_named(make_node: MakeNode) -> None:
    node = start_node(make_node)
    node.path("/etc/cdi").chmod(0o700)
    before = resident.files_below(node, "/etc/cdi", "/var/run/cdi")

    with resident.JsonLog() as log:
        agent = node.popen([*NOBODY, *resident.RUN], stderr=log.file)
        resident.until(lambda: log.find("status changed"))
        findings = [line for line in log.lines() if line["message"] == "finding"]
        assert agent.poll() is None
        agent.terminate()
        assert agent.wait(10) == 0

    assert [line for line in findings if line.get("file") == "/etc/cdi" and line["advice"]]
    assert resident.files_below(node, "/etc/cdi", "/var/run/cdi") == before


def broken_config(node: Node) -> str:
    path = OperatorToolkit().config_path
    node.write(path, "mode is auto\n")
    return path


def unparsable_spec(node: Node) -> str:
    node.write(incident.MANAGEMENT_SPEC, "cdiVersion: 0.5.0\nkind: [\n")
    return incident.MANAGEMENT_SPEC


def no_generator(node: Node) -> str:
    for name in ("nvidia-ctk", "nvidia-ctk.real"):
        node.path(f"{OperatorToolkit().folder}/{name}").unlink()
    return f"{OperatorToolkit().folder}/nvidia-ctk"


def no_nvml(node: Node) -> str:
    for path in node.path("/usr/lib/x86_64-linux-gnu").glob("libnvidia-ml.so*"):
        path.unlink()
    return "libnvidia-ml.so.1"


@pytest.mark.parametrize(
    ("break_it", "cause"),
    [
        (broken_config, Cause.CONFIG_UNREADABLE),
        (unparsable_spec, Cause.SPEC_REJECTED),
        (no_generator, Cause.GENERATOR_MISSING),
        (no_nvml, Cause.DRIVER_NOT_READY),
    ],
)
def test_what_is_broken_is_a_finding_with_its_place_and_nothing_is_written(
    make_node: MakeNode, break_it: object, cause: Cause
) -> None:
    node = start_node(make_node)
    assert callable(break_it)
    place = break_it(node)
    before = resident.files_below(node, "/etc/cdi", "/var/run/cdi")

    with resident.JsonLog() as log:
        agent = resident.start(node, log=log.file)
        resident.until(lambda: log.find("status changed"))
        found = resident.until(lambda: log.find("finding", cause=cause.value))
        assert agent.poll() is None
        agent.terminate()
        assert agent.wait(10) == 0

    assert found["advice"]
    assert found["file"] == place
    assert resident.files_below(node, "/etc/cdi", "/var/run/cdi") == before


def test_a_lost_gpu_does_not_take_the_names_of_the_others_away(make_node: MakeNode) -> None:
    node = start_node(make_node, "1.20.2")
    first, second = incident.MACHINE.gpus
    node.set_nvml(replace(incident.MACHINE, gpus=(first, replace(second, lost=True))))

    agent = resident.start(node)
    resident.until(lambda: node.path(resident.OWN_FILE).exists())
    agent.terminate()
    agent.wait(10)

    assert f"{MANAGEMENT_KIND}={hardware.UUID_0}" in names_in_registry(node)
    assert Cause.GPU_LOST in {finding.cause for finding in resident.inspect(node).findings}


@pytest.mark.timeout(150)
@pytest.mark.parametrize("version", ["1.17.4", "1.20.2"])
def test_without_a_handler_of_nvidias_the_hosts_own_nvidia_ctk_generates(
    make_node: MakeNode, version: str
) -> None:
    try:
        described = resident.incident_node()
        plain = {incident.CONTAINERD_CONFIG: described.files[incident.CONTAINERD_CONFIG]}
        node = make_node(replace(described, toolkits=[PackageToolkit(version)], files=plain))
    except ProgramMissingError as missing:
        pytest.skip(str(missing))
    wanted = Intent(node_name="lab", mode=RepairMode.AUTO, extra_kinds=("nvidia.com/gpu",))
    resident.remember(node, wanted)
    with resident.JsonLog() as log:
        agent = node.popen([*resident.RUN], stderr=log.file)
        resident.until(lambda: log.find("status changed", state="Resolved"), 60)
        agent.terminate()
        assert agent.wait(60) == 0

    listed = node.run(["/usr/bin/nvidia-ctk", "cdi", "list"], check=True).stdout.split()
    names = {"0", "1", hardware.UUID_0, hardware.UUID_1, "all"}
    assert {f"nvidia.com/gpu={name}" for name in names} <= set(listed)
