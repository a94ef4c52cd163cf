"""What an unquoted YAML scalar means to go-yaml, and how its value is spelled as text.

Owns: the resolution tables of go-yaml v2 and v3 and Go's formatting of floats. Must not know:
which field a scalar stands in.

Sources: ``go-yaml/yaml`` v2 and v3 resolve.go, ``kubernetes-sigs/yaml`` yaml.go, Go strconv.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from decimal import Decimal

Value = str | int | float | bool | None

NULL, BOOL, STR, INT, FLOAT = "!!null", "!!bool", "!!str", "!!int", "!!float"
TIMESTAMP, BINARY, MERGE = "!!timestamp", "!!binary", "!!merge"
SEQ, MAP = "!!seq", "!!map"
_RESOLVABLE = frozenset({"", STR, BOOL, INT, FLOAT, NULL, TIMESTAMP})
_LONG_PREFIX = "tag:yaml.org,2002:"

# A scalar that starts with none of these is a string; the rest is looked at more closely.
HINTS = frozenset("+-0123456789yYnNtTfFoO~.")


class TagMismatchError(ValueError):
    """An explicit tag does not fit the scalar; the message is go-yaml's."""


def _words(*groups: tuple[Value, str, str]) -> dict[str, tuple[str, Value]]:
    return {word: (tag, value) for value, tag, words in groups for word in words.split()}


_BOTH = {
    "": (NULL, None),
    **_words(
        (True, BOOL, "true True TRUE"),
        (False, BOOL, "false False FALSE"),
        (None, NULL, "~ null Null NULL"),
        (math.nan, FLOAT, ".nan .NaN .NAN"),
        (math.inf, FLOAT, ".inf .Inf .INF +.inf +.Inf +.INF"),
        (-math.inf, FLOAT, "-.inf -.Inf -.INF"),
    ),
}
YES = frozenset(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON"))
NO = frozenset(("n", "N", "no", "No", "NO", "off", "Off", "OFF"))
_V2 = {**_BOTH, **dict.fromkeys(YES, (BOOL, True)), **dict.fromkeys(NO, (BOOL, False))}
_V3 = _BOTH

_INTEGER = re.compile(
    r"([+-]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]([0-7]+)|0([0-7]*)|([1-9][0-9]*))"
)
_YAML_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_DOT_FLOAT = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?")
_DATE = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})"
    r"(?:(?:[Tt](\d{1,2}):(\d{1,2}):(\d{1,2})(?:[.,]\d+)?(?:Z|[+-]\d\d:\d\d))"
    r"|(?: +(\d{1,2}):(\d{1,2}):(\d{1,2})(?:[.,]\d+)?))?"
)
_INT64 = range(-(2**63), 2**63)
_UINT64 = range(2**64)


def short_tag(tag: str) -> str:
    """Return ``!!x`` for the long form of a YAML tag, any other tag as it is."""
    return "!!" + tag[len(_LONG_PREFIX) :] if tag.startswith(_LONG_PREFIX) else tag


def resolve(tag: str, text: str, *, v3: bool) -> tuple[str, Value]:
    """Return the tag and value that go-yaml gives to a scalar that is not quoted.

    ``tag`` is the explicit tag in short form or empty. A timestamp's value is its text. Raises
    :class:`TagMismatchError` when an explicit tag contradicts the text.
    """
    if tag not in _RESOLVABLE:
        return tag, text
    if tag == STR:
        return STR, text
    found, value = _resolve_plain(tag, text, v3=v3)
    if tag in {"", found}:
        return found, value
    if tag == FLOAT and found == INT and isinstance(value, int) and value in _INT64:
        return FLOAT, float(value)
    raise TagMismatchError(f"cannot decode {found} `{text}` as a {tag}")


def _resolve_plain(tag: str, text: str, *, v3: bool) -> tuple[str, Value]:
    first = text[:1]
    if first not in HINTS:
        return (NULL, None) if not text else (STR, text)
    known = (_V3 if v3 else _V2).get(text)
    if known is not None:
        return known
    if first == ".":
        return _dot_float(text)
    if first in "+-0123456789":
        return _number(tag, text, v3=v3)
    return STR, text


def _dot_float(text: str) -> tuple[str, Value]:
    if _DOT_FLOAT.fullmatch(text):
        value = float(text.replace("_", ""))
        if not math.isinf(value):
            return FLOAT, value
    return STR, text


