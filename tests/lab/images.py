"""Container images made on the spot, so that no registry is asked.

Owns: the OCI image layout as a tar archive (opencontainers/image-spec image-layout.md). Must not
know: who loads it.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.lab.programs import system_program

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_FOLDERS = ("bin", "dev", "etc", "lib", "lib64", "proc", "root", "run", "sbin", "sys", "tmp", "usr")
_SUBFOLDERS = ("usr/bin", "usr/lib", f"usr/lib/{platform.machine()}-linux-gnu", "var")
_APPLETS = (
    *("cat", "cp", "echo", "env", "false", "grep", "head", "id", "ln", "ls", "mkdir", "mount"),
    *("nc", "ps", "rm", "sh", "sleep", "stat", "tail", "test", "touch", "true", "uname", "wget"),
)


def write_image(path: Path, name: str, command: Sequence[str]) -> Path:
    """Write an image archive with busybox alone that runs ``command``; return ``path``.

    ``name`` is the full reference that containerd stores, such as ``docker.io/library/busybox:lab``.
    """
    settings = {"Env": ["PATH=/bin:/sbin:/usr/bin"], "Cmd": list(command)}
    return write_archive(path, name, _layer(), settings)


def write_archive(path: Path, name: str, layer: bytes, settings: Mapping[str, object]) -> Path:
    """Write an image of one layer, an uncompressed tar; return ``path``.

    ``settings`` are those of a container (opencontainers/image-spec config.md, ``config``).
    """
    blobs: dict[str, bytes] = {}
    layer_descriptor = _add(blobs, layer, "application/vnd.oci.image.layer.v1.tar")
    config = {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": settings,
        "rootfs": {"type": "layers", "diff_ids": [layer_descriptor["digest"]]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": _add(blobs, _json(config), "application/vnd.oci.image.config.v1+json"),
        "layers": [layer_descriptor],
    }
    descriptor: dict[str, object] = dict(_add(blobs, _json(manifest), str(manifest["mediaType"])))
    descriptor["annotations"] = {"io.containerd.image.name": name}
    with tarfile.open(path, "w") as archive:
        _file(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _file(archive, "index.json", _json({"schemaVersion": 2, "manifests": [descriptor]}))
        for digest, blob in blobs.items():
            _file(archive, f"blobs/sha256/{digest}", blob)
    return path


def _layer() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for folder in (*_FOLDERS, *_SUBFOLDERS):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        _file(archive, "bin/busybox", system_program("busybox").read_bytes(), 0o755)
        for applet in _APPLETS:
            entry = tarfile.TarInfo(f"bin/{applet}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(entry)
        _file(archive, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")
        _file(archive, "etc/group", b"root:x:0:\n")
    return buffer.getvalue()


def _add(blobs: dict[str, bytes], blob: bytes, media_type: str) -> Mapping[str, str | int]:
    digest = hashlib.sha256(blob).hexdigest()
    blobs[digest] = blob
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(blob)}


def _file(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
