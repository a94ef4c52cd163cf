"""How each containerd release merges its files into one configuration.

Owns: the merge rules of 1.x and 2.x, configuration versions 1 to 4 and their migrations, and what
each release refuses. Must not know: what the CRI tables mean.

Sources: containerd/containerd ``services/server/config/config.go`` (1.x),
``cmd/containerd/server/config/config.go`` (2.x), ``plugins/cri/runtime/plugin.go`` (migration).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpucdi.engines.containerd_files import ConfigFile, RefusedError, has_change
from gpucdi.engines.merge import copied, fill_missing, overlay, replaced, subtable
from gpucdi.engines.tomlfile import Table
from gpucdi.engines.versions import Release

GRPC_CRI = "io.containerd.grpc.v1.cri"
RUNTIME_CRI = "io.containerd.cri.v1.runtime"

# From these patch releases on a configuration of an unknown version is refused instead of read as
# one of version 2; later minor releases always refuse.
_REFUSES_VERSION_3 = {(1, 6): 32, (1, 7): 17}

# What each configuration version brought.
FULL_PLUGIN_NAMES = 2
SPLIT_CRI = 3
SERVER_PLUGINS = 4

# Keys of the old CRI table that the migration to version 3 does not hand to the runtime plugin.
_NOT_RUNTIME = (
    "containerd",
    "cni",
    "sandbox_image",
    "registry",
    "image_decryption",
    "max_concurrent_downloads",
    "image_pull_progress_timeout",
    "image_pull_with_sync_fs",
    "stats_collect_period",
    "disable_tcp_service",
    "stream_server_address",
    "stream_server_port",
    "stream_idle_timeout",
    "enable_tls_streaming",
    "x509_key_pair_streaming",
)
_NOT_RUNTIME_CONTAINERD = ("snapshotter", "disable_snapshot_annotations", "discard_unpacked_layers")


_NAME_PARTS = 4


@dataclass(frozen=True, slots=True)
class EffectiveConfig:
    """All files as one release merges them; ``cri`` is the CRI (runtime) plugin's table.

    ``is_disabled`` means that kubelet cannot use this containerd at all.
    """

    version: int
    cri: Table
    is_disabled: bool = False


def written_for(files: tuple[ConfigFile, ...], running: Release) -> bool:
    """Tell whether a release knows the version of every file; some older ones start regardless."""
    highest = max((file.version for file in files), default=0)
    if running < (2, 0, 0):
        return highest <= FULL_PLUGIN_NAMES
    return highest <= (SPLIT_CRI if running < (2, 3, 0) else SERVER_PLUGINS)


def effective(files: tuple[ConfigFile, ...], running: Release) -> EffectiveConfig:
    """Merge files as the containerd release ``running`` does.

    Raises :class:`RefusedError` where that release would not start.
    """
    if running < (2, 0, 0):
        return _effective_1(files, running)
    if running < (2, 3, 0):
        return _effective_2_0(files)
    if running < (2, 3, 5):
        _refuse_newer_drop_in(files)
    return _effective_2_3(files)


def _refuse_newer_drop_in(files: tuple[ConfigFile, ...]) -> None:
    root = 0
    for file in files:
        # The first file that states a version counts as the root.
        root = root or file.version
        if file.version > root:
            raise RefusedError(
                f"drop-in config version {file.version} higher than root config version {root}",
                file.path,
                "version",
            )


def _refuse_newer(version: int, highest: int, files: tuple[ConfigFile, ...]) -> None:
    if version > highest:
        guilty = next(file for file in reversed(files) if file.version == version)
        raise RefusedError(
            f"is of configuration version {version}, and this containerd reads at most {highest}",
            guilty.path,
            "version",
        )


def _last_version(files: tuple[ConfigFile, ...]) -> int:
    return next((file.version for file in reversed(files) if file.version), 0)


def _effective_1(files: tuple[ConfigFile, ...], running: Release) -> EffectiveConfig:
    version = _last_version(files) or 1
    if has_change(running, _REFUSES_VERSION_3):
        _refuse_newer(version, FULL_PLUGIN_NAMES, files)
    plugins: Table = {}
    for file in files:
        plugins = replaced(plugins, file.plugins)
    if version >= FULL_PLUGIN_NAMES:
        for file in files:
            _validate_names(file, [("plugins", name) for name in file.plugins], _NAME_PARTS)
            disabled = [("disabled_plugins", name) for name in file.disabled_plugins]
            _validate_names(file, disabled, _NAME_PARTS)
    name = GRPC_CRI if version >= FULL_PLUGIN_NAMES else "cri"
    return _effective(files, version, subtable(plugins, name), {name})


def _effective(
    files: tuple[ConfigFile, ...], version: int, cri: Table | None, names: set[str]
) -> EffectiveConfig:
    disabled = {name for file in files for name in file.disabled_plugins}
    return EffectiveConfig(version, cri or {}, is_disabled=bool(disabled & names))


def _validate_names(file: ConfigFile, named: list[tuple[str, str]], parts: int) -> None:
    for key, name in named:
        if len(name.split(".")) < parts:
            raise RefusedError(
                f'names the plugin "{name}", where io.containerd.x.vx is expected', file.path, key
            )


def _effective_2_0(files: tuple[ConfigFile, ...]) -> EffectiveConfig:
    """Merge as 2.0 to 2.2: the last version decides for all files together.

    A file of version 1 or none is raised to the version merged so far, which for a main file is 3:
    its plugins are renamed, but the later step that splits the CRI table sees version 3 and does
    nothing, so that its CRI settings are lost without a word.
    """
    version = SPLIT_CRI
    plugins: Table = {}
    read: list[ConfigFile] = []
    for file in files:
        current = file
        if file.version < FULL_PLUGIN_NAMES:
            _refuse_newer(version, SPLIT_CRI, tuple(read))
            current = replace(_renamed(file), version=version)
        _validate_disabled(current)
        read.append(current)
        version = current.version
        plugins = overlay(plugins, current.plugins)
    _refuse_newer(version, SPLIT_CRI, tuple(read))
    if version < SPLIT_CRI:
        plugins = _migrated(plugins)
    return _effective(tuple(read), version, subtable(plugins, RUNTIME_CRI), {GRPC_CRI, RUNTIME_CRI})


def _effective_2_3(files: tuple[ConfigFile, ...]) -> EffectiveConfig:
    """Merge as 2.3 and later: each file is brought to version 4 by itself."""
    _refuse_newer(max(file.version for file in files), SERVER_PLUGINS, files)
    plugins: Table = {}
    renamed = tuple(_renamed(file) if file.version < FULL_PLUGIN_NAMES else file for file in files)
    for file in renamed:
        _validate_disabled(file)
        # In 2.4 enable_cdi is dropped on the way; it has no meaning there, so keeping it is safe.
        tables = _migrated(file.plugins) if file.version < SERVER_PLUGINS else file.plugins
        plugins = overlay(plugins, tables)
    cri = subtable(plugins, RUNTIME_CRI)
    return _effective(renamed, SERVER_PLUGINS, cri, {GRPC_CRI, RUNTIME_CRI})


def _validate_disabled(file: ConfigFile) -> None:
    disabled = [("disabled_plugins", name) for name in file.disabled_plugins]
    _validate_names(file, disabled, len(("any", "dot")))


def _renamed(file: ConfigFile) -> ConfigFile:
    """Bring a version 1 file to version 2: short plugin names get their long form."""
    plugins = {(GRPC_CRI if name == "cri" else name): node for name, node in file.plugins.items()}
    disabled = tuple(GRPC_CRI if name == "cri" else name for name in file.disabled_plugins)
    return replace(file, version=FULL_PLUGIN_NAMES, plugins=plugins, disabled_plugins=disabled)


def _migrated(plugins: Table) -> Table:
    """Move the CRI plugin's runtime part to its own plugin, which keeps what it has already."""
    old = subtable(plugins, GRPC_CRI)
    if old is None:
        return plugins
    new = copied(subtable(plugins, RUNTIME_CRI) or {})

    new = fill_missing(new, old, _NOT_RUNTIME)
    old_containerd = subtable(old, "containerd")
    if old_containerd is not None:
        inner = subtable(new, "containerd") or {}
        new["containerd"] = fill_missing(inner, old_containerd, _NOT_RUNTIME_CONTAINERD)
    return {**plugins, RUNTIME_CRI: new}
