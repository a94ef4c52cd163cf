"""What a node has, from and to JSON: its GPUs, its engines, its runtime handlers, its refresh units.

Owns: field names and bounds of these four. Must not know: what resolves through them.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpucdi.api import fields
from gpucdi.api.fields import Json
from gpucdi.api.status import (
    EngineStatus,
    GpuDevice,
    GpuStatus,
    HandlerStatus,
    MigDevice,
    RefreshStatus,
)

LISTED = 16
PROBLEM_LIMIT = 256


def read_gpus(source: Mapping[str, object]) -> GpuStatus:
    """Read the inventory."""
    return GpuStatus(
        source=fields.text(source, "source", "none"),
        driver=fields.text(source, "driver"),
        cuda=fields.text(source, "cuda"),
        devices=tuple(_read_gpu(item) for item in fields.objects(source, "devices")),
    )


def _read_gpu(source: Mapping[str, object]) -> GpuDevice:
    return GpuDevice(
        uuid=fields.text(source, "uuid"),
        index=fields.optional_integer(source, "index"),
        minor=fields.optional_integer(source, "minor"),
        pci=fields.text(source, "pci"),
        model=fields.text(source, "model"),
        mig_enabled=_yes_no(source, "migEnabled"),
        mig=tuple(
            MigDevice(
                uuid=fields.text(item, "uuid"),
                index=fields.optional_integer(item, "index"),
                gpu_instance=fields.optional_integer(item, "gi"),
                compute_instance=fields.optional_integer(item, "ci"),
            )
            for item in fields.objects(source, "mig")
        ),
    )


def write_gpus(gpus: GpuStatus) -> dict[str, Json]:
    """Write the inventory."""
    return fields.compact(
        source=gpus.source,
        driver=gpus.driver,
        cuda=gpus.cuda,
        devices=[
            fields.compact(
                uuid=gpu.uuid,
                index=gpu.index,
                minor=gpu.minor,
                pci=gpu.pci,
                model=gpu.model,
                migEnabled=gpu.mig_enabled,
                mig=[
                    fields.compact(
                        uuid=mig.uuid,
                        index=mig.index,
                        gi=mig.gpu_instance,
                        ci=mig.compute_instance,
                    )
                    for mig in gpu.mig
                ],
            )
            for gpu in gpus.devices
        ],
    )


def read_engine(source: Mapping[str, object]) -> EngineStatus:
    """Read one engine."""
    return EngineStatus(
        name=fields.text(source, "name"),
        version=fields.text(source, "version"),
        cdi_enabled=_yes_no(source, "cdiEnabled"),
        spec_dirs=fields.texts(source, "specDirs"),
        library=fields.text(source, "library"),
    )


def write_engine(engine: EngineStatus) -> dict[str, Json]:
    """Write one engine."""
    return fields.compact(
        name=engine.name,
        version=engine.version,
        cdiEnabled=engine.cdi_enabled,
        specDirs=list(engine.spec_dirs[:LISTED]),
        library=engine.library,
    )


def _yes_no(source: Mapping[str, object], key: str) -> bool | None:
    found = source.get(key)
    return found if isinstance(found, bool) else None


def read_handler(source: Mapping[str, object]) -> HandlerStatus:
    """Read one handler."""
    return HandlerStatus(
        name=fields.text(source, "name"),
        engine=fields.text(source, "engine"),
        binary=fields.text(source, "binary"),
        config=fields.text(source, "config"),
        toolkit=fields.text(source, "toolkit"),
        mode=fields.text(source, "mode"),
        default_kind=fields.text(source, "defaultKind"),
        spec_dirs=fields.texts(source, "specDirs"),
        library=fields.text(source, "library"),
        is_default=fields.boolean(source, "default"),
        is_nvidia=_yes_no(source, "nvidia"),
        driver_root=fields.text(source, "driverRoot"),
        annotation_prefixes=fields.texts(source, "annotationPrefixes"),
        pod_annotations=fields.texts(source, "podAnnotations"),
        accept_env=_yes_no(source, "acceptEnv"),
        accept_mounts=_yes_no(source, "acceptMounts"),
    )


def write_handler(handler: HandlerStatus) -> dict[str, Json]:
    """Write one handler."""
    return fields.compact(
        name=handler.name,
        engine=handler.engine,
        binary=handler.binary,
        config=handler.config,
        toolkit=handler.toolkit,
        mode=handler.mode,
        defaultKind=handler.default_kind,
        specDirs=list(handler.spec_dirs),
        library=handler.library,
        default=handler.is_default or None,
        nvidia=handler.is_nvidia,
        driverRoot=handler.driver_root,
        annotationPrefixes=list(handler.annotation_prefixes[:LISTED]),
        podAnnotations=list(handler.pod_annotations[:LISTED]),
        acceptEnv=handler.accept_env,
        acceptMounts=handler.accept_mounts,
    )


def read_refresh(source: Mapping[str, object]) -> RefreshStatus | None:
    """Read what is known of the host's refresh units; nothing there is ``None``."""
    if not source:
        return None
    return RefreshStatus(
        service=fields.text(source, "service", "Unknown"),
        path=fields.text(source, "path", "Unknown"),
        kind=fields.text(source, "kind"),
        file=fields.text(source, "file"),
        problem=fields.text(source, "problem"),
    )


def write_refresh(refresh: RefreshStatus | None) -> Json:
    """Write what is known of the host's refresh units."""
    if refresh is None:
        return None
    return fields.compact(
        service=refresh.service,
        path=refresh.path,
        kind=refresh.kind,
        file=refresh.file,
        problem=refresh.problem[:PROBLEM_LIMIT],
    )
