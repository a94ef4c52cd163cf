"""The list of names behind an anchor such as ``unresolvable CDI devices``. Owns its grammar.

The character rules are those of cncf-tags/container-device-interface ``pkg/parser/parser.go``; the
separator is ``, `` (``pkg/cdi/cache.go``, InjectDevices), a blank in Go's ``[a b]``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_PART = r"[A-Za-z](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?"
KIND = re.compile(rf"{_PART}/{_PART}")
NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?")
QUALIFIED = re.compile(rf"{KIND.pattern}={NAME.pattern}")
UUID = re.compile(r"(?:GPU|MIG)-[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")

_HEAD = re.compile(rf"({KIND.pattern})=")
# A kind broken by a wrap: one line break or run of blanks, and a vendor with a dot.
_BROKEN_HEAD = re.compile(
    r"(?=[A-Za-z])([A-Za-z0-9_./-]*(?:\n|  )[A-Za-z0-9_./-]*)=|([A-Za-z0-9_./-]+)(?:\n|  )="
)
_VALUE = re.compile(r"[^\s,;\"'`()\[\]{}<>|\\]*")
_PARTIAL_UUID = re.compile(r"GP?|MI?|(?:GPU|MIG)(?:-[0-9a-fA-F-]*)?")
_UUID_LENGTH = 40
_BARE_UUID = re.compile(r"(?<![0-9a-fA-F])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f])")
_TORN_BARE_UUID = re.compile(r"([A-Za-z0-9_.:-]{1,64}(?:\n|  )[A-Za-z0-9_.:-]{1,100})")
_TRAILING = ".:;!?"
_OPENING = re.compile(r"[\s:]*[\[(]?\s*[`\"']?\s*")
_CLOSING = re.compile(r"[`\"']{0,4}\s*\Z")
_COMMA = re.compile(r"[`\"']?\s*,\s*[`\"']?")
_BLANK = re.compile(r"[ \n]+")
# `…, management.nvidia.com/` at the very end of a text.
_UNFINISHED = re.compile(r"[A-Za-z0-9_./-]*\s*")
_WRAPPED_UUID = re.compile(rf"(?:\n|  )({UUID.pattern})")
# Behind a name comes a comma or the end, so what a comma follows is the rest of a torn one.
_TORN_IN_LIST = re.compile(r"(?:\n|  )([A-Za-z0-9_.:-]{0,63}[A-Za-z0-9])(,\s{1,2})")
# No line begins with these signs and a letter but the rest of a torn word.
_TORN_AT_SIGN = re.compile(r"\n([-_.:][A-Za-z0-9](?:[A-Za-z0-9_.:-]{0,62}[A-Za-z0-9])?)()(?![/=])")

# What a person or a program puts where it left something out.
_ELLIPSIS = re.compile(r"…|\.{3,}")
_BEHIND = re.compile(r"\s?[\[(](?:…|\.{3,})[\])]|\s(?:…|\.{3,})")


@dataclass(frozen=True, slots=True)
class NameList:
    """The items in order; ``end`` is where the list stops in the text.

    ``kinds`` are those of every item, also of one that was dropped because its end is cut off.
    """

    names: tuple[str, ...]
    malformed: tuple[str, ...]
    end: int
    truncated: bool
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Item:
    """One item; ``elided`` when something stands in it for what was left out."""

    name: str
    end: int
    elided: bool = False

    @property
    def is_whole(self) -> bool:
        return not self.elided or UUID.fullmatch(device_of(self.name)) is not None


def kind_of(name: str) -> str:
    """Return the ``vendor/class`` of a qualified name."""
    return name.partition("=")[0]


def device_of(name: str) -> str:
    """Return what stands behind the first ``=``."""
    return name.partition("=")[2]


def is_legal(name: str) -> bool:
    """Tell whether a spec could define ``name``."""
    return QUALIFIED.fullmatch(name) is not None


def read_list(text: str, start: int, *, blanks: bool = False, cut: bool | None = None) -> NameList:
    """Read the list that begins at ``start``.

    ``blanks`` allows a blank as separator (Go's ``%v`` of a slice). ``cut`` says whether the text
    was cut at its end: where it was, an item that touches the end is dropped; where it is not known
    (``None``), one that looks like the beginning of a UUID is; where it was not, only what no
    request would hold, a piece of a UUID behind whole ones. An item with an ellipsis is always
    dropped, unless the UUID before it is whole.
    """
    items: list[_Item] = []
    opening = _OPENING.match(text, start)
    place = opening.end() if opening else start
    end, pending = start, False
    while (item := _item(text, place)) is not None:
        items.append(item)
        end = item.end
        separator = _separator(text, end, blanks=blanks)
        pending = separator is not None
        if separator is None:
            break
        place = separator
    kinds = tuple(dict.fromkeys(kind_of(item.name) for item in items))
    truncated = not items or any(item.elided for item in items)
    truncated |= pending and _ends_at(text, place)
    names = [item.name for item in items if item.is_whole]
    if names and items[-1].is_whole and _is_cut_name(names, text, end, cut=cut):
        names.pop()
        truncated = True
    unique = tuple(dict.fromkeys(names))
    malformed = tuple(name for name in unique if not is_legal(name))
    return NameList(unique, malformed, end, truncated, kinds)


def _ends_at(text: str, place: int) -> bool:
    """Tell whether a list breaks off behind its last separator."""
    broken = _UNFINISHED.fullmatch(text, place) is not None
    return broken or _ELLIPSIS.match(text, place) is not None


def _item(text: str, place: int) -> _Item | None:
    head = _HEAD.match(text, place)
    if head is not None:
        kind, behind = head.group(1), head.end()
    else:
        broken = _BROKEN_HEAD.match(text, place)
        kind = "".join((broken.group(1) or broken.group(2)).split()) if broken else ""
        if broken is None or KIND.fullmatch(kind) is None or "." not in kind.partition("/")[0]:
            return None
        behind = broken.end()
    return _with_value(text, kind, behind)


def _with_value(text: str, kind: str, behind: int) -> _Item:
    found = _VALUE.match(text, behind)
    value = found.group() if found else ""
    end = behind + len(value)
    if not value and text[behind : behind + 1] == " ":
        # A request with a leading blank, qualified by the runtime (toolkit >= 1.18).
        inner = QUALIFIED.match(text, behind + 1)
        if inner is not None:
            return _Item(f"{kind}= {inner.group()}", inner.end())
    if not value and (wrapped := _WRAPPED_UUID.match(text, behind)) is not None:
        return _Item(f"{kind}={wrapped.group(1)}", wrapped.end())
    joined = _joined_uuid(text, value, behind) or _joined_claim(text, value, behind)
    if joined is not None:
        return _Item(f"{kind}={joined[0]}", joined[1])
    gap = _ELLIPSIS.search(value)
    if gap is not None:
        return _Item(f"{kind}={value[: gap.start()]}", end, elided=True)
    if (left_out := _BEHIND.match(text, end)) is not None:
        return _Item(f"{kind}={value}", left_out.end(), elided=True)
    torn = _TORN_IN_LIST.match(text, end) or _TORN_AT_SIGN.match(text, end)
    if torn is not None and (not torn.group(2) or text.startswith(f"{kind}=", torn.end())):
        return _Item(f"{kind}={value}{torn.group(1)}", torn.end(1))
    stripped = value.rstrip(_TRAILING)
    return _Item(f"{kind}={stripped}", end - (len(value) - len(stripped)))


def _joined_uuid(text: str, value: str, behind: int) -> tuple[str, int] | None:
    if _PARTIAL_UUID.fullmatch(value) is None or len(value) >= _UUID_LENGTH:
        return None
    place, joined = behind, ""
    while len(joined) < _UUID_LENGTH and place < len(text):
        if not text[place].isspace():
            joined += text[place]
        place += 1
    return (joined, place) if UUID.fullmatch(joined) else None


def _joined_claim(text: str, value: str, behind: int) -> tuple[str, int] | None:
    """Put together a name with a bare UUID in it, as of a DRA claim, that a break tore apart."""
    torn = _TORN_BARE_UUID.match(text, behind)
    if torn is None or not torn.group(1).startswith(value):
        return None
    joined = "".join(torn.group(1).split())
    found = _BARE_UUID.search(joined)
    stripped = joined.rstrip(_TRAILING)
    if found is None or not found.start() < len(value) < found.end():
        return None
    return stripped, torn.end() - (len(joined) - len(stripped))


def _separator(text: str, place: int, *, blanks: bool) -> int | None:
    found = _COMMA.match(text, place) or (_BLANK.match(text, place) if blanks else None)
    return found.end() if found else None


def _is_cut_name(names: list[str], text: str, end: int, *, cut: bool | None) -> bool:
    last = device_of(names[-1])
    if UUID.fullmatch(last) or _CLOSING.match(text, end) is None:
        return False
    if cut:
        return True
    if _PARTIAL_UUID.fullmatch(last) is None:
        return False
    others_whole = len(names) > 1 and all(UUID.fullmatch(device_of(name)) for name in names[:-1])
    # A quote or a bracket behind it says that the text goes on, so the name is what was asked for.
    return others_whole or (cut is None and _breaks_off(names[-1], text[end:]))


def _breaks_off(name: str, rest: str) -> bool:
    """Tell whether a text that ends with ``name`` broke off in the middle of a UUID."""
    vendor, device = kind_of(name).partition("/")[0], device_of(name)
    # Another vendor may well call a device `M`; NVIDIA's names begin with a digit or in small letters.
    is_nvidia = vendor == "nvidia.com" or vendor.endswith(".nvidia.com")
    return not rest.strip() and (is_nvidia or device.startswith(("GPU-", "MIG-")))
