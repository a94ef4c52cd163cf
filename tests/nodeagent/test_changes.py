"""The table of changes that a node meets in its life, each with the state that must follow.

The agent's timer runs every two seconds here: a GPU that falls off the bus changes no file, so only
the timer can see it. What is expected within five seconds on an idle machine is given more here.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import pytest
import yaml
from tests.lab import hardware, incident
from tests.lab.fixtures import MakeNode
from tests.lab.hardware import Fault, Hardware
from tests.lab.node import Node
from tests.lab.toolkits import MANAGEMENT_KIND, OperatorToolkit
from tests.nodeagent import resident

from gpucdi.api import RepairMode

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]

LIMIT_SECONDS = 60.0
FIRST, SECOND = hardware.TWO_GPUS.gpus
SWAPPED_UUID = "GPU-77777777-1111-2222-3333-444444444444"
SWAPPED = replace(hardware.TWO_GPUS, gpus=(FIRST, replace(SECOND, uuid=SWAPPED_UUID)))
MIG_WITHOUT_INSTANCES = replace(hardware.TWO_GPUS, gpus=(FIRST, replace(SECOND, mig=())))
FULL = {"0", "1", hardware.UUID_0, hardware.UUID_1, "all"}
MIG_NAMES = {"0", hardware.UUID_0, "1:0", "1:1", hardware.MIG_UUID_0, hardware.MIG_UUID_1, "all"}


@dataclass(frozen=True, slots=True)
class Row:
    """A change, and what the last status must say: names that resolve, the state, the hold."""

    name: str
    change: Callable[[Node], object]
    names: frozenset[str]
    state: str = "Resolved"
    hold: str | None = None

    def __str__(self) -> str:
        return self.name


def becomes(machine: Hardware) -> Callable[[Node], object]:
    return lambda node: node.set_hardware(machine)


def lose_second(node: Node) -> None:
    node.set_nvml(replace(hardware.TWO_GPUS, gpus=(FIRST, replace(SECOND, lost=True))))


def install(version: str) -> Callable[[Node], object]:
    """Do what the toolkit container does at its start: remove its folder, lay it anew."""

    def change(node: Node) -> None:
        toolkit = OperatorToolkit(version)
        folder = node.path(toolkit.folder)
        node.run(["sh", "-c", f"rm -rf {toolkit.folder}/*  {toolkit.folder}/.config"], check=True)
        time.sleep(0.5)
        # The layer below the node's root, by which it was laid at the start.
        toolkit.lay(folder.parents[len(folder.relative_to(node.root).parts) - 1])

    return change


ROWS = [
    Row("MIG is switched on with instances", becomes(hardware.MIG_GPU), frozenset(MIG_NAMES)),
    Row(
        "MIG is switched on without instances",
        becomes(MIG_WITHOUT_INSTANCES),
        frozenset({"0", hardware.UUID_0, "all"}),
    ),
    Row(
        "a card is swapped",
        becomes(SWAPPED),
        frozenset({"0", "1", hardware.UUID_0, SWAPPED_UUID, "all"}),
    ),
    Row(
        "a GPU is removed",
        becomes(hardware.ONE_GPU),
        frozenset({"0", hardware.UUID_0, "all"}),
        state="Drifted",
    ),
    Row(
        "a GPU falls off the bus",
        lose_second,
        frozenset({"0", hardware.UUID_0, "all"}),
        state="Drifted",
    ),
    Row(
        "NVML sees fewer GPUs than the kernel",
        lambda node: node.set_nvml(hardware.ONE_GPU),
        frozenset(FULL),
        state="Held",
        hold="FewerGpusThanKernel",
    ),
    Row(
        "the driver is unloaded",
        lambda node: node.set_nvml(replace(hardware.TWO_GPUS, fault=Fault.DRIVER_NOT_LOADED)),
        frozenset(FULL),
        hold="NvmlUnavailable",
    ),
    Row("the toolkit is upgraded to 1.20", install("1.20.2"), frozenset(FULL)),
    Row("the toolkit is downgraded to 1.17", install("1.17.4"), frozenset(FULL)),
]


def management_names(node: Node) -> set[str]:
    """Return what the toolkit's own registry resolves under the management kind."""
    done = node.run([f"{OperatorToolkit().folder}/nvidia-ctk", "cdi", "list"])
    prefix = MANAGEMENT_KIND + "="
    return {line.removeprefix(prefix) for line in done.stdout.split() if line.startswith(prefix)}


def last_status(log: resident.JsonLog) -> dict[str, object]:
    told = [line for line in log.lines() if line["message"] == "status changed"]
    return told[-1] if told else {}


