"""The keys of ``config.toml`` and their types: what the runtime checks before it uses any of them.

Owns: the schema and its check as go-toml 1.9 does it. Must not know: defaults, provenance.

Sources: NVIDIA/nvidia-container-toolkit ``internal/config/*.go``, ``api/config/v1/*.go``;
pelletier/go-toml v1.9.5 ``marshal.go`` (one wrong type refuses the whole file; a key is also found
in capitals; unknown keys are ignored).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from gpucdi.engines.tomlfile import Table, dotted
from gpucdi.findings import Sourced


class Type(enum.Enum):
    """What a key's value must be."""

    STRING = "a string"
    BOOLEAN = "true or false"
    STRINGS = "a list of strings"


Schema: TypeAlias = "Mapping[str, Type | Schema]"

SCHEMA: Schema = {
    "disable-require": Type.BOOLEAN,
    "swarm-resource": Type.STRING,
    "accept-nvidia-visible-devices-envvar-when-unprivileged": Type.BOOLEAN,
    "accept-nvidia-visible-devices-as-volume-mounts": Type.BOOLEAN,
    "supported-driver-capabilities": Type.STRING,
    "nvidia-container-cli": {
        "root": Type.STRING,
        "path": Type.STRING,
        "environment": Type.STRINGS,
        "debug": Type.STRING,
        "ldcache": Type.STRING,
        "load-kmods": Type.BOOLEAN,
        "no-pivot": Type.BOOLEAN,
        "no-cgroups": Type.BOOLEAN,
        "user": Type.STRING,
        "ldconfig": Type.STRING,
    },
    "nvidia-ctk": {"path": Type.STRING},
    "nvidia-container-runtime": {
        "debug": Type.STRING,
        "log-level": Type.STRING,
        "runtimes": Type.STRINGS,
        "mode": Type.STRING,
        "modes": {
            "csv": {"mount-spec-path": Type.STRING, "compat-container-root": Type.STRING},
            "cdi": {
                "spec-dirs": Type.STRINGS,
                "default-kind": Type.STRING,
                "annotation-prefixes": Type.STRINGS,
            },
            "jit-cdi": {
                "nvcdi-feature-flags": Type.STRINGS,
                "nvcdi-disable-hooks": Type.STRINGS,
            },
            "legacy": {"cuda-compat-mode": Type.STRING},
        },
    },
    "nvidia-container-runtime-hook": {"path": Type.STRING, "skip-mode-detection": Type.BOOLEAN},
    "features": {
        "allow-cuda-compat-libs-from-container": Type.BOOLEAN,
        "allow-ldconfig-from-container": Type.BOOLEAN,
        "allow-unknown-oci-spec-fields": Type.BOOLEAN,
        "disable-cuda-compat-lib-hook": Type.BOOLEAN,
        "disable-imex-channel-creation": Type.BOOLEAN,
        "ignore-imex-channel-requests": Type.BOOLEAN,
        "no-additional-gids-for-device-nodes": Type.BOOLEAN,
    },
}

# Keys that older releases do not know and therefore ignore, whatever stands there.
SINCE = {
    ("features", "allow-cuda-compat-libs-from-container"): (1, 17, 4),
    ("features", "allow-ldconfig-from-container"): (1, 17, 3),
    ("features", "disable-imex-channel-creation"): (1, 17, 0),
    ("features", "allow-unknown-oci-spec-fields"): (1, 19, 0),
    ("features", "disable-cuda-compat-lib-hook"): (1, 17, 5),
    ("features", "ignore-imex-channel-requests"): (1, 17, 5),
    ("features", "no-additional-gids-for-device-nodes"): (1, 19, 0),
    ("nvidia-container-runtime", "modes", "csv", "compat-container-root"): (1, 19, 0),
    ("nvidia-container-runtime", "modes", "jit-cdi"): (1, 18, 1),
    ("nvidia-container-runtime", "modes", "jit-cdi", "nvcdi-disable-hooks"): (1, 20, 0),
    ("nvidia-container-runtime", "modes", "legacy"): (1, 17, 7),
}


@dataclass(frozen=True, slots=True)
class WrongType:
    """A key whose value refuses the file."""

    key: str
    line: int | None
    wanted: str


def find(table: Table, *path: str) -> Sourced[object] | Table | None:
    """Return what stands at ``path``, each step tried as written and then in capitals."""
    node: Sourced[object] | Table | None = table
    for part in path:
        if not isinstance(node, dict):
            return None
        node = node.get(part, node.get(part.upper()))
    return node


def wrong_types(
    table: Table, version: tuple[int, int, int] | None, schema: Schema = SCHEMA
) -> list[WrongType]:
    """Return every key of the wrong type; ``version`` ``None`` checks the keys of all releases."""
    return _check(table, version, schema, ())


def _check(
    table: Table, version: tuple[int, int, int] | None, schema: Schema, above: tuple[str, ...]
) -> list[WrongType]:
    found: list[WrongType] = []
    for name, wanted in schema.items():
        key = (*above, name)
        node = find(table, name)
        since = SINCE.get(key)
        if node is None or (since is not None and version is not None and version < since):
            continue
        if isinstance(wanted, Type):
            if isinstance(node, dict) or not _fits(node.value, wanted):
                line = None if isinstance(node, dict) else node.source.line
                found.append(WrongType(dotted(key), line, wanted.value))
        elif isinstance(node, dict):
            found.extend(_check(node, version, wanted, key))
        else:
            found.append(WrongType(dotted(key), node.source.line, "a table"))
    return found


def _fits(value: object, wanted: Type) -> bool:
    if wanted is Type.STRING:
        return isinstance(value, str)
    if wanted is Type.BOOLEAN:
        return isinstance(value, bool)
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
