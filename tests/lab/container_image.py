"""The project's own Dockerfiles, built where neither a container registry nor an index is reached.

Owns: building on the stand-in of ``base_image`` with buildah, from a copy of what a Dockerfile may
see, and keeping the archives. The distributions of the lock file are fetched once, by this
machine's pip with its own settings; the build is given them as a folder. Must not know: clusters.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.lab import base_image
from tests.lab.base_image import BaseImage
from tests.lab.programs import cache_folder, publish, require_namespaces, system_program

PROJECT = Path(__file__).parents[2]
_LOCK = Path("requirements/lock.txt")
_CONTEXT = (
    *(".dockerignore", "LICENSE", "README.md", "pyproject.toml", str(_LOCK)),
    *("agent", "cli", "core", "kube", "operator"),
)
_WHEELS_INSIDE = "/lab-wheels"
_PIP_SETTINGS = f"[global]\nno-index = true\nfind-links = {_WHEELS_INSIDE}\n"
_ARCHIVES_KEPT = 2


def build(dockerfile: str, reference: str) -> Path:
    """Return an OCI archive of an image called ``reference``, such as ``docker.io/library/a:1``.

    It is built unless the cache has an archive of the same inputs. Raises ProgramMissingError where
    that is not possible, subprocess.CalledProcessError when the build fails.
    """
    require_namespaces()
    buildah = system_program("buildah")
    base = base_image.ensure()
    with tempfile.TemporaryDirectory(dir=cache_folder(), prefix=".building-") as folder:
        scratch = Path(folder)
        context = scratch / "context"
        _copy_context(context, dockerfile)
        wheels = _ensure_wheels(context / _LOCK, base)
        key = _key(context, reference, base.archive.parent.name, wheels.name)
        place = cache_folder() / f"{dockerfile}-{key}.tar"
        if not place.is_file():
            made = _build(buildah, context / dockerfile, reference, base, wheels)
            made.rename(place)
            _prune(dockerfile)
    return place


def _build(buildah: Path, dockerfile: Path, reference: str, base: BaseImage, wheels: Path) -> Path:
    scratch = dockerfile.parents[1]
    settings = scratch / "pip.conf"
    settings.write_text(_PIP_SETTINGS)
    storage = [f"--root={scratch / 'storage'}", f"--runroot={scratch / 'run'}"]
    # The lab's containerd needs overlay mounts, too; vfs would copy everything at each stage.
    command = [str(buildah), *storage, "--storage-driver=overlay"]
    build = [
        *("bud", "--quiet", "--isolation=chroot", f"--file={dockerfile}", f"--tag={reference}"),
        f"--build-arg=PYTHON=oci-archive:{base.archive}",
        f"--volume={settings}:/etc/pip.conf:ro",
        f"--volume={wheels}:{_WHEELS_INSIDE}:ro",
        str(dockerfile.parent),
    ]
    archive = scratch / "image.tar"
    _run([*command, *build])
    _run([*command, "push", "--quiet", reference, f"oci-archive:{archive}:{reference}"])
    return archive


def _run(command: Sequence[str]) -> None:
    """Run a program; what it said is part of the error that pytest shows."""
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        error = subprocess.CalledProcessError(done.returncode, command)
        error.add_note(done.stdout[-4000:] + done.stderr[-4000:])
        raise error


def _copy_context(into: Path, dockerfile: str) -> None:
    """Copy what the Dockerfile may see, so that an edit meanwhile is in the next build."""
    ignore = shutil.ignore_patterns("__pycache__")
    for name in (dockerfile, *_CONTEXT):
        source, target = PROJECT / name, into / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=ignore)
        else:
            shutil.copy(source, target)


def _key(context: Path, *parts: str) -> str:
    digest = hashlib.sha256(Path(__file__).read_bytes())
    digest.update("\0".join(parts).encode())
    for path in sorted(path for path in context.rglob("*") if path.is_file()):
        digest.update(f"\0{path.relative_to(context)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _ensure_wheels(lock: Path, base: BaseImage) -> Path:
    """Return a folder with every distribution of the lock file for the base image's Python."""
    digest = hashlib.sha256(lock.read_bytes() + base.python_version.encode()).hexdigest()[:12]
    place = cache_folder() / f"wheels-{digest}"
    if place.is_dir():
        return place
    with tempfile.TemporaryDirectory(dir=cache_folder(), prefix=".building-") as scratch:
        made = Path(scratch, "wheels")
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        which = [f"--python-version={base.python_version}", "--only-binary=:all:", "--no-deps"]
        _run([*pip, *which, "--require-hashes", f"--dest={made}", f"--requirement={lock}"])
        publish(made, place)
    return place


def _prune(dockerfile: str) -> None:
    """Keep the newest archives only: each change of the source makes another."""
    archives = cache_folder().glob(f"{dockerfile}-*.tar")
    for old in sorted(archives, key=lambda path: path.stat().st_mtime)[:-_ARCHIVES_KEPT]:
        old.unlink(missing_ok=True)
