"""The ``config.toml`` behind a handler: every key in force, and the edit that would change it.

Owns: what ``inspect --handler`` shows on request. Must not know: keys and defaults; they are
``gpucdi.toolkit``'s.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console
from rich.text import Text

from gpucdi.engines.versions import release
from gpucdi.toolkit import HandlerRuntime, ToolkitConfig, effective_settings, suggest_edit
from gpucdi_cli.chain import source_text
from gpucdi_cli.console import plain_table, print_table, rule
from gpucdi_cli.node_look import NodeLook
from gpucdi_cli.problems import CliError

SUGGESTED = ("mode", "default-kind")


def wanted_edits(given: Sequence[str]) -> dict[str, str]:
    """Return what ``--suggest`` asks for; raise :class:`CliError` for any other key."""
    pairs = [item.partition("=") for item in given]
    for key, equals, value in pairs:
        if key not in SUGGESTED or not equals or not value:
            raise CliError(f"--suggest takes {' or '.join(f'{name}=VALUE' for name in SUGGESTED)}")
    return {key: value for key, _, value in pairs}


def show_edits(console: Console, node: NodeLook, handler: str, wanted: Mapping[str, str]) -> None:
    """Print each edit as a diff that ``patch`` reads, and where it must be made to last."""
    mode, kind = wanted.get("mode"), wanted.get("default-kind")
    for _, config in _configs(node, handler):
        console.print()
        rule(console, f"suggested edit of {config.file}; nothing is changed")
        edit = suggest_edit(node.host, config, mode=mode, default_kind=kind)
        if edit is None:
            console.print("none: it says so already, or cannot be edited faithfully")
            continue
        console.print(Text(edit.diff), end="")
        if edit.lasting is not None:
            console.print(edit.lasting)


def show_settings(console: Console, node: NodeLook, handler: str) -> None:
    """Print every key that the handler's release reads, its value, and where it comes from."""
    for runtime, config in _configs(node, handler):
        version = runtime.toolkit.version.value if runtime.toolkit else None
        console.print()
        rule(console, f"settings of {config.file} as {version or 'any release'} reads it")
        table = plain_table("key", "value", "from", "since")
        for item in effective_settings(node.host, config, release(version)):
            since = ".".join(map(str, item.since)) if item.since else "-"
            value = json.dumps(item.value.value, ensure_ascii=False)
            table.add_row(item.key, value, source_text(item.value.source), since)
        print_table(console, table)


def _configs(node: NodeLook, handler: str) -> Iterator[tuple[HandlerRuntime, ToolkitConfig]]:
    """Yield each file in force behind a handler once, with the first runtime that reads it."""
    seen: set[str] = set()
    for runtime in node.observation.runtimes:
        config = runtime.config
        if runtime.handler.name == handler and config is not None and config.file not in seen:
            seen.add(config.file)
            yield runtime, config
