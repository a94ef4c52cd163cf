"""What the operator knows of the cluster, reduced to what it decides with.

Owns: the reduced values and which of their changes matter. Bodies are not kept: a Node is 40 KB of
Python objects, its record one. Must not know: kopf, HTTP, decisions.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from gpucdi.api import Condition, Intent, NodeStatus, fields, read_status
from gpucdi.api.names import CONDITION_RESOLVABLE, NODE_CONDITION
from gpucdi.api.policy import BreakerStatus, Policy
from gpucdi.api.taint import is_tainted


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """One Node: ``condition`` is ours as the Node carries it, ``tainted`` tells of our taint."""

    name: str
    uid: str
    labels: Mapping[str, str] = field(default_factory=dict)
    tainted: bool = False
    condition: Condition | None = None
    version: int = field(default=0, compare=False)

    @classmethod
    def of(cls, body: Mapping[str, object]) -> NodeRecord:
        """Reduce a Node."""
        meta = fields.mapping(body, "metadata")
        labels = fields.mapping(meta, "labels")
        conditions = fields.objects(fields.mapping(body, "status"), "conditions")
        ours = (item for item in conditions if fields.text(item, "type") == NODE_CONDITION)
        return cls(
            name=fields.text(meta, "name"),
            uid=fields.text(meta, "uid"),
            # Thousands of nodes carry the same few strings.
            labels={sys.intern(name): sys.intern(fields.text(labels, name)) for name in labels},
            tainted=is_tainted(body),
            condition=next((Condition.from_json(item) for item in ours), None),
            version=_version(meta),
        )


@dataclass(frozen=True, slots=True)
class StatusRecord:
    """One GpuCdiStatus. ``owner_uids`` are the Nodes it is owned by."""

    name: str
    uid: str
    intent: Intent
    status: NodeStatus
    generation: int = 0
    owner_uids: tuple[str, ...] = ()
    has_status: bool = False
    pods_at_risk: int | None = None
    version: int = field(default=0, compare=False)

    @classmethod
    def of(cls, body: Mapping[str, object]) -> StatusRecord:
        """Reduce a GpuCdiStatus."""
        meta = fields.mapping(body, "metadata")
        return cls(
            name=fields.text(meta, "name"),
            uid=fields.text(meta, "uid"),
            intent=Intent.from_json(body.get("spec")),
            status=read_status(body.get("status")),
            generation=fields.integer(meta, "generation"),
            owner_uids=tuple(
                fields.text(owner, "uid") for owner in fields.objects(meta, "ownerReferences")
            ),
            # What we write ourselves does not mean that an agent has reported.
            has_status=bool(fields.mapping(body, "status").keys() - {"podsAtRisk"}),
            pods_at_risk=fields.optional_integer(body.get("status"), "podsAtRisk"),
            version=_version(meta),
        )

    @property
    def is_drifted(self) -> bool:
        """True when some names that Pods may ask for do not resolve."""
        return self.status.missing > 0 or self.status.cause is not None

    @property
    def resolvable(self) -> Condition | None:
        """The agent's own verdict, ``None`` where it has none."""
        told = (item for item in self.status.conditions if item.type == CONDITION_RESOLVABLE)
        return next(told, None)


@dataclass(frozen=True, slots=True)
class PolicyRecord:
    """One GpuCdiPolicy with what its status says, whoever wrote that.

    ``counts`` are the numbers of nodes by the names of their fields.
    """

    name: str
    uid: str
    policy: Policy
    breaker: BreakerStatus
    conditions: tuple[Condition, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    observed_generation: int | None = None
    generation: int = 0
    version: int = field(default=0, compare=False)

    @classmethod
    def of(cls, body: Mapping[str, object]) -> PolicyRecord:
        """Reduce a GpuCdiPolicy."""
        meta, status = fields.mapping(body, "metadata"), fields.mapping(body, "status")
        name, counts = fields.text(meta, "name"), fields.mapping(status, "nodes")
        return cls(
            name=name,
            uid=fields.text(meta, "uid"),
            policy=Policy.from_json(name, body.get("spec")),
            breaker=BreakerStatus.from_json(status.get("breaker")),
            conditions=tuple(
                Condition.from_json(item) for item in fields.objects(status, "conditions")
            ),
            counts={sys.intern(item): fields.integer(counts, item) for item in counts},
            observed_generation=fields.optional_integer(status, "observedGeneration"),
            generation=fields.integer(meta, "generation"),
            version=_version(meta),
        )

    def says(self) -> tuple[object, ...]:
        """Return what its status says, to be compared."""
        conditions = sorted(self.conditions, key=lambda item: item.type)
        return (self.observed_generation, self.counts, self.breaker, conditions)


R = TypeVar("R", NodeRecord, StatusRecord, PolicyRecord)


@dataclass(slots=True)
class Store:
    """Everything by name. ``silent`` are nodes whose agent has stopped renewing its Lease."""

    nodes: dict[str, NodeRecord] = field(default_factory=dict)
    statuses: dict[str, StatusRecord] = field(default_factory=dict)
    handlers: dict[str, str] = field(default_factory=dict)
    policies: dict[str, PolicyRecord] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)

    def put_node(self, record: NodeRecord) -> bool:
        """Keep a Node; tell whether anything that we decide with has changed."""
        return _put(self.nodes, record.name, record)

    def put_status(self, record: StatusRecord) -> bool:
        """Keep a GpuCdiStatus; tell whether anything that we decide with has changed."""
        return _put(self.statuses, record.name, record)

    def put_policy(self, record: PolicyRecord) -> bool:
        """Keep a GpuCdiPolicy; tell whether anything that we decide with has changed."""
        return _put(self.policies, record.name, record)

    def answered(self, record: PolicyRecord) -> None:
        """Keep the answer to a write of ours, unless the policy is gone or another by now."""
        known = self.policies.get(record.name)
        if known is not None and known.uid == record.uid:
            self.put_policy(record)

    def put_runtime_class(self, body: Mapping[str, object]) -> None:
        """Keep which handler a RuntimeClass names."""
        name = fields.text(fields.mapping(body, "metadata"), "name")
        self.handlers[name] = fields.text(body, "handler")

    def handler_of(self, runtime_class: str | None) -> str | None:
        """Return a Pod's handler: ``""`` is the engine's default, ``None`` not known."""
        return "" if not runtime_class else self.handlers.get(runtime_class)

    def drifted(self) -> list[str]:
        """Return the nodes of which some names do not resolve."""
        return sorted(name for name, record in self.statuses.items() if record.is_drifted)


def _put(records: dict[str, R], name: str, record: R) -> bool:
    """Keep a record; one that is older than what we have (a list beside a watch) is ignored."""
    known = records.get(name)
    if known is not None and record.version < known.version:
        return False
    records[name] = record
    return known != record


def went_back(known: object, body: Mapping[str, object]) -> bool:
    """Tell whether a list shows an object older than we knew it before the list was asked for."""
    if not isinstance(known, NodeRecord | StatusRecord | PolicyRecord):
        return False
    return _version(fields.mapping(body, "metadata")) < known.version


def _version(meta: Mapping[str, object]) -> int:
    """Return the resource version; the API server's are decimal and grow."""
    text = fields.text(meta, "resourceVersion")
    return int(text) if text.isdecimal() else 0
