"""Spec trees as Hypothesis makes them up: layouts, spellings, mistakes.

Owns: the strategies. Must not know: what the right answer is.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Protocol, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


class Draw(Protocol):
    """Where decisions come from."""

    def integer(self, low: int, high: int) -> int:
        """Return a number of the closed range."""
        ...

    def choice(self, values: Sequence[T]) -> T:
        """Return one of ``values``."""
        ...

    def shuffled(self, values: list[T]) -> list[T]:
        """Return ``values`` in some order."""
        ...


class HypothesisDraw:
    """Decisions that Hypothesis can shrink."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def choice(self, values: Sequence[T]) -> T:
        return self.draw(st.sampled_from(values))

    def shuffled(self, values: list[T]) -> list[T]:
        return self.draw(st.permutations(values))


class RandomDraw:
    """Decisions from a seed, much faster."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311 - trees, not secrets

    def integer(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def choice(self, values: Sequence[T]) -> T:
        return self.random.choice(values)

    def shuffled(self, values: list[T]) -> list[T]:
        return self.random.sample(values, len(values))


KINDS = ("vendor.com/gpu", "nvidia.com/gpu", "Vendor.com/gpu", "vendor.com/g.pu")
ODD_KINDS = ("v/gpu", "vendor.com/g", "bad", "/gpu", "vendor.com/", "1v/gpu", "véndor.com/gpu",
             "vendor.com/gpu=x", "vendor-/gpu", "vendor.com/a/b", "~", "1", "a.b/c.d", "x", '""')  # fmt: skip
VERSIONS = ("0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
ODD_VERSIONS = ("0.1.0", "0.2.0", "1.2.0", "v0.6.0", "vv0.6.0", "0.6", "1.0", "1", "0.10", "~",
                "V0.5.0", "0.5.0-rc1", '""', "yes", "0x10", "true", "!!float 0.5")  # fmt: skip
NAMES = ("d0", "d1", "0", "1", "all", "GPU-1", "mig-1g.5gb", "0:1")
SCALARS = (
    "010", "08", "0o10", "0x1F", "0b11", "1e3", "1.0", "0.10", "1_000", "y", "N", "on", "Off",
    "yes", "true", "False", "~", "null", "Null", "NULL", '""', "''", "1:30", "2001-01-01", "+1", "-1", ".5",
    "5.", ".inf", "-.inf", ".nan", "1e20", "123456789012345678901", "9223372036854775808", "-0",
    "0.1", "1.23456789", "16777217.5", "1e-7", "-.5", "+.5e3", ".5_0", "0b+1", "1e400", "1__0", "_1",
    "!!str 1", "!!int '7'", "!!int x", "!!float 3", "!!null ''", "!!bool yes", "!foo x", "!!binary ZDA=",
    "!!binary ZD", "!!binary /w==", "! 1", "! '1'", "a b", "a#b", "a #b", "'it''s'", '"q\\"x"', '"\\u00e9"',
    "é", "\u00a0", "=", "<<", "a: b", "[1]", "{}", "[]", "{a: b}", "*a", "&a x", "|", ">", "%x", "@x", "`x",
    "- x", "?x", "? x", ":x", "x:", "-", "--- x", '"\\x41"', '"\\/"', '"a\\nb"', "'a\n\n  b'", "2001-12-14t21:59:43.10-05:00",
    "!!timestamp 2001-01-01", "!!timestamp x", "0o7", "-0o7", "-0b11", "0B1", "0O7", "0X1f", "1e", "e1", "1.5", "99999999999999999999999",
)  # fmt: skip
KEYS = ("cdiVersion", "kind", "devices", "containerEdits", "annotations", "name", "env", "deviceNodes",
        "hooks", "mounts", "intelRdt", "additionalGids", "netDevices", "path", "hostPath", "foo",
        "Kind", "KIND", "CDIVERSION", "additionalGIDs", "Name", "<<", "1", "true", "~", "schemata",
        "enableMonitoring", "enableCMT", "closID", "{a: b}", "[a]", "? a", "!!binary a2luZA==", "\u212aind", "device\u017f")  # fmt: skip
EXTENSIONS = (".yaml", ".json", ".yml", ".YAML", "", ".yaml~", ".tmp", ".Json")
# The kernel refuses `..`, `.` and a slash at the end behind what is missing or no directory.
LINK_TARGETS = (
    *(
        "nowhere",
        "a.yaml",
        "b.json",
        ".",
        "../etc/a.yaml",
        "../etc/",
        "nosuch/../a.yaml",
        "a.yaml/",
    ),
    *("a.yaml/.", "a.yaml/../b.json", "b.json/..", "q/../a.yaml", "q/../../etc/b.json", "nosuch/."),
    *("./a.yaml", ".//.//b.json", "nosuch/x", "a.yaml/x", "q/", "..", "../real-etc/../etc/a.yaml"),
    *("x.yaml/../a.yaml", "z.yaml/../b.json", "../opt.yaml/../etc/a.yaml", "../run/./a.yaml"),
)


@dataclass(frozen=True, slots=True)
class Tree:
    """Spec directories in ascending priority, what lies in the tree, and what is asked for."""

    dirs: tuple[str, ...]
    files: dict[str, bytes] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    modes: dict[str, int] = field(default_factory=dict)
    asked: tuple[str, ...] = ()

    def lay_out(self, root: Path) -> None:
        """Create the tree below the empty directory ``root``."""
        for name in self.folders:
            (root / name).mkdir(parents=True, exist_ok=True)
        for name, content in self.files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        for name, target in self.links.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.is_symlink() and not path.exists():
                path.symlink_to(target)
        for name, mode in self.modes.items():
            if (root / name).exists():
                (root / name).chmod(mode)

    def clear(self, root: Path) -> None:
        """Remove everything again, whatever the modes."""
        for name in self.modes:
            if os.path.lexists(root / name):
                (root / name).chmod(0o755)
        for each in root.iterdir():
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each)
            else:
                each.unlink()


def _chance(draw: Draw, one_in: int) -> bool:
    return draw.integer(0, one_in - 1) == one_in - 1


def _pick(draw: Draw, values: Sequence[str]) -> str:
    return values[draw.integer(0, len(values) - 1)]


def _quoted(draw: Draw, text: str) -> str:
    style = draw.integer(0, 3)
    if style == 0:
        return f'"{text}"'
    return f"'{text}'" if style == 1 else text


def _name(draw: Draw) -> str:
    return _pick(draw, SCALARS) if _chance(draw, 12) else _quoted(draw, _pick(draw, NAMES))


# A value is a scalar's text, a list of values or a list of (key, value) pairs.
Value = object


def _env(draw: Draw) -> Value:
    if _chance(draw, 15):
        return _pick(draw, SCALARS)
    choices = ("A=b", "B=c", "A=", "C=d=e", '"A B=c"', "A", "=b", "null", "1", '""')
    return [
        _pick(draw, choices[:5] if not _chance(draw, 12) else choices)
        for _ in range(draw.integer(1, 2))
    ]


def _number(draw: Draw) -> str:
    return (
        _pick(draw, SCALARS) if _chance(draw, 4) else _pick(draw, ("1", "195", "0", "0666", "1.0"))
    )


def _optional(draw: Draw, pairs: list[tuple[str, Value]], key: str, value: object) -> None:
    if _chance(draw, 3):
        pairs.append((key, value() if callable(value) else value))


def _device_node(draw: Draw) -> Value:
    if _chance(draw, 25):
        return _pick(draw, ("null", "x", "[]", "~", "{}"))
    pairs: list[tuple[str, Value]] = [
        ("path", _pick(draw, ("/dev/null", "/dev/zero", "/dev/nosuch", "rel")))
    ]
    _optional(draw, pairs, "hostPath", _pick(draw, ("/dev/null", "/dev/full", '""', "1")))
    _optional(draw, pairs, "type", _pick(draw, ("c", "c", "b", "p", "u", "x", "y", '""', "n")))
    _optional(draw, pairs, "major", lambda: _number(draw))
    _optional(draw, pairs, "minor", lambda: _number(draw))
    _optional(draw, pairs, "fileMode", lambda: _number(draw))
    _optional(draw, pairs, "permissions", _pick(draw, ("rwm", "r", "none", "rnw", "x", '""')))
    _optional(draw, pairs, "uid", lambda: _number(draw))
    return pairs


def _hook(draw: Draw) -> Value:
    if _chance(draw, 25):
        return _pick(draw, ("null", "x", "{}"))
    pairs: list[tuple[str, Value]] = [
        ("hookName", _pick(draw, ("createContainer", "prestart", "poststop", "startContainer"))),
        ("path", "/bin/true"),
    ]
    if _chance(draw, 10):
        pairs[0] = ("hookName", "on")
    _optional(draw, pairs, "args", lambda: [_pick(draw, SCALARS), _pick(draw, SCALARS), "x"])
    _optional(draw, pairs, "timeout", lambda: _number(draw))
    return pairs


def _mount(draw: Draw) -> Value:
    if _chance(draw, 25):
        return _pick(draw, ("null", "{}", "[]"))
    pairs: list[tuple[str, Value]] = [
        ("hostPath", "/a"),
        ("containerPath", _pick(draw, ("/b", "/c", '""'))),
    ]
    _optional(draw, pairs, "options", lambda: ["ro", _pick(draw, SCALARS)])
    _optional(draw, pairs, "type", "bind")
    return pairs


def _net_device(draw: Draw) -> Value:
    if _chance(draw, 12):
        return _pick(draw, ("null", "{}"))
    return [
        ("hostInterfaceName", _pick(draw, ("eth0", "eth1"))),
        ("name", _pick(draw, ("n0", "n1", "0x1"))),
    ]


def _intel_rdt(draw: Draw) -> Value:
    if _chance(draw, 8):
        return _pick(draw, ("null", "{}", "x"))
    pairs: list[tuple[str, Value]] = []
    _optional(draw, pairs, "closID", _pick(draw, ("x", "/", "a/b", ".", "1")))
    _optional(draw, pairs, "l3CacheSchema", "L3")
    _optional(
        draw,
        pairs,
        _pick(draw, ("enableCMT", "enableMonitoring")),
        _pick(draw, ("true", "yes", "1", '"on"', "null")),
    )
    _optional(draw, pairs, "schemata", _pick(draw, ("[]", "null", "[a]", "x")))
    return pairs


def _some(draw: Draw, make: object) -> Value:
    assert callable(make)
    return [make(draw) for _ in range(draw.integer(1, 2))]


def _edits(draw: Draw) -> Value:
    if _chance(draw, 30):
        return _pick(draw, ("null", "{}", "x", "[]", "*a"))
    pairs: list[tuple[str, Value]] = []
    if not _chance(draw, 6):
        pairs.append(("env", _env(draw)))
    for key, make in (("deviceNodes", _device_node), ("hooks", _hook), ("mounts", _mount)):
        if _chance(draw, 4):
            pairs.append((key, _some(draw, make)))
    if _chance(draw, 12):
        pairs.append(("netDevices", _some(draw, _net_device)))
    if _chance(draw, 12):
        pairs.append(("intelRdt", _intel_rdt(draw)))
    if _chance(draw, 12):
        pairs.append(("additionalGids", [_number(draw)]))
    return _spoiled(draw, pairs)


def _spoiled(draw: Draw, pairs: list[tuple[str, Value]]) -> list[tuple[str, Value]]:
    """Sometimes add what does not belong: unknown, doubled, recased, merged keys."""
    if not _chance(draw, 25):
        return pairs
    key = _pick(draw, KEYS)
    value: Value = _pick(draw, SCALARS)
    if key == "<<":
        value = _pick(
            draw, ("*a", "[*a]", "{env: [M=m]}", "[{env: [M=1]}, {env: [M=2]}]", "x", "null")
        )
    elif pairs and _chance(draw, 2):
        old, value = pairs[draw.integer(0, len(pairs) - 1)]
        key = _pick(draw, (old, old.upper(), old.title(), f'"{old}"', f"&k {old}"))
    position = draw.integer(0, len(pairs))
    return [*pairs[:position], (key, value), *pairs[position:]]


def _device(draw: Draw) -> Value:
    if _chance(draw, 40):
        return _pick(draw, ("null", "x", "{}", "[]"))
    pairs: list[tuple[str, Value]] = [("name", _name(draw)), ("containerEdits", _edits(draw))]
    if _chance(draw, 12):
        pairs.append(
            ("annotations", [(_pick(draw, ("a", "1", "y", "~", "1.5")), _pick(draw, SCALARS))])
        )
    return _spoiled(draw, pairs)


def _spec(draw: Draw) -> Value:
    kind = _pick(draw, ODD_KINDS) if _chance(draw, 12) else _pick(draw, KINDS)
    version = _pick(draw, ODD_VERSIONS) if _chance(draw, 12) else _pick(draw, VERSIONS)
    pairs: list[tuple[str, Value]] = [
        ("cdiVersion", _quoted(draw, version) if version in VERSIONS else version),
        ("kind", kind),
        ("devices", [_device(draw) for _ in range(draw.integer(0, 3))]),
    ]
    if _chance(draw, 3):
        pairs.append(("containerEdits", _edits(draw)))
    if _chance(draw, 12):
        pairs.append(
            ("annotations", [(_pick(draw, ("a", "b: c", "010", "null")), _pick(draw, SCALARS))])
        )
    if _chance(draw, 6):
        pairs = draw.shuffled(pairs)
    return _spoiled(draw, pairs)


class _Writer:
    """Turns a value into YAML text, deciding block or flow as it goes."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.anchored = False
        self.style = draw.integer(0, 3)

    def flow(self, value: Value, *, json: bool) -> str:
        if isinstance(value, str):
            return value
        assert isinstance(value, list)
        if value and isinstance(value[0], tuple):
            mark = '"' if json else ""
            parts = [f"{mark}{key}{mark}: {self.flow(item, json=json)}" for key, item in value]
            return "{" + ", ".join(parts) + "}"
        return "[" + ", ".join(self.flow(item, json=json) for item in value) + "]"

    def block(self, value: Value, indent: int) -> str:
        """Return text that follows ``key:`` or ``-``, with its own leading blank or newline."""
        if isinstance(value, str):
            return f" {value}\n"
        assert isinstance(value, list)
        if not value:
            return " []\n"
        if self.style and _chance(self.draw, 5):
            return f" {self.flow(value, json=False)}\n"
        anchor = ""
        if not self.anchored and _chance(self.draw, 10):
            self.anchored, anchor = True, " &a"
        if _chance(self.draw, 120):
            anchor += _pick(self.draw, (" !!null", " !!map", " !!seq", " !x", " !!str"))
        if isinstance(value[0], tuple):
            lines = [f"{' ' * indent}{key}:{self.block(item, indent + 2)}" for key, item in value]
        else:
            lines = [f"{' ' * indent}-{self._item(item, indent + 2)}" for item in value]
        return f"{anchor}\n" + "".join(lines)

    def _item(self, value: Value, indent: int) -> str:
        if isinstance(value, list) and value and isinstance(value[0], tuple) and self.style != 1:
            body = "".join(
                f"{' ' * indent}{key}:{self.block(item, indent + 2)}" for key, item in value
            )
            return " " + body[indent:]
        return self.block(value, indent)


