"""What becomes of a container that a handler starts: devices, no GPU, or a failure and its text.

Owns: putting a request, a registry and the host together. Must not know: how a request is read
(``names``), how spec files are (``gpucdi.cdi``), what the Pod shows of it (``podtext``).

Sources: NVIDIA/nvidia-container-toolkit ``internal/modifier/cdi/registry.go``,
``internal/oci/runtime_modifier.go``.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpucdi.cdi import Library, Reader, Registry, Unresolved, injection_error
from gpucdi.engines.versions import Release
from gpucdi.host import HostTree
from gpucdi.toolkit.extras import check_extras
from gpucdi.toolkit.jit import JitCrash, JitError, JitInventory, JitUnknownError, generated
from gpucdi.toolkit.model import HandlerRuntime, Mode
from gpucdi.toolkit.names import EARLY, LATE, possible_releases, request_names
from gpucdi.toolkit.platform import kernel_module_loaded, read_platform
from gpucdi.toolkit.request import AUTOMATIC_PREFIX, ContainerRequest, Requested, RequestMount
from gpucdi.toolkit.rules import Rules, rules_of


class Verdict(enum.StrEnum):
    """How a container's start ends, as far as GPUs are concerned."""

    DEVICES = "starts with devices"
    WITHOUT_GPU = "starts without GPU"
    OTHER_MECHANISM = "starts, and something other than CDI gives it GPUs or not"
    FAILS = "fails"
    UNKNOWN = "unknown"


class Step(enum.StrEnum):
    """Who refuses."""

    NATIVE = "the engine's own CDI injection"
    RUNTIME = "the nvidia runtime"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer for one container.

    ``names`` are the qualified names asked for, ``unresolved`` those of them that do not resolve
    and ``why`` the reason for each. ``nodes`` are the device nodes that the container gets, as
    container paths, ``environment`` and ``mounts`` what is added to it; ``gpus`` the UUIDs of a just-in-time specification. ``text`` is what the
    refusing program itself says, whole; ``crashes`` that it dies without saying anything usable.
    ``reason`` explains a start without GPU or an unknown.
    """

    verdict: Verdict
    mode: Mode | None = None
    names: tuple[str, ...] = ()
    unresolved: tuple[str, ...] = ()
    why: Mapping[str, Unresolved] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    mounts: tuple[RequestMount, ...] = ()
    gpus: tuple[str, ...] = ()
    step: Step | None = None
    text: str | None = None
    crashes: bool = False
    reason: str | None = None


_INJECT = "failed to inject CDI devices: "


def predict(
    host: HostTree,
    runtime: HandlerRuntime,
    request: ContainerRequest,
    inventory: JitInventory | None = None,
) -> Outcome:
    """Say how the runtime behind ``runtime`` starts a container with ``request`` on ``host``.

    ``inventory`` is what NVML would say; without it just-in-time requests are unknown. Spec
    directories are read anew, as the runtime does at every start.
    """
    modules = runtime.modules_file
    if modules is not None and kernel_module_loaded(host, modules) is False:
        reason = "the nvidia kernel module is not loaded, so the low-level runtime runs unmodified"
        return Outcome(Verdict.WITHOUT_GPU, reason=reason)
    if runtime.config is not None and runtime.is_nvidia and not runtime.config.usable:
        return Outcome(Verdict.FAILS, step=Step.RUNTIME, reason=runtime.config.findings[0].message)
    requested = request_names(runtime, request, read_platform(host))
    early = _without_lookup(requested)
    if early is not None:
        return early
    answers = [
        _looked_up(host, runtime, requested, rules_of(one), inventory)
        for one in possible_releases(runtime.toolkit)
    ]
    if all(answer == answers[0] for answer in answers):
        return answers[0]
    reason = "it depends on the toolkit's version, which is not known"
    return Outcome(Verdict.UNKNOWN, requested.mode, requested.names, reason=reason)


def reader_of(runtime: HandlerRuntime, version: Release | None = None) -> Reader | None:
    """Return how the runtime behind a handler reads spec directories, ``None`` when unknown.

    Without ``version`` the toolkit's version must be known.
    """
    releases = (version,) if version is not None else possible_releases(runtime.toolkit)
    if runtime.config is None or not releases:
        return None
    libraries = {rules_of(one).library for one in releases}
    if len(libraries) != 1:
        return None
    return Reader(runtime.config.spec_dirs.value, libraries.pop())


def _without_lookup(requested: Requested) -> Outcome | None:
    mode, names = requested.mode, requested.names
    if requested.unknown is not None:
        return Outcome(Verdict.UNKNOWN, mode, reason=requested.unknown)
    if requested.crashes or requested.error is not None:
        return Outcome(
            Verdict.FAILS,
            mode,
            names,
            step=Step.RUNTIME,
            text=requested.error,
            crashes=requested.crashes,
        )
    if mode in {Mode.LEGACY, Mode.CSV}:
        return Outcome(Verdict.OTHER_MECHANISM, mode, reason=f"mode {mode} looks at no spec file")
    if not names:
        reason = requested.ignored or "the container asks for no device"
        return Outcome(Verdict.WITHOUT_GPU, mode, reason=reason)
    return None


def _looked_up(
    host: HostTree,
    runtime: HandlerRuntime,
    requested: Requested,
    rules: Rules,
    inventory: JitInventory | None,
) -> Outcome:
    if requested.is_automatic and rules.knows_jit:
        return _generated(host, runtime, requested, rules, inventory)
    return _from_registry(host, runtime, requested, rules.library)


def _from_registry(
    host: HostTree, runtime: HandlerRuntime, requested: Requested, library: Library
) -> Outcome:
    config = runtime.config
    spec_dirs = config.spec_dirs.value if config is not None else ()
    registry = Reader(spec_dirs, library).load(host)
    return resolved(host, registry, requested.names, mode=requested.mode)


def resolved(
    host: HostTree,
    registry: Registry,
    names: tuple[str, ...],
    *,
    mode: Mode | None = None,
    step: Step = Step.RUNTIME,
    opening: str = LATE + _INJECT,
) -> Outcome:
    """Look ``names`` up and say what injecting them does; ``opening`` begins a failure's text."""
    answer = registry.resolve(names)
    base = Outcome(Verdict.FAILS, mode, names, step=step)
    if registry.crash is not None:
        return replace(base, unresolved=answer.unresolved, why=answer.why, crashes=True)
    if answer.edits is None:
        text = f"{opening}{answer.error}"
        return replace(base, unresolved=answer.unresolved, why=answer.why, text=text)
    problem = injection_error(answer.edits, host)
    if problem is not None:
        return replace(base, text=f"{opening}{problem}")
    return Outcome(
        Verdict.DEVICES,
        mode,
        names,
        nodes=tuple(dict.fromkeys(node.path for node in answer.edits.device_nodes)),
        environment=answer.edits.env,
        mounts=tuple(
            RequestMount(mount.host_path, mount.container_path) for mount in answer.edits.mounts
        ),
    )


