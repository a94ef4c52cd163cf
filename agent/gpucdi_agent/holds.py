"""When the host itself says that now is no time to write.

Owns: the reasons for a hold that the agent finds on its own node, since when each is true, and what
ends it. Must not know: the holds that the operator asks for; those come with the intent.

A hold stops writing names. It never stops looking, nor taking names away that somebody else has
begun to define.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from gpucdi.api import Hold
from gpucdi.cdi import Accepted
from gpucdi.host import HostTree
from gpucdi.node import Observation, file_owner
from gpucdi.node.owners import GPUCDI
from gpucdi.toolkit import HandlerRuntime, Platform, read_platform
from gpucdi_agent.inventory import DRIVER_READY, Count

TOOLKIT_REINSTALL = "ToolkitReinstall"
DRIVER_NOT_VALIDATED = "DriverNotValidated"
NVML_UNAVAILABLE = "NvmlUnavailable"
FEWER_GPUS = "FewerGpusThanKernel"
MIG_PENDING = "MigPending"
SPEC_UNPARSABLE = "SpecUnparsable"
DISPUTED = "Disputed"
OTHER_PLATFORM = "OtherPlatform"
SPEC_REPLACED = "SpecBeingReplaced"

# GPU Operator's validator removes driver-ready whenever its Pod is bounced, as after each MIG
# change; only a longer absence means something.
VALIDATOR_BOUNCE_SECONDS = 120.0
# Whoever removes a spec file mostly writes it anew at once; names taken over in between would be
# defined twice when it comes back.
REPLACEMENT_SECONDS = 5.0
DISPUTE_WINDOW_SECONDS = 600.0
DISPUTE_LIMIT = 3


@dataclass(frozen=True, slots=True)
class Situation:
    """What holds are judged by."""

    host: HostTree
    observation: Observation
    count: Count


@dataclass(slots=True)
class HoldKeeper:
    """Judges holds pass by pass and remembers since when each has lasted.

    ``now`` gives RFC 3339, ``monotonic`` seconds.
    """

    now: Callable[[], str]
    monotonic: Callable[[], float]
    _since: dict[str, str] = field(default_factory=dict)
    _unready_since: float | None = None
    _disputes: list[float] = field(default_factory=list)
    _foreign: frozenset[str] = frozenset()
    _vanished: dict[str, float] = field(default_factory=dict)

    def dispute(self, times: int = 1) -> None:
        """Somebody changed or removed our file after we had written it."""
        self._disputes += [self.monotonic()] * times

    def resume(self, hold: Hold, *, same_boot: bool) -> None:
        """Go on with a hold of an earlier process: it has lasted since then.

        Whoever disagreed with that process disagrees with this one, until the file was left alone
        for the whole window. A reboot ends that: it takes the files in memory away, and Pods wait.
        """
        self._since.setdefault(hold.reason, hold.since)
        if hold.reason == DISPUTED and same_boot:
            self.dispute(DISPUTE_LIMIT + 1)

    def next_due(self) -> float | None:
        """Return when (monotonic) a hold may begin or end by time alone, ``None`` if none will."""
        due = [moment + REPLACEMENT_SECONDS for moment in self._vanished.values()]
        if self._unready_since is not None:
            due.append(self._unready_since + VALIDATOR_BOUNCE_SECONDS)
        if len(self._disputes) > DISPUTE_LIMIT:
            due.append(self._disputes[-DISPUTE_LIMIT - 1] + DISPUTE_WINDOW_SECONDS)
        return min((moment for moment in due if moment > self.monotonic()), default=None)

    def judge(self, situation: Situation) -> Hold | None:
        """Return the first hold that is true now; ``message`` says what ends it."""
        found = dict(self._reasons(situation))
        self._since = {reason: self._since.get(reason) or self.now() for reason in found}
        for reason, message in found.items():
            return Hold(reason, self._since[reason], message)
        return None

    def _reasons(self, situation: Situation) -> Iterator[tuple[str, str]]:
        yield from _platform_reasons(situation.host)
        yield from _driver_reasons(situation.count)
        yield from _toolkit_reasons(situation)
        yield from _spec_reasons(situation.observation)
        yield from self._replacement_reasons(situation.observation)
        yield from self._validation_reasons(situation.host)
        yield from self._dispute_reasons()

    def _replacement_reasons(self, observation: Observation) -> Iterator[tuple[str, str]]:
        kinds = _wanted_kinds(observation)
        present = frozenset(
            file.path
            for reader in observation.readers
            for file in reader.registry.files
            if file.claimed_kind in kinds and file_owner(file.path, file.claimed_kind) != GPUCDI
        )
        now = self.monotonic()
        self._vanished |= dict.fromkeys(self._foreign - present, now)
        self._vanished = {
            path: moment
            for path, moment in self._vanished.items()
            if path not in present and now - moment < REPLACEMENT_SECONDS
        }
        self._foreign = present
        for path in sorted(self._vanished):
            yield SPEC_REPLACED, f"ends when {path} is back, or stays away for a while"

    def _validation_reasons(self, host: HostTree) -> Iterator[tuple[str, str]]:
        expected = host.exists(posixpath.dirname(DRIVER_READY))
        if not expected or host.exists(DRIVER_READY):
            self._unready_since = None
            return
        if self._unready_since is None:
            self._unready_since = self.monotonic()
        if self.monotonic() - self._unready_since >= VALIDATOR_BOUNCE_SECONDS:
            yield DRIVER_NOT_VALIDATED, f"ends when the driver's validator writes {DRIVER_READY}"

    def _dispute_reasons(self) -> Iterator[tuple[str, str]]:
        horizon = self.monotonic() - DISPUTE_WINDOW_SECONDS
        self._disputes = [moment for moment in self._disputes if moment > horizon]
        if len(self._disputes) > DISPUTE_LIMIT:
            minutes = DISPUTE_WINDOW_SECONDS / 60
            what = (
                f"our file was changed or removed {len(self._disputes)} times in {minutes:.0f} min"
            )
            yield DISPUTED, f"{what}: find out by whom; ends when it is left alone for as long"


def _platform_reasons(host: HostTree) -> Iterator[tuple[str, str]]:
    # There the toolkit names no single GPU (WSL: only `all`; Tegra: by CSV files).
    platform = read_platform(host)
    if platform is not Platform.NVML:
        yield OTHER_PLATFORM, f"a {platform.value} machine is only observed"


def _driver_reasons(count: Count) -> Iterator[tuple[str, str]]:
    inventory = count.inventory
    if inventory.gpus.source != "nvml":
        # Without NVML neither index nor MIG is known, and nvidia-ctk could not generate either.
        yield NVML_UNAVAILABLE, "ends when NVML answers; the finding about it says what to do"
    elif inventory.kernel_count is not None:
        accounted = inventory.gpus.count + count.failed
        if accounted < inventory.kernel_count:
            what = f"NVML sees {accounted} of the kernel's {inventory.kernel_count} GPUs"
            yield FEWER_GPUS, f"{what}; ends when it sees them all"
    if count.mig_pending:
        yield MIG_PENDING, f"ends when the MIG mode of {', '.join(count.mig_pending)} has changed"


def _wanted_kinds(observation: Observation) -> frozenset[str]:
    defaults = {
        runtime.config.default_kind.value
        for runtime in observation.runtimes
        if runtime.resolves_through_files and runtime.config is not None
    }
    return frozenset(defaults | set(observation.intent.extra_kinds))


def _spec_reasons(observation: Observation) -> Iterator[tuple[str, str]]:
    # A half-written or broken file may turn out to define the very names that we would add; then
    # both definitions would be dropped. So may one that nobody looked at.
    wanted = _wanted_kinds(observation)
    for reader in observation.readers:
        for file in reader.registry.files:
            if isinstance(file.outcome, Accepted):
                continue
            is_open = file.claimed_kind in wanted and file.claimed_names is None
            if is_open or not file.claimed_kind:
                yield SPEC_UNPARSABLE, f"ends when {file.path} is whole again, or gone"
                return
        for directory in reader.registry.directories:
            if directory.was_read and directory.detail:
                text = f"ends when {directory.path} holds fewer files ({directory.detail})"
                yield SPEC_UNPARSABLE, text
                return


def _toolkit_reasons(situation: Situation) -> Iterator[tuple[str, str]]:
    # The toolkit container removes its whole directory at each start and lays it anew.
    for runtime in situation.observation.runtimes:
        missing = _missing_part(situation.host, runtime)
        if missing is not None:
            handler = runtime.handler.name
            yield TOOLKIT_REINSTALL, f"handler {handler}: ends when {missing} is back"
            return


def _missing_part(host: HostTree, runtime: HandlerRuntime) -> str | None:
    binary = runtime.handler.binary.value
    if binary is None or not binary.startswith("/") or "nvidia" not in posixpath.basename(binary):
        return None
    if not host.exists(binary):
        return binary
    config = runtime.config
    # A toolkit of its own directory keeps its configuration there; defaults are no choice of it.
    if config is not None and not config.exists and _is_below(config.file, binary):
        return config.file
    return None


def _is_below(path: str, binary: str) -> bool:
    return path.startswith(posixpath.dirname(binary) + "/")
