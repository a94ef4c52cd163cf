"""``GpuCdiStatus.spec``: what the agent of one node is asked to do. Written by the operator.

Owns: the values and their JSON. Must not know: how a policy becomes one, nor how it is obeyed.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from gpucdi.api import fields
from gpucdi.api.fields import Json


class RepairMode(enum.StrEnum):
    """What the agent may do about drift."""

    AUTO = "Auto"  # write its own spec files
    OBSERVE = "Observe"  # look and report; files written earlier stay
    OFF = "Off"  # remove its own files, then look and report


class NameStrategy(enum.StrEnum):
    """Which names of a device must resolve."""

    UUID = "uuid"
    INDEX = "index"


@dataclass(frozen=True, slots=True)
class Hold:
    """Repairs wait: why, and since when (RFC 3339)."""

    reason: str
    since: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class NameRequest:
    """Names that a failing Pod asked for, passed on by the operator."""

    kind: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Intent:
    """The whole spec. Without an object or a policy a node is only observed."""

    node_name: str = ""
    mode: RepairMode = RepairMode.OBSERVE
    hold: Hold | None = None
    extra_kinds: tuple[str, ...] = ()
    strategies: tuple[NameStrategy, ...] = (NameStrategy.UUID, NameStrategy.INDEX)
    none_device: bool = False
    requests: tuple[NameRequest, ...] = ()

    @classmethod
    def from_json(cls, spec: object) -> Intent:
        """Read a spec; what is missing or wrong falls back to the default of its field."""
        repair, kinds = fields.mapping(spec, "repair"), fields.mapping(spec, "kinds")
        hold = fields.mapping(repair, "hold")
        strategies = tuple(
            NameStrategy(item)
            for item in fields.texts(kinds, "strategies")
            if item in set(NameStrategy)
        )
        mode = fields.text(repair, "mode")
        return cls(
            node_name=fields.text(spec, "nodeName"),
            mode=RepairMode(mode) if mode in set(RepairMode) else RepairMode.OBSERVE,
            hold=_hold(hold),
            extra_kinds=fields.texts(kinds, "extra"),
            strategies=strategies or cls().strategies,
            none_device=fields.boolean(kinds, "none"),
            requests=_requests(spec),
        )

    def to_json(self) -> dict[str, Json]:
        """Write the spec in full, defaults included, so that it explains itself."""
        requests: list[Json] = [
            {"kind": request.kind, "names": list(request.names)} for request in self.requests
        ]
        return fields.compact(
            nodeName=self.node_name,
            repair=fields.compact(mode=self.mode.value, hold=_write_hold(self.hold)),
            kinds={
                "extra": list(self.extra_kinds),
                "strategies": [strategy.value for strategy in self.strategies],
                "none": self.none_device,
            },
            requests=requests,
        )


def _requests(spec: object) -> tuple[NameRequest, ...]:
    """Return one request a kind: a person may have written a kind twice, or a name."""
    kinds: dict[str, dict[str, None]] = {}
    for item in fields.objects(spec, "requests"):
        if kind := fields.text(item, "kind"):
            kinds.setdefault(kind, {}).update(dict.fromkeys(fields.texts(item, "names")))
    return tuple(NameRequest(kind, tuple(names)) for kind, names in kinds.items())


def _hold(source: Mapping[str, object]) -> Hold | None:
    reason = fields.text(source, "reason")
    if not reason:
        return None
    return Hold(reason, fields.text(source, "since"), fields.text(source, "message"))


def _write_hold(hold: Hold | None) -> Json:
    if hold is None:
        return None
    return fields.compact(reason=hold.reason, since=hold.since, message=hold.message)
