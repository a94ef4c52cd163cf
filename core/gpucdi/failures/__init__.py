"""What people and machines see when a GPU container fails, read into values.

Owns: the published wordings, their escapes and wraps, where a Pod's status and Events carry them,
and who asked for the devices. Must not know: why it failed; that is ``gpucdi.diagnosis``.
"""

from gpucdi.failures.extract import extract
from gpucdi.failures.model import (
    ContainerView,
    EngineFamily,
    Failure,
    PodFailure,
    PodView,
    Requester,
    RequesterName,
    Resolver,
    Stage,
    Symptom,
)
from gpucdi.failures.pods import EventText, pod_failures
from gpucdi.failures.podview import pod_view
from gpucdi.failures.report import Report, Subject, read_report

__all__ = [
    "ContainerView",
    "EngineFamily",
    "EventText",
    "Failure",
    "PodFailure",
    "PodView",
    "Report",
    "Requester",
    "RequesterName",
    "Resolver",
    "Stage",
    "Subject",
    "Symptom",
    "extract",
    "pod_failures",
    "pod_view",
    "read_report",
]
