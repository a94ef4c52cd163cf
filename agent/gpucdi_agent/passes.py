"""One pass over the node: look, judge, repair if that is wanted and allowed, look again, report.

Owns: the order of these steps and what each mode permits. Must not know: what triggers a pass, nor
the API server; every part of the world comes in as an argument.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from gpucdi.api import Hold, Intent, NodeStatus, RepairMode, RepairRecord
from gpucdi.cdi import DEFAULT_SPEC_DIRS
from gpucdi.findings import Cause, Finding
from gpucdi.host import HostTree
from gpucdi.node import Assessment, Observation, PassContext, assess, node_status, observe
from gpucdi.node.refresh import RefreshReading, refresh_findings, refresh_status
from gpucdi.programs import Programs
from gpucdi.repair import Generation, Plan, WriteFile, plan, wanted
from gpucdi_agent.backoff import Backoff
from gpucdi_agent.expected import ExpectedFiles
from gpucdi_agent.files import message_of
from gpucdi_agent.generator import Generator
from gpucdi_agent.handover import complete_removal, handover
from gpucdi_agent.holds import DISPUTED, HoldKeeper, Situation
from gpucdi_agent.inventory import Count, take_inventory
from gpucdi_agent.nvml import Nvml
from gpucdi_agent.outcomes import failure, unmended
from gpucdi_agent.state import StateStore
from gpucdi_agent.stillness import stamp
from gpucdi_agent.transaction import FAILED, Transaction
from gpucdi_agent.units import Units
from gpucdi_agent.unwritable import UnwritableDirectories

STEADY_ATTEMPTS = 3
RESTLESS_SECONDS = 1.0
PLACES_TRIED = 3


@dataclass(frozen=True, slots=True)
class PassResult:
    """What a pass found and did. ``records`` are the file changes of this pass alone.

    ``cause_before`` is the cause that the repairs of this pass were made for. ``due`` is when
    (monotonic) another pass may end differently though nothing on the host changed.
    """

    status: NodeStatus
    observation: Observation
    records: tuple[RepairRecord, ...] = ()
    plan: Plan = field(default_factory=Plan)
    due: float | None = None
    cause_before: Cause | None = None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Everything of the world that a pass uses.

    Without ``nvml`` the kernel module's list is the inventory (a captured tree). Without
    ``transaction`` nothing is ever written; without ``holds`` none is judged (a foreground
    repair that a person asked for). Without ``units`` nothing is known of the host's own refresh.
    ``now`` gives RFC 3339.
    """

    host: HostTree
    programs: Programs
    nvml: Nvml | None
    now: Callable[[], str]
    monotonic: Callable[[], float]
    generator: Generator | None = None
    state: StateStore | None = None
    transaction: Transaction | None = None
    holds: HoldKeeper | None = None
    units: Units | None = None


@dataclass(frozen=True, slots=True)
class _View:
    """One look at the node and what is to be done about it.

    ``withheld``: there is something to do, and it failed too short a while ago to be tried again.
    """

    assessment: Assessment
    hold: Hold | None
    plan: Plan
    withheld: bool = False


