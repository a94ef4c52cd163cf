"""One tree, every version: what the library says beside what this package says.

Owns: the comparison and what counts as equal. Must not know: where trees come from.
"""

from __future__ import annotations

import codecs
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, cast

from tests.differential.oracle import NOBODY, Json, Oracle
from tests.differential.trees import Tree
from tests.lab.oracle.build import VERSIONS

from gpucdi import cdi
from gpucdi.cdi.schema import Scalar, Sequence, Struct, Type, spec_schema
from gpucdi.host import HostTree

# Looked up once while the interpreter's own files can be read: nobody may not.
for _encoding in ("utf-16-le", "utf-16-be"):
    codecs.lookup(_encoding)

CHANCES = 24
_NO_TEXT = re.compile("[\udc80-\udcff]")
_RANDOM_KEY = re.compile(r"([Uu]nsupported map key of type: ).*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Difference:
    """A version for which the two disagree about a tree."""

    library: str
    tree: Tree
    theirs: Json
    ours: Json

    def __str__(self) -> str:
        keys = [
            key
            for key in {**self.theirs, **self.ours}
            if self.theirs.get(key) != self.ours.get(key)
        ]
        parts = [f"library {self.library}, tree {self.tree}"]
        for key in keys:
            parts += [
                f"  {key}",
                f"    the library: {self.theirs.get(key)}",
                f"    gpucdi:      {self.ours.get(key)}",
            ]
        return "\n".join(parts)


class Bench:
    """A place for trees in memory and one running oracle a version, both as an ordinary user."""

    def __init__(self, versions: tuple[str, ...] = VERSIONS) -> None:
        shared_memory = Path("/dev/shm")
        parent = shared_memory if shared_memory.is_dir() else None
        self._stack = ExitStack()
        place = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="gpucdi-", dir=parent))
        self.place = Path(place)
        self.place.chmod(0o755)
        self.root = self.place / "t"
        self.root.mkdir()
        if os.geteuid() == 0:
            os.chown(self.root, NOBODY, NOBODY)
        self.oracles = [
            self._stack.enter_context(Oracle(version, self.place)) for version in versions
        ]
        self.host = HostTree("/")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def differences(self, tree: Tree) -> list[Difference]:
        """Ask all oracles and this package about ``tree``."""
        found = []
        with _as_nobody(), self._laid_out(tree):
            question: Json = {
                "op": "cache",
                "dirs": [f"{self.root}/{name}" for name in tree.dirs],
                "devices": list(tree.asked),
            }
            for oracle in self.oracles:
                oracle.send(question)
            try:
                all_ours = [self.ours(tree, cdi.Library(oracle.version)) for oracle in self.oracles]
            finally:
                # Also when this package fails: the next tree must not get this one's answers.
                all_theirs = [self._theirs(oracle.receive()) for oracle in self.oracles]
            for oracle, ours, theirs in zip(self.oracles, all_ours, all_theirs, strict=True):
                if theirs != ours and not self._by_chance(oracle, question, ours):
                    found.append(Difference(oracle.version, tree, theirs, ours))
        return found

    def _by_chance(self, oracle: Oracle, question: Json, ours: Json) -> bool:
        """Tell whether the library gives our answer as well: it walks maps in random order."""
        return any(self._theirs(oracle.ask(question)) == ours for _ in range(CHANCES))

    @contextmanager
    def _laid_out(self, tree: Tree) -> Iterator[None]:
        try:
            tree.lay_out(self.root)
            yield
        finally:
            tree.clear(self.root)

    def _theirs(self, answer: Json) -> Json:
        if "panic" in answer:
            return {"panic": answer["panic"]}
        return _normal(_without(answer, str(self.root)))

    def ours(self, tree: Tree, library: cdi.Library) -> Json:
        """Return this package's answer in the shape of the oracle's."""
        reader = cdi.Reader(tuple(f"/{name}" for name in tree.dirs), library)
        registry = reader.load(HostTree(self.root))
        if registry.crash is not None:
            assert isinstance(registry.crash.outcome, cdi.Crashes)
            return {"panic": registry.crash.outcome.reason}
        answer = registry.resolve(tree.asked)
        error = answer.error
        if answer.edits is not None:
            error = cdi.injection_error(answer.edits, self.host)
        kinds = [kind.partition("/") for kind in registry.kinds]
        result: Json = {
            "list": sorted(registry.devices, key=os.fsencode),
            "vendors": sorted({vendor for vendor, _, _ in kinds}),
            "classes": sorted({class_ for _, _, class_ in kinds}),
            "errors": {path: sorted(texts) for path, texts in registry.errors.items()},
            "defined": _defined(registry, library),
            "unresolved": list(answer.unresolved),
            "injecterr": error or "",
        }
        if answer.edits is not None and error is None:
            result["env"] = _environment(answer.edits.env)
            result["mounts"] = len({mount.container_path for mount in answer.edits.mounts})
        return _normal(result)


