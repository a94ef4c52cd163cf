"""Writes into the spec of a GpuCdiStatus what a ruling says and what failing Pods asked for.

Owns: the fields that are applied, and that a person's hold is never overwritten. Must not know: what
a ruling comes from, and when it is written.
"""

from __future__ import annotations

from gpucdi.api import GROUP, KIND_STATUS, VERSION, NameRequest, fields
from gpucdi.api.names import OPERATOR_MANAGER
from gpucdi_kube import KubeApi, KubeObject, paths
from gpucdi_kube.errors import Conflict
from gpucdi_operator.policies import Ruling, is_persons
from gpucdi_operator.store import NodeRecord, StatusRecord

ATTEMPTS = 5


async def write(
    api: KubeApi,
    node: NodeRecord,
    record: StatusRecord,
    requests: tuple[NameRequest, ...],
    ruling: Ruling,
    *,
    now: str,
) -> StatusRecord:
    """Apply the spec and return what stands there now.

    What is applied by force is taken from whoever owns it. A hold of ours therefore goes only where
    we know that none of a person's stands: together with the version that we have seen, and after a
    look where the object has another one by now.
    """
    path, seen = paths.gpu_cdi_status(node.name), record
    for attempt in range(ATTEMPTS):
        body = _body(node, seen, requests, ruling, now)
        guarded = "resourceVersion" in fields.mapping(body, "metadata")
        try:
            answer = await api.apply(path, body, field_manager=OPERATOR_MANAGER, force=True)
        except Conflict:
            found = await _found(api, node.name) if guarded and attempt < ATTEMPTS - 1 else None
            if found is None or found.uid != record.uid:
                raise
            seen = found
        else:
            seen = StatusRecord.of(answer)
            if ruling.hold is None or seen.intent.hold is not None:
                break
            # Ours was left out for a person's that is gone by now.
    return seen


async def _found(api: KubeApi, name: str) -> StatusRecord | None:
    """Read one GpuCdiStatus by the right to list them, which the operator has."""
    async for body in api.list(paths.STATUSES, field_selector=f"metadata.name={name}"):
        return StatusRecord.of(body)
    return None


def _body(
    node: NodeRecord,
    record: StatusRecord,
    requests: tuple[NameRequest, ...],
    ruling: Ruling,
    now: str,
) -> KubeObject:
    owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}
    # With its uid: an object that was deleted meanwhile is not brought back to life.
    meta: dict[str, object] = {"name": node.name, "uid": record.uid, "ownerReferences": [owner]}
    spec = spec_of(ruling, record, now)
    if "hold" in fields.mapping(spec, "repair") and record.version:
        meta["resourceVersion"] = str(record.version)
    asked = [{"kind": item.kind, "names": list(item.names)} for item in requests]
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND_STATUS,
        "metadata": meta,
        "spec": {"nodeName": node.name, "requests": asked, **spec},
    }


def spec_of(ruling: Ruling, record: StatusRecord, now: str) -> dict[str, object]:
    """Return the fields of a GpuCdiStatus's spec that the ruling fills.

    A person's hold is in the way of ours, and theirs: what we do not apply is not taken from them.
    """
    spec: dict[str, object] = {}
    repair: dict[str, object] = {}
    if ruling.mode is not None:
        repair["mode"] = ruling.mode.value
    if ruling.hold is not None and not is_persons(record.intent.hold):
        old = record.intent.hold
        since = old.since if old is not None and old.reason == ruling.hold.reason else now
        repair["hold"] = {
            "reason": ruling.hold.reason,
            "since": since or now,
            "message": ruling.hold.message,
        }
    if repair:
        spec["repair"] = repair
    if ruling.strategies is not None:
        spec["kinds"] = {
            "extra": list(ruling.extra_kinds or ()),
            "strategies": [item.value for item in ruling.strategies],
            "none": bool(ruling.none_device),
        }
    return spec
