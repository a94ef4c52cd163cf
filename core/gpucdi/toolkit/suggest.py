"""The smallest edit of a ``config.toml`` that would change what its runtime asks for, as a diff.

Owns: the edit and its diff. It is shown to people and never applied. Must not know: whether the
edit is a good idea.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Table

from gpucdi.engines.tomlfile import TOML_LIMIT_BYTES, TomlError, parse_toml
from gpucdi.findings import Sourced
from gpucdi.host import HostTree
from gpucdi.toolkit.model import ToolkitConfig
from gpucdi.toolkit.schema import find

MODE = ("nvidia-container-runtime", "mode")
DEFAULT_KIND = ("nvidia-container-runtime", "modes", "cdi", "default-kind")
_BOM = "\ufeff"
_OPERATOR_VARIABLES = {
    MODE: "NVIDIA_CONTAINER_RUNTIME_MODE",
    DEFAULT_KIND: "NVIDIA_CONTAINER_RUNTIME_MODES_CDI_DEFAULT_KIND",
}


@dataclass(frozen=True, slots=True)
class Suggestion:
    """An edit of ``file``: its unified ``diff`` and the whole new ``text``.

    ``lasting`` says where the same change must be made to survive, when the file is written anew
    by a component at each of its starts.
    """

    file: str
    diff: str
    text: str
    lasting: str | None = None


def suggest_edit(
    host: HostTree,
    config: ToolkitConfig,
    *,
    mode: str | None = None,
    default_kind: str | None = None,
) -> Suggestion | None:
    """Return the edit of the file in force that sets the given values, comments kept.

    ``None`` when the file already says so, or cannot be read or edited faithfully.
    """
    wanted = {MODE: mode, DEFAULT_KIND: default_kind}
    changes = {key: value for key, value in wanted.items() if value is not None}
    try:
        before = host.read(config.file, TOML_LIMIT_BYTES).decode("utf-8")
    except FileNotFoundError:
        before = ""
    except (OSError, UnicodeDecodeError):
        return None
    after = _edited(before, changes, config.file)
    if after is None or after == before:
        return None
    lines = difflib.unified_diff(
        before.removeprefix(_BOM).splitlines(keepends=True),
        after.removeprefix(_BOM).splitlines(keepends=True),
        f"a{config.file}",
        f"b{config.file}",
    )
    diff = "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
    return Suggestion(config.file, diff, after, _lasting(config, changes))


def _edited(before: str, changes: Mapping[tuple[str, ...], str], path: str) -> str | None:
    bom = _BOM if before.startswith(_BOM) else ""
    try:
        old = parse_toml(before.encode(), path).table
        document = tomlkit.parse(before.removeprefix(_BOM))
        for key, value in changes.items():
            found = find(old, *key)
            if isinstance(found, Sourced) and found.value == value:
                continue
            _set(document, key, value)
        after = bom + tomlkit.dumps(document)
        new = parse_toml(after.encode(), path).table
    except (TOMLKitError, TomlError, TypeError, KeyError):
        return None
    for key, value in changes.items():
        found = find(new, *key)
        if not isinstance(found, Sourced) or found.value != value:
            return None
    return after


def _set(document: tomlkit.TOMLDocument, key: tuple[str, ...], value: str) -> None:
    table: tomlkit.TOMLDocument | Table = document
    for part in key[:-1]:
        if part not in table:
            table[part] = tomlkit.table(is_super_table=part != key[-2])
        inner = table[part]
        if not hasattr(inner, "__setitem__"):
            raise TypeError(f"{part} is no table")
        table = inner
    table[key[-1]] = value


def _lasting(config: ToolkitConfig, changes: Mapping[tuple[str, ...], str]) -> str | None:
    if "/.config/nvidia-container-runtime/" not in config.file:
        return None
    settings = ", ".join(f"{_OPERATOR_VARIABLES[key]}={value}" for key, value in changes.items())
    return f"the toolkit container writes this file at each start; set its environment: {settings}"
