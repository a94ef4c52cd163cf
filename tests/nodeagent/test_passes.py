"""A pass over the captured incident: what each mode and hold permits."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from tests.trees import c00

from gpucdi.api import (
    GpuDevice,
    GpuStatus,
    Hold,
    Intent,
    MigDevice,
    NodeState,
    RepairMode,
    write_status,
)
from gpucdi.findings import Cause, Finding, Severity
from gpucdi.host import HostTree
from gpucdi.node.refresh import RefreshReading, UnitReading
from gpucdi.programs import CapturedPrograms
from gpucdi.repair import Generation
from gpucdi_agent.files import RealFiles
from gpucdi_agent.holds import DISPUTED, HoldKeeper
from gpucdi_agent.nvml import NvmlFailure, NvmlReading
from gpucdi_agent.passes import NodePass, PassResult, Surroundings
from gpucdi_agent.state import StateStore
from gpucdi_agent.transaction import Transaction

STATE = "/var/lib/gpucdi"
OWN = f"/etc/cdi/gpucdi-{c00.MANAGEMENT.replace('/', '-')}.yaml"
NAMES = ("0", "1", *c00.UUIDS)
AUTO = Intent(mode=RepairMode.AUTO)
FAILURE = Finding(Cause.GENERATOR_FAILED, Severity.ERROR, "it failed", "mend it")


@dataclass
class GivenGenerator:
    """Generates what it is given, and counts how often."""

    answer: bytes | Finding = field(default_factory=lambda: c00.generated((*NAMES, "all")))
    asked: list[Generation] = field(default_factory=list)

    def generate(self, generation: Generation) -> bytes | Finding:
        self.asked.append(generation)
        return self.answer


@dataclass
class GivenNvml:
    """Counts the GPUs that it is given."""

    gpus: GpuStatus = c00.GPUS
    failure: NvmlFailure | None = None

    def read(self, library: str | None) -> NvmlReading:
        del library
        devices = () if self.failure else self.gpus.devices
        return NvmlReading(driver="570.86.15", devices=devices, failure=self.failure)


@dataclass
class GivenUnits:
    """The host's refresh units as a test sets them."""

    reading: RefreshReading = field(default_factory=RefreshReading)

    def look(self) -> RefreshReading:
        return self.reading


@dataclass
class Bench:
    """A captured host with a pass over it, and the dials of its surroundings."""

    host: HostTree
    generator: GivenGenerator = field(default_factory=GivenGenerator)
    nvml: GivenNvml = field(default_factory=GivenNvml)
    units: GivenUnits = field(default_factory=GivenUnits)
    seconds: float = 1000.0
    node_pass: NodePass = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        files = RealFiles()
        state = StateStore(self.host, files, STATE)
        state.prepare()
        surroundings = Surroundings(
            host=self.host,
            programs=CapturedPrograms.of(self.host),
            nvml=self.nvml,
            now=self.now,
            monotonic=lambda: self.seconds,
            generator=self.generator,
            state=state,
            transaction=Transaction(self.host, state, files, self.now),
            holds=HoldKeeper(self.now, lambda: self.seconds),
            units=self.units,
        )
        self.node_pass = NodePass(surroundings)

    def now(self) -> str:
        return f"T{self.seconds:g}"

    def run(self, intent: Intent = AUTO) -> PassResult:
        self.seconds += 1.0
        return self.node_pass.run(intent, 1)

    def names(self) -> set[str]:
        readers = c00.judge(self.host).observation.readers
        return {name for reader in readers for name in reader.registry.devices}

    def files(self) -> dict[str, bytes]:
        return {
            f"{folder}/{name}": self.host.read(f"{folder}/{name}")
            for folder in ("/etc/cdi", "/var/run/cdi")
            for name in self.host.listdir(folder)
        }


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(c00.copy(tmp_path / "host"))


def test_auto_repairs_and_reports_it_in_one_pass(bench: Bench) -> None:
    result = bench.run()

    assert result.status.state is NodeState.RESOLVED
    assert [record.result for record in result.records] == ["Succeeded"]
    assert result.status.repairs == result.records
    assert bench.host.exists(OWN)


