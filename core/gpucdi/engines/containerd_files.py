"""containerd's configuration files: which ones are loaded, and in which order.

Owns: imports and patterns, and what makes a file unloadable. Must not know: how files are merged
(``containerd_merge``), what their tables mean.

Sources: containerd/containerd ``services/server/config/config.go`` (1.x),
``cmd/containerd/server/config/config.go`` (2.x), both ``resolveImports``.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass

from gpucdi.engines.glob import expand
from gpucdi.engines.merge import leaf
from gpucdi.engines.tomlfile import Table, TomlError, read_toml
from gpucdi.engines.versions import Release
from gpucdi.host import HostTree

FILES_LIMIT = 1000

# From these patch releases on a relative pattern among the imports is taken relative to the
# importing file; later minor releases always do.
_GLOBS_BESIDE_FILE = {(1, 6): 30, (1, 7): 16}


class RefusedError(Exception):
    """containerd does not start with this configuration; ``file`` and ``key`` say where."""

    def __init__(
        self, problem: str, file: str, key: str | None = None, line: int | None = None
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.file = file
        self.key = key
        self.line = line


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """One file in load order: its version (0 when it says none) and its plugin tables."""

    path: str
    version: int
    plugins: Table
    disabled_plugins: tuple[str, ...] = ()


def load_files(host: HostTree, path: str, running: Release) -> tuple[ConfigFile, ...]:
    """Read ``path`` and everything it imports as ``running`` does: breadth first, each path once.

    Raises :class:`RefusedError` for the first file that containerd could not load, a literal import
    that is missing included. A missing main file is the caller's matter: it must exist.
    """
    pending, seen = [path], set[str]()
    files: list[ConfigFile] = []
    while pending:
        current = pending.pop(0)
        if current in seen:
            continue
        if len(seen) == FILES_LIMIT:
            raise RefusedError(f"more than {FILES_LIMIT} files are imported", path, "imports")
        seen.add(current)
        file, imports = _load(host, current)
        files.append(file)
        for pattern in imports:
            pending.extend(_resolve_import(host, current, pattern, running))
    return tuple(files)


def _load(host: HostTree, path: str) -> tuple[ConfigFile, tuple[str, ...]]:
    try:
        table = read_toml(host, path).table
    except TomlError as error:
        raise RefusedError(f"is no valid TOML: {error.problem}", path, line=error.line) from None
    except OSError as error:
        raise RefusedError(f"cannot be read: {error.strerror}", path) from None
    version = _integer(table, "version", path)
    plugins = table.get("plugins", {})
    if not isinstance(plugins, dict):
        raise RefusedError("plugins is not a table", path, "plugins")
    for name, node in plugins.items():
        if not isinstance(node, dict):
            raise RefusedError(f"plugin {name} is not a table", path, f"plugins.{name}")
    disabled = _texts(table, "disabled_plugins", path)
    return ConfigFile(path, version, plugins, disabled), _texts(table, "imports", path)


def _integer(table: Table, key: str, path: str) -> int:
    found = table.get(key)
    if found is None:
        return 0
    value = None if isinstance(found, dict) else found.value
    if isinstance(value, bool) or not isinstance(value, int):
        raise RefusedError(f"{key} is not a number", path, key)
    return value


def _texts(table: Table, key: str, path: str) -> tuple[str, ...]:
    if key not in table:
        return ()
    found = leaf(table, key)
    if found is None or not isinstance(found.value, list):
        raise RefusedError(f"{key} is not a list", path, key)
    if not all(isinstance(item, str) for item in found.value):
        raise RefusedError(f"{key} is not a list of strings", path, key, found.source.line)
    return tuple(str(item) for item in found.value)


def _resolve_import(host: HostTree, parent: str, pattern: str, running: Release) -> list[str]:
    path = posixpath.normpath(pattern or ".")
    if "*" in path and not has_change(running, _GLOBS_BESIDE_FILE):
        # A relative pattern means the working directory, which is / for a service.
        return expand(host, path)
    if not path.startswith("/"):
        path = posixpath.normpath(posixpath.join(posixpath.dirname(parent), path))
    return expand(host, path) if "*" in path else [path]


def has_change(running: Release, since: Mapping[tuple[int, int], int]) -> bool:
    """Tell whether a release is one of those from which on its minor release has a change."""
    major, minor, patch = running
    first = since.get((major, minor))
    return patch >= first if first is not None else (major, minor) > max(since)
