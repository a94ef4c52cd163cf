"""From a handler to the program that runs, its configuration and its mode.

Owns: following wrappers and links, the search for ``config.toml``, and the mode in force before a
request is looked at. Must not know: requests, CDI specs.

Sources: NVIDIA/nvidia-container-toolkit ``internal/config/config.go`` (where the file lies),
``cmd/nvidia-container-runtime.cdi/main.go`` (the suffix decides the mode).
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpucdi.engines.model import Handler
from gpucdi.engines.versions import Release, release
from gpucdi.findings import (
    DEFAULT,
    UNKNOWN,
    Cause,
    Finding,
    Severity,
    Source,
    Sourced,
    SourceKind,
)
from gpucdi.host import HostTree, real_or_same
from gpucdi.programs import Programs
from gpucdi.toolkit.config import read_config
from gpucdi.toolkit.installed import read_toolkit
from gpucdi.toolkit.locate import locate, search_path
from gpucdi.toolkit.model import HandlerRuntime, Mode, Toolkit, ToolkitConfig
from gpucdi.toolkit.wrapper import Wrapper, read_wrapper

DEFAULT_CONFIG = "/etc/nvidia-container-runtime/config.toml"
_RELATIVE_CONFIG = "nvidia-container-runtime/config.toml"
_OTHER_CONFIGS = (
    DEFAULT_CONFIG,
    "/usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml",
    "/home/kubernetes/bin/nvidia/toolkit/.config/nvidia-container-runtime/config.toml",
)
_WRAPPER_LIMIT = 5

_NVIDIA_STEM = "nvidia-container-runtime"
_NOT_NVIDIA = ("runc", "crun", "youki", "runsc", "kata-runtime", "docker-runc", "railcar")
# Shims that never run an OCI runtime binary of ours: gVisor, Kata, Firecracker, Wasm, hcsshim.
_OTHER_SHIMS = ("runsc", "kata", "firecracker", "wasm", "spin", "slight", "runhcs")


@dataclass(frozen=True, slots=True)
class _Program:
    """What a binary name leads to."""

    path: str | None
    wrapper_path: str | None = None
    wrapper: Wrapper | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None


def resolve_runtime(host: HostTree, programs: Programs, handler: Handler) -> HandlerRuntime:
    """Say what runs when a Pod names ``handler``.

    Nothing is raised: what cannot be found or read is in the findings, what cannot be told is
    ``None``. A handler that is no NVIDIA runtime has ``is_nvidia=False`` and no toolkit.
    """
    runtime_type = handler.runtime_type.value or ""
    # CRI-O calls virtual machines `vm`, and containers `oci`.
    if runtime_type == "vm" or any(shim in runtime_type for shim in _OTHER_SHIMS):
        return HandlerRuntime(handler, program=None, is_nvidia=False)
    if handler.binary.value is None:
        is_nvidia = None if handler.binary.source.kind is SourceKind.UNKNOWN else False
        return HandlerRuntime(handler, program=None, is_nvidia=is_nvidia)
    process = programs.engine(handler.engine.value)
    inherited = (process.environment if process is not None else None) or {}
    program = _follow(host, handler.binary.value, inherited)
    is_nvidia = _is_nvidia(program, handler.binary.value)
    runtime = HandlerRuntime(
        handler=handler,
        program=program.path,
        wrapper=program.wrapper_path,
        is_nvidia=is_nvidia,
        modules_file=None if program.wrapper is None else program.wrapper.modules_file,
        findings=_missing(handler, program),
    )
    return _with_toolkit(host, programs, runtime, program) if is_nvidia else runtime


def _follow(host: HostTree, binary: str, inherited: Mapping[str, str]) -> _Program:
    environment = dict(inherited)
    path = locate(host, binary, search_path(environment.get("PATH")))
    first, wrapper = path, None
    for _ in range(_WRAPPER_LIMIT):
        if path is None:
            break
        try:
            found = read_wrapper(host, host.realpath(path))
        except OSError as error:
            return _Program(path, problem=f"{path} cannot be read: {error.strerror}")
        if found is None:
            return _Program(path, first if wrapper else None, wrapper, environment)
        wrapper = found
        environment |= found.environment
        binary, path = found.target, locate(host, found.target)
    problem = f"{binary} is not there or not executable"
    return _Program(None, first if wrapper else None, wrapper, environment, problem)


def _stem(path: str) -> str:
    return posixpath.basename(path).removesuffix(".real")


def _is_nvidia(program: _Program, binary: str) -> bool | None:
    stem = _stem(program.path or (program.wrapper.target if program.wrapper else binary))
    if stem == _NVIDIA_STEM or stem.startswith(_NVIDIA_STEM + "."):
        return True
    return False if stem in _NOT_NVIDIA else None


def _missing(handler: Handler, program: _Program) -> tuple[Finding, ...]:
    # A built-in default that is not there troubles nobody who does not use it.
    if program.problem is None or handler.binary.source.kind is SourceKind.DEFAULT:
        return ()
    return (
        Finding(
            cause=Cause.HANDLER_MISSING,
            severity=Severity.ERROR,
            message=f'handler "{handler.name}" runs {handler.binary.value}, but {program.problem}',
            advice="wait for the toolkit to be installed, or correct the handler's binary",
            file=handler.binary.source.file,
            key=handler.binary.source.key,
        ),
    )


def _with_toolkit(
    host: HostTree, programs: Programs, runtime: HandlerRuntime, program: _Program
) -> HandlerRuntime:
    binary = runtime.handler.binary.value or ""
    place = program.path or (program.wrapper.target if program.wrapper else binary)
    toolkit = read_toolkit(host, programs, place, program.wrapper)
    version = release(toolkit.version.value)
    config = read_config(host, config_path(program.environment, toolkit), version)
    toolkit = replace(toolkit, config_source=_config_source(program, config.file))
    mode, mode_findings = _mode(_stem(place), config, version)
    return replace(
        runtime,
        toolkit=toolkit,
        config=config,
        mode=mode,
        other_configs=_other_configs(host, config, version),
        findings=runtime.findings + config.findings + mode_findings,
    )


def config_path(environment: Mapping[str, str], toolkit: Toolkit) -> str:
    """Return the file that a runtime with this environment reads.

    ``NVIDIA_CTK_CONFIG_FILE_PATH`` counts from 1.18.0 on, then ``XDG_CONFIG_HOME``, then ``/etc``.
    """
    version = release(toolkit.version.value)
    named = environment.get("NVIDIA_CTK_CONFIG_FILE_PATH")
    too_old = version is not None and version < (1, 18, 0)
    if named and not too_old:
        return named
    home = environment.get("XDG_CONFIG_HOME")
    return posixpath.join(home, _RELATIVE_CONFIG) if home else DEFAULT_CONFIG


def _config_source(program: _Program, path: str) -> Source:
    if path == DEFAULT_CONFIG:
        return DEFAULT
    own = program.wrapper.environment if program.wrapper is not None else {}
    for name in ("NVIDIA_CTK_CONFIG_FILE_PATH", "XDG_CONFIG_HOME"):
        if own.get(name) and path.startswith(own[name]):
            return Source(SourceKind.FILE, file=program.wrapper_path, key=name)
        if program.environment.get(name) and path.startswith(program.environment[name]):
            return Source(SourceKind.ENVIRONMENT, key=name)
    return UNKNOWN


def _mode(
    stem: str, config: ToolkitConfig, version: Release | None
) -> tuple[Sourced[Mode | None], tuple[Finding, ...]]:
    for suffix, forced in ((".cdi", Mode.CDI), (".legacy", Mode.LEGACY)):
        if stem.endswith(suffix):
            return Sourced(forced, Source(SourceKind.BINARY_NAME)), ()
    if not config.usable:
        return Sourced(None, UNKNOWN), ()
    text, source = config.mode.value, config.mode.source
    valid = {mode.value: mode for mode in Mode}
    if version is not None and version < (1, 18, 0):
        del valid[Mode.JIT_CDI.value]
    if text in valid:
        return Sourced(valid[text], source), ()
    finding = Finding(
        cause=Cause.CONFIG_UNREADABLE,
        severity=Severity.ERROR,
        message=f'mode "{text}" is none that this runtime knows; no container starts',
        advice=f"set nvidia-container-runtime.mode to one of {', '.join(valid)}",
        file=config.file,
        key="nvidia-container-runtime.mode",
    )
    return Sourced(None, source), (finding,)


def _other_configs(
    host: HostTree, config: ToolkitConfig, version: Release | None
) -> tuple[ToolkitConfig, ...]:
    in_force = real_or_same(host, config.file)
    paths = [path for path in _OTHER_CONFIGS if host.exists(path)]
    return tuple(
        read_config(host, path, version) for path in paths if real_or_same(host, path) != in_force
    )
