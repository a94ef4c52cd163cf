"""Our taint in a Node's list of taints: whether it is there, and the list with or without it.

Owns: what makes a taint ours (key, effect, and that it has no value) and that others stay as they are
and where they are. Kubernetes tells taints apart by key and effect alone, so beside a person's with
our key, our effect and a value there is no room for ours; it does the same. Must not know: when a node is tainted, nor HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpucdi.api import fields
from gpucdi.api.names import TAINT_KEY
from gpucdi.api.policy import TaintEffect

_OURS = (TAINT_KEY, TaintEffect.NO_SCHEDULE.value)


def is_tainted(node: Mapping[str, object]) -> bool:
    """Tell whether a Node carries our taint."""
    return any(_is_ours(item) for item in fields.objects(fields.mapping(node, "spec"), "taints"))


def taints_with(node: Mapping[str, object], *, ours: bool) -> list[dict[str, object]] | None:
    """Return the list of taints with ours put or removed; ``None`` where nothing is to do."""
    taints = [dict(item) for item in fields.objects(fields.mapping(node, "spec"), "taints")]
    others = [item for item in taints if not _is_ours(item)]
    if ours is (len(others) < len(taints)):
        return None
    if ours and any(_takes_its_place(item) for item in others):
        return None
    return [*others, {"key": _OURS[0], "effect": _OURS[1]}] if ours else others


def _is_ours(taint: Mapping[str, object]) -> bool:
    return _takes_its_place(taint) and not taint.get("value")


def _takes_its_place(taint: Mapping[str, object]) -> bool:
    return (fields.text(taint, "key"), fields.text(taint, "effect")) == _OURS