def spec_bytes(draw: Draw) -> bytes:
    """Make up the content of a spec file."""
    value = _spec(draw)
    writer = _Writer(draw)
    shape = draw.integer(0, 7)
    if shape == 0:
        text = writer.flow(value, json=True)
    elif shape == 1:
        text = writer.flow(value, json=False)
    else:
        text = writer.block(value, 0).lstrip("\n")
    if _chance(draw, 15):
        text = (
            _pick(
                draw,
                (
                    "---\n",
                    "# c\n",
                    "%YAML 1.1\n---\n",
                    "\ufeff",
                    "--- # x\n",
                    "\n\n",
                    "---\n---\n",
                    "%YAML 1.2\n---\n",
                    "%TAG ! tag:x,2000:\n---\n",
                ),
            )
            + text
        )
    if _chance(draw, 15):
        text += _pick(
            draw,
            (
                "---\nfoo: bar\n",
                "...\n[",
                "# end",
                "\t",
                "x",
                "}",
                "  ",
                "...\n",
                "\x00",
                "- x\n",
                "---\n{",
                "\ufeff",
            ),
        )
    if _chance(draw, 10):
        text = _mutated(draw, text)
    data = text.encode("utf-8", "surrogatepass")
    if _chance(draw, 60):
        data = draw.choice(
            (
                b"!!null\n" + text.encode("utf-8", "surrogatepass"),
                b"!!map\n" + text.encode("utf-8", "surrogatepass"),
                b"",
                b"\xff\xfe",
                b"null",
                b"[]",
                b"42",
                b"x",
                b"{}",
                b"'",
                b"\xc3\x28",
                text.encode("utf-16", "surrogatepass"),
                b"a: b: c",
                b"\r",
                b"- \t- x",
                b"&a [*a]",
                b"&a {k: *a}",
                b"*a",
            )
        )
    if _chance(draw, 20):
        data = data.replace(b"\n", b"\r\n")
    return data


