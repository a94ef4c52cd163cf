"""A stand-in for ``python:*-slim``, for machines that reach no container registry.

Owns: the recipe (the distribution's own packages, unpacked without their scripts) and its place in
the cache. What the project's Dockerfiles need of their base is here: ``python`` with ``venv`` and
pip, a shell and coreutils. Must not know: what is built on it.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from tests.lab import images
from tests.lab.programs import ProgramMissingError, cache_folder, publish, system_program

_PACKAGES = ("base-files", "bash", "coreutils", "dash", "python3-venv")
_MERGED = ("bin", "sbin", "lib", "lib64")
_FOLDERS = ("dev", "proc", "root", "run", "sys", "usr/lib/python3/dist-packages")
_UNUSED = ("doc", "info", "lintian", "locale", "man")
_USERS = "root:x:0:0:root:/root:/bin/sh\n"
_ENVIRONMENT = ("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",)


@dataclass(frozen=True, slots=True)
class BaseImage:
    """An OCI archive, and the version of its Python, such as ``3.11``."""

    archive: Path
    python_version: str


def folder() -> Path:
    """Return where the image lies once it is built; the recipe is this file."""
    release = platform.freedesktop_os_release()
    digest = hashlib.sha256(Path(__file__).read_bytes())
    digest.update(f"{release['ID']} {release.get('VERSION_ID')} {platform.machine()}".encode())
    return cache_folder() / f"base-image-{digest.hexdigest()[:12]}"


def ensure() -> BaseImage:
    """Return the image, building it if it is not in the cache.

    Raises ProgramMissingError where it cannot be built, subprocess.CalledProcessError if a program
    fails for another reason.
    """
    place = folder()
    if not place.is_dir():
        _build(place)
    version = (place / "python-version").read_text()
    return BaseImage(place / "image.tar", version)


def _build(place: Path) -> None:
    if os.geteuid() != 0:
        raise ProgramMissingError("the base image needs root (files of the distribution's owners)")
    cache_folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_folder(), prefix=".building-") as scratch:
        packages, root, made = (Path(scratch, name) for name in ("packages", "root", "made"))
        _download(packages)
        _unpack(packages, root)
        version = _complete(root)
        made.mkdir()
        layer = subprocess.run(["tar", "-C", root, "-c", "."], check=True, capture_output=True)
        images.write_archive(
            made / "image.tar",
            "localhost/python:lab",
            layer.stdout,
            {"Env": list(_ENVIRONMENT), "Cmd": ["python"]},
        )
        (made / "python-version").write_text(version)
        publish(made, place)


def _download(into: Path) -> None:
    """Fetch the packages and all that they depend on, as if nothing were installed."""
    (into / "partial").mkdir(parents=True)
    options = {
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "root",
        "Debug::NoLocking": "true",
        "Dir::Cache::archives": str(into),
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
        "Dir::State::status": "/dev/null",
    }
    apt_get = str(system_program("apt-get"))
    given = [part for key, value in options.items() for part in ("-o", f"{key}={value}")]
    download = [apt_get, *given, "--quiet", "--yes", "--download-only", "install", *_PACKAGES]
    if _succeeds(download) or (_succeeds([apt_get, "--quiet", "update"]) and _succeeds(download)):
        return
    raise ProgramMissingError(f"apt-get could not fetch {' '.join(_PACKAGES)}")


def _succeeds(command: list[str]) -> bool:
    return subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode == 0


def _unpack(packages: Path, root: Path) -> None:
    for name in _MERGED:
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for package in sorted(packages.glob("*.deb")):
        files = ["dpkg-deb", "--fsys-tarfile", str(package)]
        unpack = ["tar", "-x", "-C", str(root), "--keep-directory-symlink"]
        content = subprocess.run(files, check=True, capture_output=True).stdout
        subprocess.run(unpack, check=True, input=content)


def _complete(root: Path) -> str:
    """Add what the packages' scripts would have, and pip; return the version of Python."""
    for name in _FOLDERS:
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "tmp").mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)
    (root / "etc/passwd").write_text(_USERS)
    (root / "etc/group").write_text("root:x:0:\n")
    (root / "usr/bin/python").symlink_to("python3")
    for wheel in (root / "usr/share/python-wheels").glob("pip-*.whl"):
        with zipfile.ZipFile(wheel) as content:
            content.extractall(root / "usr/lib/python3/dist-packages")
    for name in _UNUSED:
        shutil.rmtree(root / "usr/share" / name, ignore_errors=True)
    return (root / "usr/bin/python3").readlink().name.removeprefix("python")
