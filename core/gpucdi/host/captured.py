"""The facts that a captured tree carries beside its files, in ``gpucdi-capture.json``.

Owns: the form of that file and its bounds; a tree may come from anybody. Must not know: how a tree
is read otherwise.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from gpucdi.host.facts import (
    READ_LIMIT_BYTES,
    CaptureFacts,
    FileKind,
    FileStat,
    FileTooLargeError,
)
from gpucdi.host.paths import normal

CAPTURE_NAME = "gpucdi-capture.json"


def read_capture(root: Path) -> CaptureFacts:
    """Return what the tree at ``root`` says; what is wrong with its file is its ``problem``."""
    try:
        text = _read_bounded(root / CAPTURE_NAME).decode("utf-8")
    except FileNotFoundError:
        return CaptureFacts()
    except (OSError, UnicodeDecodeError) as error:
        return CaptureFacts(problem=f"{CAPTURE_NAME} cannot be read: {error}")
    try:
        return _capture_facts(json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        return CaptureFacts(problem=f"{CAPTURE_NAME} is not what gpucdi writes: {error}")
    except RecursionError:
        return CaptureFacts(problem=f"{CAPTURE_NAME} is not what gpucdi writes: nested too deep")


def _read_bounded(place: Path) -> bytes:
    """Read a regular file that no link leads to; a captured tree may come from anybody."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
    descriptor = os.open(place, flags)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(READ_LIMIT_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(content) > READ_LIMIT_BYTES:
        raise FileTooLargeError(errno.EFBIG, f"larger than {READ_LIMIT_BYTES} bytes")
    return content


def _capture_facts(content: Mapping[str, object]) -> CaptureFacts:
    devices: dict[str, FileStat] = {}
    listed = content.get("devices", [])
    if not isinstance(listed, list):
        raise TypeError("devices is not a list")
    for item in listed:
        devices[normal(item["path"])] = FileStat(
            kind=FileKind(item.get("type", "c")),
            mode=int(item.get("mode", "0666"), 8),
            major=int(item.get("major", 0)),
            minor=int(item.get("minor", 0)),
        )
    return CaptureFacts(
        devices=devices,
        programs={normal(path): text for path, text in _texts(content, "programs").items()},
        modes={normal(path): int(text, 8) for path, text in _texts(content, "modes").items()},
        engines=_texts(content, "engines"),
        arguments=_arguments(content),
        environments={
            name: _texts(process, "environment")
            for name, process in _objects(content, "processes").items()
            if process.get("environment") is not None
        },
        read_as_uid=int(str(content.get("readAsUid", 0))),
        modified_s={normal(path): int(text) for path, text in _texts(content, "modified").items()},
    )


def _objects(content: Mapping[str, object], key: str) -> dict[str, Mapping[str, object]]:
    found = content.get(key, {})
    if not isinstance(found, Mapping) or not all(isinstance(v, Mapping) for v in found.values()):
        raise TypeError(f"{key} is not an object of objects")
    return {str(name): value for name, value in found.items()}


def _arguments(content: Mapping[str, object]) -> dict[str, tuple[str, ...]]:
    arguments = {}
    for name, process in _objects(content, "processes").items():
        listed = process.get("arguments")
        if isinstance(listed, list):
            arguments[name] = tuple(map(str, listed))
    return arguments


def _texts(content: Mapping[str, object], key: str) -> dict[str, str]:
    found = content.get(key, {})
    if not isinstance(found, Mapping):
        raise TypeError(f"{key} is not an object")
    return {str(name): str(value) for name, value in found.items()}
