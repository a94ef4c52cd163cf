"""Writing a spec as text, the way the newest library does.

Owns: yaml.v3's layout (struct order, four spaces, sequences indented) and its choice of quotes.
Must not know: files.

Source: ``go.yaml.in/yaml/v3`` encode.go, emitterc.go and sorter.go.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping

from yaml.emitter import Emitter

from .library import NEWEST
from .model import Spec
from .scalars import NO, STR, YES, resolve
from .schema import Scalar, Sequence, Struct, TextMap, Type, spec_schema
from .validation import minimum_version

_INDENT = 4
# yaml_emitter_check_simple_key; no reader takes a key of more than 1024 without a mark.
_SIMPLE_KEY_BYTES = 128
_BASE60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_OLD_BOOLS = YES | NO
_ALWAYS = frozenset(("cdiVersion", "kind", "devices", "name", "path", "hookName", "containerPath"))
_ANALYSER = Emitter(None, allow_unicode=True)  # type: ignore[arg-type] # no stream, only analysis
# go-yaml shows these; anything beyond the basic plane is written as an escape.
_SHOWN = re.compile("[\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd]*")


def dump_spec(spec: Spec, *, keep_version: bool = False) -> bytes:
    """Return ``spec`` as canonical YAML with the lowest ``cdiVersion`` that its features need.

    That is often lower than the declared one; with ``keep_version`` the declared version stays. Text that YAML cannot hold (lone surrogates,
    control characters) is escaped in double quotes.
    """
    if not keep_version:
        spec = dataclasses.replace(spec, cdi_version=minimum_version(spec))
    lines = ["---", *_mapping(spec, spec_schema(NEWEST), 0)]
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def _mapping(value: object, struct: Struct, column: int) -> Iterator[str]:
    for each in struct.fields.values():
        content = getattr(value, each.attribute)
        always = each.name in _ALWAYS or (struct.name == "Device" and each.name == "containerEdits")
        always = always or (struct.name == "Mount" and each.name == "hostPath")
        always = always or struct.name == "LinuxNetDevice"
        if always or not _is_zero(content, each.type):
            yield from _pair(each.name, content, each.type, column)


def _is_zero(value: object, kind: Type) -> bool:
    if isinstance(kind, Scalar) and kind.pointer:
        return value is None
    if isinstance(kind, Struct):
        return value is None if kind.pointer else value == kind.build()
    return not value


def _pair(name: str, value: object, kind: Type, column: int) -> Iterator[str]:
    lead = " " * column + name + ":"
    inner = _INDENT * ((column + _INDENT) // _INDENT)
    if isinstance(kind, Scalar):
        yield from _scalar_lines(lead + " ", value, inner, column)
        return
    if isinstance(kind, Struct):
        lines = list(_mapping(value, kind, inner))
        yield from [lead, *lines] if lines else [lead + " {}"]
        return
    if not value:
        yield f"{lead} []"
        return
    yield lead
    if isinstance(kind, TextMap) and isinstance(value, Mapping):
        for key in sorted(value, key=_in_go_order):
            yield from _entry_lines(key, value[key], inner)
    elif isinstance(kind, Sequence) and isinstance(value, tuple):
        for item in value:
            yield from _item(item, kind.item, inner)


def _entry_lines(key: str, value: object, column: int) -> Iterator[str]:
    lead = " " * column
    if "\n" in key or len(key.encode("utf-8", "replace")) > _SIMPLE_KEY_BYTES:
        yield from _scalar_lines(f"{lead}? ", key, column + _INDENT, column)
        lead += ": "
    else:
        # The library leaves this one bare, where its own reader takes it for a merge.
        lead += f"{_scalar(key) if key != '<<' else repr(key)}: "
    yield from _scalar_lines(lead, value, column + _INDENT, column)


def _item(item: object, kind: Scalar | Struct, column: int) -> Iterator[str]:
    lead = " " * column + "- "
    if isinstance(kind, Scalar):
        yield from _scalar_lines(lead, item, column + 2, column)
        return
    lines = list(_mapping(item, kind, column + 2))
    yield lead + lines[0].lstrip(" ") if lines else lead + "{}"
    yield from lines[1:]


def _scalar_lines(lead: str, value: object, column: int, parent: int) -> Iterator[str]:
    text = value if isinstance(value, str) else None
    if text is None or "\n" not in text or not _may_be_literal(text):
        yield lead + _scalar(value)
        return
    needs_hint = text[0] in " \n"
    if needs_hint and column != parent + _INDENT:
        # yaml.v3 gives its hint as if it had indented by four, and cannot read what it wrote.
        yield lead + _double_quoted(text)
        return
    body = text.removesuffix("\n")
    ending = "-" if body == text else "+" if body.endswith("\n") or not body else ""
    hint = str(_INDENT) if needs_hint else ""
    yield f"{lead}|{hint}{ending}"
    for line in body.split("\n"):
        yield " " * column + line if line else ""


def _may_be_literal(text: str) -> bool:
    return bool(_ANALYSER.analyze_scalar(text).allow_block and _SHOWN.fullmatch(text))


def _scalar(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return str(value)
    tag = resolve("", value, v3=True)[0]
    plain = tag == STR and value not in _OLD_BOOLS and not _BASE60.fullmatch(value)
    analysis = _ANALYSER.analyze_scalar(value)
    if plain and "\n" not in value and _SHOWN.fullmatch(value):
        if analysis.allow_block_plain:
            return value
        if analysis.allow_single_quoted and value:
            return "'" + value.replace("'", "''") + "'"
    return _double_quoted(value)


_ESCAPES = {
    "\0": "0",
    "\a": "a",
    "\b": "b",
    "\t": "t",
    "\n": "n",
    "\v": "v",
    "\f": "f",
    "\r": "r",
    "\x1b": "e",
    '"': '"',
    "\\": "\\",
    "\x85": "N",
    "\u2028": "L",
    "\u2029": "P",
}


def _double_quoted(text: str) -> str:
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return "\\" + _ESCAPES[character]
    code = ord(character)
    if _SHOWN.fullmatch(character):
        return character
    if code <= 0xFF:  # noqa: PLR2004 - one byte
        return f"\\x{code:02X}"
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"  # noqa: PLR2004 - one plane


@functools.cmp_to_key
def _in_go_order(left: str, right: str) -> int:
    return -1 if _is_less(left, right) else int(_is_less(right, left))


def _is_less(left: str, right: str) -> bool:
    """Port of yaml.v3's ``keyList.Less`` for strings: numbers inside keys count by their value."""
    digits = False
    for index, (one, other) in enumerate(zip(left, right, strict=False)):
        if one == other:
            digits = one.isdecimal()
            continue
        if one.isalpha() and other.isalpha():
            return one < other
        if one.isalpha() or other.isalpha():
            return one.isalpha() if digits else other.isalpha()
        start = int("0" in {one, other} and _follows_a_number(left, index))
        number, end = _number_at(left, index, start)
        other_number, other_end = _number_at(right, index, start)
        return (number, end, one) < (other_number, other_end, other)
    return len(left) < len(right)


def _follows_a_number(text: str, index: int) -> bool:
    """Tell whether the digits right before ``index`` are more than zeros."""
    while index and text[index - 1].isdecimal():
        index -= 1
        if text[index] != "0":
            return True
    return False


def _number_at(text: str, index: int, number: int) -> tuple[int, int]:
    """Return the number that continues ``number`` as an int64 that overflows, and where it ends."""
    while index < len(text) and text[index].isdecimal():
        number = number * 10 + ord(text[index]) - ord("0")
        index += 1
        number = (number + 2**63) % 2**64 - 2**63
    return number, index
