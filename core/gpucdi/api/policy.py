"""``GpuCdiPolicy``: what may be done about drift on the nodes that it selects.

Owns the values and their JSON, read without ever raising. Must not know: which nodes there are.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpucdi.api import fields
from gpucdi.api.fields import Json
from gpucdi.api.intent import NameStrategy, RepairMode

# The least and the greatest value of each integer of a spec: those of crds/gpucdipolicies.yaml, which
# an object that was admitted by an older schema need not keep. A test compares.
BOUNDS: Mapping[str, tuple[int, int]] = {
    "priority": (-1_000_000, 1_000_000),
    "repair.maxConcurrent": (1, 10_000),
    "repair.breaker.percent": (1, 100),
    "repair.breaker.minNodes": (1, 10_000),
    "repair.breaker.windowMinutes": (1, 1440),
    "repair.breaker.pauseMinutes": (1, 1440),
    "restartWaitingPods.perMinute": (1, 600),
    "restartWaitingPods.afterSeconds": (0, 86_400),
}


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term of a selector; an unknown operator matches nothing."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether ``labels`` meet it; NotIn holds without the label, as in Kubernetes."""
        match self.operator:
            case "In":
                return labels.get(self.key) in self.values
            case "NotIn":
                return labels.get(self.key) not in self.values
            case "Exists":
                return self.key in labels
            case "DoesNotExist":
                return self.key not in labels
        return False


