"""Events of events.k8s.io/v1 with names that follow from their subject.

Owns: the body, the name, and that a repeated Event becomes a series instead of another object. A
name that follows from Pod, reason and cause makes a second leader's create harmless: it is taken.
Source: kubernetes/kubernetes ``pkg/apis/core/validation/events.go``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from gpucdi.api import fields
from gpucdi.api.names import EVENT_CONTROLLER, NOTE_LIMIT_BYTES
from gpucdi.diagnosis.render import fit
from gpucdi_kube import Clock, KubeApi, KubeObject, paths
from gpucdi_kube.api import MERGE_PATCH
from gpucdi_kube.clock import parse_time, rfc3339_micro
from gpucdi_kube.errors import AlreadyExists, Forbidden, KubeError, NotFound
from gpucdi_operator.logs import log
from gpucdi_operator.metrics import Metrics

LABEL_CAUSE = "gpucdi.io/cause"
# An annotation: the name of a policy may be longer than a label's value.
ANNOTATION_POLICY = "gpucdi.io/policy"
CLUSTER_NAMESPACE = "default"
NAME_LIMIT = 253
INSTANCE_LIMIT = 128
_HASH_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Note:
    """One thing to say about an object. ``key`` tells apart what has the same reason."""

    type: str  # Normal | Warning
    reason: str
    action: str
    text: str
    key: str = ""
    field_path: str = ""
    cause: str = ""
    policy: str = ""


def event_name(about: str, uid: str, reason: str, key: str) -> str:
    """Return ``<name>.<hash>``, the same for the same object, reason and key on every replica."""
    subject = f"{uid}\0{reason}\0{key}"
    digest = hashlib.sha256(subject.encode()).hexdigest()[:_HASH_LENGTH]
    # Cut in the middle, a name may end in what no part of a name may end in.
    return f"{about[: NAME_LIMIT - _HASH_LENGTH - 1].rstrip('.-')}.{digest}"


def last_observed(event: Mapping[str, object]) -> datetime | None:
    """Return when what an Event tells was observed last: its series counts, or its own time."""
    last = fields.text(fields.mapping(event, "series"), "lastObservedTime")
    return parse_time(last or fields.text(event, "eventTime"))


@dataclass(slots=True)
class Recorder:
    """Writes Events. ``identity`` is this replica's name.

    Events about cluster-scoped objects live in the namespace ``default``.
    """

    api: KubeApi
    clock: Clock
    metrics: Metrics
    identity: str

    async def record(
        self, about: Mapping[str, object], note: Note, *, node_uid: str = "", again: bool = False
    ) -> bool:
        """Create the Event about an object and return whether it is new.

        Where the Event exists already it is left alone, unless ``again`` says that the fault was
        observed anew: then it becomes, or continues, a series. A Namespace that goes takes no new
        Event, and nobody will read it: that ends it.
        """
        namespace, name = _place(about, note.reason, note.key)
        try:
            body = self._body(about, note, name, node_uid)
            await self.api.create(paths.events(namespace), body)
        except AlreadyExists:
            if again:
                await self.repeat(about, note)
            return False
        except (Forbidden, NotFound) as error:
            if not _is_going(error, namespace):
                raise
            log("Event not written, its Namespace goes", 20, event=f"{namespace}/{name}")
            return False
        self.metrics.events.labels(note.reason, "create").inc()
        return True

    async def last_told(
        self, about: Mapping[str, object], reason: str, key: str = ""
    ) -> datetime | None:
        """Return when this was last told of an object; ``None`` where it was not, or long ago."""
        found = await self.api.get(paths.event(*_place(about, reason, key)))
        return None if found is None else last_observed(found)

    async def repeat(self, about: Mapping[str, object], note: Note) -> None:
        """Make the Event, which exists, a series, or continue the series."""
        path = paths.event(*_place(about, note.reason, note.key))
        found = await self.api.get(path)
        if found is None:
            return
        count = fields.integer(fields.mapping(found, "series"), "count", 1) + 1
        series = {"count": count, "lastObservedTime": rfc3339_micro(self.clock.now())}
        try:
            await self.api.patch(path, {"series": series}, content_type=MERGE_PATCH)
        except NotFound:
            return
        self.metrics.events.labels(note.reason, "series").inc()

    def _body(
        self, about: Mapping[str, object], note: Note, name: str, node_uid: str
    ) -> KubeObject:
        meta, spec = fields.mapping(about, "metadata"), fields.mapping(about, "spec")
        regarding = {
            "apiVersion": fields.text(about, "apiVersion", "v1"),
            "kind": fields.text(about, "kind", "Pod"),
            "namespace": fields.text(meta, "namespace"),
            "name": fields.text(meta, "name"),
            "uid": fields.text(meta, "uid"),
            "resourceVersion": fields.text(meta, "resourceVersion"),
            "fieldPath": note.field_path,
        }
        node = fields.text(spec, "nodeName")
        related = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid}
        body: KubeObject = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                "name": name,
                "namespace": fields.text(meta, "namespace", CLUSTER_NAMESPACE),
                # By which a later leader knows what it need not explain again.
                "labels": {LABEL_CAUSE: note.cause} if note.cause else {},
                "annotations": {ANNOTATION_POLICY: note.policy} if note.policy else {},
            },
            "eventTime": rfc3339_micro(self.clock.now()),
            "type": note.type,
            "reason": note.reason,
            "action": note.action,
            "note": fit(note.text, NOTE_LIMIT_BYTES),
            "reportingController": EVENT_CONTROLLER,
            "reportingInstance": self.identity[:INSTANCE_LIMIT],
            "regarding": {key: value for key, value in regarding.items() if value},
        }
        if node:
            body["related"] = {key: value for key, value in related.items() if value}
        return body


def _is_going(error: KubeError, namespace: str) -> bool:
    """Tell whether a create was refused because its Namespace is being deleted, or is gone.

    Source: kubernetes/apiserver ``pkg/admission/plugin/namespace/lifecycle/admission.go``.
    """
    told = str(error)
    if isinstance(error, NotFound):
        return f'namespaces "{namespace}" not found' in told
    return "unable to create new content in namespace" in told and "being terminated" in told


def _place(about: Mapping[str, object], reason: str, key: str) -> tuple[str, str]:
    """Return the namespace and the name of an Event about an object."""
    meta = fields.mapping(about, "metadata")
    name = event_name(fields.text(meta, "name"), fields.text(meta, "uid"), reason, key)
    return fields.text(meta, "namespace", CLUSTER_NAMESPACE), name