def _defined(registry: cdi.Registry, library: cdi.Library) -> Json:
    schema = spec_schema(library)
    devices = schema.fields["devices"].type
    assert isinstance(devices, Sequence)
    return {
        name: {
            "path": found.file.path,
            "min": cdi.minimum_version(found.spec, library),
            "device": as_json(found.device, devices.item),
            "spec": as_json(found.spec, schema),
        }
        for name, found in registry.devices.items()
    }


_REQUIRED = {
    ("Spec", "cdiVersion"), ("Spec", "kind"), ("Spec", "devices"), ("Device", "name"),
    ("Device", "containerEdits"), ("DeviceNode", "path"), ("Mount", "hostPath"),
    ("Mount", "containerPath"), ("Hook", "hookName"), ("Hook", "path"),
    ("LinuxNetDevice", "hostInterfaceName"), ("LinuxNetDevice", "name"),
}  # fmt: skip


def as_json(value: object, kind: Type) -> object:
    """Return what ``json.Marshal`` makes of the Go struct: empty optional fields are left out."""
    if isinstance(kind, Struct):
        content = {}
        for each in kind.fields.values():
            item = as_json(getattr(value, each.attribute), each.type) if value is not None else None
            pointer = isinstance(each.type, Scalar) and each.type.pointer
            structured = isinstance(each.type, Struct) and (
                not each.type.pointer or item is not None
            )
            if (
                item
                or structured
                or (pointer and item is not None)
                or (kind.name, each.name) in _REQUIRED
            ):
                content[each.name] = item
        return content if value is not None else None
    if isinstance(kind, Sequence):
        return [as_json(item, kind.item) for item in cast("tuple[object, ...]", value or ())]
    if isinstance(value, str):
        # json.Marshal shows a byte that is no text as U+FFFD.
        return _NO_TEXT.sub("\ufffd", value)
    if isinstance(kind, Scalar) or not value:
        return value
    entries = cast("dict[str, str]", value)
    return {name: _NO_TEXT.sub("\ufffd", text) for name, text in entries.items()}


def _environment(env: tuple[str, ...]) -> list[str]:
    """Return the environment of an empty container: the last value of a variable in first place."""
    return list({item.partition("=")[0]: item for item in env}.values())


def _without(value: object, root: str) -> Json:
    def strip(each: object) -> object:
        if isinstance(each, str):
            return each.replace(root, "")
        if isinstance(each, list):
            return [strip(item) for item in each]
        if isinstance(each, dict):
            return {str(strip(key)): strip(item) for key, item in each.items()}
        return each

    return cast("Json", strip(value))


def _normal(answer: Json) -> Json:
    result = {key: value for key, value in answer.items() if value}
    errors = cast("dict[str, list[str]]", result.get("errors", {}))
    if errors:
        result["errors"] = {path: sorted(map(error_class, texts)) for path, texts in errors.items()}
    return result


def error_class(text: str) -> str:
    """Return what must be equal about an error: all of it, but for what Go leaves to chance.

    Of several keys that JSON cannot have, the one that Go's map iteration meets first is named.
    """
    return _RANDOM_KEY.sub(r"\1", text)


@contextmanager
def _as_nobody() -> Iterator[None]:
    if os.geteuid() != 0:
        yield
        return
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
