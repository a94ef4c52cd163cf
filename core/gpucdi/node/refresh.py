"""The host's own refresh of specs, ``nvidia-cdi-refresh``: what its two units do, and cover.

Owns: what systemd's properties of the units mean, which kind they write and where. Must not know:
how systemd is asked. Source: NVIDIA/nvidia-container-toolkit ``deployments/systemd``.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gpucdi.api.status import RefreshStatus
from gpucdi.findings import Cause, Finding, Severity
from gpucdi.host import HostTree

SERVICE = "nvidia-cdi-refresh.service"
PATH = "nvidia-cdi-refresh.path"
ENVIRONMENT_FILE = "/etc/nvidia-container-toolkit/nvidia-cdi-refresh.env"
_OUTPUT = "NVIDIA_CTK_CDI_OUTPUT_FILE_PATH"
_VENDOR, _CLASS = "NVIDIA_CTK_CDI_GENERATE_VENDOR", "NVIDIA_CTK_CDI_GENERATE_CLASS"
_DEFAULTS = {_OUTPUT: "/var/run/cdi/nvidia.yaml", _VENDOR: "nvidia.com", _CLASS: "gpu"}
_LIMIT_BYTES = 64 * 1024
_AGAIN = (
    "once nvidia-smi works: systemctl reset-failed nvidia-cdi-refresh.path "
    "nvidia-cdi-refresh.service && systemctl start nvidia-cdi-refresh.service "
    "nvidia-cdi-refresh.path"
)


class UnitHealth(enum.StrEnum):
    """What a unit is up to, in one word; ``Idle`` is a service that has done its work."""

    UNKNOWN = "Unknown"
    ABSENT = "Absent"
    MASKED = "Masked"
    INACTIVE = "Inactive"
    IDLE = "Idle"
    ACTIVE = "Active"
    SKIPPED = "Skipped"
    FAILED = "Failed"
    START_LIMIT_HIT = "StartLimitHit"


@dataclass(frozen=True, slots=True)
class UnitReading:
    """systemd's properties of one unit, by their own names where these are strings.

    ``exit_status`` is ExecMainStatus, ``has_run`` whether its main process ever ended. Sources:
    org.freedesktop.systemd1(5); systemd/systemd ``src/core/service.c`` (results).
    """

    load_state: str = ""
    active_state: str = ""
    unit_file_state: str = ""
    result: str = ""
    exit_status: int = 0
    has_run: bool = False
    condition_failed: bool = False
    environment: tuple[str, ...] = ()
    environment_files: tuple[str, ...] = (ENVIRONMENT_FILE,)

    @property
    def health(self) -> UnitHealth:
        """Return the one word."""
        if self.load_state == "not-found":
            return UnitHealth.ABSENT
        if self.load_state == "masked":
            return UnitHealth.MASKED
        if not self.load_state:
            return UnitHealth.UNKNOWN
        if self.result.endswith("start-limit-hit"):
            return UnitHealth.START_LIMIT_HIT
        if self.active_state == "failed":
            return UnitHealth.FAILED
        if self.active_state in {"active", "activating", "reloading"}:
            return UnitHealth.ACTIVE
        if self.result == "exec-condition" or self.condition_failed:
            return UnitHealth.SKIPPED
        return UnitHealth.IDLE if self.has_run else UnitHealth.INACTIVE


@dataclass(frozen=True, slots=True)
class RefreshReading:
    """Both units as systemd tells of them; ``problem`` says why it could not be asked."""

    service: UnitReading = field(default_factory=UnitReading)
    path: UnitReading = field(default_factory=UnitReading)
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Coverage:
    """The one kind that the service writes, and into which file."""

    kind: str
    file: str


def coverage(service: UnitReading, host: HostTree) -> Coverage:
    """Return what the service's environment makes it write.

    The files come after ``Environment=``, and a later setting wins (systemd.exec(5)). One that
    cannot be read is passed over, as its leading ``-`` tells systemd to.
    """
    settings = dict(_DEFAULTS)
    settings |= dict(_assignments(service.environment))
    for path in service.environment_files:
        try:
            text = host.read(path, limit_bytes=_LIMIT_BYTES).decode("utf-8", "replace")
        except OSError:
            continue
        settings |= dict(_assignments(text.splitlines()))
    return Coverage(f"{settings[_VENDOR]}/{settings[_CLASS]}", settings[_OUTPUT])


def refresh_findings(reading: RefreshReading, host: HostTree) -> Iterator[Finding]:
    """Yield what is wrong with the units; nothing where they are absent or could not be seen."""
    service, path = reading.service, reading.path
    covered = coverage(service, host)
    writes = f"{covered.kind} in {covered.file}"
    if service.health in {UnitHealth.FAILED, UnitHealth.START_LIMIT_HIT}:
        told = {
            UnitHealth.FAILED: f"failed ({service.result or service.active_state})",
            UnitHealth.START_LIMIT_HIT: "failed so often that systemd starts it no more",
        }[service.health]
        yield _finding(SERVICE, f"{told}: {writes} is missing or old", _AGAIN, covered)
    elif service.health is UnitHealth.SKIPPED:
        yield _finding(
            SERVICE,
            f"was skipped by a condition of its own: {writes} is missing or old",
            "see systemctl status nvidia-cdi-refresh.service; toolkit 1.18.1 looks for an "
            "uncompressed nvidia.ko only, 1.18.2 mends that",
            covered,
        )
    elif service.has_run and service.exit_status:
        yield _finding(
            SERVICE,
            f"ended with status {service.exit_status}, which a SuccessExitStatus calls a success: "
            f"{writes} is missing or old",
            "take SuccessExitStatus out of the drop-in, then start the service and read its journal",
            covered,
        )
    present = service.health not in {UnitHealth.UNKNOWN, UnitHealth.ABSENT, UnitHealth.MASKED}
    idle = {UnitHealth.INACTIVE, UnitHealth.FAILED, UnitHealth.START_LIMIT_HIT}
    if present and path.health in idle:
        yield _finding(
            PATH,
            f"is {path.health.value.lower()} ({path.unit_file_state or 'state unknown'}): a new "
            f"driver or toolkit does not renew {writes}",
            "systemctl enable --now nvidia-cdi-refresh.path",
            covered,
        )


def refresh_status(reading: RefreshReading, host: HostTree) -> RefreshStatus:
    """Return what the API shows: the health of both units; kind and file where there is a unit."""
    service, path = reading.service.health, reading.path.health
    if service in {UnitHealth.UNKNOWN, UnitHealth.ABSENT}:
        return RefreshStatus(service.value, path.value, problem=reading.problem)
    covered = coverage(reading.service, host)
    return RefreshStatus(service.value, path.value, covered.kind, covered.file, reading.problem)


def _finding(unit: str, told: str, advice: str, covered: Coverage) -> Finding:
    return Finding(
        cause=Cause.REFRESH_UNIT_FAILED,
        severity=Severity.WARNING,
        message=f"{unit} {told}",
        advice=advice,
        file=covered.file,
        key=unit,
        kind=covered.kind,
    )


def _assignments(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield NAME and value of each assignment; an empty value is none, as the flags treat it."""
    for line in lines:
        name, equals, value = line.strip().partition("=")
        value = value.strip().strip("\"'")
        if equals and value and not name.startswith(("#", ";")):
            yield name.strip(), value
