"""What a Pod shows of itself, beside its failures. Pure; knows no API server and no cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpucdi.api import fields
from gpucdi.failures.pods import STATUS_LISTS

MIRROR = "kubernetes.io/config.mirror"


@dataclass(frozen=True, slots=True, order=True)
class PodKey:
    """One Pod; a Pod of the same name with another uid is another Pod."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def runs(pod: Mapping[str, object]) -> bool:
    """Tell whether every container runs or has ended well."""
    states = [
        fields.mapping(container, "state")
        for name in STATUS_LISTS[:2]
        for container in fields.objects(fields.mapping(pod, "status"), name)
    ]
    return bool(states) and all(_is_well(state) for state in states)


def _is_well(state: Mapping[str, object]) -> bool:
    if fields.mapping(state, "running"):
        return True
    ended = fields.mapping(state, "terminated")
    return bool(ended) and fields.integer(ended, "exitCode", 1) == 0


def has_ended(pod: Mapping[str, object]) -> bool:
    """Tell whether kubelet starts none of the containers any more."""
    phase = fields.text(fields.mapping(pod, "status"), "phase")
    return phase in {"Succeeded", "Failed"}


def is_told_as(pod: Mapping[str, object], uid: str) -> bool:
    """Tell whether Events with ``uid`` are about this Pod: a static Pod's have its hash, some none.

    Source: kubernetes/kubernetes ``pkg/kubelet/config/common.go`` (applyDefaults: the uid is the
    hash), ``pkg/kubelet/types/pod_update.go`` (ConfigMirrorAnnotationKey).
    """
    annotations = fields.mapping(fields.mapping(pod, "metadata"), "annotations")
    return uid in {"", fields.text(annotations, MIRROR)}


def key_of(pod: Mapping[str, object]) -> PodKey:
    """Return the key of a Pod."""
    meta = fields.mapping(pod, "metadata")
    return PodKey(
        fields.text(meta, "namespace"), fields.text(meta, "name"), fields.text(meta, "uid")
    )
