"""Which version of the library is built into which release of which program.

Owns: the table. Must not know: how versions behave.

Source: go.mod or vendor.mod of containerd/containerd, cri-o/cri-o, moby/moby, containers/podman,
NVIDIA/nvidia-container-toolkit, NVIDIA/k8s-device-plugin, NVIDIA/k8s-dra-driver-gpu at their tags.
"""

from __future__ import annotations

import re

from .library import Library

_VERSION = re.compile(
    r"[^0-9]{0,64}?([0-9]{1,9})\.([0-9]{1,9})(?:\.([0-9]{1,9})(?:\..*)?)?(?:[-+~].*)?"
)

# Each entry: the first release with that library; "" means no CDI, or that nobody looked. Ascending.
_TABLE: dict[str, tuple[tuple[str, str], ...]] = {
    "containerd": (
        ("0.0.0", ""),
        ("1.7.0", "0.5.4"),
        ("1.7.12", "0.6.1"),
        ("1.7.13", "0.6.2"),
        ("1.7.16", "0.7.2"),
        ("1.7.27", "0.8.1"),
        ("2.0.0", "0.8.0"),
        ("2.0.3", "0.8.1"),
        ("2.0.5", "1.0.0"),
        ("2.1.0", "1.0.1"),
        ("2.2.1", "1.1.0"),
        ("2.4.0", "1.1.1"),
    ),
    "cri-o": (
        ("0.0.0", ""),
        ("1.24.0", "0.3.2"),
        ("1.25.0", "0.5.0"),
        ("1.26.0", "0.5.3"),
        ("1.27.0", "0.5.4"),
        ("1.28.0", "0.6.0"),
        ("1.29.0", "0.6.2"),
        ("1.30.0", "0.7.2"),
        ("1.31.0", "0.8.0"),
        ("1.32.2", "0.8.1"),
        ("1.33.0", "1.0.1"),
        ("1.35.0", "1.1.0"),
    ),
    "docker": (
        ("0.0.0", ""),
        ("25.0.0", "0.6.2"),
        ("25.0.17", "0.8.1"),
        ("26.0.0", "0.6.2"),
        ("26.1.0", "0.7.1"),
        ("26.1.1", "0.7.2"),
        ("27.4.0", "0.8.0"),
        ("28.0.1", "0.8.1"),
        ("28.1.0", "1.0.1"),
        # moby/moby/v2 v2.0.0-beta.23, of the day of 29.8.0, still has it; the next one has 1.1.1.
        ("29.2.0", "1.1.0"),
        ("29.8.1", ""),
    ),
    "podman": (
        ("0.0.0", ""),
        ("4.1.0", "0.4.0"),
        ("4.3.0", "0.5.2"),
        ("4.4.0", "0.5.3"),
        ("4.5.0", "0.5.4"),
        ("4.7.0", "0.6.1"),
        ("4.8.0", "0.6.2"),
        ("5.1.0", "0.7.2"),
        ("5.2.0", "0.8.0"),
        ("5.5.0", "1.0.1"),
    ),
    "nvidia-container-toolkit": (
        ("0.0.0", ""),
        ("1.10.0", "0.3.1-dev"),
        ("1.11.0", "0.4.1-dev"),
        ("1.12.0", "0.5.4-dev"),
        ("1.14.0", "0.6.0"),
        ("1.14.5", "0.6.2"),
        ("1.15.0", "0.7.1"),
        ("1.16.0", "0.8.0"),
        ("1.17.5", "0.8.1"),
        ("1.18.0", "1.0.1"),
        ("1.18.1", "1.0.2-dev"),
        ("1.18.2", "1.1.0"),
        ("1.20.1", "1.1.1"),
    ),
    "k8s-device-plugin": (
        ("0.14.4", "0.6.2"),
        ("0.15.0", "0.7.1"),
        ("0.16.0", "0.8.0"),
        ("0.17.1", "0.8.1"),
        ("0.18.0", "1.0.1"),
        ("0.18.2", "1.1.0"),
    ),
    "dra-driver": (
        # The numbering went from 25.12 to 0.4; what lies between the two is still to come.
        ("0.4.0", "1.1.0"),
        ("0.5.0", ""),
        ("25.3.0", "1.0.1"),
        ("25.12.0", "1.1.0"),
    ),
}

# The newest minor release that was looked at; what is newer is unknown.
_LOOKED_AT: dict[str, tuple[int, int]] = {
    "containerd": (2, 4),
    "cri-o": (1, 36),
    "docker": (29, 8),
    "podman": (5, 8),
    "nvidia-container-toolkit": (1, 20),
    "k8s-device-plugin": (0, 20),
    "dra-driver": (25, 12),
}

_ALIASES = {
    "crio": "cri-o",
    "dockerd": "docker",
    "moby": "docker",
    "toolkit": "nvidia-container-toolkit",
    "nvidia-ctk": "nvidia-container-toolkit",
    "nvidia-container-runtime": "nvidia-container-toolkit",
}


def reader_library(program: str, version: str) -> Library | None:
    """Return the library of a program's release, ``None`` when unknown or without CDI.

    ``version`` may carry a ``v`` in front and a suffix behind (``v1.7.27-k3s1``, ``1.18.2~rc.1``).
    A minor release newer than any that was looked at is unknown; so is what is no version at all.
    """
    table = _TABLE.get(_ALIASES.get(program, program))
    found = _VERSION.fullmatch(version.strip())
    if table is None or found is None:
        return None
    release = (int(found[1]), int(found[2]), int(found[3] or 0))
    if release[:2] > _LOOKED_AT[_ALIASES.get(program, program)]:
        return None
    text = ""
    for first, library in table:
        if release >= _numbers(first):
            text = library
    return Library(text) if text else None


def _numbers(text: str) -> tuple[int, int, int]:
    major, minor, patch = map(int, text.split("."))
    return major, minor, patch
