"""Conditions as ``metav1.Condition``: values, JSON, and what counts as a transition.

Owns: those three. Must not know: what any condition means, nor what time it is.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gpucdi.api import fields
from gpucdi.api.fields import Json


class ConditionStatus(enum.StrEnum):
    """Kubernetes' three-valued truth."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition; ``last_transition_time`` is RFC 3339 in UTC, empty until it is stamped."""

    type: str
    status: ConditionStatus
    reason: str
    message: str = ""
    last_transition_time: str = ""
    observed_generation: int | None = None

    @classmethod
    def from_json(cls, source: Mapping[str, object]) -> Condition:
        """Read a condition; an unknown status value is ``Unknown``."""
        status = fields.text(source, "status")
        known = {item.value for item in ConditionStatus}
        return cls(
            type=fields.text(source, "type"),
            status=ConditionStatus(status) if status in known else ConditionStatus.UNKNOWN,
            reason=fields.text(source, "reason"),
            message=fields.text(source, "message"),
            last_transition_time=fields.text(source, "lastTransitionTime"),
            observed_generation=fields.optional_integer(source, "observedGeneration"),
        )

    def to_json(self) -> dict[str, Json]:
        """Write the condition; ``message`` is required by the API, even when empty."""
        return {
            **fields.compact(
                type=self.type,
                status=self.status.value,
                reason=self.reason,
                lastTransitionTime=self.last_transition_time,
                observedGeneration=self.observed_generation,
            ),
            "message": self.message,
        }


def stamp(
    wanted: Iterable[Condition], previous: Iterable[Condition], now: str
) -> tuple[Condition, ...]:
    """Give each wanted condition its transition time: the old one unless its status changed."""
    before = {condition.type: condition for condition in previous}
    stamped = []
    for condition in wanted:
        old = before.get(condition.type)
        kept = old is not None and old.status is condition.status and old.last_transition_time
        time = old.last_transition_time if old is not None and kept else now
        stamped.append(replace(condition, last_transition_time=time))
    return tuple(stamped)
