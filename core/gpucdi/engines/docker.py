"""Docker as an engine: its runtimes, its default runtime and its CDI switch.

Owns: ``daemon.json``. Must not know: what a binary does.

Sources: moby/moby ``daemon/config/config.go``, ``daemon/cdi.go``, ``cmd/dockerd/daemon.go``
(Docker 25 to 29).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from gpucdi.engines.arguments import option
from gpucdi.engines.model import Engine, EngineName, Handler
from gpucdi.engines.versions import release
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
from gpucdi.host import HostTree
from gpucdi.programs import EngineProcess

MAIN = "/etc/docker/daemon.json"
DEFAULT_SPEC_DIRS = ("/etc/cdi", "/var/run/cdi")
LIMIT_BYTES = 1024 * 1024
_FIRST_CDI = (25, 0, 0)
_CDI_BY_DEFAULT = (28, 2, 0)


class _RefusedError(Exception):
    """dockerd does not start with this file."""


def read_docker(
    host: HostTree,
    process: EngineProcess | None,
    version: Sourced[str | None],
    place: str | None,
) -> Engine:
    """Read Docker's configuration; a file that dockerd would refuse is a finding."""
    path = option(process, "config-file") or MAIN
    engine = Engine(EngineName.DOCKER, version=version, place=place)
    try:
        content = _load(host, path)
        files = () if content is None else (path,)
        return _read(replace(engine, config_files=files), path, content or {})
    except _RefusedError as refusal:
        finding = Finding(
            cause=Cause.CONFIG_UNREADABLE,
            severity=Severity.ERROR,
            message=f"{path} {refusal}; Docker does not start with it",
            advice="correct the file, then restart Docker",
            file=path,
        )
        return replace(engine, config_files=(path,), findings=(finding,))


def _load(host: HostTree, path: str) -> Mapping[str, object] | None:
    try:
        content = host.read(path, LIMIT_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _RefusedError(f"cannot be read: {error.strerror}") from None
    try:
        # An empty file is no configuration at all.
        found = json.loads(content.decode("utf-8-sig").strip() or "{}")
    except (ValueError, RecursionError) as error:
        raise _RefusedError(f"is no valid JSON: {error}") from None
    return _mapping(found, "the file")


def _mapping(value: object, what: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise _RefusedError(f"is not what Docker reads: {what} is no object")
    return value


def _read(engine: Engine, path: str, content: Mapping[str, object]) -> Engine:
    default_name = content.get("default-runtime", "") or "runc"
    source = _source(path, "default-runtime") if content.get("default-runtime") else DEFAULT
    default: Sourced[str | None] = Sourced(str(default_name), source)
    runtimes = _mapping(content.get("runtimes", {}), "runtimes")
    handlers = [Handler("runc", EngineName.DOCKER, is_default=default.value == "runc")]
    for name, value in runtimes.items():
        handlers.append(_handler(path, name, _mapping(value, f"runtimes.{name}"), default.value))
    return replace(
        engine,
        cdi_enabled=_cdi_enabled(engine, path, content),
        spec_dirs=_spec_dirs(path, content),
        default_handler=default,
        handlers=tuple(handlers),
    )


def _source(path: str, key: str) -> Source:
    return Source(SourceKind.FILE, path, key)


def _handler(path: str, name: str, table: Mapping[str, object], default: str | None) -> Handler:
    binary, runtime_type = table.get("path"), table.get("runtimeType")
    options = table.get("options")
    key = f"runtimes.{name}.path"
    if not binary and isinstance(options, dict):
        binary, key = options.get("BinaryName"), f"runtimes.{name}.options.BinaryName"
    return Handler(
        name=name,
        engine=EngineName.DOCKER,
        binary=Sourced(str(binary), _source(path, key)) if binary else Sourced(None, DEFAULT),
        runtime_type=Sourced(str(runtime_type), _source(path, f"runtimes.{name}.runtimeType"))
        if runtime_type
        else Sourced(None, DEFAULT),
        is_default=name == default,
    )


def _cdi_enabled(engine: Engine, path: str, content: Mapping[str, object]) -> Sourced[bool | None]:
    features = _mapping(content.get("features", {}), "features")
    switch = features.get("cdi")
    source = DEFAULT if switch is None else _source(path, "features.cdi")
    if content.get("cdi-spec-dirs") == [""]:
        return Sourced(False, _source(path, "cdi-spec-dirs"))
    running = release(engine.version.value)
    if running is None:
        # Every release that knows the switch obeys a "no".
        return Sourced(False, source) if switch is False else Sourced(None, UNKNOWN)
    if running < _FIRST_CDI:
        return Sourced(False, DEFAULT)
    if switch is None:
        return Sourced(running >= _CDI_BY_DEFAULT, DEFAULT)
    return Sourced(switch is True, source)


def _spec_dirs(path: str, content: Mapping[str, object]) -> Sourced[tuple[str, ...]]:
    found = content.get("cdi-spec-dirs")
    if not isinstance(found, list) or not found:
        return Sourced(DEFAULT_SPEC_DIRS, DEFAULT)
    return Sourced(tuple(str(each) for each in found if each), _source(path, "cdi-spec-dirs"))
