"""Plans become files: all proven or none, whatever the disk and other writers do."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from tests.trees import c00

from gpucdi.api import RepairRecord
from gpucdi.api.names import OWN_FILE_MARK
from gpucdi.host import HostTree
from gpucdi.repair import Plan, WriteFile, plan, removal, sha256_text, wanted
from gpucdi_agent.exclusive import exclusive
from gpucdi_agent.files import Files, RealFiles, is_temporary
from gpucdi_agent.state import StateStore
from gpucdi_agent.transaction import NotOursError, Transaction

STATE = "/var/lib/gpucdi"
NAMES = ("0", "1", *c00.UUIDS)


class DiskError(OSError):
    """The disk refuses, as a test wants it to."""


class Killed(BaseException):
    """The process ends here."""


@dataclass
class BrittleFiles:
    """The disk, with something happening before its n-th change."""

    before: Callable[[int, Path], None] = lambda *_: None
    after: Callable[[int, Path], None] = lambda *_: None
    real: RealFiles = field(default_factory=RealFiles)
    count: Iterator[int] = field(default_factory=itertools.count)

    def make_directory(self, path: Path, mode: int) -> None:
        self.real.make_directory(path, mode)

    def replace(self, path: Path, content: bytes, mode: int) -> None:
        number = next(self.count)
        self.before(number, path)
        self.real.replace(path, content, mode)
        self.after(number, path)

    def remove(self, path: Path) -> None:
        number = next(self.count)
        self.before(number, path)
        self.real.remove(path)
        self.after(number, path)


@pytest.fixture
def host(tmp_path: Path) -> HostTree:
    host = c00.copy(tmp_path / "host")
    StateStore(host, RealFiles(), STATE).prepare()
    return host


def transaction(host: HostTree, files: Files | None = None, time: str = "T1") -> Transaction:
    files = files or RealFiles()
    return Transaction(host, StateStore(host, files, STATE), files, lambda: time)


def repair_plan(host: HostTree, names: tuple[str, ...] = NAMES) -> Plan:
    assessment = c00.judge(host)
    generations = wanted(assessment, host)
    return plan(assessment, host, generations, {c00.MANAGEMENT: c00.generated(names)})


def resolvable(host: HostTree) -> set[str]:
    readers = c00.judge(host).observation.readers
    return {name for reader in readers for name in reader.reader.load(host).devices}


def own_path(planned: Plan) -> str:
    return planned.actions[0].path


def temporary_files(host: HostTree) -> list[str]:
    return [path.name for path in host.root.rglob("*") if is_temporary(path.name)]


def test_a_plan_becomes_a_file_and_a_record(host: HostTree) -> None:
    planned = repair_plan(host)

    (record,) = transaction(host).apply(planned)

    assert record.result == "Succeeded"
    assert (record.before, record.added) == ("", 4)
    assert record.after == sha256_text(host.read(own_path(planned)))
    assert {f"{c00.MANAGEMENT}={name}" for name in NAMES} <= resolvable(host)


def test_the_file_is_readable_by_every_reader_whatever_the_umask(host: HostTree) -> None:
    planned = repair_plan(host)

    transaction(host).apply(planned)

    assert host.stat(own_path(planned)).mode == 0o644


def test_the_history_remembers_the_file_and_the_last_ten_repairs(host: HostTree) -> None:
    for number in range(7):
        transaction(host, time=f"T{number}").apply(repair_plan(host))
        transaction(host, time=f"U{number}").apply(removal(c00.judge(host).observation, host))

    memory = StateStore(host, RealFiles(), STATE).memory()
    assert len(memory.repairs) == 10
    assert memory.repairs[-1].time == "U6"
    assert memory.written == {}


@pytest.mark.parametrize("content", [b"cdiVersion: 0.5.0\n", b"", b"# Written by somebody.\n"])
def test_a_file_of_our_name_without_our_mark_is_never_touched(
    host: HostTree, content: bytes
) -> None:
    planned = repair_plan(host)
    foreign = host.outside(own_path(planned))
    foreign.write_bytes(content)

    (record,) = transaction(host).apply(planned)

    assert record.result == "Failed"
    assert foreign.read_bytes() == content


def test_a_link_under_our_name_is_never_followed(host: HostTree, tmp_path: Path) -> None:
    planned = repair_plan(host)
    victim = tmp_path / "victim"
    victim.write_text(OWN_FILE_MARK)
    (host.root / own_path(planned).lstrip("/")).symlink_to(victim)

    (record,) = transaction(host).apply(planned)

    assert record.result == "Failed"
    assert victim.read_text() == OWN_FILE_MARK


def test_a_file_under_another_name_is_refused(host: HostTree) -> None:
    action = WriteFile("/etc/cdi/nvidia.yaml", "nvidia.com/gpu", b"x", 1, 0)
    before = host.read("/etc/cdi/nvidia.yaml")

    (record,) = transaction(host).apply(Plan((action,)))

    assert (record.result, host.read("/etc/cdi/nvidia.yaml")) == ("Failed", before)
    assert issubclass(NotOursError, OSError)


def test_a_file_that_changed_since_the_plan_is_left_alone(host: HostTree) -> None:
    transaction(host).apply(repair_plan(host, NAMES[:1]))
    stale = repair_plan(host)
    path = host.outside(own_path(stale))
    edited = path.read_bytes() + b"# edited\n"
    path.write_bytes(edited)

    (record,) = transaction(host, time="T2").apply(stale)

    assert (record.result, path.read_bytes()) == ("Failed", edited)


def test_every_refusal_of_the_disk_leaves_everything_as_it_was(host: HostTree) -> None:
    before = resolvable(host)
    steps = 0
    while True:
        limit = steps

        def refuse(number: int, path: Path, limit: int = limit) -> None:
            if number == limit:
                raise DiskError(28, "No space left on device", str(path))

        files = BrittleFiles(before=refuse)
        try:
            records: tuple[RepairRecord, ...] = transaction(host, files).apply(repair_plan(host))
        except DiskError:
            records = ()
        if next(files.count) <= limit:
            break
        assert resolvable(host) >= before
        assert temporary_files(host) == []
        # Whatever happened, the next pass starts from a clean state and succeeds.
        transaction(host).recover()
        for record in records:
            assert record.result in {"Failed", "Succeeded"}
        transaction(host, time=f"T{steps}").apply(removal(c00.judge(host).observation, host))
        steps += 1
    assert steps >= 4


def after_kill(host: HostTree, kill_at: int, *, before: bool, planned: Plan | None = None) -> bool:
    """Repair until the process 'dies' at a step; True when it came that far."""

    def kill(number: int, _: Path) -> None:
        if number == kill_at:
            raise Killed

    files = BrittleFiles(before=kill) if before else BrittleFiles(after=kill)
    try:
        transaction(host, files).apply(planned or repair_plan(host))
    except Killed:
        return True
    return False


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("step", range(6))
def test_killed_at_any_step_nothing_is_lost_and_the_next_start_finishes(
    host: HostTree, step: int, before: bool
) -> None:
    resolved = resolvable(host)
    after_kill(host, step, before=before)

    assert resolvable(host) >= resolved

    again = transaction(host, time="T2")
    again.recover()
    again.apply(repair_plan(host))
    assert {f"{c00.MANAGEMENT}={name}" for name in NAMES} <= resolvable(host)
    assert not host.exists(f"{STATE}/journal.json")
    repairs = StateStore(host, RealFiles(), STATE).memory().repairs
    assert [(item.result, item.added) for item in repairs] == [("Succeeded", 4)]


def test_a_file_that_takes_names_away_is_rolled_back(host: HostTree) -> None:
    planned = repair_plan(host)
    resolved = resolvable(host)

    def conflict(_: int, path: Path) -> None:
        # Between plan and write, a foreign file of the same directory claims our names as well.
        if path.name.startswith("gpucdi-") and not (path.parent / "late.yaml").exists():
            (path.parent / "late.yaml").write_bytes(c00.generated(NAMES, gpu=1))

    (record,) = transaction(host, BrittleFiles(before=conflict)).apply(planned)

    assert record.result == "RolledBack"
    assert not host.exists(own_path(planned))
    assert resolvable(host) >= resolved | {f"{c00.MANAGEMENT}={name}" for name in NAMES}


def test_what_somebody_else_took_away_meanwhile_is_not_blamed_on_our_file(host: HostTree) -> None:
    planned = repair_plan(host)

    def delete(_: int, path: Path) -> None:
        if path.name.startswith("gpucdi-"):
            host.outside("/etc/cdi/nvidia.yaml").unlink(missing_ok=True)

    (record,) = transaction(host, BrittleFiles(before=delete)).apply(planned)

    assert record.result == "Succeeded"
    assert "does not resolve" in record.message
    assert host.exists(own_path(planned))


def move_directory(host: HostTree) -> None:
    """Make /etc/cdi a link to nowhere, as an admin does who moves it: no reader follows it."""
    folder = host.root / "etc/cdi"
    folder.rename(host.root / "etc/cdi.old")
    folder.symlink_to("/var/lib/cdi-moved")


def test_a_file_that_no_reader_takes_up_is_rolled_back_and_said_to_be(host: HostTree) -> None:
    planned = repair_plan(host)
    move_directory(host)

    (record,) = transaction(host).apply(planned)

    assert record.result == "RolledBack"
    assert f"of {own_path(planned)} does not resolve in" in record.message
    assert not host.exists(own_path(planned))


def test_a_file_that_somebody_removes_at_once_is_not_called_useless(host: HostTree) -> None:
    planned = repair_plan(host)
    useless: list[str] = []

    def remove(_: int, path: Path) -> None:
        if path.name == Path(own_path(planned)).name:
            path.unlink()

    (record,) = transaction(host, BrittleFiles(after=remove)).apply(planned, useless.append)

    assert (record.result, useless) == ("Succeeded", [])
    assert "does not resolve" in record.message


def test_a_file_that_no_reader_takes_up_is_rolled_back_after_a_crash_too(host: HostTree) -> None:
    planned = repair_plan(host)
    move_directory(host)
    assert after_kill(host, 1, before=False, planned=planned)
    assert host.exists(own_path(planned))

    (record,) = transaction(host).recover()

    assert record.result == "RolledBack"
    assert not host.exists(own_path(planned))


def test_a_damaged_journal_is_no_journal(host: HostTree) -> None:
    for text in ("", "{", "[]", json.dumps({"entries": [{"path": 5}]})):
        host.outside(f"{STATE}/journal.json").write_text(text)

        assert transaction(host).recover() == ()


def test_backups_never_lie_where_a_reader_looks(host: HostTree) -> None:
    transaction(host).apply(repair_plan(host, NAMES[:1]))
    transaction(host, time="T2").apply(repair_plan(host))

    (backup,) = host.listdir(f"{STATE}/backups")
    assert host.read(f"{STATE}/backups/{backup}").startswith(OWN_FILE_MARK.encode())
    assert [name for name in host.listdir("/etc/cdi") if not name.endswith(".yaml")] == []


def test_temporary_files_of_a_dead_process_are_swept(host: HostTree) -> None:
    left = host.root / "etc/cdi/.gpucdi-0011223344556677.tmp"
    left.touch()

    StateStore(host, RealFiles(), STATE).sweep(("/etc/cdi", "/missing"))

    assert not left.exists()
    assert host.exists("/etc/cdi/nvidia.yaml")


def test_while_another_agent_is_at_work_nothing_is_written(host: HostTree) -> None:
    impatient = replace(transaction(host), patience_seconds=0.0)
    before = resolvable(host)

    with exclusive(host.outside(STATE)):
        (record,) = impatient.apply(repair_plan(host))

    assert record.result == "Failed"
    assert "another gpucdi-agent is at work" in record.message
    assert resolvable(host) == before
    assert impatient.apply(repair_plan(host))[0].result == "Succeeded"


def test_another_agent_that_ends_in_time_is_waited_for(host: HostTree) -> None:
    patient = replace(transaction(host), patience_seconds=60.0)
    with ThreadPoolExecutor(1) as pool:
        with exclusive(host.outside(STATE)):
            waiting = pool.submit(patient.apply, repair_plan(host))
            with pytest.raises(TimeoutError):
                waiting.result(0.2)

        (record,) = waiting.result(60)

    assert record.result == "Succeeded"


def test_the_journal_of_an_agent_at_work_is_its_own(host: HostTree) -> None:
    def kill(number: int, _: Path) -> None:
        if number == 1:
            raise Killed

    with pytest.raises(Killed):
        transaction(host, BrittleFiles(before=kill)).apply(repair_plan(host))
    at_work = host.root / "etc/cdi/.gpucdi-0123456789abcdef.tmp"
    at_work.touch()

    with exclusive(host.outside(STATE)):
        assert transaction(host).recover() == ()
        StateStore(host, RealFiles(), STATE).prepare()
        assert at_work.exists()
        assert host.exists(f"{STATE}/journal.json")

    transaction(host).recover()
    assert not at_work.exists()
    assert not host.exists(f"{STATE}/journal.json")


def test_two_repairs_of_one_file_in_one_second_are_two(host: HostTree) -> None:
    transaction(host).apply(repair_plan(host))
    judged = c00.judge(host)

    transaction(host).apply(removal(judged.observation, host))

    results = [record.result for record in StateStore(host, RealFiles(), STATE).memory().repairs]
    assert results == ["Succeeded", "Removed"]


def test_a_failed_write_names_the_file_of_the_host_and_not_the_temporary_one(
    host: HostTree,
) -> None:
    # A folder in its place: the rename is what fails, after all else has been done.
    (host.outside(STATE) / "journal.json").mkdir()

    (record,) = transaction(host).apply(repair_plan(host))

    assert record.message == f"{STATE}/journal.json: Is a directory"
