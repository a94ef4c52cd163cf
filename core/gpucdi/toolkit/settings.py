"""Every key of ``config.toml`` with its value in force: what a person would otherwise look up.

Owns: the defaults of all keys, by release. Must not know: what a key does; the few that decide about
devices are also in :class:`ToolkitConfig`.

Sources: NVIDIA/nvidia-container-toolkit ``internal/config/{config,cli,runtime,hook,features}.go``
(from 1.19 ``api/config/v1``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpucdi.engines.tomlfile import Table, TomlError, dotted, read_toml
from gpucdi.engines.versions import Release
from gpucdi.findings import DEFAULT, Sourced
from gpucdi.host import HostTree
from gpucdi.toolkit.config import low_level_runtimes
from gpucdi.toolkit.model import ToolkitConfig
from gpucdi.toolkit.schema import SCHEMA, SINCE, Schema, Type, find

_RUNTIME = "nvidia-container-runtime"
_CLI = "nvidia-container-cli"
_MODES = (_RUNTIME, "modes")
_ZERO: Mapping[Type, object] = {Type.STRING: "", Type.BOOLEAN: False, Type.STRINGS: ()}
# Whatever is not here is empty, or false.
_DEFAULTS: Mapping[tuple[str, ...], object] = {
    ("accept-nvidia-visible-devices-envvar-when-unprivileged",): True,
    ("supported-driver-capabilities",): "compat32,compute,display,graphics,ngx,utility,video",
    (_CLI, "load-kmods"): True,
    (_CLI, "ldconfig"): "@/sbin/ldconfig",
    ("nvidia-ctk", "path"): "nvidia-ctk",
    (_RUNTIME, "debug"): "/dev/null",
    (_RUNTIME, "log-level"): "info",
    (_RUNTIME, "mode"): "auto",
    (*_MODES, "cdi", "default-kind"): "nvidia.com/gpu",
    (*_MODES, "cdi", "annotation-prefixes"): ("cdi.k8s.io/",),
    (*_MODES, "cdi", "spec-dirs"): ("/etc/cdi", "/var/run/cdi"),
    (*_MODES, "csv", "mount-spec-path"): (
        "/etc/nvidia-container-runtime/host-files-for-container.d"
    ),
    (*_MODES, "legacy", "cuda-compat-mode"): "ldconfig",
    ("nvidia-container-runtime-hook", "path"): "nvidia-container-runtime-hook",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """One key: its value with provenance (text, bool or a tuple of texts).

    ``since`` is the first release that reads the key, ``None`` where every known one does.
    """

    key: str
    value: Sourced[object]
    since: Release | None = None


def effective_settings(
    host: HostTree, config: ToolkitConfig, version: Release | None
) -> tuple[Setting, ...]:
    """Return every key that a runtime of ``version`` reads from the file of ``config``.

    ``version`` ``None`` means unknown: then the keys of all releases are there, with the current
    defaults. Nothing is in force where the runtime refuses the file: the answer is empty.
    """
    if not config.usable:
        return ()
    try:
        table = read_toml(host, config.file, lenient=True).table
    except FileNotFoundError:
        table = {}
    except (OSError, TomlError):
        # It was readable a moment ago; the next look says what is wrong.
        return ()
    return tuple(
        Setting(dotted(path), _value(host, table, path, kind, version), since)
        for path, kind in _keys(SCHEMA, ())
        for since in (_since(path),)
        if since is None or version is None or version >= since
    )


def _keys(schema: Schema, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Type]]:
    for name, wanted in schema.items():
        if isinstance(wanted, Type):
            yield (*above, name), wanted
        else:
            yield from _keys(wanted, (*above, name))


def _since(path: tuple[str, ...]) -> Release | None:
    known = [SINCE[path[:end]] for end in range(1, len(path) + 1) if path[:end] in SINCE]
    return max(known, default=None)


def _value(
    host: HostTree, table: Table, path: tuple[str, ...], kind: Type, version: Release | None
) -> Sourced[object]:
    found = find(table, *path)
    if isinstance(found, Sourced):
        value = tuple(found.value) if isinstance(found.value, list) else found.value
        return Sourced(value, found.source)
    if path == (_RUNTIME, "runtimes"):
        return Sourced(low_level_runtimes(version), DEFAULT)
    if path == (_CLI, "ldconfig") and host.exists("/sbin/ldconfig.real"):
        # Debian's and Ubuntu's wrapper around it would not work inside of a container.
        return Sourced("@/sbin/ldconfig.real", DEFAULT)
    return Sourced(_DEFAULTS.get(path, _ZERO[kind]), DEFAULT)