def test_a_failed_refresh_unit_of_the_host_is_a_finding_beside_the_nodes_own(bench: Bench) -> None:
    bench.units.reading = RefreshReading(UnitReading("loaded", "failed", result="exit-code"))

    result = bench.run()

    assert result.status.state is NodeState.RESOLVED
    (found,) = (item for item in result.status.findings if item.cause is Cause.REFRESH_UNIT_FAILED)
    assert found.key == "nvidia-cdi-refresh.service"
    assert result.status.refresh is not None
    assert result.status.refresh.service == "Failed"


def test_observe_writes_nothing_and_explains(bench: Bench) -> None:
    before = bench.files()

    result = bench.run(Intent(mode=RepairMode.OBSERVE))

    assert (result.status.state, result.status.cause) == (NodeState.DRIFTED, Cause.ONLY_ALL_DEVICE)
    assert bench.files() == before
    assert bench.generator.asked == []


def test_observe_leaves_files_written_earlier(bench: Bench) -> None:
    bench.run()
    before = bench.files()

    result = bench.run(Intent(mode=RepairMode.OBSERVE))

    assert bench.files() == before
    assert result.status.state is NodeState.RESOLVED


def test_off_removes_exactly_our_files(bench: Bench) -> None:
    before = bench.files()
    bench.run()

    result = bench.run(Intent(mode=RepairMode.OFF))

    assert bench.files() == before
    assert [record.result for record in result.records] == ["Removed"]


def test_a_removal_that_was_asked_for_is_a_repair_that_succeeded(bench: Bench) -> None:
    bench.run()

    result = bench.run(Intent(mode=RepairMode.OFF))

    (told,) = (item for item in result.status.conditions if item.type == "RepairSucceeded")
    assert (told.status.value, told.reason) == ("True", "Removed")


@pytest.mark.parametrize("gone", ["etc/containerd", "usr/local/nvidia"])
def test_off_removes_our_files_even_where_nobody_reads_them_any_more(
    bench: Bench, gone: str
) -> None:
    bench.run()
    shutil.rmtree(bench.host.root / gone)

    bench.run(Intent(mode=RepairMode.OFF))

    assert not bench.host.exists(OWN)
    assert bench.host.exists("/etc/cdi/nvidia.yaml")


def test_a_second_pass_changes_nothing_and_asks_no_generator(bench: Bench) -> None:
    first = bench.run()
    before = bench.files()

    second = bench.run()

    assert second.records == ()
    assert bench.files() == before
    assert len(bench.generator.asked) == 1
    assert replace(second.status, repairs=()) == replace(first.status, repairs=())


def test_a_status_does_not_change_with_time_alone(bench: Bench) -> None:
    bench.run()
    first = bench.run().status
    bench.seconds += 5000

    assert bench.run().status == first


def test_the_operators_hold_stops_writing_but_not_looking(bench: Bench) -> None:
    before = bench.files()

    result = bench.run(replace(AUTO, hold=Hold("DriverUpgrade", "T0", "rolling out")))

    assert bench.files() == before
    assert result.status.state is NodeState.HELD
    assert result.status.hold == Hold("DriverUpgrade", "T0", "rolling out")
    assert result.status.cause is Cause.ONLY_ALL_DEVICE


def test_a_hold_does_not_keep_names_that_somebody_else_defines(bench: Bench) -> None:
    bench.run()
    (bench.host.root / "etc/cdi/foreign.yaml").write_bytes(c00.generated(NAMES, gpu=1))

    result = bench.run(replace(AUTO, hold=Hold("DriverUpgrade")))

    assert not bench.host.exists(OWN)
    assert result.status.missing == 0


def test_without_nvml_nothing_is_written_and_it_is_said(bench: Bench) -> None:
    bench.nvml.failure = NvmlFailure.DRIVER_NOT_LOADED
    before = bench.files()

    result = bench.run()

    assert bench.files() == before
    assert result.status.hold is not None
    assert result.status.hold.reason == "NvmlUnavailable"
    assert Cause.DRIVER_NOT_READY in {finding.cause for finding in result.status.findings}


