"""Events through two doors: core/v1 and events.k8s.io/v1 show the same stored objects.

Stored in the form of core/v1. Sources: kubernetes/kubernetes ``pkg/apis/events/v1/conversion.go``
and ``pkg/apis/core/validation/events.go``.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from tests.fakeapi.resources import Body

_NAMES = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_CORE_NAMES = {core: new for new, core in _NAMES.items()}
_IMMUTABLE = ("involvedObject", "reason", "message", "type", "action", "reportingComponent")


def to_core(body: Body) -> Body:
    """Return an events.k8s.io/v1 Event as core/v1."""
    named = {_NAMES.get(name, name): value for name, value in body.items()}
    return {**named, "apiVersion": "v1"}


def from_core(body: Body) -> Body:
    """Return a core/v1 Event as events.k8s.io/v1."""
    named = {_CORE_NAMES.get(name, name): value for name, value in body.items()}
    return {**named, "apiVersion": "events.k8s.io/v1"}


def problems(core: Body, old: Body | None) -> Iterator[str]:
    """Yield what events.k8s.io/v1 refuses; ``core`` is in stored form."""
    yield from _text_problems(core)
    if not set("/.") & set(core.get("reportingComponent", "")):
        yield "reportingController: name part must be qualified"
    for name in ("source", "firstTimestamp", "lastTimestamp", "count"):
        if core.get(name):
            yield f"{name}: needs to be unset"
    yield from _time_problems(core)
    if old is not None:
        for name in _IMMUTABLE:
            if old.get(name) != core.get(name):
                yield f"{name}: field is immutable"


def _text_problems(core: Body) -> Iterator[str]:
    for name in ("reportingComponent", "reportingInstance", "action", "reason"):
        value = core.get(name, "")
        if not value or len(value) > 128:
            yield f"{name}: must be set and have at most 128 characters"
    if core.get("type") not in {"Normal", "Warning"}:
        yield "type: has invalid value"
    if len(core.get("message", "").encode()) > 1024:
        yield "message: can have at most 1024 bytes"


def _time_problems(core: Body) -> Iterator[str]:
    moments = {"eventTime": core.get("eventTime")}
    if (series := core.get("series")) is not None:
        moments["series.lastObservedTime"] = series.get("lastObservedTime")
        if series.get("count", 0) < 2:
            yield "series.count: should be at least 2"
    for name, moment in moments.items():
        try:
            micro = datetime.fromisoformat(moment or "")
        except ValueError:
            yield f"{name}: needs to be set to a MicroTime"
        else:
            if micro.tzinfo is None or "." not in str(moment):
                yield f"{name}: must have microseconds and a zone"
