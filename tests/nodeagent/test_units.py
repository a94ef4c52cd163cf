"""How the agent learns of nvidia-cdi-refresh, from a real bus."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.nodeagent.systemd_bus import DBUS_DAEMON, FakeSystemd, systemd_on_a_bus

from gpucdi.node.refresh import PATH, SERVICE, RefreshReading, UnitHealth, UnitReading
from gpucdi_agent.units import GOOD_FOR_SECONDS, SILENT_FOR_SECONDS, RecentUnits, SystemdUnits

needs_bus = pytest.mark.skipif(DBUS_DAEMON is None, reason="no dbus-daemon on this machine")
# A real bus on a busy machine may take its time; the limit has a test of its own.
PATIENT_S = 30.0


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[FakeSystemd]:
    with systemd_on_a_bus(tmp_path) as fake:
        yield fake


@needs_bus
def test_a_service_that_has_run_and_a_waiting_path_are_told(
    systemd: FakeSystemd, tmp_path: Path
) -> None:
    systemd.units[SERVICE] = {
        "LoadState": "loaded",
        "ActiveState": "inactive",
        "UnitFileState": "enabled",
        "Result": "success",
        "ExecMainStatus": 0,
        "ExecMainExitTimestamp": 1_790_000_000_000_000,
        "ConditionResult": True,
        "ConditionTimestamp": 1_790_000_000_000_000,
        "Environment": ["NVIDIA_CTK_CDI_OUTPUT_FILE_PATH=/etc/cdi/nvidia.yaml"],
        "EnvironmentFiles": [("/etc/own.env", True)],
    }
    systemd.units[PATH] = {
        "LoadState": "loaded",
        "ActiveState": "active",
        "UnitFileState": "enabled",
        "Result": "success",
    }
    reading = SystemdUnits(tmp_path, PATIENT_S).look()
    assert reading.problem == ""
    assert reading.service.health is UnitHealth.IDLE
    assert reading.service.environment == ("NVIDIA_CTK_CDI_OUTPUT_FILE_PATH=/etc/cdi/nvidia.yaml",)
    assert reading.service.environment_files == ("/etc/own.env",)
    assert reading.path.health is UnitHealth.ACTIVE


@needs_bus
def test_units_that_nobody_installed_are_absent(systemd: FakeSystemd, tmp_path: Path) -> None:
    systemd.units.clear()
    reading = SystemdUnits(tmp_path, PATIENT_S).look()
    assert (reading.service.health, reading.path.health) == (UnitHealth.ABSENT, UnitHealth.ABSENT)


@needs_bus
def test_nothing_but_reading_is_asked_of_systemd(systemd: FakeSystemd, tmp_path: Path) -> None:
    SystemdUnits(tmp_path, PATIENT_S).look()
    assert set(systemd.asked) <= {"LoadUnit", "GetAll", ""} | {"NameAcquired", "NameLost"}


@needs_bus
def test_a_refusal_is_an_unknown_with_the_words_of_the_bus(
    systemd: FakeSystemd, tmp_path: Path
) -> None:
    systemd.refuses = True
    reading = SystemdUnits(tmp_path, PATIENT_S).look()
    assert reading.service.health is UnitHealth.UNKNOWN
    assert "AccessDenied: no" in reading.problem


def test_a_host_without_a_socket_is_an_unknown(tmp_path: Path) -> None:
    reading = SystemdUnits(tmp_path).look()
    assert reading.service.health is UnitHealth.UNKNOWN
    assert reading.problem == "no D-Bus socket of the host"


def test_a_socket_that_nobody_serves_is_an_unknown(tmp_path: Path) -> None:
    place = tmp_path / "run/dbus/system_bus_socket"
    place.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(place))
    assert "Connection refused" in SystemdUnits(tmp_path).look().problem


def test_a_bus_that_never_answers_ends_at_its_limit(tmp_path: Path) -> None:
    place = tmp_path / "run/dbus/system_bus_socket"
    place.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(place))
        mute.listen()
        assert "no answer" in SystemdUnits(tmp_path, 0.2).look().problem


def test_a_bus_that_speaks_another_language_is_an_unknown(tmp_path: Path) -> None:
    place = tmp_path / "run/dbus/system_bus_socket"
    place.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as odd:
        odd.bind(str(place))
        odd.listen()

        def babble() -> None:
            connection, _ = odd.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                connection.recv(1024)

        babbling = threading.Thread(target=babble)
        babbling.start()
        reading = SystemdUnits(tmp_path, 5.0).look()
        babbling.join(20)
    assert reading.problem
    assert reading.service.health is UnitHealth.UNKNOWN


class Counted:
    """Units that say how often they were asked."""

    def __init__(self, reading: RefreshReading) -> None:
        self.reading, self.times = reading, 0

    def look(self) -> RefreshReading:
        self.times += 1
        return self.reading


def test_an_answer_is_good_for_a_while_and_then_asked_for_again() -> None:
    units, now = Counted(RefreshReading(UnitReading("loaded"))), [0.0]
    recent = RecentUnits(units, lambda: now[0])
    recent.look()
    now[0] = GOOD_FOR_SECONDS - 1
    recent.look()
    assert units.times == 1
    now[0] = GOOD_FOR_SECONDS
    recent.look()
    assert units.times == 2


def test_a_bus_that_did_not_answer_is_left_alone_for_longer() -> None:
    units, now = Counted(RefreshReading(problem="no answer")), [0.0]
    recent = RecentUnits(units, lambda: now[0])
    recent.look()
    now[0] = SILENT_FOR_SECONDS - 1
    assert recent.look().problem == "no answer"
    assert units.times == 1
