"""The version of the Go library that a reader was built with, and what follows from it.

Owns: the order of versions and one named property for every change of behaviour. Must not know:
which program ships which version (:mod:`gpucdi.cdi.readers` does).

Source of every rule: the releases of ``cncf-tags/container-device-interface`` at the tags named.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field

_TEXT = re.compile(r"v?([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})([-+].*)?")


@functools.total_ordering
@dataclass(frozen=True, slots=True)
class Library:
    """A version of the CDI Go library, ordered; ``Library("1.1.0")``.

    A version between two of :data:`SUPPORTED` answers by the changes that it already has. Versions
    below 0.5.4 answer as 0.5.4 does, which is stricter than they were: they did not compare the
    features of a file with its ``cdiVersion``. A pre-release sorts just below its release.
    """

    text: str
    _key: tuple[int, int, int, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        found = _TEXT.fullmatch(self.text)
        if found is None:
            raise ValueError(f"not a version of the CDI library: {self.text!r}")
        major, minor, patch, suffix = found.groups()
        released = 0 if (suffix or "").startswith("-") else 1
        object.__setattr__(self, "_key", (int(major), int(minor), int(patch), released))
        object.__setattr__(self, "text", self.text.removeprefix("v"))

    @classmethod
    def parse(cls, text: str) -> Library:
        """Read ``1.1.0``, ``v1.1.0`` or a pre-release; raise :class:`ValueError` otherwise."""
        return cls(text.strip())

    def __str__(self) -> str:
        return self.text

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, Library) else NotImplemented

    def __lt__(self, other: Library) -> bool:
        return self._key < other._key

    @property
    def behaviour(self) -> Behaviour:
        """Everything that depends on the version, worked out once a version."""
        return _behaviour(self)


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What a version of the library does, one field for every change between 0.5.4 and 1.1.2."""

    known_versions: tuple[str, ...]
    has_annotations: bool
    """0.6.0: annotations, dots in a class, the texts that start with ``invalid vendor.``"""
    lists_all_requested: bool
    """Up to 0.6.0 an injection error lists every requested device, not just the unresolved."""
    has_rdt_and_gids: bool
    has_rdt_enable_flags: bool
    needs_devices: bool
    """1.0.0: a file without devices is rejected."""
    digit_needs_050: bool
    """1.0.0: only a leading digit asks for 0.5.0, before any leading non-letter did."""
    has_net_devices: bool
    decodes_with_yaml3: bool
    """1.1.1: yaml.v3 straight into the structs; also one-character names and the ReadDir scan."""
    checks_null_and_sign: bool
    """1.1.2: null list items and negative device numbers are errors."""


_SPEC_VERSIONS = (
    ("0.6.0", "0.6.0"),
    ("0.7.0", "0.7.0"),
    ("0.8.0", "0.8.0"),
    ("1.0.0", "1.0.0"),
    ("1.1.0", "1.1.0"),
)


@functools.lru_cache(maxsize=64)
def _behaviour(library: Library) -> Behaviour:
    def since(text: str) -> bool:
        return library >= Library(text)

    newer = tuple(spec for spec, since_text in _SPEC_VERSIONS if since(since_text))
    return Behaviour(
        known_versions=("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", *newer),
        has_annotations=since("0.6.0"),
        lists_all_requested=not since("0.6.1"),
        has_rdt_and_gids=since("0.7.0"),
        has_rdt_enable_flags=since("0.7.0") and not since("1.1.0"),
        needs_devices=since("1.0.0"),
        digit_needs_050=since("1.0.0"),
        has_net_devices=since("1.1.0"),
        decodes_with_yaml3=since("1.1.1"),
        checks_null_and_sign=since("1.1.2"),
    )


SUPPORTED: tuple[Library, ...] = tuple(
    Library(text)
    for text in ("0.5.4", "0.6.0", "0.7.2", "0.8.1", "1.0.1", "1.1.0", "1.1.1", "1.1.2")
)
"""The versions that are compared with the real library, vector by vector and tree by tree."""

NEWEST: Library = SUPPORTED[-1]
