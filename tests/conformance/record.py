"""Ask the real library again about every case of a vectors file, and write down what it says.

``python -m tests.conformance.record tests/conformance/data/found.json`` keeps the cases' inputs
and replaces their results, those of trees as well; ``--add NAME FILE`` adds a spec file as a case first. This is how a
difference that the differential test finds becomes a vector.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import cast

from tests.conformance.run_vectors import content_of, tree
from tests.differential.oracle import Json, Oracle
from tests.lab.oracle.build import VERSIONS


def recorded(content: bytes, oracles: list[Oracle], place: Path) -> list[Json]:
    """Return the results of all versions for one spec file, versions with one result together."""
    path = place / "spec.yaml"
    path.write_bytes(content)
    question: Json = {"op": "read", "path": str(path)}
    return _grouped(oracles, lambda oracle: _result(oracle.ask(question), str(path)))


def recorded_tree(case: Json, oracles: list[Oracle]) -> list[Json]:
    """Return the results of all versions for a tree of spec directories, which nobody is kept from."""
    with tree(case) as root:
        dirs = [f"{root}/{name}" for name in cast("list[str]", case["dirs"])]
        question: Json = {"op": "cache", "dirs": dirs, "devices": case["inject"]}
        return _grouped(oracles, lambda oracle: _tree_result(oracle.ask(question), root))


def _grouped(oracles: list[Oracle], ask: Callable[[Oracle], Json]) -> list[Json]:
    groups: list[Json] = []
    for oracle in oracles:
        result = ask(oracle)
        version = f"v{oracle.version}"
        same = next((group for group in groups if group["result"] == result), None)
        if same is None:
            groups.append({"lib": [version], "result": result})
        else:
            cast("list[str]", same["lib"]).append(version)
    return groups


def _tree_result(answer: Json, root: Path) -> Json:
    if "panic" in answer:
        return {"panic": answer["panic"]}
    text = json.dumps(answer).replace(f"{root}/", "")
    found = cast("Json", json.loads(text))
    names = {"list": "list", "errors": "errors", "unresolved": "unresolved"}
    names |= {"injecterr": "injecterr", "injected_env": "env"}
    return {key: found[name] for key, name in names.items() if found.get(name)}


def _result(answer: Json, path: str) -> Json:
    if "panic" in answer:
        return {"panic": answer["panic"]}
    if "err" in answer:
        return {"err": str(answer["err"]).replace(path, "<F>")}
    devices = cast("Json", answer["spec"])["devices"] or []
    names = [device["name"] for device in cast("list[Json]", devices)]
    return {"devices": names or None, "kind": answer["kind"], "min": answer["min"]}


def new_case(name: str, content: bytes) -> Json:
    """Return a case without results; content that is no text is kept in base64."""
    try:
        return {"name": name, "content": content.decode()}
    except UnicodeDecodeError:
        return {"name": name, "content_base64": base64.b64encode(content).decode()}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Record vectors from the real library.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--add", nargs=2, action="append", default=[], metavar=("NAME", "FILE"))
    options = parser.parse_args(arguments)
    vectors = json.loads(options.file.read_text(encoding="utf-8"))
    for name, path in options.add:
        vectors["read_spec"].append(new_case(name, Path(path).read_bytes()))
    vectors["libs"] = [f"v{version}" for version in VERSIONS]
    oracles = [Oracle(version) for version in VERSIONS]
    with tempfile.TemporaryDirectory() as directory:
        for case in vectors["read_spec"]:
            case["expect"] = recorded(content_of(case), oracles, Path(directory))
    for case in vectors.get("cache_dirs", {}).get("cases", []):
        case["expect"] = recorded_tree(case, oracles)
    for oracle in oracles:
        oracle.close()
    text = json.dumps(vectors, ensure_ascii=False, indent=1)
    options.file.write_text(f"{text}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
