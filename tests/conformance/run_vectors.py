"""Run a file of vectors against :mod:`gpucdi.cdi` and print every difference.

``python tests/conformance/run_vectors.py FILE`` prints one block a difference and, last,
``N passed, M failed``; the exit status is 1 when M is above 0. Each case counts once for every
version of the library it has a result for. Sections that the runner does not know are an error.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from gpucdi import cdi
from gpucdi.host import HostTree

Json = dict[str, object]
NOBODY = 65534


@dataclass(frozen=True, slots=True)
class Check:
    """One case for one version: what the library gave and what this package gives."""

    section: str
    name: str
    library: str
    expected: object
    found: object

    @property
    def passed(self) -> bool:
        return self.expected == self.found


def checks(vectors: Json) -> Iterator[Check]:
    """Run every case of a file."""
    for section, cases in vectors.items():
        if section in {"about", "libs", "note"}:
            continue
        runner = _RUNNERS.get(section)
        if runner is None:
            raise ValueError(f"no such kind of vectors: {section}")
        yield from runner(section, cases, cast("list[str]", vectors.get("libs", [])))


def _by_library(
    section: str, cases: object, find: Callable[[Json, cdi.Library], object], name: str
) -> Iterator[Check]:
    for case in cast("list[Json]", cases):
        for group in cast("list[Json]", case["expect"]):
            for text in cast("list[str]", group["lib"]):
                found = find(case, cdi.Library.parse(text))
                yield Check(section, repr(case[name]), text, group["result"], found)


def _parse(section: str, cases: object, _: list[str]) -> Iterator[Check]:
    def find(case: Json, library: cdi.Library) -> object:
        text = str(case["input"])
        try:
            name = cdi.parse_qualified_name(text, library)
        except cdi.InvalidNameError as error:
            return {"err": str(error), "r": ["", "", text]}
        except cdi.ReaderCrash as crash:
            return {"panic": str(crash)}
        return {"err": "", "r": [name.vendor, name.class_, name.name]}

    return _by_library(section, cases, find, "input")


def content_of(case: Json) -> bytes:
    """Return a case's file content: text, or base64 where it is no text."""
    if "content_base64" in case:
        import base64  # noqa: PLC0415 - few files need it

        return base64.b64decode(str(case["content_base64"]))
    return str(case["content"]).encode("utf-8", "surrogateescape")


def _read_spec(section: str, cases: object, _: list[str]) -> Iterator[Check]:
    def find(case: Json, library: cdi.Library) -> object:
        outcome = cdi.decode_spec(content_of(case), "<F>", library)
        if isinstance(outcome, cdi.Crashes):
            return {"panic": outcome.reason}
        if isinstance(outcome, cdi.Rejected):
            return {"err": outcome.reason}
        spec = outcome.spec
        return {
            "devices": [device.name for device in spec.devices] or None,
            "kind": spec.kind,
            "min": cdi.minimum_version(spec, library),
        }

    return _by_library(section, cases, find, "name")


def _annotations(section: str, cases: object, _: list[str]) -> Iterator[Check]:
    def find(case: Json, library: cdi.Library) -> object:
        try:
            keys, devices = cdi.parse_annotations(cast("dict[str, str]", case["input"]), library)
        except cdi.InvalidNameError as error:
            return {"devices": None, "err": str(error), "keys": None}
        except cdi.ReaderCrash as crash:
            return {"panic": str(crash)}
        return {"devices": list(devices) or None, "err": "", "keys": list(keys) or None}

    return _by_library(section, cases, find, "input")


def _annotation_key(section: str, cases: object, _: list[str]) -> Iterator[Check]:
    def find(case: Json, library: cdi.Library) -> object:
        plugin, device = cast("list[str]", case["input"])
        try:
            return {"err": "", "key": cdi.annotation_key(plugin, device, library)}
        except cdi.InvalidNameError as error:
            return {"err": str(error), "key": ""}

    return _by_library(section, cases, find, "input")


