"""Which policy governs a node and what follows for its spec. Pure.

Owns: choice among policies, the node's label, holds that labels of other operators ask for, turns
and the breaker. Sources of the label values: NVIDIA/k8s-operator-libs ``pkg/upgrade/consts.go``,
NVIDIA/mig-parted ``deployments``, NVIDIA/gpu-operator ``controllers/state_manager.go``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from gpucdi.api import Hold, Intent, NameStrategy, RepairMode
from gpucdi.api.names import LABEL_REPAIR
from gpucdi.api.policy import BreakerStatus, Policy
from gpucdi_operator.store import NodeRecord

UPGRADE_LABEL = "nvidia.com/gpu-driver-upgrade-state"
MIG_LABEL = "nvidia.com/mig.config.state"
DEPLOY_PREFIX = "nvidia.com/gpu.deploy."
# Not upgrade-required: that may last for days while the node works. The upgrade controller's cordon
# lies within these states, so it holds nothing more by itself; anybody else's cordon says nothing of
# the driver.
UPGRADE_ACTIVE = frozenset(
    {
        "cordon-required",
        "wait-for-jobs-required",
        "pod-deletion-required",
        "drain-required",
        "node-maintenance-required",
        "post-maintenance-required",
        "pod-restart-required",
        "validation-required",
        "uncordon-required",
    }
)
MIG_ACTIVE = frozenset({"pending", "rebooting"})
_MODES = {mode.value.lower(): mode for mode in RepairMode}

HOLD_LABEL = "RepairLabelUnreadable"
HOLD_UPGRADE = "DriverUpgrade"
HOLD_MIG = "MigChange"
HOLD_PAUSED = "OperandsPaused"
HOLD_BREAKER = "BreakerOpen"
HOLD_TURN = "AwaitingTurn"
_OUR_HOLDS = frozenset({HOLD_LABEL, HOLD_UPGRADE, HOLD_MIG, HOLD_PAUSED, HOLD_BREAKER, HOLD_TURN})


@dataclass(frozen=True, slots=True)
class Ruling:
    """What the operator wants of a node; ``None`` leaves the field to people.

    ``policy`` is the name of the governing policy, empty where there is none; ``taint`` and
    ``marked`` (whether it carries the condition) are for the Node itself, everything else for the
    spec of its GpuCdiStatus.
    """

    policy: str = ""
    mode: RepairMode | None = None
    hold: Hold | None = None
    extra_kinds: tuple[str, ...] | None = None
    strategies: tuple[NameStrategy, ...] | None = None
    none_device: bool | None = None
    taint: bool = False
    marked: bool = True

    def is_met_by(self, intent: Intent) -> bool:
        """Tell whether a spec says just this; a field left to people has its default.

        The time of a hold does not count, and a person's stands for any.
        """
        usual = Intent()
        return (
            intent.mode is (self.mode or usual.mode)
            and (is_persons(intent.hold) or _said(self.hold) == _said(intent.hold))
            and intent.extra_kinds == (self.extra_kinds or ())
            and intent.strategies == (self.strategies or usual.strategies)
            and intent.none_device is bool(self.none_device)
        )


class Choice:
    """Which of many policies select a node.

    Policies are kept by a label that each of them requires, so that a thousand policies and
    thousands of nodes are not compared each with each.
    """

    def __init__(self, policies: Iterable[Policy]) -> None:
        self.policies = tuple(policies)
        self._by_label: dict[tuple[str, str], list[Policy]] = defaultdict(list)
        self._by_key: dict[str, list[Policy]] = defaultdict(list)
        self._others: list[Policy] = []
        for policy in self.policies:
            self._keep(policy)
        self._keys = {key for key, _ in self._by_label} | self._by_key.keys()

    def governing(self, labels: Mapping[str, str]) -> tuple[Policy, ...]:
        """Return the policies that select a node; the first one governs, the others lose."""
        found = list(self._others)
        # A node has sixty labels of which policies ask for one or two.
        for key in self._keys & labels.keys():
            found += self._by_label.get((key, labels[key]), ())
            found += self._by_key.get(key, ())
        chosen = (policy for policy in found if policy.selects(labels))
        return tuple(sorted(chosen, key=lambda policy: (-policy.priority, policy.name)))

    def _keep(self, policy: Policy) -> None:
        for label in policy.selector.match_labels.items():
            self._by_label[label].append(policy)
            return
        for term in policy.selector.requirements:
            if term.operator == "In":
                for value in set(term.values):
                    self._by_label[term.key, value].append(policy)
                return
            if term.operator == "Exists":
                self._by_key[term.key].append(policy)
                return
        self._others.append(policy)


def governing(policies: Iterable[Policy], labels: Mapping[str, str]) -> tuple[Policy, ...]:
    """Return the policies that select one node; see :class:`Choice` for many."""
    return Choice(policies).governing(labels)


def label_hold(labels: Mapping[str, str]) -> Hold | None:
    """Return the hold that labels ask for: our own if nobody can read it, other operators'."""
    wish = labels.get(LABEL_REPAIR)
    if wish is not None and wish.lower() not in _MODES:
        # Whoever set it may have meant to stop repairs; a policy does not outvote that.
        return Hold(HOLD_LABEL, message=f"{LABEL_REPAIR}={wish}: write auto, observe or off")
    upgrade = labels.get(UPGRADE_LABEL, "")
    if upgrade in UPGRADE_ACTIVE:
        return Hold(HOLD_UPGRADE, message=f"{UPGRADE_LABEL}={upgrade}")
    mig = labels.get(MIG_LABEL, "")
    if mig in MIG_ACTIVE:
        return Hold(HOLD_MIG, message=f"{MIG_LABEL}={mig}")
    deployed = (key for key in labels if key.startswith(DEPLOY_PREFIX))
    paused = min((key for key in deployed if labels[key].startswith("paused-")), default=None)
    return None if paused is None else Hold(HOLD_PAUSED, message=f"{paused}={labels[paused]}")


