"""Build the oracle, once a version of the CDI library, and say where each binary lies.

Owns: the recipe and the cache. Must not know: what the oracle is asked.

``python tests/lab/oracle/build.py`` builds what is missing (needs Go and the Go module proxy) and
prints one path a version. A binary lies in ``${GPUCDI_LAB_CACHE:-~/.cache/gpucdi-lab}/oracle/
VERSION-HASH``, where HASH covers the sources and the module files, so that it is never stale.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
VERSIONS = tuple(sorted(path.name for path in (HERE / "modules").iterdir()))
NEW_MODULE = "tags.cncf.io/container-device-interface"
OLD_MODULE = "github.com/container-orchestrated-devices/container-device-interface"
OLD_VERSIONS = frozenset({"0.5.4", "0.6.0"})
BUILD_SECONDS = 600


def cache_root() -> Path:
    """Return the folder of the lab's programs."""
    return Path(os.environ.get("GPUCDI_LAB_CACHE") or Path.home() / ".cache" / "gpucdi-lab")


def sources(version: str) -> dict[str, bytes]:
    """Return the files of one version's module by name."""
    names = "names_before_0.6.0.go" if version == "0.5.4" else "names.go"
    files = {
        "main.go": (HERE / "main.go").read_bytes(),
        "names.go": (HERE / names).read_bytes(),
    }
    if version in OLD_VERSIONS:
        files = {
            name: content.replace(NEW_MODULE.encode(), OLD_MODULE.encode())
            for name, content in files.items()
        }
    for name in ("go.mod", "go.sum"):
        files[name] = (HERE / "modules" / version / name).read_bytes()
    return files


def path_of(version: str) -> Path:
    """Return where the binary of ``version`` lies, whether it is built or not."""
    digest = hashlib.sha256()
    for name, content in sorted(sources(version).items()):
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    return cache_root() / "oracle" / f"{version}-{digest.hexdigest()[:12]}"


def missing() -> tuple[str, ...]:
    """Return the versions that are not built."""
    return tuple(version for version in VERSIONS if not path_of(version).exists())


def build(version: str) -> Path:
    """Build one version unless it is there, and return its path."""
    target = path_of(version)
    if target.exists():
        return target
    go = shutil.which("go") or "/usr/local/go/bin/go"
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gpucdi-oracle-") as directory:
        for name, content in sources(version).items():
            (Path(directory) / name).write_bytes(content)
        command = [go, "build", "-trimpath", "-mod=readonly", "-o", "oracle", "."]
        subprocess.run(
            command,
            cwd=directory,
            env={**os.environ, "CGO_ENABLED": "0"},
            timeout=BUILD_SECONDS,
            check=True,
        )
        # Copied beside the target first: another process may run the binary as soon as it is there.
        beside = target.with_name(f".{target.name}.{os.getpid()}")
        shutil.copy2(Path(directory) / "oracle", beside)
        beside.replace(target)
    return target


def main() -> int:
    """Build every version."""
    for version in VERSIONS:
        sys.stdout.write(f"{version} {build(version)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