def _scalars(section: str, cases: object, libraries: list[str]) -> Iterator[Check]:
    for case in cast("list[Json]", cases):
        scalar = str(case["scalar"])
        content = (
            "cdiVersion: 0.5.0\nkind: vendor.com/gpu\ndevices:\n- name: d\n  containerEdits:\n"
            f"    hooks:\n    - hookName: prestart\n      path: /x\n      args:\n      - {scalar}\n"
        )
        for text in libraries:
            library = cdi.Library.parse(text)
            new = library >= cdi.Library("1.1.1")
            outcome = cdi.decode_spec(content.encode(), "<F>", library)
            yield Check(
                section, repr(scalar), text, case["go_1_1_1" if new else "go"], _argument(outcome)
            )


def _argument(outcome: cdi.SpecOutcome) -> object:
    if not isinstance(outcome, cdi.Accepted):
        return outcome.reason
    arguments = outcome.spec.devices[0].edits.hooks[0].args
    # From 1.1.1 a null item is dropped from its list; the table means a field of its own.
    return arguments[0] if arguments else ""


def _cache(section: str, cases: object, _: list[str]) -> Iterator[Check]:
    for case in cast("list[Json]", cast("Json", cases)["cases"]):
        for group in cast("list[Json]", case["expect"]):
            for text in cast("list[str]", group["lib"]):
                with tree(case) as root:
                    found = cache_result(case, root, cdi.Library.parse(text))
                yield Check(section, str(case["name"]), text, group["result"], found)


@contextmanager
def tree(case: Json) -> Iterator[Path]:
    """Lay out a case's files, links and modes in a directory that anybody may enter."""
    with tempfile.TemporaryDirectory(prefix="gpucdi-vectors-") as directory:
        root = Path(directory)
        root.chmod(0o755)
        for name, content in cast("dict[str, str]", case["files"]).items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8", newline="")
        for name, target in cast("dict[str, str]", case["links"]).items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(target)
        modes = cast("dict[str, str]", case["chmod"])
        for name, mode in modes.items():
            (root / name).chmod(int(mode, 8))
        try:
            with _as_nobody():
                yield root
        finally:
            for name in modes:
                (root / name).chmod(0o755)


@contextmanager
def _as_nobody() -> Iterator[None]:
    """Give up root's right to read everything; the cases were recorded without it."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def cache_result(case: Json, root: Path, library: cdi.Library) -> Json:
    """Load a laid out case and say what the vectors say; keys without content are left out."""
    dirs = cast("list[str]", case["dirs"])
    reader = cdi.Reader(tuple(f"/{name}" for name in dirs), library)
    registry = reader.load(HostTree(root))
    if registry.crash is not None and isinstance(registry.crash.outcome, cdi.Crashes):
        return {"panic": registry.crash.outcome.reason}
    result: Json = {
        "list": sorted(registry.devices),
        "errors": {
            _relative(path): sorted(map(_relative, texts))
            for path, texts in registry.errors.items()
        },
    }
    asked = cast("list[str]", case["inject"])
    if asked:
        answer = registry.resolve(asked)
        result["unresolved"] = list(answer.unresolved)
        result["injecterr"] = answer.error
        result["injected_env"] = _replaced(answer.edits.env) if answer.edits else None
    return {key: value for key, value in result.items() if value}


def _relative(text: str) -> str:
    for before in ('"', " "):
        text = text.replace(f"{before}/", before)
    return text.removeprefix("/")


def _replaced(env: tuple[str, ...]) -> list[str]:
    """Return the environment of an empty container after the edits: equal items once."""
    return list(dict.fromkeys(env))


_RUNNERS: dict[str, Callable[[str, object, list[str]], Iterator[Check]]] = {
    "parse_qualified_name": _parse,
    "read_spec": _read_spec,
    "parse_annotations": _annotations,
    "annotation_key": _annotation_key,
    "yaml_plain_scalar_to_string_field": _scalars,
    "cache_dirs": _cache,
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Run CDI vectors and print each difference.")
    parser.add_argument("file", type=Path)
    vectors = json.loads(parser.parse_args(arguments).file.read_text(encoding="utf-8"))
    passed = failed = 0
    for check in checks(vectors):
        if check.passed:
            passed += 1
            continue
        failed += 1
        print(f"{check.section} {check.name} with {check.library}")
        print(f"  the library: {json.dumps(check.expected, ensure_ascii=False)}")
        print(f"  gpucdi:      {json.dumps(check.found, ensure_ascii=False)}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
