"""The lab's programs: which sets there are, how each is built, where it lies once built.

Owns: the recipes and the layout of the cache (one folder a set, named after a hash of everything
that goes into it). ``build.py`` builds what is missing; tests only look up, and skip with the
reason given here. Must not know: what any program is used for.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
CACHE_VARIABLE = "GPUCDI_LAB_CACHE"

TOOLKIT_MODULE = "github.com/NVIDIA/nvidia-container-toolkit"
TOOLKIT_VERSIONS = ("1.17.4", "1.18.2", "1.20.2")
TOOLKIT_PROGRAMS = (
    "nvidia-ctk",
    "nvidia-cdi-hook",
    "nvidia-container-runtime",
    "nvidia-container-runtime.cdi",
    "nvidia-container-runtime.legacy",
)
KUBERNETES_VERSION = "1.34.4"
KUBERNETES_PROGRAMS = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "kubelet",
)
# Import path of the commands for each containerd series; 2.x has another module path.
CONTAINERD_MODULES = {
    "2.4.2": "github.com/containerd/containerd/v2",
    "1.7.35": "github.com/containerd/containerd",
}
CRICTL_VERSION = "1.34.0"

# Programs that Debian has and that cannot, or need not, be built from Go modules.
DEBIAN_PACKAGES = (
    "etcd-server",
    "runc",
    "containerd",
    "containernetworking-plugins",
    "busybox-static",
    "prometheus",
    "buildah",
    "strace",
    "dbus-daemon",
    "iproute2",
    "gcc",
    "libc6-dev",
)


class ProgramMissingError(LookupError):
    """A program of the lab is not on this machine; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class ProgramSet:
    """One set of programs that is built together.

    ``command`` is the Go command line; ``{into}`` in it or in ``environment`` is the folder that
    the programs go to. ``module`` is the folder of the module it runs in, ``None`` for programs
    that are installed by version alone.
    """

    name: str
    programs: tuple[str, ...]
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    module: Path | None = None

    @property
    def key(self) -> str:
        """Twelve hex digits over the module files, the command line and the platform."""
        digest = hashlib.sha256()
        parts = [*self.command, *(f"{k}={v}" for k, v in sorted(self.environment.items()))]
        digest.update("\0".join([*parts, platform.machine()]).encode())
        if self.module is not None:
            for name in ("go.mod", "go.sum"):
                digest.update((self.module / name).read_bytes())
        return digest.hexdigest()[:12]

    @property
    def folder(self) -> Path:
        """Where the set lies once it is built; it either is whole or does not exist."""
        return cache_folder() / f"{self.name}-{self.key}"

    @property
    def is_built(self) -> bool:
        """True when the set is in the cache."""
        return self.folder.is_dir()


def cache_folder() -> Path:
    """Return the folder that ``make lab`` builds into, outside any checkout."""
    configured = os.environ.get(CACHE_VARIABLE)
    return Path(configured) if configured else Path.home() / ".cache" / "gpucdi-lab"


def toolkit_set(version: str) -> ProgramSet:
    """NVIDIA Container Toolkit; lazy binding as upstream links it, or NVML must be complete."""
    flags = f"-s -w -X {TOOLKIT_MODULE}/internal/info.version={version} -extldflags=-Wl,-z,lazy"
    return ProgramSet(
        name=f"toolkit-{version}",
        programs=TOOLKIT_PROGRAMS,
        command=(
            "install",
            "-ldflags",
            flags,
            *(f"{TOOLKIT_MODULE}/cmd/{program}@v{version}" for program in TOOLKIT_PROGRAMS),
        ),
        environment={"CGO_ENABLED": "1", "GOBIN": "{into}"},
    )


def kubernetes_set() -> ProgramSet:
    """The control plane, kubelet and kubectl."""
    major, minor, _ = KUBERNETES_VERSION.split(".")
    version = "k8s.io/component-base/version"
    flags = (
        f"-s -w -X {version}.gitVersion=v{KUBERNETES_VERSION}"
        f" -X {version}.gitMajor={major} -X {version}.gitMinor={minor}"
    )
    return ProgramSet(
        name=f"kubernetes-{KUBERNETES_VERSION}",
        programs=KUBERNETES_PROGRAMS,
        command=(
            *("build", "-trimpath", "-ldflags", flags, "-o", "{into}/"),
            *(f"k8s.io/kubernetes/cmd/{program}" for program in KUBERNETES_PROGRAMS),
        ),
        environment={"CGO_ENABLED": "0"},
        module=HERE / "gomodules" / "kubernetes",
    )


