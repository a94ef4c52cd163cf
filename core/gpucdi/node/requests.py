"""Requests that nobody on this node reads: they leave no error, only a container without a GPU.

Owns: the engine's own injection against the kinds that rely on it, and what the NVIDIA runtimes
take as a request. Must not know: Pods.

Sources: containerd/containerd ``internal/cri/opts/spec_linux.go`` (an engine with CDI off drops
the request up to 2.2), NVIDIA/nvidia-container-toolkit ``internal/config/image/cuda_image.go``.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpucdi.cdi import DEFAULT_SPEC_DIRS, Reader
from gpucdi.engines import Engine
from gpucdi.engines.model import EngineName
from gpucdi.engines.versions import Release, release
from gpucdi.findings import Cause, Finding, Severity, SourceKind, Who
from gpucdi.host import HostTree, real_or_same
from gpucdi.node.kinds import is_foreign, is_nvidia
from gpucdi.node.observation import ASSUMED_LIBRARY, Observation, native_dirs, unheeded_dirs
from gpucdi.toolkit import HandlerRuntime, Mode, ToolkitConfig

KUBELETS = (EngineName.CONTAINERD, EngineName.CRIO)
_AUTO_READS_ANNOTATIONS: Release = (1, 18, 0)
PLUGIN_VENDOR = "k8s.device-plugin.nvidia.com"
CDI_PREFIX = "cdi.k8s.io/"


def request_findings(observation: Observation, host: HostTree) -> Iterator[Finding]:
    """Yield which requests are read by nobody."""
    for engine in _of_kubelet(observation):
        if engine.cdi_enabled.value is False:
            relying = _relying_kinds(engine, host)
            if relying:
                yield _switched_off(engine, relying)
            yield from _unread_annotations(observation, engine, relying)
        elif engine.cdi_enabled.value:
            yield from _unread_directories(observation, engine, host)
    for engine in observation.engines:
        yield from _unheeded_directories(engine)
    yield from _refused_variables(observation)


def _of_kubelet(observation: Observation) -> tuple[Engine, ...]:
    """Return the engines that kubelet may run Pods with; Docker only where there is no other."""
    usual = tuple(engine for engine in observation.engines if engine.name in KUBELETS)
    return usual or tuple(
        engine for engine in observation.engines if engine.name is EngineName.DOCKER
    )


def _relying_kinds(engine: Engine, host: HostTree) -> tuple[str, ...]:
    """Return the kinds in the engine's directories that a device plugin or DRA driver hands over."""
    registry = Reader(native_dirs(engine), ASSUMED_LIBRARY).load(host)
    return tuple(sorted(kind for kind in registry.kinds if is_foreign(kind)))


def _switched_off(engine: Engine, kinds: tuple[str, ...]) -> Finding:
    by_plugin = all(kind.startswith(f"{PLUGIN_VENDOR}/") for kind in kinds)
    source = engine.cdi_enabled.source
    return Finding(
        cause=Cause.ENGINE_CDI_DISABLED,
        # A plugin's annotations may still be read by an NVIDIA runtime, a claim by nobody else.
        severity=Severity.WARNING if by_plugin else Severity.ERROR,
        message=f"{engine.name.value} {engine.version.value or ''} does not inject CDI devices, "
        f"and {', '.join(kinds)} is handed to it",
        advice="switch the engine's CDI support on and restart it, or update the engine",
        who=Who.ADMIN,
        file=source.file or next(iter(engine.config_files), None),
        key=source.key,
        kind=kinds[0] if len(kinds) == 1 else None,
    )


def _unread_annotations(
    observation: Observation, engine: Engine, kinds: tuple[str, ...]
) -> Iterator[Finding]:
    """Find handlers that do not read what a device plugin hands over, where the engine does not."""
    kind = next((kind for kind in kinds if kind.startswith(f"{PLUGIN_VENDOR}/")), None)
    for runtime in observation.runtimes:
        config = runtime.config
        if kind is None or not runtime.is_nvidia or config is None or not config.usable:
            continue
        if runtime.handler.engine is not engine.name:
            continue
        if _reads_no_annotation(runtime):
            yield _mode_conflict(runtime, engine, kind)
        elif CDI_PREFIX not in config.annotation_prefixes.value:
            yield _other_prefix(runtime.handler.name, config, kind)


