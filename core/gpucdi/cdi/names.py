"""Names and kinds: ``vendor/class=name``, as the library splits and judges them.

Owns: splitting, validation and the exact texts of each version, annotations included. Must not
know: spec files.

Source: ``cncf-tags/container-device-interface`` pkg/parser/parser.go and pkg/cdi/annotations.go
(up to 0.5.4 pkg/cdi/qualified-device.go).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from .gotext import quote, runes, to_bytes
from .library import NEWEST, Library

ANNOTATION_PREFIX = "cdi.k8s.io/"
ANNOTATION_NAME_LIMIT_BYTES = 63

_LETTERS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_ALPHANUMERIC = _LETTERS | frozenset(b"0123456789")
_KIND_PART = re.compile(r"[A-Za-z](?:[A-Za-z0-9_.-]*[A-Za-z0-9])")
_DEVICE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?")


class InvalidNameError(ValueError):
    """A name, kind or annotation is not legal; the message is the library's own text."""


class ReaderCrash(Exception):  # noqa: N818 - what happens is a crash of the reader, not its error
    """The Go library panics here, so the program that asked dies; the message is Go's text.

    Up to 1.1.0 a vendor or class of one letter does it, and null items of some lists do.
    """


SLICE_PANIC = "runtime error: slice bounds out of range [1:0]"


@dataclass(frozen=True, slots=True, order=True)
class QualifiedName:
    """The three parts of a device's full name; ``str()`` joins them again."""

    vendor: str
    class_: str
    name: str

    @property
    def kind(self) -> str:
        """``vendor/class``."""
        return f"{self.vendor}/{self.class_}"

    def __str__(self) -> str:
        return f"{self.vendor}/{self.class_}={self.name}"


def split_kind(kind: str) -> tuple[str, str]:
    """Return (vendor, class), or ("", ``kind``) where there is no ``/`` with both sides."""
    vendor, _, class_ = kind.partition("/")
    return (vendor, class_) if vendor and class_ else ("", kind)


def split_device(device: str) -> tuple[str, str, str]:
    """Return (vendor, class, name), or ("", "", ``device``) for what is not a full name."""
    if not device or device.startswith("/"):
        return "", "", device
    qualifier, _, name = device.partition("=")
    if not qualifier or not name:
        return "", "", device
    vendor, class_ = split_kind(qualifier)
    return (vendor, class_, name) if vendor else ("", "", device)


def parse_qualified_name(text: str, library: Library = NEWEST) -> QualifiedName:
    """Split and check a full name.

    Raises :class:`InvalidNameError` with the text that ``library`` gives, :class:`ReaderCrash`
    where it panics instead.
    """
    vendor, class_, name = split_device(text)
    if not vendor:
        raise InvalidNameError(f"unqualified device {quote(text)}, missing vendor")
    try:
        validate_vendor(vendor, library)
        validate_class(class_, library)
        validate_device_name(name, library)
    except InvalidNameError as error:
        raise InvalidNameError(f"invalid device {quote(text)}: {error}") from None
    return QualifiedName(vendor, class_, name)


def is_qualified_name(text: str, library: Library = NEWEST) -> bool:
    """Tell whether ``text`` is a legal full name; may raise :class:`ReaderCrash`."""
    try:
        parse_qualified_name(text, library)
    except InvalidNameError:
        return False
    return True


def validate_vendor(vendor: str, library: Library = NEWEST) -> None:
    """Raise :class:`InvalidNameError` unless ``vendor`` is legal for ``library``."""
    if not _KIND_PART.fullmatch(vendor):
        _validate_kind_part(vendor, _VENDOR, library)


def validate_class(class_: str, library: Library = NEWEST) -> None:
    """Raise :class:`InvalidNameError` unless ``class_`` is legal; dots are since 0.6.0."""
    dotted_too_early = "." in class_ and not library.behaviour.has_annotations
    if dotted_too_early or not _KIND_PART.fullmatch(class_):
        _validate_kind_part(class_, _CLASS, library)