def test_fewer_gpus_than_the_kernel_has_hold_repairs(bench: Bench) -> None:
    bench.nvml.gpus = replace(c00.GPUS, devices=c00.GPUS.devices[:1])
    before = bench.files()

    result = bench.run()

    assert bench.files() == before
    assert result.status.hold is not None
    assert result.status.hold.reason == "FewerGpusThanKernel"


@pytest.mark.parametrize("trouble", ["fewer", "silent"])
def test_what_nvml_does_not_see_for_a_moment_costs_no_name(bench: Bench, trouble: str) -> None:
    bench.run()
    before = bench.files()
    if trouble == "fewer":
        bench.nvml.gpus = replace(c00.GPUS, devices=c00.GPUS.devices[:1])
    else:
        bench.nvml.failure = NvmlFailure.TIMEOUT

    assert bench.run().records == ()
    assert bench.files() == before


def test_under_a_hold_only_the_names_in_conflict_leave_our_file(bench: Bench) -> None:
    bench.run()
    (bench.host.root / "etc/cdi/foreign.yaml").write_bytes(c00.generated(("0",), gpu=1))

    (record,) = bench.run(replace(AUTO, hold=Hold("DriverUpgrade"))).records

    assert (record.result, record.added, record.removed) == ("Succeeded", 0, 1)
    own = bench.host.read(OWN)
    assert b'name: "0"' not in own
    assert b'name: "1"' in own


@pytest.mark.parametrize("mark", ["etc/nv_tegra_release", "usr/lib/wsl/lib/libdxcore.so"])
def test_other_platforms_are_only_observed(bench: Bench, mark: str) -> None:
    for library in bench.host.root.rglob("libnvidia-ml.so*"):
        library.unlink()
    place = bench.host.root / mark
    place.parent.mkdir(parents=True, exist_ok=True)
    place.touch()
    before = bench.files()

    result = bench.run()

    assert bench.files() == before
    assert result.status.hold is not None
    assert result.status.hold.reason == "OtherPlatform"


def test_a_hold_keeps_the_time_it_began(bench: Bench) -> None:
    bench.nvml.failure = NvmlFailure.UNKNOWN
    first = bench.run().status.hold
    bench.seconds += 100

    assert bench.run().status.hold == first


def test_a_vanished_toolkit_is_a_reinstallation(bench: Bench) -> None:
    (bench.host.root / "usr/local/nvidia/toolkit/nvidia-container-runtime").unlink()

    result = bench.run()

    assert result.status.hold is not None
    assert result.status.hold.reason == "ToolkitReinstall"
    assert not bench.host.exists(OWN)


def test_the_validators_short_absence_holds_nothing_and_a_long_one_does(bench: Bench) -> None:
    ready = bench.host.root / "run/nvidia/validations/driver-ready"
    ready.parent.mkdir(parents=True, exist_ok=True)
    ready.unlink(missing_ok=True)
    assert bench.run(Intent()).status.hold is None

    bench.seconds += 121
    held = bench.run(Intent()).status.hold
    assert held is not None
    assert held.reason == "DriverNotValidated"

    ready.touch()
    assert bench.run(Intent()).status.hold is None


def test_a_failing_generator_is_a_finding_and_is_not_run_at_every_event(bench: Bench) -> None:
    bench.generator.answer = FAILURE

    statuses = [bench.run().status for _ in range(4)]

    assert all(FAILURE in status.findings for status in statuses)
    assert len(bench.generator.asked) == 1

    bench.seconds += 10
    bench.run()
    assert len(bench.generator.asked) == 2


def test_the_next_attempt_is_due_when_the_wait_is_over(bench: Bench) -> None:
    bench.generator.answer = FAILURE

    due = bench.run().due

    assert due == bench.seconds + 5
    bench.seconds = due
    bench.run()
    assert len(bench.generator.asked) == 2


def test_nothing_is_due_when_nothing_waits(bench: Bench) -> None:
    assert bench.run().due is None