def _mutated(draw: Draw, text: str) -> str:
    """Damage the text in one or two places."""
    for _ in range(draw.integer(1, 2)):
        position = draw.integer(0, max(len(text) - 1, 0))
        what = draw.integer(0, 3)
        piece = _pick(
            draw,
            (
                ":",
                " ",
                "\n",
                "-",
                "{",
                "}",
                "[",
                "]",
                '"',
                "'",
                "\t",
                "#",
                "&a ",
                "*a",
                "!",
                "|",
                ">",
                "?",
                ",",
                "%",
                "@",
                "é",
                "\x07",
                "\x85",
                "\u2028",
                "\\",
                "  ",
            ),
        )
        if what == 0:
            text = text[:position] + text[position + 1 :]
        elif what == 1:
            text = text[:position] + piece + text[position:]
        elif what == 2:
            text = text[:position] + piece + text[position + 1 :]
        else:
            lines = text.split("\n")
            del lines[draw.integer(0, len(lines) - 1)]
            text = "\n".join(lines)
    return text


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """Make up a tree that Hypothesis can shrink."""
    return make_tree(HypothesisDraw(draw))


def seeded_tree(seed: int) -> Tree:
    """Make up the tree of a seed."""
    return make_tree(RandomDraw(seed))


def make_tree(draw: Draw) -> Tree:
    """Make up a whole tree."""
    names = ("etc", "run", "opt.yaml")[: draw.choice((1, 2, 2, 2, 3))]
    layout = _Layout(draw)
    for name in names:
        shape = draw.integer(0, 19)
        if shape == 17:
            continue
        if shape == 18:
            layout.files[name] = spec_bytes(draw)
            continue
        place = name
        if shape == 19:
            place = f"real-{name}"
            layout.links[name] = place
        layout.fill(place)
    dirs = list(names)
    if _chance(draw, 15):
        dirs = [*dirs, dirs[0]]
    if _chance(draw, 15):
        dirs.reverse()
    if _chance(draw, 30):
        odd = (f"{dirs[0]}/", f"x/../{dirs[0]}", f"{dirs[0]}/a.yaml", f"./{dirs[0]}")
        dirs[0] = draw.choice(odd)
    return Tree(
        tuple(dirs),
        layout.files,
        layout.links,
        tuple(layout.folders),
        layout.modes,
        _asked(draw),
    )


