"""What the states of the refresh units mean."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpucdi.api.status import RefreshStatus
from gpucdi.findings import Cause
from gpucdi.host import HostTree
from gpucdi.node.refresh import (
    ENVIRONMENT_FILE,
    Coverage,
    RefreshReading,
    UnitHealth,
    UnitReading,
    coverage,
    refresh_findings,
    refresh_status,
)

DONE = UnitReading("loaded", "inactive", "enabled", "success", has_run=True)
WAITING = UnitReading("loaded", "active", "enabled", "success")
FAILED = UnitReading("loaded", "failed", "enabled", "exit-code", exit_status=1, has_run=True)
ABSENT = UnitReading("not-found", "inactive")


@pytest.mark.parametrize(
    ("unit", "health"),
    [
        (UnitReading(), UnitHealth.UNKNOWN),
        (ABSENT, UnitHealth.ABSENT),
        (UnitReading("masked", "inactive"), UnitHealth.MASKED),
        (replace(DONE, has_run=False), UnitHealth.INACTIVE),
        (DONE, UnitHealth.IDLE),
        (WAITING, UnitHealth.ACTIVE),
        (replace(DONE, result="exec-condition"), UnitHealth.SKIPPED),
        (replace(DONE, condition_failed=True), UnitHealth.SKIPPED),
        (FAILED, UnitHealth.FAILED),
        (replace(FAILED, result="start-limit-hit"), UnitHealth.START_LIMIT_HIT),
        (replace(FAILED, result="unit-start-limit-hit"), UnitHealth.START_LIMIT_HIT),
    ],
)
def test_the_properties_of_a_unit_make_one_word(unit: UnitReading, health: UnitHealth) -> None:
    assert unit.health is health


def told(host: HostTree, service: UnitReading, path: UnitReading = WAITING) -> list[str]:
    found = [*refresh_findings(RefreshReading(service, path), host)]
    assert {finding.cause for finding in found} <= {Cause.REFRESH_UNIT_FAILED}
    return [finding.message for finding in found]


@pytest.fixture
def host(tmp_path: Path) -> HostTree:
    return HostTree(tmp_path)


def test_units_that_do_their_work_give_no_finding(host: HostTree) -> None:
    assert told(host, DONE) == []


@pytest.mark.parametrize("absent", [ABSENT, UnitReading(), UnitReading("masked", "inactive")])
def test_units_that_are_not_there_or_not_seen_give_no_finding(
    host: HostTree, absent: UnitReading
) -> None:
    assert told(host, absent, absent) == []


def test_a_failed_service_is_told_with_its_result_and_its_file(host: HostTree) -> None:
    (message,) = told(host, FAILED)
    assert message == (
        "nvidia-cdi-refresh.service failed (exit-code): nvidia.com/gpu in "
        "/var/run/cdi/nvidia.yaml is missing or old"
    )


def test_a_start_limit_is_told_as_such(host: HostTree) -> None:
    assert "systemd starts it no more" in told(host, replace(FAILED, result="start-limit-hit"))[0]


def test_a_skipped_service_is_told(host: HostTree) -> None:
    assert "skipped by a condition" in told(host, replace(DONE, result="exec-condition"))[0]


def test_a_failure_that_a_drop_in_calls_a_success_is_told(host: HostTree) -> None:
    assert "SuccessExitStatus" in told(host, replace(DONE, exit_status=1))[0]


def test_a_path_unit_that_does_not_watch_is_told(host: HostTree) -> None:
    unwatched = UnitReading("loaded", "inactive", "disabled", "success")
    (message,) = told(host, DONE, unwatched)
    assert message == (
        "nvidia-cdi-refresh.path is inactive (disabled): a new driver or toolkit does not renew "
        "nvidia.com/gpu in /var/run/cdi/nvidia.yaml"
    )


def test_kind_and_file_come_from_the_units_environment(host: HostTree) -> None:
    unit = replace(DONE, environment=("NVIDIA_CTK_CDI_GENERATE_CLASS=own",))
    assert coverage(unit, host) == Coverage("nvidia.com/own", "/var/run/cdi/nvidia.yaml")


def test_the_environment_file_wins_over_the_unit(host: HostTree) -> None:
    file = host.root / ENVIRONMENT_FILE.lstrip("/")
    file.parent.mkdir(parents=True)
    file.write_text(
        '# ours\nNVIDIA_CTK_CDI_GENERATE_VENDOR="example.com"\n'
        "NVIDIA_CTK_CDI_OUTPUT_FILE_PATH=/etc/cdi/own.yaml\nNVIDIA_CTK_CDI_GENERATE_CLASS=\n"
    )
    unit = replace(DONE, environment=("NVIDIA_CTK_CDI_OUTPUT_FILE_PATH=/other.yaml",))
    assert coverage(unit, host) == Coverage("example.com/gpu", "/etc/cdi/own.yaml")


def test_the_facts_name_kind_and_file_only_where_a_unit_is(host: HostTree) -> None:
    assert refresh_status(RefreshReading(DONE, WAITING), host) == RefreshStatus(
        "Idle", "Active", "nvidia.com/gpu", "/var/run/cdi/nvidia.yaml"
    )
    unseen = refresh_status(RefreshReading(problem="no D-Bus socket of the host"), host)
    assert unseen == RefreshStatus("Unknown", "Unknown", problem="no D-Bus socket of the host")
