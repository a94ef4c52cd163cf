"""Which kinds matter on a node, and which of their names must resolve.

Owns: who references a kind, who owns it, and the names that its devices should have. Must not
know: whether they resolve.

Sources of the rules: NVIDIA/nvidia-container-toolkit ``internal/modifier/cdi.go`` (an unqualified
request becomes ``default-kind=name``), ``pkg/nvcdi/namer.go`` (names), ``pkg/nvcdi/lib-nvml.go``
(a MIG-enabled GPU is not listed from 1.18.0 on).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpucdi.api.intent import Intent, NameStrategy
from gpucdi.api.status import GpuDevice, GpuStatus
from gpucdi.cdi import NEWEST, InvalidNameError, QualifiedName, parse_qualified_name
from gpucdi.findings import Cause, Finding, Severity, Who
from gpucdi.node.observation import NodeReader, Observation

ALL = "all"
NONE = "none"
# Written by the toolkit container with the one device `all`: every NVIDIA node of the host.
MANAGEMENT_KIND = "management.nvidia.com/gpu"
# Made in memory at container start; no file ever holds it.
AUTOMATIC_KIND = "runtime.nvidia.com/gpu"
FOREIGN_VENDORS = (
    "k8s.device-plugin.nvidia.com",
    "k8s.gpu.nvidia.com",
    "k8s.compute-domain.nvidia.com",
)
DEVICE_PREFIXES = ("GPU-", "MIG-")


@dataclass(frozen=True, slots=True)
class WantedKind:
    """One kind that the node's programs or its policy refer to.

    ``readers`` are the readers that must resolve ``names``; ``handlers`` those that would ask.
    """

    kind: str
    handlers: tuple[str, ...]
    readers: tuple[NodeReader, ...]
    names: tuple[str, ...]

    @property
    def managed(self) -> bool:
        """True when gpucdi may write the kind; others' kinds are checked only."""
        return not is_foreign(self.kind)


def is_foreign(kind: str) -> bool:
    """Tell whether the kind belongs to a device plugin or DRA driver, which alone may write it."""
    return kind.partition("/")[0] in FOREIGN_VENDORS


def is_nvidia(kind: str) -> bool:
    """Tell whether the kind is of NVIDIA's vendors.

    A failing Pod may name any kind; only these are ours to generate unless a policy says more.
    """
    vendor = kind.partition("/")[0]
    return vendor == "nvidia.com" or vendor.endswith(".nvidia.com")


def is_legal(kind: str) -> bool:
    """Tell whether the newest library accepts ``kind`` as ``vendor/class``."""
    try:
        parsed: QualifiedName = parse_qualified_name(f"{kind}=x", NEWEST)
    except InvalidNameError:
        return False
    return parsed.kind == kind


def device_names(gpus: GpuStatus, intent: Intent) -> tuple[str, ...]:
    """Return the names that the node's devices should have under a referenced kind.

    UUID and NVML index as the strategies ask, ``gpu:slot`` for a MIG instance, then ``all`` and, on
    request, ``none``. Without any GPU only an explicit request remains.
    """
    names: list[str] = []
    for gpu in gpus.devices:
        names.extend(_names_of(gpu, intent))
    if names:
        names.append(ALL)
    if intent.none_device:
        names.append(NONE)
    return tuple(dict.fromkeys(names))


def _names_of(gpu: GpuDevice, intent: Intent) -> Iterator[str]:
    by_uuid = NameStrategy.UUID in intent.strategies
    by_index = NameStrategy.INDEX in intent.strategies and gpu.index is not None
    if not gpu.mig_enabled:
        if by_index:
            yield str(gpu.index)
        if by_uuid:
            yield gpu.uuid
    for mig in gpu.mig:
        if by_index and mig.index is not None:
            yield f"{gpu.index}:{mig.index}"
        if by_uuid:
            yield mig.uuid


def wanted_kinds(observation: Observation) -> tuple[tuple[WantedKind, ...], tuple[Finding, ...]]:
    """Return the kinds that must resolve, and a finding for each default-kind nobody could resolve.

    A kind is wanted when a handler that resolves through files would ask for it, when the spec
    names it, or when a failing Pod asked for it.
    """
    handlers: dict[str, list[str]] = {}
    findings: list[Finding] = []
    for runtime in observation.runtimes:
        if not runtime.resolves_through_files or runtime.config is None:
            continue
        kind = runtime.config.default_kind
        if not is_legal(kind.value):
            findings.append(_illegal(kind.value, kind.source.file, runtime.handler.name))
            continue
        handlers.setdefault(kind.value, []).append(runtime.handler.name)
    intent = observation.intent
    asked = [request.kind for request in intent.requests if is_nvidia(request.kind)]
    for name in [*intent.extra_kinds, *asked]:
        if is_legal(name) and name != AUTOMATIC_KIND:
            handlers.setdefault(name, [])
    wanted = tuple(_wanted(observation, kind, names) for kind, names in sorted(handlers.items()))
    return wanted, tuple(findings)


def _wanted(observation: Observation, kind: str, handlers: list[str]) -> WantedKind:
    intent = observation.intent
    everything = device_names(observation.inventory.gpus, intent)
    # A Pod's request alone makes nothing expected but what it asked for.
    names = everything if handlers or kind in intent.extra_kinds else ()
    known = {*observation.inventory.gpus.uuids, *everything, *_indices(observation), ALL, NONE}
    asked = [
        name
        for request in intent.requests
        if request.kind == kind
        for name in request.names
        if name in known
    ]
    readers = tuple(
        reader
        for reader in observation.readers
        if not handlers or set(handlers) & set(reader.handlers)
    )
    return WantedKind(kind, tuple(handlers), readers, tuple(dict.fromkeys([*names, *asked])))


def _indices(observation: Observation) -> set[str]:
    devices = observation.inventory.gpus.devices
    return {str(gpu.index) for gpu in devices if gpu.index is not None}


def _illegal(kind: str, file: str | None, handler: str) -> Finding:
    return Finding(
        cause=Cause.MALFORMED_REQUEST,
        severity=Severity.ERROR,
        message=f"default-kind {kind!r} of handler {handler} is no vendor/class; no name can resolve",
        advice="set default-kind to nvidia.com/gpu, or to the kind that the node's specs define",
        who=Who.ADMIN,
        file=file,
        key="nvidia-container-runtime.modes.cdi.default-kind",
        kind=kind,
    )