def reload_driver(node: Node, by: int) -> None:
    """Make the nodes with a dynamic major anew, as a driver does that is loaded again."""
    moved = {hardware.UVM_MAJOR, hardware.CAPS_MAJOR}
    listing = node.path("/proc/devices")
    for major in moved:
        listing.write_text(listing.read_text().replace(f"{major} nvidia", f"{major + by} nvidia"))
    for item in hardware.device_nodes(hardware.TWO_GPUS):
        if item.major in moved:
            place = node.path("/dev") / item.path
            place.unlink()
            os.mknod(place, stat.S_IFCHR | 0o666, os.makedev(item.major + by, item.minor))


def with_numbers(content: bytes) -> bytes:
    """Return a file of ours as it would be with the numbers of the driver before."""
    head, _, body = content.partition(b"\n")
    spec = yaml.safe_load(body)
    for edits in (spec["containerEdits"], *(each["containerEdits"] for each in spec["devices"])):
        for entry in edits.get("deviceNodes", ()):
            if entry["path"].startswith("/dev/nvidia-uvm"):
                entry |= {"type": "c", "major": hardware.UVM_MAJOR}
    return head + b"\n" + yaml.safe_dump(spec, sort_keys=False).encode()


def test_after_a_driver_reload_with_other_majors_no_file_of_ours_has_the_old_ones(
    make_node: MakeNode,
) -> None:
    # From 1.19 on nvidia-ctk writes device numbers, which a file in /etc keeps.
    node = make_node(resident.incident_node(OperatorToolkit("1.20.2")))
    incident.write_specs(node)
    assert f"major: {hardware.UVM_MAJOR}" in node.path(incident.ADMIN_SPEC).read_text()
    own = node.path(resident.OWN_FILE)
    with resident.JsonLog() as log:
        agent = resident.start(node, RepairMode.AUTO, "--interval", "2", log=log.file)
        resident.until(lambda: management_names(node) >= FULL, LIMIT_SECONDS)
        before = own.read_bytes()
        assert b"major:" not in before

        reload_driver(node, by=5)
        told = {"cause": "DeviceNumberChanged", "file": incident.ADMIN_SPEC}
        resident.until(lambda: log.find("finding", **told), LIMIT_SECONDS)
        assert own.read_bytes() == before
        assert management_names(node) >= FULL

        numbered = with_numbers(before)
        assert numbered.count(b"major:") > 0
        own.write_bytes(numbered)
        resident.until(lambda: own.read_bytes() == before, LIMIT_SECONDS)
        assert management_names(node) >= FULL
        agent.terminate()
        assert agent.wait(60) == 0


def test_the_toolkit_is_upgraded_step_by_step(make_node: MakeNode) -> None:
    node = make_node(resident.incident_node(OperatorToolkit("1.17.4")))
    incident.write_specs(node)
    with resident.JsonLog() as log:
        agent = resident.start(node, RepairMode.AUTO, "--interval", "2", log=log.file)
        resident.until(lambda: management_names(node) >= FULL, LIMIT_SECONDS)
        for version in ("1.18.2", "1.20.2"):
            known = len(changes_of(log))

            install(version)(node)

            resident.until(partial(more_changes, log, known), LIMIT_SECONDS)
            resident.until(lambda: last_status(log).get("state") == "Resolved", LIMIT_SECONDS)
            assert management_names(node) >= FULL
        agent.terminate()
        assert agent.wait(60) == 0


def more_changes(log: resident.JsonLog, known: int) -> bool:
    return len(changes_of(log)) > known


def changes_of(log: resident.JsonLog) -> list[dict[str, object]]:
    return [line for line in log.lines() if line["message"] == "spec file changed"]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_after_the_change_the_state_follows_and_after_its_end_returns(
    make_node: MakeNode, row: Row
) -> None:
    node = make_node(resident.incident_node())
    incident.write_specs(node)
    with resident.JsonLog() as log:
        agent = resident.start(node, RepairMode.AUTO, "--interval", "2", log=log.file)
        resident.until(lambda: management_names(node) >= FULL, LIMIT_SECONDS)

        row.change(node)
        started = time.monotonic()

        def arrived() -> bool:
            status = last_status(log)
            fits = status.get("state") == row.state and status.get("hold") == row.hold
            return fits and management_names(node) == row.names

        resident.until(arrived, LIMIT_SECONDS)
        print(f"{row.name}: {time.monotonic() - started:.1f} s")

        node.set_hardware(hardware.TWO_GPUS)
        resident.until(lambda: last_status(log).get("state") == "Resolved", LIMIT_SECONDS)
        resident.until(lambda: management_names(node) >= FULL, LIMIT_SECONDS)
        assert not [line for line in log.lines() if "exception" in line]
        agent.terminate()
        assert agent.wait(60) == 0