class _Layout:
    """Collects what lies in a tree."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.files: dict[str, bytes] = {}
        self.links: dict[str, str] = {}
        self.folders: list[str] = []
        self.modes: dict[str, int] = {}

    def fill(self, place: str) -> None:
        """Put files, links and folders into a directory."""
        draw = self.draw
        self.folders.append(place)
        for stem in ("a", "b", ".c")[: draw.choice((1, 1, 2, 2, 3))]:
            extensions = EXTENSIONS if _chance(draw, 8) else EXTENSIONS[:2]
            self._entry(place, f"{stem}{_pick(draw, extensions)}")
        if _chance(draw, 25):
            # Without the right to enter, only the directory itself knows what its entries are.
            inner = any(each.startswith(f"{place}/") for each in self.folders)
            modes = (0o000, 0o111, 0o555) if inner else (0o000, 0o444, 0o111, 0o555)
            self.modes[place] = draw.choice(modes)

    def _entry(self, place: str, name: str) -> None:
        draw = self.draw
        path = f"{place}/{name}"
        shape = draw.integer(0, 39)
        if shape == 36:
            self.links[path] = draw.choice((*LINK_TARGETS, name))
            if _chance(draw, 2):
                self.folders.append(f"{place}/q")
        elif shape == 37:
            self.folders.append(path)
            self.files[f"{path}/x.yaml"] = spec_bytes(draw)
        else:
            self.files[path] = spec_bytes(draw)
            if shape == 38:
                self.modes[path] = 0o000
            elif shape == 39:
                self.links[f"{place}/z.yaml"] = name


def _asked(draw: Draw) -> tuple[str, ...]:
    asked = []
    for _ in range(draw.integer(1, 3)):
        if _chance(draw, 8):
            asked.append(
                _pick(draw, ("", "d0", "vendor.com/gpu", "/dev/null", "v/c=d", "vendor.com/gpu=é"))
            )
        else:
            asked.append(f"{_pick(draw, KINDS)}={_pick(draw, NAMES)}")
    return tuple(asked)