def _reads_no_annotation(runtime: HandlerRuntime) -> bool:
    """Tell whether the mode leaves annotations alone.

    ``auto`` looks at them from 1.18.0 on, and lands in mode cdi where all are qualified names.
    """
    version = release(runtime.toolkit.version.value) if runtime.toolkit else None
    mode = runtime.mode.value
    is_old = version is not None and version < _AUTO_READS_ANNOTATIONS
    return mode is Mode.LEGACY or (mode is Mode.AUTO and is_old)


def _mode_conflict(runtime: HandlerRuntime, engine: Engine, kind: str) -> Finding:
    source, mode = runtime.mode.source, runtime.mode.value
    if source.kind is SourceKind.BINARY_NAME:
        # No file sets such a mode: the handler's binary is what could be changed.
        source = runtime.handler.binary.source
    return Finding(
        cause=Cause.MODE_CONFLICT,
        severity=Severity.WARNING,
        message=f"handler {runtime.handler.name} runs in mode {mode}, which reads no CDI "
        f"annotation, and {engine.name.value} does not inject: {kind} as the device plugin's "
        "cdi-annotations hand it over reaches nobody",
        advice="set the handler's mode to cdi, switch the engine's CDI on, or give the device plugin "
        "the strategy envvar",
        who=Who.ADMIN,
        file=source.file or (runtime.config.file if runtime.config else None),
        key=source.key or "nvidia-container-runtime.mode",
        kind=kind,
    )


def _other_prefix(handler: str, config: ToolkitConfig, kind: str) -> Finding:
    prefixes = config.annotation_prefixes
    return Finding(
        cause=Cause.REQUEST_NOT_READ,
        severity=Severity.WARNING,
        message=f"neither the engine nor handler {handler} reads annotations that begin with "
        f"{CDI_PREFIX}",
        advice=f"add {CDI_PREFIX} to annotation-prefixes, or switch the engine's CDI on",
        who=Who.ADMIN,
        file=prefixes.source.file or config.file,
        key="nvidia-container-runtime.modes.cdi.annotation-prefixes",
        kind=kind,
    )


def _unread_directories(
    observation: Observation, engine: Engine, host: HostTree
) -> Iterator[Finding]:
    """Find specs of plugins and DRA drivers, of any vendor, in a directory the engine leaves out."""
    read = {real_or_same(host, path) for path in native_dirs(engine)}
    known = {
        kind
        for reader in observation.readers
        if not reader.handlers and reader.label.startswith(engine.name.value)
        for kind in reader.registry.kinds
    }
    for directory in DEFAULT_SPEC_DIRS:
        if real_or_same(host, directory) in read:
            continue
        kinds = Reader((directory,), ASSUMED_LIBRARY).load(host).kinds - known
        # NVIDIA's other kinds are there for the runtime, which has directories of its own.
        for kind in sorted(kind for kind in kinds if is_foreign(kind) or not is_nvidia(kind)):
            yield Finding(
                cause=Cause.SPEC_DIR_NOT_READ,
                severity=Severity.WARNING,
                message=f"holds the spec of {kind}, and {engine.name.value} does not read it",
                advice="add the directory to the engine's list, or let the writer use another",
                who=Who.ADMIN,
                file=directory,
                key=engine.spec_dirs.source.key,
                kind=kind,
            )


def _unheeded_directories(engine: Engine) -> Iterator[Finding]:
    for path in unheeded_dirs(engine):
        yield Finding(
            cause=Cause.SPEC_DIR_NOT_READ,
            severity=Severity.WARNING,
            message=f"is configured, and {engine.name.value} {engine.version.value or ''} does not "
            "obey that",
            advice=f"put the spec into {native_dirs(engine)[0]}, or update {engine.name.value}",
            who=Who.ADMIN,
            file=path,
            key=engine.spec_dirs.source.key,
        )


def _refused_variables(observation: Observation) -> Iterator[Finding]:
    for runtime in observation.runtimes:
        config = runtime.config
        if not runtime.is_nvidia or config is None or not config.usable:
            continue
        accepts = config.accept_envvar_when_unprivileged
        if not accepts.value:
            yield Finding(
                cause=Cause.ENV_REQUEST_REFUSED,
                severity=Severity.INFO,
                message=f"handler {runtime.handler.name} drops NVIDIA_VISIBLE_DEVICES of "
                "unprivileged containers without an error",
                advice="ask through the device plugin or a claim, not by the variable",
                who=Who.USER,
                file=accepts.source.file or config.file,
                key="accept-nvidia-visible-devices-envvar-when-unprivileged",
            )
