"""`make demo`: the incident is seen, explained and healed, and nothing is left behind."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from tests.demo import page
from tests.demo.running import Demo, demo, unprivileged_demo
from tests.demo.stage import CHECKOUT

UUID = "GPU-4044aeb5-b7e4-8cb0-69a8-40490ce01a2f"
KIND = "management.nvidia.com/gpu"
OWN_FILE = "/etc/cdi/gpucdi-management.nvidia.com-gpu.yaml"

pytestmark = pytest.mark.timeout(600)


@dataclass(frozen=True)
class Told:
    """One run to its end."""

    code: int
    out: str
    err: str
    left: list[str]

    def chapter(self, number: int) -> str:
        """Return one chapter of what was printed."""
        return re.split(r"^\d\. .*─$", self.out, flags=re.MULTILINE)[number]


@pytest.fixture(scope="module")
def told() -> Told:
    with unprivileged_demo() as given:
        code, out, err = given.run()
        return Told(code, out, err, given.left_behind())


@pytest.fixture
def here() -> Iterator[Demo]:
    with demo() as given:
        yield given


def test_it_ends_well_without_any_privilege(told: Told) -> None:
    assert told.code == 0, told.out + told.err
    assert told.err == ""


def test_it_leaves_no_process_and_no_file(told: Told) -> None:
    assert told.left == []


def test_it_says_what_is_real_and_what_is_played(told: Told) -> None:
    cast = told.chapter(0)
    assert "generator   a stand-in of gpucdi, NOT nvidia-ctk" in cast
    assert "kubelet     played by the demo" in cast
    assert "kubelet   played: every name of the Pod resolves" in told.chapter(2)


def test_the_table_says_drifted_before_and_resolved_after(told: Told) -> None:
    before, after = (
        re.findall(r"^gpu-17 +(.*?) +\d+s$", told.chapter(number), re.MULTILINE)[0].split()
        for number in (1, 3)
    )
    assert before == ["Drifted", "2", "2/3", "2", "OnlyAllDevice", "Observe"]
    assert after == ["Resolved", "2", "3/3", "0", "Auto"]


def test_the_nodes_condition_comes_and_goes(told: Told) -> None:
    assert re.search(r"^  GpuCdiUnresolvable +True +OnlyAllDevice$", told.chapter(1), re.MULTILINE)
    assert re.search(
        r"^  GpuCdiUnresolvable +False +AllNamesResolve ", told.chapter(3), re.MULTILINE
    )


def test_the_pod_is_explained_once_and_restored_once(told: Told) -> None:
    assert len(re.findall(r"^  Warning +CdiDeviceUnresolvable ", told.out, re.MULTILINE)) == 1
    assert len(re.findall(r"^  Normal +CdiDeviceRestored ", told.out, re.MULTILINE)) == 1
    assert "CdiDeviceRestored" not in told.chapter(1)


def test_the_explanation_names_kind_device_node_and_file(told: Told) -> None:
    event = told.chapter(1).partition("CdiDeviceUnresolvable")[2].partition("Alerts")[0]
    for fact in ("[OnlyAllDevice]", f"{KIND}={UUID}", "gpu-17", "/var/run/cdi/management", "Fix:"):
        assert fact in event


def test_two_alerts_are_on_their_way_before_and_none_after(told: Told) -> None:
    before, after = (told.chapter(number).partition("Alerts by")[2] for number in (1, 3))
    assert re.findall(r"^  (\w+): ", before, re.MULTILINE) == [
        "GpuCdiNodeDrifted",
        "GpuCdiPodsFailing",
    ]
    assert 'gpucdi_node_state{state="Drifted"} is 1 (job gpucdi-agent, node gpu-17)' in before
    assert after.split()[-1] == "none"
    assert "Gpu" not in after


def test_the_repair_is_the_agents(told: Told) -> None:
    line = rf"^ +\d+\.\d s  agent +Succeeded: {OWN_FILE}, 2 added, 0 removed$"
    assert re.search(line, told.chapter(2), re.MULTILINE)


def test_before_and_after_stand_side_by_side(told: Told) -> None:
    rows = [re.split(r" {2,}", line) for line in told.chapter(4).splitlines()]
    assert ["names missing", "2", "0"] in rows
    assert ["Pod", "CrashLoopBackOff", "Running"] in rows
    assert ["own files on the node", "none", OWN_FILE] in rows


def test_the_readme_shows_what_it_prints(told: Told) -> None:
    assert page.excerpt(told.out) == page.shown(), "renew it: python -m tests.demo.page"


def test_make_demo_is_this() -> None:
    makefile = (CHECKOUT / "Makefile").read_text()
    assert re.search(r"^demo:.*\n\t@\$\(BIN\)/python -m tests\.demo$", makefile, re.MULTILINE)


def test_a_repair_that_fails_is_told_and_is_no_success(here: Demo) -> None:
    code, out, err = here.run("--generator", "/bin/false")
    assert code == 1, out + err
    assert "GeneratorFailed" in out
    assert "Side by side" not in out
    assert here.left_behind() == []


def test_ctrl_c_ends_it_and_nothing_is_left(here: Demo) -> None:
    process = here.start()
    try:
        _read_until(process, "2. A policy")
        assert len(here.left_behind()) > 2
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    finally:
        here.end(process)
    assert process.returncode == 130
    assert err == "ended early; nothing is left behind\n"
    assert here.left_behind() == []


def _read_until(process: subprocess.Popen[str], beginning: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(beginning):
            return
    assert process.stderr is not None
    raise AssertionError(process.stderr.read())