class NodePass:
    """Runs passes one after the other and keeps what one needs from the last."""

    def __init__(
        self,
        surroundings: Surroundings,
        *,
        dry_run: bool = False,
    ) -> None:
        memory = surroundings.state.memory() if surroundings.state else None
        self._world = surroundings
        self._dry_run = dry_run
        self._previous = memory.status if memory else None
        if surroundings.holds is not None and memory and memory.status and memory.status.hold:
            same_boot = memory.is_of_this_boot(surroundings.host)
            surroundings.holds.resume(memory.status.hold, same_boot=same_boot)
        self._driver_roots: tuple[str, ...] = ()
        self._spec_dirs: tuple[str, ...] = DEFAULT_SPEC_DIRS
        self._backoff = Backoff(surroundings.monotonic)
        self._unwritable = UnwritableDirectories(surroundings.host, surroundings.monotonic)
        self._history = memory.repairs if memory else ()
        self._expected = ExpectedFiles.of(surroundings.host, memory)
        self._failures: dict[str, Finding] = {}
        self._unmade: tuple[Finding, ...] = ()

    def run(
        self, intent: Intent, generation: int | None = None, notices: tuple[Finding, ...] = ()
    ) -> PassResult:
        """Look at the node and do what ``intent`` asks for; raises nothing over the node's state.

        ``notices`` are findings about the agent itself, reported along with the node's.
        """
        world = self._world
        records = list(self._recover())
        count = take_inventory(world.host, world.nvml, self._driver_roots)
        view, still = self._steady_view(intent, count)
        assessment, planned = view.assessment, view.plan
        if planned.actions and world.transaction is not None and still and not self._dry_run:
            made, planned = self._repair(world.transaction, planned, intent, count)
            records += made
            observation = observe(world.host, world.programs, count.inventory, intent)
            assessment = assess(observation, world.host)
        failures = tuple(map(failure, unmended(records)))
        # What failed is still not made while it is not tried again.
        self._unmade = failures or (self._unmade if view.withheld else ())
        units = world.units.look() if world.units is not None else RefreshReading()
        context = PassContext(
            now=world.now(),
            mode=intent.mode,
            generation=generation,
            hold=view.hold,
            repairs=self._history,
            extra=(
                *planned.refusals,
                *self._unmade,
                *refresh_findings(units, world.host),
                *notices,
            ),
            refresh=refresh_status(units, world.host) if world.units is not None else None,
        )
        self._previous = node_status(assessment, context, self._previous)
        return PassResult(
            status=self._previous,
            observation=assessment.observation,
            records=tuple(records),
            plan=planned,
            due=self._due(still=still),
            cause_before=view.assessment.cause,
        )

    def _repair(
        self, transaction: Transaction, planned: Plan, intent: Intent, count: Count
    ) -> tuple[list[RepairRecord], Plan]:
        """Apply the plan, and where a directory turns out to be of no use, one without it."""
        records: list[RepairRecord] = []
        for _ in range(PLACES_TRIED):
            known = self._unwritable.current()
            made = self._apply(transaction, planned)
            records += made
            if not unmended(made) or self._unwritable.current() <= known:
                break
            view, still = self._steady_view(intent, count)
            if not still or not view.plan.actions:
                break
            planned = view.plan
        self._backoff.note("apply", failed=bool(unmended(records)))
        return records, planned

    def _steady_view(self, intent: Intent, count: Count) -> tuple[_View, bool]:
        """Look and plan until nobody moved meanwhile; False if somebody always did."""
        host = self._world.host
        for _ in range(STEADY_ATTEMPTS):
            before = stamp(host, self._spec_dirs)
            view = self._view(intent, count)
            same_dirs = self._spec_dirs == view.assessment.observation.spec_dirs
            self._spec_dirs = view.assessment.observation.spec_dirs
            if not view.plan.actions or (same_dirs and before == stamp(host, self._spec_dirs)):
                return view, True
        return view, False

    def _view(self, intent: Intent, count: Count) -> _View:
        world = self._world
        observation = observe(world.host, world.programs, count.inventory, intent)
        self._driver_roots = _driver_roots(observation)
        assessment = assess(observation, world.host)
        changed = self._expected.changed(world.state)
        if changed and world.holds is not None:
            world.holds.dispute(changed)
        hold = intent.hold or self._local_hold(observation, count)
        planned = self._plan(assessment, intent, hold)
        tries = intent.mode is RepairMode.AUTO and hold is None
        if tries and planned.actions and not self._backoff.allows("apply"):
            return _View(assessment, hold, replace(planned, actions=()), withheld=True)
        return _View(assessment, hold, planned)

    def _due(self, *, still: bool) -> float | None:
        found = [self._backoff.next_due()]
        if not still:
            found.append(self._world.monotonic() + RESTLESS_SECONDS)
        if self._world.holds is not None:
            found.append(self._world.holds.next_due())
        return min((moment for moment in found if moment is not None), default=None)

    def _recover(self) -> tuple[RepairRecord, ...]:
        transaction = self._world.transaction
        if transaction is None:
            return ()
        try:
            records = transaction.recover(self._unwritable.note)
        except OSError as error:
            return (self._trouble(error),)
        self._take(records)
        return records

    def _apply(self, transaction: Transaction, planned: Plan) -> tuple[RepairRecord, ...]:
        try:
            records = transaction.apply(planned, self._unwritable.note)
        except OSError as error:
            # The journal stays, and the next pass finishes what it can.
            records = (self._trouble(error),)
        self._take(records)
        return records

    def _trouble(self, error: OSError) -> RepairRecord:
        return RepairRecord(
            time=self._world.now(),
            kind="",
            file="",
            result=FAILED,
            message=message_of(error, self._world.host.root),
        )

    def _take(self, records: tuple[RepairRecord, ...]) -> None:
        self._expected.note(records)
        if records and self._world.state is not None:
            self._history = self._world.state.memory().repairs

    def _plan(self, assessment: Assessment, intent: Intent, hold: Hold | None) -> Plan:
        host = self._world.host
        if self._world.transaction is None or intent.mode is RepairMode.OBSERVE:
            return Plan()
        if intent.mode is RepairMode.OFF:
            return complete_removal(assessment.observation, host, self._expected)
        if hold is not None and hold.reason == DISPUTED:
            return Plan()
        if hold is not None:
            return handover(assessment.observation, host)
        generations = wanted(assessment, host)
        generated = {item.kind: self._generate(item) for item in generations}
        unwritable = self._unwritable.current()
        planned = plan(assessment, host, generations, generated, unwritable=unwritable)
        return _without_removals(planned, unwritable)

    def _generate(self, generation: Generation) -> bytes | Finding:
        key = f"{generation.kind} {generation.fingerprint}"
        if key in self._failures and not self._backoff.allows(key):
            return self._failures[key]
        if self._world.generator is None:
            raise AssertionError("a pass that may write has a generator")
        made = self._world.generator.generate(generation)
        self._backoff.note(key, failed=isinstance(made, Finding))
        self._failures.pop(key, None)
        if isinstance(made, Finding):
            self._failures = {key: made}
        return made

    def _local_hold(self, observation: Observation, count: Count) -> Hold | None:
        if self._world.holds is None:
            return None
        return self._world.holds.judge(Situation(self._world.host, observation, count))


def _without_removals(planned: Plan, directories: Collection[str]) -> Plan:
    # An old file of ours that cannot be removed must not keep the new one, elsewhere, from coming.
    actions = tuple(
        action
        for action in planned.actions
        if isinstance(action, WriteFile) or posixpath.dirname(action.path) not in directories
    )
    return replace(planned, actions=actions)


def _driver_roots(observation: Observation) -> tuple[str, ...]:
    found = [
        runtime.config.driver_root.value
        for runtime in observation.runtimes
        if runtime.config is not None and runtime.config.driver_root.value.startswith("/")
    ]
    return tuple(dict.fromkeys(found))
