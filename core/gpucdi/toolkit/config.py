"""``config.toml`` as the NVIDIA runtime reads it, with the provenance of every value.

Owns: the effective values, their defaults by version, and what makes the runtime refuse the file.
Must not know: which file a handler reads, nor what a mode does.

Sources: NVIDIA/nvidia-container-toolkit ``internal/config/config.go``, ``internal/config/toml.go``
(from 1.19 ``api/config/v1``).
"""

from __future__ import annotations

from dataclasses import dataclass

from gpucdi.engines.tomlfile import Table, TomlError, read_toml
from gpucdi.engines.versions import Release
from gpucdi.findings import DEFAULT, Cause, Finding, Severity, Sourced
from gpucdi.host import HostTree
from gpucdi.toolkit.model import ToolkitConfig
from gpucdi.toolkit.schema import find, wrong_types

_RUNTIME = "nvidia-container-runtime"
_CDI = (_RUNTIME, "modes", "cdi")


@dataclass(frozen=True, slots=True)
class _Values:
    table: Table

    def text(self, default: str, *path: str) -> Sourced[str]:
        found = find(self.table, *path)
        if isinstance(found, Sourced) and isinstance(found.value, str):
            return Sourced(found.value, found.source)
        return Sourced(default, DEFAULT)

    def flag(self, default: bool, *path: str) -> Sourced[bool]:
        found = find(self.table, *path)
        if isinstance(found, Sourced) and isinstance(found.value, bool):
            return Sourced(found.value, found.source)
        return Sourced(default, DEFAULT)

    def texts(self, default: tuple[str, ...], *path: str) -> Sourced[tuple[str, ...]]:
        found = find(self.table, *path)
        if isinstance(found, Sourced) and isinstance(found.value, list):
            return Sourced(tuple(str(item) for item in found.value), found.source)
        return Sourced(default, DEFAULT)


def read_config(host: HostTree, path: str, version: Release | None) -> ToolkitConfig:
    """Return the effective configuration of a runtime of ``version`` that reads ``path``.

    A missing file means the defaults. A file that the runtime would refuse gives ``usable=False``,
    the defaults, and a finding; nothing is raised. ``version`` ``None`` means unknown: then the
    defaults are those of the current releases.
    """
    try:
        table = read_toml(host, path, lenient=True).table
    except FileNotFoundError:
        return _values(path, {}, version, exists=False)
    except TomlError as error:
        return _refused(path, f"is no valid TOML: {error.problem}", line=error.line)
    except OSError as error:
        return _refused(path, f"cannot be read: {error.strerror}")
    wrong = wrong_types(table, version)
    if wrong:
        first = wrong[0]
        return _refused(path, f"{first.key} is not {first.wanted}", first.key, first.line)
    problem = _ldconfig_problem(table, version)
    if problem is not None:
        return _refused(path, problem, "nvidia-container-cli.ldconfig")
    return _values(path, table, version, exists=True)


def _refused(
    path: str, problem: str, key: str | None = None, line: int | None = None
) -> ToolkitConfig:
    where = path if line is None else f"{path}:{line}"
    finding = Finding(
        cause=Cause.CONFIG_UNREADABLE,
        severity=Severity.ERROR,
        message=f"{where}: {problem}; the runtime refuses to start any container",
        advice="correct the file; the next container start reads it again",
        file=path,
        key=key,
    )
    return ToolkitConfig(file=path, exists=True, usable=False, findings=(finding,))


def _ldconfig_problem(table: Table, version: Release | None) -> str | None:
    if version is not None and version < (1, 17, 3):
        return None
    found = find(table, "nvidia-container-cli", "ldconfig")
    allowed = find(table, "features", "allow-ldconfig-from-container")
    if not isinstance(found, Sourced) or str(found.value).startswith("@"):
        return None
    if isinstance(allowed, Sourced) and allowed.value is True:
        return None
    return f'nvidia-container-cli.ldconfig "{found.value}" does not start with "@"'


def _values(path: str, table: Table, version: Release | None, *, exists: bool) -> ToolkitConfig:
    values = _Values(table)
    root = values.text("/", "nvidia-container-cli", "root")
    swarm = values.text("", "swarm-resource")
    names = tuple(name.strip() for name in swarm.value.split(",") if name.strip())
    return ToolkitConfig(
        file=path,
        exists=exists,
        mode=values.text("auto", _RUNTIME, "mode"),
        default_kind=values.text("nvidia.com/gpu", *_CDI, "default-kind"),
        spec_dirs=values.texts(("/etc/cdi", "/var/run/cdi"), *_CDI, "spec-dirs"),
        annotation_prefixes=values.texts(("cdi.k8s.io/",), *_CDI, "annotation-prefixes"),
        driver_root=Sourced(root.value or "/", root.source),
        accept_envvar_when_unprivileged=values.flag(
            True, "accept-nvidia-visible-devices-envvar-when-unprivileged"
        ),
        accept_volume_mounts=values.flag(False, "accept-nvidia-visible-devices-as-volume-mounts"),
        swarm_resources=Sourced(names, swarm.source),
        ignore_imex_channel_requests=values.flag(False, "features", "ignore-imex-channel-requests"),
        ctk_path=values.text("nvidia-ctk", "nvidia-ctk", "path"),
        low_level_runtimes=values.texts(low_level_runtimes(version), _RUNTIME, "runtimes"),
    )


def low_level_runtimes(version: Release | None) -> tuple[str, ...]:
    """Return the names that a release looks up when ``runtimes`` is not set."""
    if version is None or version >= (1, 18, 0):
        return ("runc", "crun")
    if version >= (1, 14, 6):
        return ("docker-runc", "runc", "crun")
    return ("docker-runc", "runc")
