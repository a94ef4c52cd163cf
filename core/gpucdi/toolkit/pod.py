"""A Pod's container from its RuntimeClass to its end: engine, handler, native CDI, nvidia runtime.

Owns: the order of things and what the engine passes on. Must not know: how each step decides.

Sources: containerd/containerd ``internal/cri/opts/spec_linux.go`` (``WithCDI``),
``internal/cri/server/container_create.go`` (annotations), cri-o/cri-o
``server/container_create_linux.go``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpucdi.cdi import InvalidNameError, Reader, parse_annotations, reader_library
from gpucdi.engines import Engine, EngineName, Handler
from gpucdi.engines.versions import release
from gpucdi.host import HostTree
from gpucdi.programs import Programs
from gpucdi.toolkit.jit import JitInventory
from gpucdi.toolkit.model import HandlerRuntime
from gpucdi.toolkit.podtext import (
    PodText,
    missing_handler_text,
    missing_program_text,
    native_text,
    runtime_text,
    sandbox_text,
)
from gpucdi.toolkit.prediction import Outcome, Step, Verdict, predict, resolved
from gpucdi.toolkit.request import ContainerRequest, RequestMount
from gpucdi.toolkit.runtime import resolve_runtime

PANIC_CODE = 2


@dataclass(frozen=True, slots=True)
class PodContainer:
    """A container as kubelet hands it to the engine.

    ``cdi_devices`` is the CRI field (device plugins, DRA), ``container_annotations`` the CRI ones
    (device plugins); a Pod's own annotations are ``pod_annotations``. ``environment`` must hold the
    image's variables too, where they are known.
    """

    environment: tuple[str, ...] = ()
    pod_annotations: Mapping[str, str] = field(default_factory=dict)
    container_annotations: Mapping[str, str] = field(default_factory=dict)
    cdi_devices: tuple[str, ...] = ()
    mounts: tuple[RequestMount, ...] = ()
    privileged: bool = False


@dataclass(frozen=True, slots=True)
class PodOutcome:
    """How the container ends: natively injected devices, then the runtime's part.

    ``verdict`` is that of the whole. ``native`` is ``None`` when nothing is asked of the engine
    itself, ``runtime`` when it is never reached. ``text`` is what the Pod shows, for a failure.
    """

    verdict: Verdict
    handler: str | None
    native: Outcome | None = None
    runtime: Outcome | None = None
    text: PodText | None = None
    reason: str | None = None


def predict_pod(
    host: HostTree,
    programs: Programs,
    engine: Engine,
    handler_name: str,
    container: PodContainer,
    *,
    inventory: JitInventory | None = None,
) -> PodOutcome:
    """Say how ``engine`` starts a container whose RuntimeClass names ``handler_name``.

    The empty name is the default handler.
    """
    handler = engine.handler(handler_name)
    if handler is None:
        return _no_handler(engine, handler_name)
    runtime = resolve_runtime(host, programs, handler)
    early = _sandbox_failure(engine, runtime)
    if early is not None:
        return early
    native = _native(host, engine, container)
    if native is not None and native.verdict is Verdict.FAILS:
        shown = native_text(engine, native.text or "")
        return PodOutcome(Verdict.FAILS, handler.name, native, text=shown)
    request = _request(handler, container, native)
    outcome = predict(host, runtime, request, inventory)
    return _whole(engine, handler, native, outcome)


def _no_handler(engine: Engine, name: str) -> PodOutcome:
    if not name or not engine.handlers:
        reason = "the engine's default handler is not known" if not name else "no handler is known"
        return PodOutcome(Verdict.UNKNOWN, None, reason=reason)
    reason = f'the engine has no handler "{name}"'
    shown = missing_handler_text(engine, name)
    return PodOutcome(Verdict.FAILS, None, text=shown, reason=reason)


def _sandbox_failure(engine: Engine, runtime: HandlerRuntime) -> PodOutcome | None:
    handler = runtime.handler
    if runtime.is_nvidia and runtime.program is None:
        shown = missing_program_text(engine, handler.binary.value or "")
        reason = runtime.findings[0].message if runtime.findings else None
        return PodOutcome(Verdict.FAILS, handler.name, text=shown, reason=reason)
    config = runtime.config
    if runtime.is_nvidia and config is not None and not config.usable:
        shown = sandbox_text(engine, None)
        reason = config.findings[0].message if config.findings else None
        return PodOutcome(Verdict.FAILS, handler.name, text=shown, reason=reason)
    return None


def _native(host: HostTree, engine: Engine, container: PodContainer) -> Outcome | None:
    annotations = container.container_annotations
    library = reader_library(engine.name.value, engine.version.value or "")
    try:
        _, annotated = (
            parse_annotations(annotations)
            if library is None
            else parse_annotations(annotations, library)
        )
    except InvalidNameError as error:
        text = f"failed to parse CDI device annotations: {error}"
        return Outcome(Verdict.FAILS, step=Step.NATIVE, text=text)
    names = tuple(dict.fromkeys((*container.cdi_devices, *annotated)))
    if not names:
        return None
    if engine.cdi_enabled.value is None:
        reason = "it is not known whether the engine injects CDI devices itself"
        return Outcome(Verdict.UNKNOWN, names=names, step=Step.NATIVE, reason=reason)
    if engine.cdi_enabled.value is False:
        return _switched_off(engine, names)
    if library is None:
        reason = "it is not known which CDI library the engine has"
        return Outcome(Verdict.UNKNOWN, names=names, step=Step.NATIVE, reason=reason)
    registry = Reader(engine.spec_dirs.value, library).load(host)
    opening = "CDI device injection failed: "
    return resolved(host, registry, names, step=Step.NATIVE, opening=opening)


def _switched_off(engine: Engine, names: tuple[str, ...]) -> Outcome:
    running = release(engine.version.value)
    tells = engine.name is EngineName.CONTAINERD and running is not None and running >= (2, 3, 0)
    if tells:
        text = (
            f"failed to get container spec opts: CDI devices ({', '.join(names)}) requested but "
            "CDI support is explicitly disabled"
        )
        return Outcome(Verdict.FAILS, names=names, step=Step.NATIVE, text=text)
    reason = "the engine's CDI is off, so it drops the devices without a word"
    return Outcome(Verdict.WITHOUT_GPU, names=names, step=Step.NATIVE, reason=reason)


def _request(handler: Handler, container: PodContainer, native: Outcome | None) -> ContainerRequest:
    passed = {
        **_passed(handler.pod_annotations, container.pod_annotations),
        **_passed(handler.container_annotations, container.container_annotations),
    }
    environment, mounts = container.environment, container.mounts
    if native is not None:
        # The last assignment counts, so appending says the same as replacing.
        environment += native.environment
        mounts += native.mounts
    return ContainerRequest(environment, passed, mounts, privileged=container.privileged)


def _passed(globs: tuple[str, ...], annotations: Mapping[str, str]) -> dict[str, str]:
    patterns = [_pattern(glob) for glob in globs]
    return {
        key: value
        for key, value in annotations.items()
        if any(pattern.fullmatch(key) for pattern in patterns)
    }


def _pattern(glob: str) -> re.Pattern[str]:
    """Compile a pattern of Go's ``path.Match``, whose ``*`` stops at a slash; ``*`` alone is all.

    CRI-O has no patterns and passes everything, which the lone star stands for here.
    """
    if glob == "*":
        return re.compile(r".*", re.DOTALL)
    translated = re.escape(glob).replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
    return re.compile(translated)


def _whole(
    engine: Engine, handler: Handler, native: Outcome | None, outcome: Outcome
) -> PodOutcome:
    base = PodOutcome(outcome.verdict, handler.name, native, outcome, reason=outcome.reason)
    if outcome.verdict is Verdict.FAILS:
        code = PANIC_CODE if outcome.crashes else 1
        return replace(base, text=runtime_text(engine, outcome.text, exit_code=code))
    if native is None:
        return base
    if native.verdict is Verdict.UNKNOWN:
        return replace(base, verdict=Verdict.UNKNOWN, reason=native.reason)
    if outcome.verdict is Verdict.WITHOUT_GPU:
        return replace(base, verdict=native.verdict, reason=native.reason)
    return base