def _generated(
    host: HostTree,
    runtime: HandlerRuntime,
    requested: Requested,
    rules: Rules,
    inventory: JitInventory | None,
) -> Outcome:
    if inventory is None:
        reason = "the specification is generated at the start, and NVML has not been asked"
        return Outcome(Verdict.UNKNOWN, requested.mode, requested.names, reason=reason)
    try:
        gpus = _generate(host, runtime, requested, rules, inventory)
    except JitUnknownError as error:
        return Outcome(Verdict.UNKNOWN, requested.mode, requested.names, reason=str(error))
    except JitCrash:
        base = Outcome(Verdict.FAILS, requested.mode, requested.names, step=Step.RUNTIME)
        return replace(base, crashes=True)
    except JitError as error:
        return _not_generated(host, runtime, requested, rules, str(error))
    if gpus:
        return Outcome(Verdict.DEVICES, requested.mode, requested.names, gpus=gpus)
    reason = "the just-in-time specification holds no GPU"
    return Outcome(Verdict.WITHOUT_GPU, requested.mode, requested.names, reason=reason)


def _generate(
    host: HostTree,
    runtime: HandlerRuntime,
    requested: Requested,
    rules: Rules,
    inventory: JitInventory,
) -> tuple[str, ...]:
    ids = [name.removeprefix(AUTOMATIC_PREFIX) for name in requested.names]
    gpus = generated([one for one in ids if one], inventory, rules)
    driver_root = "/" if runtime.config is None else runtime.config.driver_root.value
    check_extras(host, requested.extra, driver_root, rules)
    return gpus


def _not_generated(
    host: HostTree, runtime: HandlerRuntime, requested: Requested, rules: Rules, cause: str
) -> Outcome:
    if rules.jit_falls_back:
        return _from_registry(host, runtime, requested, rules.library)
    opening = LATE if rules.late_errors else EARLY
    text = f"{opening}failed to create the automatic CDI modifier: {cause}"
    return Outcome(Verdict.FAILS, requested.mode, requested.names, step=Step.RUNTIME, text=text)
