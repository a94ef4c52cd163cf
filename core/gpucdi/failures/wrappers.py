"""The words around a failure: which engine speaks, how far the container had come.

Owns the marks of each engine's chain of prefixes; the sources are those of ``formats``. Must not
know what failed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpucdi.failures.formats import loose
from gpucdi.failures.model import EngineFamily, Resolver, Stage

# The longest chain of prefixes seen is about 450 characters; wrapping adds indents.
BEFORE_CHARACTERS = 900
AFTER_CHARACTERS = 400


@dataclass(frozen=True, slots=True)
class Mark:
    """Words that tell the stage, the engine or who resolved; ``None`` where they do not."""

    pattern: re.Pattern[str]
    stage: Stage | None = None
    engine: EngineFamily | None = None
    resolver: Resolver | None = None


def _mark(
    text: str,
    stage: Stage | None = None,
    engine: EngineFamily | None = None,
    resolver: Resolver | None = None,
) -> Mark:
    return Mark(re.compile(loose(text), re.IGNORECASE), stage, engine, resolver)


_E, _S, _R = EngineFamily, Stage, Resolver

# The first mark that is found decides each of its values, so outer frames stand first: a sandbox
# that fails to start contains the whole chain of a container that fails to start.
BEFORE: tuple[Mark, ...] = (
    _mark("cold plug:", _S.SANDBOX, _E.KATA, _R.ENGINE),
    _mark("failed to create pod sandbox", _S.SANDBOX),
    _mark("failed to start sandbox", _S.SANDBOX, _E.CONTAINERD),
    _mark("FailedCreatePodSandBox", _S.SANDBOX),
    _mark("failed to prepare dynamic resources", _S.PREPARE),
    _mark("FailedPrepareDynamicResources", _S.PREPARE),
    _mark("error preparing devices for claim", _S.PREPARE),
    _mark("CDI spec file for claim", _S.PREPARE),
    _mark("UnexpectedAdmissionError", _S.ADMISSION),
    _mark("Allocate failed", _S.ADMISSION),
    _mark("failed to create containerd container", _S.CREATE, _E.CONTAINERD, _R.ENGINE),
    _mark('failed to generate container "', _S.CREATE, _E.CONTAINERD, _R.ENGINE),
    _mark("failed to generate spec: CDI device", _S.CREATE, _E.CONTAINERD, _R.ENGINE),
    _mark("failed to get container spec opts", _S.CREATE, _E.CONTAINERD, _R.ENGINE),
    _mark("failed to create containerd task", _S.START, _E.CONTAINERD),
    _mark("failed to create task for container", _S.START, _E.DOCKER),
    _mark("container create failed:", _S.CREATE, _E.CRIO),
    _mark("Error response from daemon", _S.START, _E.DOCKER),
    _mark("docker:", _S.START, _E.DOCKER),
    _mark('unable to start container "', _S.START, _E.PODMAN),
    _mark("Error: unable to start container:", _S.START, _E.PODMAN),
    _mark("error setting up CDI devices", _S.CREATE, _E.PODMAN, _R.ENGINE),
    _mark("setting up CDI devices", _S.CREATE, _E.PODMAN, _R.ENGINE),
    _mark("creating build executor", _S.BUILD, _E.PODMAN),
    _mark("Error: OCI runtime error", _S.START, _E.PODMAN),
    _mark("Error: crun:", _S.START, _E.PODMAN),
    _mark("could not apply required modification", _S.START, None, _R.NVIDIA_RUNTIME),
    _mark("failed to create NVIDIA Container Runtime", _S.START, None, _R.NVIDIA_RUNTIME),
    _mark("error modifying OCI spec", _S.START, None, _R.NVIDIA_RUNTIME),
    _mark("failed to inject CDI devices", _S.START, None, _R.NVIDIA_RUNTIME),
    _mark("OCI runtime create failed", _S.START),
    _mark("CreateContainerError", _S.CREATE),
    _mark("CDI device injection failed", _S.CREATE, None, _R.ENGINE),
    _mark("StartError", _S.START),
    _mark("RunContainerError", _S.START),
)

AFTER: tuple[Mark, ...] = (
    _mark("OCI runtime attempted to invoke a command", None, _E.PODMAN),
    _mark("reason: StartError", _S.START),
    _mark("reason: CreateContainerError", _S.CREATE),
    _mark("reason: RunContainerError", _S.START),
)


# Where another record begins: a row of `kubectl describe`, a log line, a tool's own error.
_RECORD = re.compile(
    r"(?<!:)\n(?=(?:Warning|Normal)\s|\{|time=\"|[EWIF][0-9]{4} |Error: |ERRO\[|docker: |\S+: Error:)"
)


@dataclass(frozen=True, slots=True)
class Frame:
    """What the words around a failure say; ``start`` is where its message begins in the text."""

    start: int
    stage: Stage | None = None
    engine: EngineFamily | None = None
    resolver: Resolver | None = None


def frame(text: str, low: int, match: re.Match[str], end: int, high: int) -> Frame:
    """Read the words around ``match`` that lie between its neighbours ``low`` and ``high``."""
    start = max(low, match.start() - BEFORE_CHARACTERS)
    for record in _RECORD.finditer(text, start, match.start()):
        start = record.end()
    found = Frame(match.start())
    for mark in BEFORE:
        hits = list(mark.pattern.finditer(text, start, match.end()))
        if hits:
            found = _filled(found, mark, min(found.start, hits[-1].start()))
    if found.stage is None or found.engine is None:
        for mark in AFTER:
            if mark.pattern.search(text, end, min(high, end + AFTER_CHARACTERS)):
                found = _filled(found, mark, found.start)
    return found


def _filled(found: Frame, mark: Mark, start: int) -> Frame:
    return Frame(
        start,
        found.stage or mark.stage,
        found.engine or mark.engine,
        found.resolver or mark.resolver,
    )