@dataclass(frozen=True, slots=True)
class Selector:
    """Labels that must all hold; an empty selector matches everything, as in Kubernetes."""

    match_labels: Mapping[str, str] = field(default_factory=dict)
    requirements: tuple[Requirement, ...] = ()

    @classmethod
    def from_json(cls, source: object) -> Selector:
        """Read a ``metav1.LabelSelector``."""
        labels = fields.mapping(source, "matchLabels")
        return cls(
            {key: fields.text(labels, key) for key in labels},
            tuple(
                Requirement(
                    fields.text(item, "key"),
                    fields.text(item, "operator"),
                    fields.texts(item, "values"),
                )
                for item in fields.objects(source, "matchExpressions")
            ),
        )

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether ``labels`` meet every term."""
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            item.matches(labels) for item in self.requirements
        )


@dataclass(frozen=True, slots=True)
class RestartConfig:
    """Which waiting Pods may be made anew after a repair, and how fast.

    ``namespaces`` names them; where it is empty, ``selector`` chooses by the labels of the
    Namespace, and without either there is none. ``per_minute`` bounds the whole policy.
    ``after_s`` is how long a node's names have resolved before a Pod that still waits is restarted;
    kubelet itself tries again after five minutes at most.
    """

    namespaces: tuple[str, ...] = ()
    selector: Selector | None = None
    per_minute: int = 10
    after_s: int = 360

    @classmethod
    def from_json(cls, source: object) -> RestartConfig | None:
        """Read the field; ``None`` where it is absent, which means that nothing is restarted."""
        if not isinstance(source, Mapping):
            return None
        usual = cls()
        chosen = source.get("namespaceSelector")
        return cls(
            namespaces=fields.texts(source, "namespaces"),
            selector=Selector.from_json(chosen) if isinstance(chosen, Mapping) else None,
            per_minute=_bounded(source, "restartWaitingPods.perMinute", usual.per_minute),
            after_s=_bounded(source, "restartWaitingPods.afterSeconds", usual.after_s),
        )


class TaintEffect(enum.StrEnum):
    """What a drifted node is marked with, beside the condition."""

    NONE = "None"
    NO_SCHEDULE = "NoSchedule"


@dataclass(frozen=True, slots=True)
class BreakerConfig:
    """When repairs stop, in percent of the governed nodes, and for how long."""

    percent: int = 20
    min_nodes: int = 5
    window_minutes: int = 10
    pause_minutes: int = 30


class BreakerState(enum.StrEnum):
    """Closed lets repairs through; Recovering too, but forgives what drifted before it."""

    CLOSED = "Closed"
    OPEN = "Open"
    HALF_OPEN = "HalfOpen"
    RECOVERING = "Recovering"

    @property
    def stops_repairs(self) -> bool:
        """True while nothing may be repaired but the one node that is tried."""
        return self in {BreakerState.OPEN, BreakerState.HALF_OPEN}


@dataclass(frozen=True, slots=True)
class BreakerStatus:
    """Where the breaker of a policy stands. ``since`` is RFC 3339.

    ``trial`` is the node that is tried; while the breaker is Open, the one that was tried last.
    """

    state: BreakerState = BreakerState.CLOSED
    since: str = ""
    kind: str = ""
    cause: str = ""
    first_node: str = ""
    nodes: int = 0
    trial: str = ""

    @property
    def trying(self) -> str:
        """The one node that may repair while the others are stopped; empty for none."""
        return self.trial if self.state is BreakerState.HALF_OPEN else ""

    @classmethod
    def from_json(cls, source: object) -> BreakerStatus:
        """Read the status; an unknown state is Closed, so that nothing is stopped by mistake."""
        state = fields.text(source, "state")
        return cls(
            state=BreakerState(state) if state in set(BreakerState) else BreakerState.CLOSED,
            since=fields.text(source, "since"),
            kind=fields.text(source, "kind"),
            cause=fields.text(source, "cause"),
            first_node=fields.text(source, "firstNode"),
            nodes=fields.integer(source, "nodes"),
            trial=fields.text(source, "trial"),
        )

    def to_json(self) -> dict[str, Json]:
        """Write the status."""
        return fields.compact(
            state=self.state.value,
            since=self.since,
            kind=self.kind,
            cause=self.cause,
            firstNode=self.first_node,
            nodes=self.nodes,
            trial=self.trial,
        )


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy; ``max_concurrent`` bounds the nodes that it governs, ``None`` is no limit."""

    name: str
    priority: int = 0
    selector: Selector = field(default_factory=Selector)
    mode: RepairMode = RepairMode.OBSERVE
    max_concurrent: int | None = None
    breaker: BreakerConfig = field(default_factory=BreakerConfig)
    extra_kinds: tuple[str, ...] = ()
    strategies: tuple[NameStrategy, ...] = (NameStrategy.UUID, NameStrategy.INDEX)
    none_device: bool = False
    restarts: RestartConfig | None = None
    taint: TaintEffect = TaintEffect.NONE

    @classmethod
    def from_json(cls, name: str, spec: object) -> Policy:
        """Read a spec; what is missing or wrong falls back to the default of its field.

        A number beyond its bounds is taken for the bound.
        """
        repair, kinds = fields.mapping(spec, "repair"), fields.mapping(spec, "kinds")
        mode, taint = fields.text(repair, "mode"), fields.text(spec, "taint")
        strategies = tuple(
            NameStrategy(item)
            for item in fields.texts(kinds, "strategies")
            if item in set(NameStrategy)
        )
        return cls(
            name=name,
            priority=_bounded(spec, "priority", 0),
            selector=Selector.from_json(fields.mapping(spec, "nodeSelector")),
            mode=RepairMode(mode) if mode in set(RepairMode) else RepairMode.OBSERVE,
            max_concurrent=_limit_of_turns(repair),
            breaker=_breaker(fields.mapping(repair, "breaker")),
            extra_kinds=fields.texts(kinds, "extra"),
            strategies=strategies or cls(name).strategies,
            none_device=fields.boolean(kinds, "none"),
            restarts=RestartConfig.from_json(fields.mapping(spec, "restartWaitingPods") or None),
            taint=TaintEffect(taint) if taint in set(TaintEffect) else TaintEffect.NONE,
        )

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Tell whether a Node with these labels is selected."""
        return self.selector.matches(labels)


def _breaker(source: Mapping[str, object]) -> BreakerConfig:
    usual = BreakerConfig()
    return BreakerConfig(
        percent=_bounded(source, "repair.breaker.percent", usual.percent),
        min_nodes=_bounded(source, "repair.breaker.minNodes", usual.min_nodes),
        window_minutes=_bounded(source, "repair.breaker.windowMinutes", usual.window_minutes),
        pause_minutes=_bounded(source, "repair.breaker.pauseMinutes", usual.pause_minutes),
    )


def _limit_of_turns(repair: Mapping[str, object]) -> int | None:
    found = fields.optional_integer(repair, "maxConcurrent")
    return None if found is None else _bounded(repair, "repair.maxConcurrent", found)


def _bounded(source: object, path: str, usual: int) -> int:
    """Return the integer that the field at the end of ``path`` has, within its bounds."""
    least, greatest = BOUNDS[path]
    found = fields.integer(source, path.rpartition(".")[2], usual)
    return min(max(found, least), greatest)