def validate_device_name(name: str, library: Library = NEWEST) -> None:
    """Raise :class:`InvalidNameError` unless ``name`` may follow the ``=``; same in all versions.

    The text says "class" where it means the name; so does the library.
    """
    del library
    if _DEVICE.fullmatch(name):
        return
    if not name:
        raise InvalidNameError("invalid (empty) device name")
    raw = to_bytes(name)
    if raw[0] not in _ALPHANUMERIC:
        raise InvalidNameError(f"invalid class {quote(name)}, should start with a letter or digit")
    bad = _first_bad(raw, "_-.:")
    if bad is not None:
        raise InvalidNameError(f"invalid character '{bad}' in device name {quote(name)}")
    if raw[-1] not in _ALPHANUMERIC:
        raise InvalidNameError(f"invalid name {quote(name)}, should end with a letter or digit")


@dataclass(frozen=True, slots=True)
class _Part:
    word: str
    old_empty: str
    old_character: str
    old_extra: str


_VENDOR = _Part("vendor", "invalid (empty) vendor name", "vendor name", "_-.")
_CLASS = _Part("class", "invalid (empty) device class", "device class", "_-")


def _validate_kind_part(text: str, part: _Part, library: Library) -> None:
    new = library.behaviour.has_annotations
    opening = f"invalid {part.word}. " if new else f"invalid {part.word} "
    if not text:
        raise InvalidNameError(f"{opening}empty name" if new else part.old_empty)
    raw = to_bytes(text)
    if raw[0] not in _LETTERS:
        raise InvalidNameError(f"{opening}{quote(text)}, should start with letter")
    if len(raw) == 1:
        if library.behaviour.decodes_with_yaml3:
            return
        raise ReaderCrash(SLICE_PANIC)
    bad = _first_bad(raw, "_-." if new else part.old_extra)
    if bad is not None:
        where = f"in name {quote(text)}" if new else f"in {part.old_character} {quote(text)}"
        opening = opening if new else ""
        raise InvalidNameError(f"{opening}invalid character '{bad}' {where}")
    if raw[-1] not in _ALPHANUMERIC:
        raise InvalidNameError(f"{opening}{quote(text)}, should end with a letter or digit")


def _first_bad(raw: bytes, extra: str) -> str | None:
    """Return the first illegal rune between the first and the last *byte*."""
    for rune in runes(raw[1:-1]):
        if not (rune.isascii() and (rune.isalnum() or rune in extra)):
            return rune
    return None


def parse_annotations(
    annotations: Mapping[str, str], library: Library = NEWEST
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the CDI keys of ``annotations`` and the devices they ask for, in the given order.

    Raises :class:`InvalidNameError` for the first item that is no full name; items are neither
    trimmed nor made unique, so that a trailing comma is an error.
    """
    keys: list[str] = []
    devices: list[str] = []
    for key, value in annotations.items():
        if not key.startswith(ANNOTATION_PREFIX):
            continue
        for device in value.split(","):
            if not is_qualified_name(device, library):
                raise InvalidNameError(f"invalid CDI device name {quote(device)}")
            devices.append(device)
        keys.append(key)
    return tuple(keys), tuple(devices)


def annotation_key(plugin: str, device_id: str, library: Library = NEWEST) -> str:
    """Return the annotation key for a plugin and its device; raise :class:`InvalidNameError`."""
    if not plugin:
        raise InvalidNameError("invalid plugin name, empty")
    if not device_id:
        raise InvalidNameError("invalid deviceID, empty")
    name = f"{plugin}_{device_id.replace('/', '_')}"
    raw = to_bytes(name)
    if len(raw) > ANNOTATION_NAME_LIMIT_BYTES:
        raise InvalidNameError(f"invalid plugin+deviceID {quote(name)}, too long")
    # Go turns a single byte into a rune here, so a multi-byte character shows as Latin-1.
    if raw[0] not in _ALPHANUMERIC:
        raise InvalidNameError(
            f"invalid name {quote(name)}, first '{chr(raw[0])}' should be alphanumeric"
        )
    bad = _first_bad(raw, "_-.")
    if bad is not None:
        word = "character" if library.behaviour.has_annotations else "charcter"
        raise InvalidNameError(f"invalid name {quote(name)}, invalid {word} '{bad}'")
    if raw[-1] not in _ALPHANUMERIC:
        raise InvalidNameError(
            f"invalid name {quote(name)}, last '{chr(raw[-1])}' should be alphanumeric"
        )
    return ANNOTATION_PREFIX + name