def containerd_set(version: str) -> ProgramSet:
    """containerd with its runc shim and ctr."""
    module = CONTAINERD_MODULES[version]
    programs = ("containerd", "containerd-shim-runc-v2", "ctr")
    flags = f"-s -w -X {module}/version.Version=v{version}"
    return ProgramSet(
        name=f"containerd-{version}",
        programs=programs,
        command=(
            *("build", "-trimpath", "-tags", "no_btrfs", "-ldflags", flags, "-o", "{into}/"),
            *(f"{module}/cmd/{program}" for program in programs),
        ),
        environment={"CGO_ENABLED": "0"},
        module=HERE / "gomodules" / f"containerd-{version.rpartition('.')[0]}",
    )


def crictl_set() -> ProgramSet:
    """The command line of the container runtime interface."""
    module = "sigs.k8s.io/cri-tools"
    flags = f"-s -w -X {module}/pkg/version.Version=v{CRICTL_VERSION}"
    return ProgramSet(
        name=f"crictl-{CRICTL_VERSION}",
        programs=("crictl",),
        command=(
            "install",
            "-trimpath",
            "-ldflags",
            flags,
            f"{module}/cmd/crictl@v{CRICTL_VERSION}",
        ),
        environment={"CGO_ENABLED": "0", "GOBIN": "{into}"},
    )


def all_sets() -> tuple[ProgramSet, ...]:
    """Every set that ``make lab`` builds, the quick ones first."""
    return (
        *(toolkit_set(version) for version in TOOLKIT_VERSIONS),
        crictl_set(),
        *(containerd_set(version) for version in CONTAINERD_MODULES),
        kubernetes_set(),
    )


def publish(made: Path, place: Path) -> None:
    """Rename into place; a second builder that came first wins, its set is the same."""
    try:
        made.rename(place)
    except OSError:
        if not place.is_dir():
            raise


def built(program_set: ProgramSet) -> Path:
    """Return the folder of a built set.

    Raises ProgramMissingError with the reason when the set is not in the cache.
    """
    if program_set.is_built:
        return program_set.folder
    remedy = "run `make lab`" if shutil.which("go") else "needs Go, then `make lab`"
    raise ProgramMissingError(f"{program_set.name} is not built ({remedy})")


def system_program(name: str) -> Path:
    """Return a program of the distribution; raises ProgramMissingError when it is not installed."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin:/usr/sbin:/sbin"])
    found = shutil.which(name, path=path)
    if found is None:
        raise ProgramMissingError(f"{name} is not installed (`make lab` as root installs it)")
    return Path(found)


def toolkit(version: str) -> Path:
    """Return the folder of the toolkit programs of ``version``; raises ProgramMissingError."""
    return built(toolkit_set(version))


def kubernetes() -> Path:
    """Return the folder of the Kubernetes programs; raises ProgramMissingError."""
    return built(kubernetes_set())


def containerd(version: str) -> Path:
    """Return the folder of containerd ``version``; raises ProgramMissingError."""
    return built(containerd_set(version))


def crictl() -> Path:
    """Return crictl itself; raises ProgramMissingError."""
    return built(crictl_set()) / "crictl"


def require_namespaces() -> None:
    """Raise ProgramMissingError unless this process may make namespaces and mounts."""
    problem = _namespace_problem()
    if problem is not None:
        raise ProgramMissingError(problem)


@functools.cache
def _namespace_problem() -> str | None:
    """Try what a node needs; being root in a container is often not enough."""
    if os.geteuid() != 0:
        return "needs root (mount namespaces and device nodes)"
    unshare = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--propagation", "private")
    try:
        tried = subprocess.run(
            [*unshare, "mount", "-t", "tmpfs", "tmpfs", "/run"],
            check=False,
            capture_output=True,
            text=True,
        )
    except OSError as error:
        return f"needs unshare and mount of util-linux: {error}"
    return f"needs to make mounts: {tried.stderr.strip()}" if tried.returncode != 0 else None