def mode_of(labels: Mapping[str, str], policy: Policy | None) -> RepairMode | None:
    """Return a node's mode: its label's, else its policy's, ``None`` where people decide."""
    label = _MODES.get(labels.get(LABEL_REPAIR, "").lower())
    return label or (policy.mode if policy is not None else None)


def is_persons(hold: Hold | None) -> bool:
    """Tell whether a spec's hold was set by a person: its reason is none of ours.

    It stands as long as the person wants. Ours comes after it, if it is due then. Of a status's hold
    it tells that the agent holds by itself.
    """
    return hold is not None and hold.reason not in _OUR_HOLDS


def could_repair(
    labels: Mapping[str, str], policy: Policy, *, silent: bool, hold: Hold | None = None
) -> bool:
    """Tell whether a node would repair if neither the breaker nor a turn kept it waiting.

    ``hold`` is the one of its spec; a person's keeps it from repairing. Holds of the agent's own do
    not count: it tells of them only while nothing else holds it.
    """
    if silent or is_persons(hold):
        return False
    return mode_of(labels, policy) is RepairMode.AUTO and label_hold(labels) is None


@dataclass(slots=True)
class Turns:
    """Which nodes may repair now, by policy. ``since`` maps granted nodes to monotonic times."""

    patience_s: float = 600.0
    since: dict[str, float] = field(default_factory=dict)
    _waited: dict[str, float] = field(default_factory=dict)

    def adopt(self, limit: int, repairing: Iterable[str], now: float) -> None:
        """Take over from an earlier leader who may repair already, as far as the limit allows."""
        for node in sorted(repairing)[:limit]:
            self.since[node] = now

    def give(
        self,
        limit: int,
        waiting: Sequence[str],
        now: float,
        through: AbstractSet[str] = frozenset(),
    ) -> frozenset[str]:
        """Return who may repair: at most ``limit``.

        A node that takes too long goes last, and so does one that is ``through`` with its turn: its
        repair failed, or its agent holds it.
        """
        wanting = set(waiting)
        for node in [node for node in self.since if node not in wanting]:
            del self.since[node]
        for node, at in list(self.since.items()):
            if node in through or now - at > self.patience_s:
                del self.since[node]
                self._waited[node] = now
        for node in [node for node in self._waited if node not in wanting]:
            del self._waited[node]
        queue = sorted(wanting - self.since.keys(), key=lambda n: (self._waited.get(n, 0.0), n))
        for node in queue[: max(0, limit - len(self.since))]:
            self.since[node] = now
        return frozenset(self.since)


def rule(
    node: NodeRecord,
    policy: Policy | None,
    breaker: BreakerStatus,
    granted: frozenset[str] | None,
    *,
    taint: bool = False,
    marked: bool = True,
) -> Ruling:
    """Return what a node should be told. ``granted`` is ``None`` without a limit of turns.

    ``marked`` is for a node without a policy; a policy marks every node that it governs.
    """
    mode = mode_of(node.labels, policy)
    hold = label_hold(node.labels)
    if hold is None and policy is not None and mode is RepairMode.AUTO:
        hold = _policy_hold(node.name, policy, breaker, granted)
    if policy is None:
        return Ruling(mode=mode, hold=hold, marked=marked)
    return Ruling(
        policy=policy.name,
        mode=mode,
        hold=hold,
        extra_kinds=policy.extra_kinds,
        strategies=policy.strategies,
        none_device=policy.none_device,
        taint=taint,
    )


def _policy_hold(
    node: str, policy: Policy, breaker: BreakerStatus, granted: frozenset[str] | None
) -> Hold | None:
    stopped = breaker.state.stops_repairs
    if stopped and node != breaker.trying:
        return Hold(
            HOLD_BREAKER,
            message=f"policy {policy.name}: {breaker.nodes} nodes drifted over {breaker.kind} "
            f"since {breaker.first_node}",
        )
    if granted is not None and node not in granted and not stopped:
        return Hold(
            HOLD_TURN, message=f"policy {policy.name}: {policy.max_concurrent} nodes at a time"
        )
    return None


def _said(hold: Hold | None) -> tuple[str, str] | None:
    return None if hold is None else (hold.reason, hold.message)
