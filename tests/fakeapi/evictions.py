"""Pods that go: gracefully where a kubelet has to stop them first, and not against a budget.

Owns: graceful deletion and the eviction subresource. Sources: kubernetes/kubernetes
``pkg/registry/core/pod/strategy.go`` (CheckGracefulDelete), ``pkg/registry/core/pod/storage/
eviction.go``. Must not know: HTTP. There is no disruption controller: a budget's status is what a
test has put there.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.fakeapi.resources import DISRUPTION_BUDGETS, PODS, Body, Resource
from tests.fakeapi.store import Store, Stored
from tests.fakeapi.writes import Refused

_DEFAULT_GRACE_S = 30
_ENDED = frozenset({"Succeeded", "Failed"})


def delete(store: Store, resource: Resource, stored: Stored, options: Body) -> Stored:
    """DELETE: a Pod that a kubelet runs is marked and stays; everything else is gone at once."""
    _meets(stored, options.get("preconditions") or {})
    grace_s = _grace_s(stored.body, options) if resource == PODS else 0
    if grace_s == 0:
        return store.delete(resource, stored)
    meta = stored.body["metadata"]
    if meta.get("deletionTimestamp"):
        return stored
    until = datetime.now(UTC) + timedelta(seconds=grace_s)
    marks = {
        "deletionTimestamp": until.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "deletionGracePeriodSeconds": grace_s,
    }
    return store.update(resource, stored, {**stored.body, "metadata": {**meta, **marks}})


def evict(store: Store, stored: Stored, eviction: Body) -> Body:
    """POST to ``pods/eviction``: delete the Pod unless its budget is used up."""
    options = eviction.get("deleteOptions") or {}
    _meets(stored, options.get("preconditions") or {})
    pod = stored.body
    phase = pod.get("status", {}).get("phase", "Pending")
    going = pod["metadata"].get("deletionTimestamp")
    if phase not in _ENDED | {"Pending"} and not going:
        _budget(store, pod)
    if not going:
        stored = _marked(store, stored)
    delete(store, PODS, stored, options)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _marked(store: Store, stored: Stored) -> Stored:
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    status = stored.body.get("status", {})
    others = [item for item in status.get("conditions", ()) if item["type"] != condition["type"]]
    status = {**status, "conditions": [*others, condition]}
    return store.update(PODS, stored, {**stored.body, "status": status})


def _budget(store: Store, pod: Body) -> None:
    meta = pod["metadata"]
    found = [
        item
        for item in store.listed(DISRUPTION_BUDGETS, meta["namespace"])
        if _selects(item.body, meta.get("labels", {}))
    ]
    if not found:
        return
    if len(found) > 1:
        message = (
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does "
            "not support."
        )
        raise Refused(500, "InternalError", message)
    budget = found[0].body
    status = budget.get("status", {})
    if not _is_ready(pod):
        if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
            return
        if status.get("currentHealthy", 0) >= status.get("desiredHealthy", 0) > 0:
            return
    if status.get("disruptionsAllowed", 0) == 0:
        message = "Cannot evict pod as it would violate the pod's disruption budget."
        raise Refused(429, "TooManyRequests", message)
    allowed = {**status, "disruptionsAllowed": status["disruptionsAllowed"] - 1}
    store.update(DISRUPTION_BUDGETS, found[0], {**budget, "status": allowed})


def _selects(budget: Body, labels: Body) -> bool:
    wanted: Body = budget["spec"].get("selector", {}).get("matchLabels", {})
    return all(labels.get(key) == value for key, value in wanted.items())


def _is_ready(pod: Body) -> bool:
    conditions: list[Body] = pod.get("status", {}).get("conditions", [])
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def _meets(stored: Stored, preconditions: dict[str, Any]) -> None:
    meta = stored.body["metadata"]
    wanted = preconditions.get("uid")
    if wanted is not None and wanted != meta["uid"]:
        message = (
            f'Operation cannot be fulfilled on {stored.body["kind"]} "{meta["name"]}": the UID in '
            f"the precondition ({wanted}) does not match the UID in record ({meta['uid']}). The "
            "object might have been deleted and then recreated"
        )
        raise Refused(409, "Conflict", message)


def _grace_s(pod: Body, options: Body) -> int:
    if not pod["spec"].get("nodeName") or pod.get("status", {}).get("phase") in _ENDED:
        return 0
    usual = pod["spec"].get("terminationGracePeriodSeconds", _DEFAULT_GRACE_S)
    grace_s: int = options.get("gracePeriodSeconds", usual)
    return grace_s
