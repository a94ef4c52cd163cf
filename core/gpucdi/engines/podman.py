"""Podman as an engine: its runtimes, its default runtime and its spec directories.

Owns: the chain of ``containers.conf`` files. Must not know: what a binary does.

Source: containers/common ``pkg/config/{config,new}.go`` (order of files, later values win). Podman
5.5 alone knows only /etc/cdi by default (containers/common#2460, mended in its pull request 2462).
"""

from __future__ import annotations

import posixpath
from dataclasses import replace

from gpucdi.engines.hooks import hook_findings
from gpucdi.engines.merge import leaf, overlay, subtable, text_leaf, texts_leaf
from gpucdi.engines.model import Engine, EngineName, Handler
from gpucdi.engines.tomlfile import Table, TomlError, read_toml
from gpucdi.engines.versions import Release, release
from gpucdi.findings import DEFAULT, UNKNOWN, Cause, Finding, Severity, Sourced
from gpucdi.host import HostTree

VENDOR = "/usr/share/containers/containers.conf"
MAIN = "/etc/containers/containers.conf"
DROP_INS = ("/usr/share/containers/containers.conf.d", "/etc/containers/containers.conf.d")
DEFAULT_SPEC_DIRS = ("/etc/cdi", "/var/run/cdi")
HOOK_DIRS = ("/usr/share/containers/oci/hooks.d", "/etc/containers/oci/hooks.d")
_FIRST_CDI = (4, 1, 0)
_ONE_DIRECTORY = (5, 5)


def read_podman(host: HostTree, version: Sourced[str | None], place: str | None) -> Engine:
    """Read Podman's configuration as root sees it; a file that it would refuse is a finding."""
    engine = Engine(EngineName.PODMAN, version=version, place=place)
    merged: Table = {}
    files: list[str] = []
    for path in _paths(host):
        try:
            table = read_toml(host, path).table
        except FileNotFoundError:
            continue
        except (OSError, TomlError) as error:
            return replace(engine, config_files=(*files, path), findings=(_refused(path, error),))
        files.append(path)
        merged = overlay(merged, table)
    running = release(version.value)
    settings = subtable(merged, "engine") or {}
    named = text_leaf(settings, "runtime")
    default: Sourced[str | None] = (
        Sourced("crun", DEFAULT) if named is None else Sourced(named.value, named.source)
    )
    return replace(
        engine,
        config_files=tuple(files),
        cdi_enabled=Sourced(None, UNKNOWN)
        if running is None
        else Sourced(running >= _FIRST_CDI, DEFAULT),
        spec_dirs=texts_leaf(settings, "cdi_spec_dirs") or Sourced(_default_dirs(running), DEFAULT),
        default_handler=default,
        handlers=_handlers(host, settings, default.value or ""),
        findings=hook_findings(host, texts_leaf(settings, "hooks_dir"), HOOK_DIRS),
    )


def _default_dirs(running: Release | None) -> tuple[str, ...]:
    """Return the directories of a release, of an unknown one those of most."""
    if running is not None and running[:2] == _ONE_DIRECTORY:
        return DEFAULT_SPEC_DIRS[:1]
    return DEFAULT_SPEC_DIRS


def _paths(host: HostTree) -> list[str]:
    dropped: dict[str, str] = {}
    for folder in DROP_INS:
        try:
            names = host.listdir(folder)
        except OSError:
            continue
        dropped |= {name: posixpath.join(folder, name) for name in names if name.endswith(".conf")}
    return [VENDOR, MAIN, *(dropped[name] for name in sorted(dropped))]


def _refused(path: str, error: OSError | TomlError) -> Finding:
    problem = error.problem if isinstance(error, TomlError) else error.strerror
    return Finding(
        cause=Cause.CONFIG_UNREADABLE,
        severity=Severity.ERROR,
        message=f"{path} cannot be read: {problem}; Podman refuses to run",
        advice="correct the file",
        file=path,
    )


def _handlers(host: HostTree, settings: Table, default: str) -> tuple[Handler, ...]:
    runtimes = subtable(settings, "runtimes") or {}
    names = dict.fromkeys([*runtimes, default])
    return tuple(
        Handler(
            name=posixpath.basename(name),
            engine=EngineName.PODMAN,
            binary=_binary(host, runtimes, name),
            is_default=name == default,
        )
        for name in names
    )


def _binary(host: HostTree, runtimes: Table, name: str) -> Sourced[str | None]:
    """Return the first of the listed paths that exists, as Podman chooses it."""
    if name.startswith("/"):
        return Sourced(name, DEFAULT)
    listed, where = texts_leaf(runtimes, name), leaf(runtimes, name)
    if listed is None or where is None or not listed.value:
        return Sourced(name, DEFAULT)
    found = next((path for path in listed.value if host.exists(path)), listed.value[0])
    return Sourced(found, where.source)
