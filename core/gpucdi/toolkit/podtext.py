"""What the Pod shows of a refusal: the engine's words around it, and kubelet's reason.

Owns: the wording of each engine. Must not know: why anything was refused.

Sources: containerd/containerd ``internal/cri/server/container_{create,start}.go`` (2.x),
``pkg/cri/server`` (1.7); cri-o/cri-o ``internal/oci/runtime_oci.go``; Mirantis/cri-dockerd
``core/container_start.go``; kubernetes ``pkg/kubelet/kuberuntime``.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from gpucdi.cdi.gotext import quote
from gpucdi.engines import Engine, EngineName
from gpucdi.engines.versions import release


class PodReason(enum.StrEnum):
    """Where a person finds the text."""

    CREATE_CONTAINER_ERROR = "CreateContainerError"
    """``state.waiting``; the container never existed, and it is retried for ever."""
    START_ERROR = "StartError"
    """``lastState.terminated`` with exit code 128; ``state.waiting`` alternates."""
    CONTAINER_CANNOT_RUN = "ContainerCannotRun"
    """``lastState.terminated`` with exit code 128, behind cri-dockerd."""
    FAILED_CREATE_POD_SANDBOX = "FailedCreatePodSandBox"
    """An Event only: the Pod hangs in ContainerCreating."""


@dataclass(frozen=True, slots=True)
class PodText:
    """``message`` as kubelet passes it on, ``None`` where it is not known word by word.

    ``…`` stands for what differs from container to container (ids, times, bundle paths).
    """

    reason: PodReason | None
    message: str | None


_SHIM = "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
_SANDBOX = (
    'Failed to create pod sandbox: rpc error: code = Unknown desc = failed to start sandbox "…": '
)
_UNRETRIEVABLE = "unable to retrieve OCI runtime error (open …/log.json: no such file or directory)"


def native_text(engine: Engine, text: str) -> PodText:
    """Dress the engine's own refusal to inject CDI devices."""
    if engine.name is EngineName.CONTAINERD:
        opening = 'failed to generate container "…" spec: failed to generate spec: '
        if not _is_containerd_1(engine):
            opening = "failed to create containerd container: "
        return PodText(PodReason.CREATE_CONTAINER_ERROR, opening + text)
    if engine.name is EngineName.CRIO:
        return PodText(PodReason.CREATE_CONTAINER_ERROR, text)
    if engine.name is EngineName.DOCKER:
        return PodText(PodReason.CONTAINER_CANNOT_RUN, _dockers(text))
    return PodText(None, text.replace("CDI device injection failed", "setting up CDI devices", 1))


def runtime_text(engine: Engine, text: str | None, *, exit_code: int = 1) -> PodText:
    """Dress the error of the nvidia runtime; ``None``: it died or complained on stderr only."""
    if engine.name is EngineName.CRIO:
        said = None if text is None else f"time=… level=error msg={quote(text)}"
        message = None if said is None else f"container create failed: {said}"
        return PodText(PodReason.CREATE_CONTAINER_ERROR, message)
    said = text if text is not None else f"{_UNRETRIEVABLE}: exit status {exit_code}"
    if engine.name is EngineName.DOCKER:
        task = "failed to create task for container: failed to create shim task: "
        return PodText(
            PodReason.CONTAINER_CANNOT_RUN,
            _dockers(f"{task}OCI runtime create failed: {said}: unknown"),
        )
    if engine.name is EngineName.PODMAN:
        return PodText(None, text)
    suffix = ": unknown" if _is_containerd_1(engine) else ""
    return PodText(PodReason.START_ERROR, f"{_SHIM}{said}{suffix}")


def sandbox_text(engine: Engine, text: str | None) -> PodText:
    """Dress a failure that already the Pod's own sandbox container meets; ``None``: stderr only."""
    if engine.name is not EngineName.CONTAINERD:
        return PodText(PodReason.FAILED_CREATE_POD_SANDBOX, None)
    said = text if text is not None else f"{_UNRETRIEVABLE}: exit status 1"
    suffix = ": unknown" if _is_containerd_1(engine) else ""
    return PodText(PodReason.FAILED_CREATE_POD_SANDBOX, f"{_SANDBOX}{_SHIM}{said}{suffix}")


def missing_program_text(engine: Engine, binary: str) -> PodText:
    """Dress the failure to run a handler's binary at all."""
    if binary.startswith("/"):
        reason = f"fork/exec {binary}: no such file or directory"
    else:
        reason = f"exec: {quote(binary)}: executable file not found in $PATH"
    return sandbox_text(engine, f"{_UNRETRIEVABLE}: {reason}")


def missing_handler_text(engine: Engine, handler: str) -> PodText:
    """Say what a RuntimeClass with an unknown handler gives."""
    if engine.name is not EngineName.CONTAINERD:
        return PodText(PodReason.FAILED_CREATE_POD_SANDBOX, None)
    return PodText(
        PodReason.FAILED_CREATE_POD_SANDBOX,
        "Failed to create pod sandbox: rpc error: code = Unknown desc = unable to get OCI runtime "
        f'for sandbox "…": no runtime for {quote(handler)} is configured',
    )


def _dockers(text: str) -> str:
    return f'failed to start container "…": Error response from daemon: {text}'


def _is_containerd_1(engine: Engine) -> bool:
    running = release(engine.version.value)
    return running is not None and running < (2, 0, 0)
