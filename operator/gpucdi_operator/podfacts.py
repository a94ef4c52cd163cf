"""What a Pod shows of itself, beside its failures. Pure; knows no API server and no cause."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from gpucdi.api import fields
from gpucdi.failures.starts import (
    EPHEMERAL,
    STATUS_LISTS,
    has_started_since,
    is_not_restarted,
    is_well,
    statuses,
    waits_for_image,
)

MIRROR = "kubernetes.io/config.mirror"
# A uid has 36 characters, the hash of a static Pod 32.
UID_LIMIT = 128
NAMESPACE_LIMIT, NAME_LIMIT = 63, 253
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NAMESPACE = re.compile(_LABEL)
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")


@dataclass(frozen=True, slots=True, order=True)
class PodKey:
    """One Pod; a Pod of the same name with another uid is another Pod."""

    namespace: str
    name: str
    uid: str

    @property
    def can_exist(self) -> bool:
        """Tell whether a Pod can be called so; an Event may say of itself that it is about anything.

        Source: kubernetes/apimachinery ``pkg/util/validation/validation.go`` (IsDNS1123Label of a
        Namespace, IsDNS1123Subdomain of a Pod); of the uid nothing is known but its length.
        """
        return (
            len(self.namespace) <= NAMESPACE_LIMIT
            and len(self.name) <= NAME_LIMIT
            and len(self.uid) <= UID_LIMIT
            and _NAMESPACE.fullmatch(self.namespace) is not None
            and _NAME.fullmatch(self.name) is not None
        )

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def runs(pod: Mapping[str, object]) -> bool:
    """Tell whether every container runs or has ended well."""
    containers = [
        container
        for name in STATUS_LISTS[:2]
        for container in fields.objects(fields.mapping(pod, "status"), name)
    ]
    return bool(containers) and all(map(is_well, containers))


def has_recovered(pod: Mapping[str, object], failed: Mapping[str, datetime | None]) -> bool:
    """Tell whether the containers that failed run, have ended well, or have started since.

    ``failed`` maps their names to the latest start that was seen while they failed, ``""`` stands
    for the whole Pod, as does no name at all. What ends a container after its start is another
    fault, and so is what keeps the other containers from theirs.
    """
    return all(
        _is_back(pod, name, since) if name else _is_up(pod, since)
        for name, since in (failed or {"": None}).items()
    )


def _is_back(pod: Mapping[str, object], name: str, since: datetime | None) -> bool:
    return any(
        is_well(container)
        or has_started_since(container, since)
        or is_not_restarted(list_name, container)
        for list_name, container in statuses(pod)
        if fields.text(container, "name") == name
    )


def _is_up(pod: Mapping[str, object], since: datetime | None) -> bool:
    """Tell whether containers have started, and all that do not wait for their image."""
    back = [
        is_well(container) or has_started_since(container, since)
        for list_name, container in statuses(pod)
        if list_name != EPHEMERAL and not waits_for_image(container)
    ]
    return bool(back) and all(back)


def has_ended(pod: Mapping[str, object]) -> bool:
    """Tell whether kubelet starts none of the containers any more."""
    phase = fields.text(fields.mapping(pod, "status"), "phase")
    return phase in {"Succeeded", "Failed"}


def is_told_as(pod: Mapping[str, object], told: PodKey) -> bool:
    """Tell whether Events about ``told`` are about this Pod of another uid.

    Events about a static Pod have its hash, some have none. Source: kubernetes/kubernetes
    ``pkg/kubelet/config/common.go`` (applyDefaults: the uid is the hash),
    ``pkg/kubelet/types/pod_update.go`` (ConfigMirrorAnnotationKey).
    """
    annotations = fields.mapping(fields.mapping(pod, "metadata"), "annotations")
    is_other = replace(key_of(pod), uid=told.uid) != told
    return not is_other and told.uid in {"", fields.text(annotations, MIRROR)}


def key_of(pod: Mapping[str, object]) -> PodKey:
    """Return the key of a Pod."""
    meta = fields.mapping(pod, "metadata")
    return PodKey(
        fields.text(meta, "namespace"), fields.text(meta, "name"), fields.text(meta, "uid")
    )
