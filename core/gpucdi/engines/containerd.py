"""containerd as an engine: its handlers, its default handler and its native CDI injection.

Owns: what the CRI table means in each release, and what follows when the running release is not
known. Must not know: how files are merged (``containerd_merge``), nor what a binary does.

Sources: containerd/containerd ``pkg/cri/config/config.go`` (1.x),
``internal/cri/config/config.go`` (2.x).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpucdi.engines.containerd_files import ConfigFile, RefusedError, load_files
from gpucdi.engines.containerd_merge import EffectiveConfig, effective, written_for
from gpucdi.engines.merge import boolean_leaf, leaf, subtable, text_leaf, texts_leaf
from gpucdi.engines.model import Engine, EngineName, Handler
from gpucdi.engines.tomlfile import Table
from gpucdi.engines.versions import Release, release
from gpucdi.findings import (
    DEFAULT,
    UNKNOWN,
    Cause,
    Finding,
    Severity,
    Sourced,
)
from gpucdi.host import HostTree

DEFAULT_SPEC_DIRS = ("/etc/cdi", "/var/run/cdi")

# One release for each set of rules; together they stand for an unknown version.
RULE_SETS: tuple[Release, ...] = (
    *((1, 6, 0), (1, 6, 32), (1, 7, 0), (1, 7, 17)),
    *((2, 2, 0), (2, 3, 0), (2, 3, 5), (2, 4, 0)),
)


@dataclass(frozen=True, slots=True)
class _View:
    """What one release makes of the files."""

    cdi_enabled: Sourced[bool | None]
    spec_dirs: Sourced[tuple[str, ...]]
    default_handler: Sourced[str | None]
    handlers: tuple[Handler, ...]
    files: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


def read_containerd(
    host: HostTree, path: str, version: Sourced[str | None], place: str | None
) -> Engine:
    """Read the containerd whose main configuration is the host path ``path``.

    With a ``version`` that is not known, every value on which the possible releases differ becomes
    unknown. Possible are those for whose configuration versions the files are written, and that
    would not refuse them, for containerd does run.
    """
    engine = Engine(EngineName.CONTAINERD, version=version, place=place)
    running = release(version.value)
    views: list[_View] = []
    refusals: list[RefusedError] = []
    for candidate in RULE_SETS if running is None else (running,):
        try:
            files = load_files(host, path, candidate) if host.exists(path) else ()
            if running is not None or written_for(files, candidate):
                views.append(_view(path, files, candidate))
        except RefusedError as refusal:
            refusals.append(refusal)
    if views:
        return _engine(engine, views)
    if not refusals:
        refusals.append(RefusedError("is of a version that no known containerd reads", path))
    return replace(engine, config_files=(path,), findings=(_refused(refusals[-1]),))


def _refused(refusal: RefusedError) -> Finding:
    where = refusal.file if refusal.line is None else f"{refusal.file}:{refusal.line}"
    return Finding(
        cause=Cause.CONFIG_UNREADABLE,
        severity=Severity.ERROR,
        message=f"{where} {refusal.problem}; containerd does not start with it",
        advice="correct the file, then restart containerd",
        file=refusal.file,
        key=refusal.key,
    )


def _engine(engine: Engine, views: list[_View]) -> Engine:
    first, others = views[0], views[1:]
    names = dict.fromkeys(handler.name for view in views for handler in view.handlers)
    handlers = tuple(_agreed_handler(name, views) for name in names)
    enabled, default, spec_dirs = first.cdi_enabled, first.default_handler, first.spec_dirs
    if any(view.cdi_enabled.value != enabled.value for view in others):
        enabled = Sourced(None, UNKNOWN)
    if any(view.default_handler.value != default.value for view in others):
        default = Sourced(None, UNKNOWN)
    if any(view.spec_dirs.value != spec_dirs.value for view in others):
        spec_dirs = Sourced(spec_dirs.value, UNKNOWN)
    findings = first.findings if all(view.findings == first.findings for view in others) else ()
    if any(_facts(view) != _facts(first) for view in others):
        findings += (_disagreement(first),)
    return replace(
        engine,
        config_files=first.files,
        cdi_enabled=enabled,
        spec_dirs=spec_dirs,
        default_handler=default,
        handlers=handlers,
        findings=findings,
    )


def _facts(view: _View) -> dict[str, object]:
    """Return what the handlers are, apart from where that was read."""
    return {each.name: _handler_facts(each) for each in view.handlers}


def _handler_facts(handler: Handler) -> object:
    annotations = (handler.container_annotations, handler.pod_annotations)
    return handler.binary.value, handler.runtime_type.value, handler.is_default, annotations


def _agreed_handler(name: str, views: list[_View]) -> Handler:
    found = [next((one for one in view.handlers if one.name == name), None) for view in views]
    known = next(handler for handler in reversed(found) if handler is not None)
    facts = [None if handler is None else _handler_facts(handler) for handler in found]
    if all(each == facts[-1] for each in facts):
        return known
    binary: Sourced[str | None] = known.binary
    if any(handler is None or handler.binary.value != binary.value for handler in found):
        binary = Sourced(None, UNKNOWN)
    is_default = all(one is not None and one.is_default for one in found)
    return replace(known, binary=binary, is_default=is_default)


def _disagreement(view: _View) -> Finding:
    main = view.files[0] if view.files else None
    return Finding(
        cause=Cause.CONFIG_UNREADABLE,
        severity=Severity.WARNING,
        message="the containerd releases that could be running read their files differently",
        advice="let gpucdi see the running containerd (its process, or the capture's engines)",
        file=main,
    )


def _view(path: str, files: tuple[ConfigFile, ...], running: Release) -> _View:
    config = effective(files, running) if files else EffectiveConfig(1, {})
    cri = config.cri
    paths = tuple(file.path for file in files)
    if config.is_disabled:
        return _View(
            cdi_enabled=Sourced(False, DEFAULT),
            spec_dirs=_spec_dirs(cri, running),
            default_handler=Sourced(None, DEFAULT),
            handlers=(),
            files=paths,
            findings=(_disabled(path),),
        )
    containerd = subtable(cri, "containerd") or {}
    default = _default_handler(containerd)
    handlers, findings = _handlers(containerd, running, default.value)
    names = {handler.name for handler in handlers}
    if default.value is not None and default.value not in names:
        findings += (_default_missing(default),)
    return _View(
        cdi_enabled=_cdi_enabled(cri, running),
        spec_dirs=_spec_dirs(cri, running),
        default_handler=default,
        handlers=handlers,
        files=paths,
        findings=findings,
    )


def _disabled(path: str) -> Finding:
    return Finding(
        cause=Cause.HANDLER_MISSING,
        severity=Severity.INFO,
        message=f"{path} disables the CRI plugin, so no kubelet uses this containerd",
        advice="nothing, where Docker runs it; else take the plugin out of disabled_plugins",
        file=path,
        key="disabled_plugins",
    )


def _default_handler(containerd: Table) -> Sourced[str | None]:
    legacy = subtable(containerd, "default_runtime")
    if legacy is not None and text_leaf(legacy, "runtime_type") is not None:
        found = text_leaf(legacy, "runtime_type")
        return Sourced("default", found.source if found else UNKNOWN)
    named = text_leaf(containerd, "default_runtime_name")
    return Sourced("runc", DEFAULT) if named is None else Sourced(named.value, named.source)


def _default_missing(default: Sourced[str | None]) -> Finding:
    return Finding(
        cause=Cause.HANDLER_MISSING,
        severity=Severity.ERROR,
        message=f'default_runtime_name is "{default.value}", and no such runtime is configured',
        advice="add the runtime, or name one that is configured; containerd's CRI does not start",
        file=default.source.file,
        key=default.source.key,
    )


def _handlers(
    containerd: Table, running: Release, default: str | None
) -> tuple[tuple[Handler, ...], tuple[Finding, ...]]:
    runtimes = subtable(containerd, "runtimes")
    tables: dict[str, Table] = {}
    # 1.x decodes the table into a new map, which drops the built-in runc; 2.x adds to it.
    if runtimes is None or running >= (2, 0, 0):
        tables["runc"] = {}
    tables |= {name: node for name, node in (runtimes or {}).items() if isinstance(node, dict)}
    for name, key in (("default", "default_runtime"), ("untrusted", "untrusted_workload_runtime")):
        legacy = subtable(containerd, key)
        if running < (2, 0, 0) and legacy is not None and text_leaf(legacy, "runtime_type"):
            tables[name] = legacy
    handlers = tuple(_handler(name, table, default) for name, table in tables.items())
    return handlers, tuple(_type_findings(runtimes or {}))


def _handler(name: str, table: Table, default: str | None) -> Handler:
    binary = _binary(table)
    runtime_type = text_leaf(table, "runtime_type")
    return Handler(
        name=name,
        engine=EngineName.CONTAINERD,
        binary=binary,
        runtime_type=Sourced(None, DEFAULT)
        if runtime_type is None
        else Sourced(runtime_type.value, runtime_type.source),
        is_default=name == default,
        container_annotations=_texts(table, "container_annotations"),
        pod_annotations=_texts(table, "pod_annotations"),
    )


def _binary(table: Table) -> Sourced[str | None]:
    options = subtable(table, "options") or {}
    # The options are decoded into a Go struct, whose field names match in any case.
    spelled = [key for key in options if key.lower() == "binaryname"]
    for key in sorted(spelled, key=lambda key: key != "BinaryName"):
        found = text_leaf(options, key)
        if found is not None and found.value:
            return Sourced(found.value, found.source)
    engine = text_leaf(table, "runtime_engine")
    if engine is not None and engine.value:
        return Sourced(engine.value, engine.source)
    return Sourced(None, DEFAULT)


def _texts(table: Table, key: str) -> tuple[str, ...]:
    found = texts_leaf(table, key)
    return () if found is None else found.value


def _type_findings(runtimes: Table) -> list[Finding]:
    findings = []
    for name, node in runtimes.items():
        if not isinstance(node, dict):
            findings.append(
                Finding(
                    cause=Cause.CONFIG_UNREADABLE,
                    severity=Severity.ERROR,
                    message=f'runtime "{name}" is not a table; containerd\'s CRI does not start',
                    advice=f"write it as [….containerd.runtimes.{name}]",
                    file=node.source.file,
                    key=node.source.key,
                )
            )
    return findings


def _cdi_enabled(cri: Table, running: Release) -> Sourced[bool | None]:
    if running < (1, 7, 0):
        return Sourced(False, DEFAULT)
    if running >= (2, 4, 0):
        return Sourced(True, DEFAULT)
    if leaf(cri, "enable_cdi") is not None:
        found = boolean_leaf(cri, "enable_cdi")
        return Sourced(None, UNKNOWN) if found is None else Sourced(found.value, found.source)
    return Sourced(running >= (2, 0, 0), DEFAULT)


def _spec_dirs(cri: Table, running: Release) -> Sourced[tuple[str, ...]]:
    found = texts_leaf(cri, "cdi_spec_dirs")
    if found is None or (running >= (2, 4, 0) and not found.value):
        return Sourced(DEFAULT_SPEC_DIRS, DEFAULT)
    return found