def test_names_of_a_file_that_is_being_replaced_are_not_taken_over_at_once(bench: Bench) -> None:
    bench.run()
    management = bench.host.outside("/var/run/cdi/management.nvidia.com-gpu.yaml")
    content = management.read_bytes()
    own = bench.host.read(OWN)
    management.unlink()

    result = bench.run()

    assert bench.host.read(OWN) == own
    assert result.status.hold is not None
    assert result.status.hold.reason == "SpecBeingReplaced"
    assert result.due is not None
    management.write_bytes(content)
    assert bench.run().status.hold is None


def test_names_of_a_file_that_stays_away_are_taken_over(bench: Bench) -> None:
    foreign = bench.host.outside("/var/run/cdi/admin.yaml")
    foreign.write_bytes(c00.generated(NAMES[:1]))
    bench.run()
    foreign.unlink()
    assert f"{c00.MANAGEMENT}=0" not in bench.names()
    due = bench.run().due
    assert due is not None

    bench.seconds = due
    result = bench.run()

    assert result.status.state is NodeState.RESOLVED
    assert f"{c00.MANAGEMENT}=0" in bench.names()


def test_garbage_from_the_generator_is_refused(bench: Bench) -> None:
    bench.generator.answer = b"kind: ["
    before = bench.files()

    result = bench.run()

    assert bench.files() == before
    assert Cause.REPAIR_REFUSED in {finding.cause for finding in result.status.findings}


def test_our_file_comes_back_after_an_edit(bench: Bench) -> None:
    bench.run()
    good = bench.host.read(OWN)
    bench.host.outside(OWN).write_bytes(good.replace(b"GPU-", b"GPX-"))

    bench.run()

    assert bench.host.read(OWN) == good


def edit(bench: Bench) -> None:
    path = bench.host.outside(OWN)
    path.write_bytes(path.read_bytes().replace(b"GPU-", b"GPX-"))


def delete(bench: Bench) -> None:
    bench.host.outside(OWN).unlink()


@pytest.mark.parametrize("interfere", [edit, delete])
def test_somebody_who_disagrees_four_times_in_ten_minutes_wins(
    bench: Bench, interfere: Callable[[Bench], None]
) -> None:
    bench.run()
    for _ in range(3):
        interfere(bench)
        assert bench.run().records
    interfere(bench)

    result = bench.run()

    assert result.records == ()
    assert result.status.hold is not None
    assert result.status.hold.reason == DISPUTED
    bench.seconds += 601
    assert bench.run().status.state is NodeState.RESOLVED


def disputed(bench: Bench) -> None:
    bench.run()
    for _ in range(4):
        edit(bench)
        result = bench.run()
    # As the resident agent does after each pass.
    StateStore(bench.host, RealFiles(), STATE).remember_status(result.status)


def hold_of(bench: Bench) -> str | None:
    hold = bench.run().status.hold
    return hold.reason if hold else None


def test_a_dispute_outlives_a_restart_of_the_agent(bench: Bench) -> None:
    disputed(bench)
    bench.restart()

    assert hold_of(bench) == DISPUTED


def test_a_dispute_ends_after_a_restart_too_when_the_file_is_left_alone(bench: Bench) -> None:
    disputed(bench)
    bench.restart()
    bench.run()
    bench.seconds += 601

    assert hold_of(bench) is None


def test_a_dispute_does_not_outlive_a_reboot(bench: Bench) -> None:
    disputed(bench)
    boot = bench.host.outside("/proc/sys/kernel/random/boot_id")
    boot.parent.mkdir(parents=True, exist_ok=True)
    boot.write_text("00000000-0000-0000-0000-000000000001\n")
    bench.restart()

    assert hold_of(bench) is None


def test_what_another_agent_of_the_node_does_is_no_dispute(bench: Bench) -> None:
    # As `gpucdi-agent revert` and `repair` of a person beside the resident agent.
    person = Bench(bench.host)
    for _ in range(5):
        assert bench.run().status.state is NodeState.RESOLVED
        person.seconds = bench.seconds
        assert person.run(Intent(mode=RepairMode.OFF)).records

    result = bench.run()

    assert result.records
    assert result.status.hold is None