def _number(tag: str, text: str, *, v3: bool) -> tuple[str, Value]:
    if tag in {"", TIMESTAMP} and _is_timestamp(text):
        return TIMESTAMP, text
    plain = text.replace("_", "")
    integer = parse_integer(plain)
    if integer is not None:
        return INT, integer
    if _YAML_FLOAT.fullmatch(plain):
        value = float(plain)
        if not math.isinf(value):
            return FLOAT, value
    odd = _odd_integer(plain, v3=v3)
    return (STR, text) if odd is None else (INT, odd)


def parse_integer(plain: str) -> int | None:
    """Return what ``ParseInt`` or else ``ParseUint`` with base 0 make of ``plain``."""
    found = _INTEGER.fullmatch(plain)
    if found is None:
        return None
    sign, hexa, binary, octal, old_octal, decimal = found.groups()
    for digits, base in ((hexa, 16), (binary, 2), (octal, 8), (old_octal, 8), (decimal, 10)):
        if digits is not None:
            return _bounded(sign, digits or "0", base)
    return None


def _bounded(sign: str, digits: str, base: int) -> int | None:
    # Longer than any 64-bit number in base 2 with room for zeros; Python limits decimal length.
    if len(digits.lstrip("0")) > 64:  # noqa: PLR2004 - the width of the type
        return None
    number = int(digits, base)
    if sign == "-":
        number = -number
    if number in _INT64 or (not sign and number in _UINT64):
        return number
    return None


def _odd_integer(plain: str, *, v3: bool) -> int | None:
    """Handle what go-yaml tries last: a prefix, then a number that may have a sign of its own."""
    for prefix, base in (("0b", 2), ("0o", 8)) if v3 else (("0b", 2),):
        legal = "01" if base == 2 else "01234567"  # noqa: PLR2004 - the base
        if plain.startswith(prefix):
            rest, outer = plain[2:], ""
        elif plain.startswith("-" + prefix):
            rest, outer = plain[3:], "-"
        else:
            continue
        sign = rest[:1] if rest[:1] in {"+", "-"} else ""
        digits = rest[len(sign) :]
        if digits and not digits.strip(legal) and not (outer and sign):
            return _bounded(outer or sign, digits, base)
    return None


def _is_timestamp(text: str) -> bool:
    found = _DATE.fullmatch(text)
    if found is None:
        return False
    parts = [int(part) for part in found.groups() if part is not None]
    try:
        dt.datetime(*parts)  # type: ignore[arg-type] # noqa: DTZ001 - only legality matters
    except ValueError:
        # Go's year 0 is legal, Python's is not; no spec is that old.
        return False
    return True


def float32_text(value: float) -> str:
    """Return ``strconv.FormatFloat(value, 'g', -1, 32)``."""
    if math.isnan(value):
        return "NaN"
    try:
        single = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        single = math.copysign(math.inf, value)
    if math.isinf(single):
        return "+Inf" if single > 0 else "-Inf"
    if single == 0:
        return "-0" if math.copysign(1.0, single) < 0 else "0"
    return _general(*_shortest(single))


def float64_text(value: float) -> str:
    """Return ``strconv.FormatFloat(value, 'g', -1, 64)``, which ``%v`` and ``%#v`` show."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "-0" if math.copysign(1.0, value) < 0 else "0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    text = "".join(map(str, digits))
    mantissa = text[0] + ("." + text[1:] if text[1:] else "")
    return _general("-" * sign + mantissa, int(exponent) + len(digits) - 1)


def _general(mantissa: str, exponent: int) -> str:
    if exponent < -4 or exponent >= 6:  # noqa: PLR2004 - strconv's own limits for %e
        return f"{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    return format(Decimal(f"{mantissa}e{exponent}"), "f")


def _shortest(single: float) -> tuple[str, int]:
    """Return the fewest decimal digits that give the same 32-bit float again, and the exponent."""
    for digits in range(9):
        text = f"{single:.{digits}e}"
        if struct.unpack("f", struct.pack("f", float(text)))[0] == single:
            break
    mantissa, _, exponent = text.partition("e")
    return mantissa, int(exponent)


def json_number(value: float) -> str:
    """Return a finite number as ``json.Marshal`` writes it (a float in its shortest form)."""
    if isinstance(value, int):
        return str(value)
    if value == 0:
        return "-0" if math.copysign(1.0, value) < 0 else "0"
    if 1e-6 <= abs(value) < 1e21:  # noqa: PLR2004 - encoding/json's own limits
        text = format(Decimal(repr(value)), "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, _, exponent = repr(value).partition("e")
    mantissa = mantissa.removesuffix(".0")
    return f"{mantissa}e{'-' if int(exponent) < 0 else '+'}{abs(int(exponent)):02d}".replace(
        "e-0", "e-"
    )
