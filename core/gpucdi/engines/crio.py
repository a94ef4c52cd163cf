"""CRI-O as an engine: its handlers, its default handler and its spec directories.

Owns: CRI-O's file, its drop-in folder and its own merge rule. Must not know: what a binary does.

Sources: cri-o/cri-o ``pkg/config/config.go`` (``UpdateFromFile``, ``UpdateFromPath``),
``docs/crio.conf.5.md``.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import replace

from gpucdi.engines.arguments import option
from gpucdi.engines.hooks import hook_findings
from gpucdi.engines.merge import boolean_leaf, subtable, text_leaf, texts_leaf
from gpucdi.engines.model import Engine, EngineName, Handler
from gpucdi.engines.tomlfile import Table, TomlError, read_toml
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
from gpucdi.host import FileKind, HostTree
from gpucdi.programs import EngineProcess

MAIN = "/etc/crio/crio.conf"
DROP_INS = "/etc/crio/crio.conf.d"
DEFAULT_SPEC_DIRS = ("/etc/cdi", "/var/run/cdi")
HOOK_DIRS = ("/usr/share/containers/oci/hooks.d", "/run/containers/oci/hooks.d")
_DEPTH_LIMIT = 8
_FIRST_CDI = (1, 24, 0)
_FIRST_CRUN = (1, 31, 0)


def read_crio(
    host: HostTree,
    process: EngineProcess | None,
    version: Sourced[str | None],
    place: str | None,
) -> Engine:
    """Read CRI-O's configuration; a file that it would refuse is a finding."""
    main = option(process, "c", "config") or MAIN
    folder = option(process, "d", "config-dir") or DROP_INS
    engine = Engine(EngineName.CRIO, version=version, place=place)
    runtime: Table = {}
    runtimes: Table = {}
    files: list[str] = []
    for path in (main, *_below(host, folder, 0)):
        try:
            table = read_toml(host, path).table
        except FileNotFoundError:
            continue
        except (OSError, TomlError) as error:
            return replace(engine, config_files=(*files, path), findings=(_refused(path, error),))
        files.append(path)
        found = subtable(table, "crio", "runtime") or {}
        # A handler's table replaces an earlier one of the same name as a whole.
        runtimes = {**runtimes, **(subtable(found, "runtimes") or {})}
        runtime = {**runtime, **found}
    engine = replace(engine, config_files=tuple(files))
    return _with_runtimes(host, engine, process, runtime, runtimes)


def _below(host: HostTree, folder: str, depth: int) -> Iterator[str]:
    """Walk a folder in byte order, sub-folders included, whatever the files are called."""
    try:
        names = host.listdir(folder) if depth < _DEPTH_LIMIT else []
    except OSError:
        return
    for name in names:
        path = posixpath.join(folder, name)
        try:
            is_folder = host.lstat(path).kind is FileKind.DIRECTORY
        except OSError:
            continue
        if is_folder:
            yield from _below(host, path, depth + 1)
        else:
            yield path


def _refused(path: str, error: OSError | TomlError) -> Finding:
    if isinstance(error, TomlError):
        where = path if error.line is None else f"{path}:{error.line}"
        problem = f"{where} is no valid TOML: {error.problem}"
    else:
        problem = f"{path} cannot be read: {error.strerror}"
    return Finding(
        cause=Cause.CONFIG_UNREADABLE,
        severity=Severity.ERROR,
        message=f"{problem}; CRI-O does not start with it",
        advice="correct the file, then restart CRI-O",
        file=path,
    )


def _with_runtimes(
    host: HostTree, engine: Engine, process: EngineProcess | None, runtime: Table, runtimes: Table
) -> Engine:
    running = release(engine.version.value)
    default = _default(process, runtime, engine)
    tables = {name: node for name, node in runtimes.items() if isinstance(node, dict)}
    if default.value is not None:
        tables.setdefault(default.value, {})
    inherited = _binary(default.value or "", tables.get(default.value or "", {}))
    handlers = tuple(
        _handler(name, table, default.value, inherited) for name, table in tables.items()
    )
    spec_dirs = texts_leaf(runtime, "cdi_spec_dirs")
    on_command_line = option(process, "cdi-spec-dirs")
    if on_command_line is not None:
        spec_dirs = Sourced(tuple(on_command_line.split(",")), Source(SourceKind.PROCESS))
    return replace(
        engine,
        cdi_enabled=Sourced(None, UNKNOWN)
        if running is None
        else Sourced(running >= _FIRST_CDI, DEFAULT),
        spec_dirs=spec_dirs or Sourced(DEFAULT_SPEC_DIRS, DEFAULT),
        default_handler=default,
        handlers=handlers,
        findings=hook_findings(host, texts_leaf(runtime, "hooks_dir"), HOOK_DIRS),
    )


def _default(process: EngineProcess | None, runtime: Table, engine: Engine) -> Sourced[str | None]:
    on_command_line = option(process, "default-runtime")
    if on_command_line is not None:
        return Sourced(on_command_line, Source(SourceKind.PROCESS))
    named = text_leaf(runtime, "default_runtime")
    if named is not None and named.value:
        return Sourced(named.value, named.source)
    running = release(engine.version.value)
    if running is None:
        return Sourced(None, UNKNOWN)
    return Sourced("crun" if running >= _FIRST_CRUN else "runc", DEFAULT)


def _handler(
    name: str, table: Table, default: str | None, inherited: Sourced[str | None]
) -> Handler:
    inherits = boolean_leaf(table, "inherit_default_runtime")
    runtime_type = text_leaf(table, "runtime_type")
    return Handler(
        name=name,
        engine=EngineName.CRIO,
        binary=inherited if inherits is not None and inherits.value else _binary(name, table),
        runtime_type=Sourced(None, DEFAULT)
        if runtime_type is None
        else Sourced(runtime_type.value or None, runtime_type.source),
        is_default=name == default,
        # CRI-O hands all annotations of Pod and container to the runtime.
        container_annotations=("*",),
        pod_annotations=("*",),
    )


def _binary(name: str, table: Table) -> Sourced[str | None]:
    path = text_leaf(table, "runtime_path")
    if path is not None and path.value:
        return Sourced(path.value, path.source)
    # Without a path CRI-O looks for a program that is called like the handler.
    return Sourced(name or None, DEFAULT)
