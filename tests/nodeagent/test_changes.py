"""The table of changes that a node meets in its life, each with the state that must follow.

The agent's timer runs every two seconds here: a GPU that falls off the bus changes no file, so only
the timer can see it. What is expected within five seconds on an idle machine is given more here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from tests.lab import hardware, incident
from tests.lab.fixtures import MakeNode
from tests.lab.hardware import Fault, Hardware
from tests.lab.node import Node
from tests.lab.toolkits import MANAGEMENT_KIND, OperatorToolkit
from tests.nodeagent import resident

from gpucdi.api import RepairMode

pytestmark = [pytest.mark.lab, pytest.mark.slow]

LIMIT_SECONDS = 25.0
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


@pytest.mark.timeout(150)
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_after_the_change_the_state_follows_and_after_its_end_returns(
    make_node: MakeNode, row: Row
) -> None:
    node = make_node(resident.incident_node())
    incident.write_specs(node)
    with resident.JsonLog() as log:
        agent = resident.start(node, RepairMode.AUTO, "--interval", "2", log=log.file)
        resident.until(lambda: management_names(node) >= FULL)

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
        assert agent.wait(10) == 0
