"""Requests that mix what is made in memory with what lies in files, told from Pod and handler.

Owns the rule for a Pod of which no text is seen. Source: NVIDIA/nvidia-container-toolkit
``internal/modifier/cdi.go``: in mode auto (from 1.18.0 on) and jit-cdi an unqualified name becomes
one of ``runtime.nvidia.com/gpu``, and that kind goes with no other.
"""

from __future__ import annotations

from gpucdi.api import HandlerStatus
from gpucdi.diagnosis.case import AUTOMATIC_VENDOR
from gpucdi.diagnosis.model import Confidence, Evidence, Verdict
from gpucdi.diagnosis.pod_requests import NOTHING, PodRequests
from gpucdi.engines.versions import Release, release
from gpucdi.failures import ContainerView
from gpucdi.findings import Cause

_AUTO_IS_JIT: Release = (1, 18, 0)
_AUTOMATIC = f"{AUTOMATIC_VENDOR}/"


def mixed_request(asked: PodRequests) -> Verdict | None:
    """Judge a container whose NVIDIA_VISIBLE_DEVICES the handler's mode turns into two kinds."""
    handler = asked.handler
    if handler is None or not handler.is_nvidia:
        return None
    for container in asked.pod.containers:
        names = _items(container)
        automatic = [name for name in names if _is_automatic(name, handler)]
        others = [name for name in names if "=" in name and name not in automatic]
        if automatic and others:
            return Verdict(
                Cause.MIXED_AUTOMATIC_KIND,
                f"Container {container.name} asks for {others[0]}, which a spec file defines, and "
                f"for {automatic[0]}, which handler {handler.name} (mode {handler.mode}) makes in "
                "memory: the runtime refuses both in one request.",
                Confidence.HIGH,
                (
                    Evidence(
                        f"NVIDIA_VISIBLE_DEVICES={container.visible_devices}",
                        key=f"spec.containers[{container.name}].env",
                    ),
                    *_mode(handler),
                ),
            )
    return None


def _items(container: ContainerView) -> list[str]:
    value = container.visible_devices or ""
    items = [part.strip() for part in value.split(",")]
    # `void` anywhere asks for nothing, `all` and `none` drop the rest.
    return [] if {"all", *NOTHING} & set(items) else items


def _is_automatic(name: str, handler: HandlerStatus) -> bool:
    if name.startswith(_AUTOMATIC):
        return True
    version = release(handler.toolkit)
    is_jit = handler.mode == "jit-cdi" or (
        handler.mode == "auto" and version is not None and version >= _AUTO_IS_JIT
    )
    return is_jit and "=" not in name


def _mode(handler: HandlerStatus) -> tuple[Evidence, ...]:
    if not handler.config:
        return ()
    text = f"handler {handler.name} runs in mode {handler.mode}"
    return (Evidence(text, handler.config, "nvidia-container-runtime.mode"),)