def test_a_restart_goes_on_where_the_last_process_ended(bench: Bench) -> None:
    first = bench.run()
    bench.restart()

    second = bench.run()

    assert second.records == ()
    assert second.status.repairs == first.status.repairs
    assert len(bench.generator.asked) == 1


def test_a_restart_moves_no_time_of_the_status(bench: Bench) -> None:
    bench.nvml.failure = NvmlFailure.UNKNOWN
    status = bench.run().status
    StateStore(bench.host, RealFiles(), STATE).remember_status(status)
    bench.seconds += 500
    bench.restart()

    assert bench.run().status == status


def test_an_edit_while_no_agent_ran_is_noticed(bench: Bench) -> None:
    bench.run()
    delete(bench)
    bench.restart()

    assert bench.run().records
    assert bench.host.exists(OWN)


def test_a_state_directory_that_cannot_be_written_is_a_finding_and_no_repair(
    bench: Bench,
) -> None:
    before = bench.files()
    state = bench.host.root / STATE.lstrip("/")
    for name in ("backups", "scratch"):
        (state / name).rmdir()
    state.rmdir()
    state.write_text("a file where the directory should be")

    result = bench.run()

    assert bench.files() == before
    (finding,) = [
        finding for finding in result.status.findings if finding.cause is Cause.REPAIR_REFUSED
    ]
    assert "/var/lib/gpucdi" in finding.advice


def test_a_none_device_on_request_resolves(bench: Bench) -> None:
    bench.generator.answer = c00.generated((*NAMES, "all", "none"))

    result = bench.run(replace(AUTO, none_device=True))

    assert result.status.state is NodeState.RESOLVED
    assert b"name: none" in bench.host.read(OWN)


INSTANCES = GpuStatus(
    source="nvml",
    driver="570.86.15",
    devices=tuple(
        GpuDevice(
            uuid=f"GPU-{gpu:08x}-1111-2222-3333-444444444444",
            index=gpu,
            minor=gpu,
            pci=f"0000:{gpu:02x}:00.0",
            model="NVIDIA A100-SXM4-80GB",
            mig_enabled=True,
            mig=tuple(
                MigDevice(
                    uuid=f"MIG-{gpu:08x}-{slot:04x}-5555-6666-777777777777",
                    index=slot,
                    gpu_instance=slot + 7,
                    compute_instance=0,
                )
                for slot in range(7)
            ),
        )
        for gpu in range(16)
    ),
)
EVERY_INSTANCE = tuple(
    name
    for gpu in INSTANCES.devices
    for mig in gpu.mig
    for name in (mig.uuid, f"{gpu.index}:{mig.index}")
)


@pytest.mark.parametrize(
    ("mode", "generated"),
    [
        (RepairMode.OBSERVE, ()),
        (RepairMode.AUTO, ("all",)),
        (RepairMode.AUTO, (*EVERY_INSTANCE, "all")),
    ],
    ids=["all are missing", "none can be made", "all are made"],
)
def test_sixteen_gpus_with_seven_instances_each_fit_into_32_kib(
    bench: Bench, mode: RepairMode, generated: tuple[str, ...]
) -> None:
    bench.nvml.gpus = INSTANCES
    if generated:
        bench.generator.answer = c00.generated(generated)

    for _ in range(3):
        status = bench.run(Intent(mode=mode)).status

    written = write_status(status)
    print(len(json.dumps(written)), len(status.findings))
    assert len(json.dumps(written)) <= 32 * 1024
    findings = written["findings"]
    assert isinstance(findings, list)
    if len(findings) < len(status.findings):
        left_out = len(status.findings) - len(findings) + 1
        assert f"{left_out} more findings" in str(findings[-1])
    summary = written["summary"]
    assert isinstance(summary, dict)
    assert (summary["gpus"], summary["migInstances"]) == (16, 16 * 7)
    (kind,) = (kind for kind in status.kinds if kind.kind == c00.MANAGEMENT)
    assert kind.expected >= len(EVERY_INSTANCE)
    assert kind.missing.count == (0 if EVERY_INSTANCE[0] in generated else kind.expected - 1)
