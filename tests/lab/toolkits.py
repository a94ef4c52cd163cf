"""NVIDIA Container Toolkit installations of an imaginary node, with the real programs.

Owns: the two ways a toolkit gets onto a node (the GPU Operator's toolkit container with its
wrappers, a distribution package) and the config.toml that each writes. The wrappers are what
NVIDIA/nvidia-container-toolkit tools/container/toolkit (1.17) and cmd/nvidia-ctk-installer/toolkit
(1.18 and later) render. Must not know: hardware, namespaces.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.lab import programs

OPERATOR_FOLDER = "/usr/local/nvidia/toolkit"
PACKAGE_CONFIG = "/etc/nvidia-container-runtime/config.toml"
MANAGEMENT_KIND = "management.nvidia.com/gpu"
# A kernel without loadable modules has no /proc/modules; there the wrapper reads this instead.
MODULES_STAND_IN = "/run/nvidia/modules"


@dataclass(frozen=True, slots=True)
class ToolkitConfig:
    """The part of config.toml that decides what a container asks for."""

    mode: str = "auto"
    default_kind: str = "nvidia.com/gpu"
    spec_dirs: Sequence[str] = ("/etc/cdi", "/var/run/cdi")
    annotation_prefixes: Sequence[str] = ("cdi.k8s.io/",)
    runtimes: Sequence[str] = ("runc", "crun")
    driver_root: str = "/"
    debug: str = "/dev/null"
    log_level: str = "info"
    skip_mode_detection: bool = False
    ctk_path: str = "nvidia-ctk"

    def text(self) -> str:
        """Return the file as the toolkit writes it."""

        def strings(values: Sequence[str]) -> str:
            return "[" + ", ".join(f'"{value}"' for value in values) + "]"

        return f"""\
accept-nvidia-visible-devices-as-volume-mounts = false
accept-nvidia-visible-devices-envvar-when-unprivileged = true
disable-require = false
supported-driver-capabilities = "compat32,compute,display,graphics,ngx,utility,video"

[nvidia-container-cli]
environment = []
ldconfig = "@/sbin/ldconfig"
load-kmods = true
root = "{self.driver_root}"

[nvidia-container-runtime]
debug = "{self.debug}"
log-level = "{self.log_level}"
mode = "{self.mode}"
runtimes = {strings(self.runtimes)}

[nvidia-container-runtime.modes]

[nvidia-container-runtime.modes.cdi]
annotation-prefixes = {strings(self.annotation_prefixes)}
default-kind = "{self.default_kind}"
spec-dirs = {strings(self.spec_dirs)}

[nvidia-container-runtime.modes.csv]
mount-spec-path = "/etc/nvidia-container-runtime/host-files-for-container.d"

[nvidia-container-runtime.modes.legacy]
cuda-compat-mode = "ldconfig"

[nvidia-container-runtime-hook]
path = "nvidia-container-runtime-hook"
skip-mode-detection = {"true" if self.skip_mode_detection else "false"}

[nvidia-ctk]
path = "{self.ctk_path}"
"""


@dataclass(frozen=True, slots=True)
class OperatorToolkit:
    """What the GPU Operator's toolkit container leaves in its folder on the host."""

    version: str = "1.18.2"
    config: ToolkitConfig | str = ToolkitConfig(
        mode="cdi", default_kind=MANAGEMENT_KIND, skip_mode_detection=True
    )
    folder: str = OPERATOR_FOLDER

    @property
    def config_path(self) -> str:
        """The host path of the config.toml that the wrappers point to."""
        return f"{self.folder}/.config/nvidia-container-runtime/config.toml"

    @property
    def programs_folder(self) -> str:
        """The host path of the folder with nvidia-ctk and the runtimes."""
        return self.folder

    def lay(self, tree: Path) -> None:
        """Copy the real programs as ``<name>.real`` and write the wrappers and the config."""
        source = programs.toolkit(self.version)
        folder = tree / self.folder.lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
        for name in programs.TOOLKIT_PROGRAMS:
            bare = name == "nvidia-cdi-hook" and self._release >= (1, 20)
            shutil.copy(source / name, folder / (name if bare else f"{name}.real"))
            if not bare:
                wrapper = folder / name
                wrapper.write_text(self.wrapper(name))
                wrapper.chmod(0o755)
        path = tree / self.config_path.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.config_text())

    def config_text(self) -> str:
        """Return the config.toml, which names the programs of this folder."""
        if isinstance(self.config, str):
            return self.config
        return replace(self.config, ctk_path=f"{self.folder}/nvidia-ctk").text()

    def wrapper(self, program: str) -> str:
        """Return the wrapper script of one program."""
        is_runtime = program.startswith("nvidia-container-runtime")
        environment = {"PATH": f"{self.folder}:$PATH"}
        if is_runtime and self._release >= (1, 18):
            environment["NVIDIA_CTK_CONFIG_FILE_PATH"] = self.config_path
        elif is_runtime:
            environment["XDG_CONFIG_HOME"] = f"{self.folder}/.config"
        settings = "".join(f"{key}={value} \\\n" for key, value in sorted(environment.items()))
        check = _module_check(self._release) if is_runtime else ""
        indent = "\t" if self._release >= (1, 18) else ""
        call = f'{indent}{self.folder}/{program}.real \\\n{indent}\t"$@"\n'
        return f"#! /bin/sh\n{check}{settings}{call}"

    @property
    def _release(self) -> tuple[int, ...]:
        return tuple(int(part) for part in self.version.split("."))


@dataclass(frozen=True, slots=True)
class PackageToolkit:
    """What the distribution's package installs; ``config`` None leaves the file out."""

    version: str = "1.18.2"
    config: ToolkitConfig | str | None = ToolkitConfig()
    folder: str = "/usr/bin"

    @property
    def config_path(self) -> str:
        """The host path of the config.toml that the programs read."""
        return PACKAGE_CONFIG

    @property
    def programs_folder(self) -> str:
        """The host path of the folder with nvidia-ctk and the runtimes."""
        return self.folder

    def lay(self, tree: Path) -> None:
        """Copy the real programs and write the config."""
        source = programs.toolkit(self.version)
        folder = tree / self.folder.lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
        for name in programs.TOOLKIT_PROGRAMS:
            shutil.copy(source / name, folder / name)
        if self.config is not None:
            path = tree / self.config_path.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.config_text())

    def config_text(self) -> str:
        """Return the config.toml, empty for none."""
        return self.config.text() if isinstance(self.config, ToolkitConfig) else self.config or ""


def _module_check(release: tuple[int, ...]) -> str:
    """The wrapper's guard against a driver that is not loaded yet."""
    modules = "/proc/modules" if Path("/proc/modules").exists() else MODULES_STAND_IN
    # To standard output until 1.18.0, to standard error since 1.18.1.
    redirect = " >&2" if release >= (1, 18, 1) else ""
    blank = "" if release >= (1, 18) else "\n"
    return (
        f'{blank}cat {modules} | grep -e "^nvidia " >/dev/null 2>&1\n'
        'if [ "${?}" != "0" ]; then\n'
        f'\techo "nvidia driver modules are not yet loaded, invoking runc directly"{redirect}\n'
        '\texec runc "$@"\n'
        f"fi\n{blank}"
    )
