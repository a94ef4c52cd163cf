"""The library stands on its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.conformance.run_vectors import checks

import gpucdi.cdi
from gpucdi.cdi import NEWEST, decode_spec, nodes
from gpucdi.cdi.nodetypes import AliasNode, MappingNode, ScalarNode, SequenceNode

VECTORS = Path(__file__).parents[1] / "conformance" / "data" / "cdi-vectors.json"


def test_importing_it_brings_nothing_but_the_host_tree_and_yaml() -> None:
    program = (
        "import sys, gpucdi.cdi\n"
        "own = {name.split('.')[1] for name in sys.modules if name.startswith('gpucdi.')}\n"
        "print(sorted(own))\n"
        "print(sorted(name for name in ('kopf', 'kubernetes', 'tomlkit', 'pynvml')"
        " if name in sys.modules))\n"
    )

    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert answer.stdout.splitlines() == ["['cdi', 'host']", "[]"]


def test_every_public_name_is_there_and_documented() -> None:
    for name in gpucdi.cdi.__all__:
        found = getattr(gpucdi.cdi, name)
        assert found is not None
        if callable(found):
            assert found.__doc__, name


TEXTS = [
    b"kind: vendor.com/gpu\ndevices: [{name: a}]\n",
    b"# c\n---\ncdiVersion: 0.6.0\nkind: &k vendor.com/gpu\nannotations: {a: *k}\n",
    b'{"cdiVersion": "0.6.0", "devices": [{"name": "d\\u0030"}]}',
    b"a:\n- b\n-\n  c: >-\n    d\n    e\n\n  f: |\n   g\n",
    b"a: 'b\n\n  c'\nd: \"e\\\n  f\"\n",
]


@pytest.mark.parametrize("data", TEXTS)
@pytest.mark.parametrize("v3", [False, True])
def test_the_port_of_go_yaml_agrees_with_libyaml_where_both_may_read(data: bytes, v3: bool) -> None:
    fast, exact = nodes._fast(data), nodes._exact(data, v3)

    assert isinstance(fast, nodes.Document)
    assert isinstance(exact, nodes.Document)
    assert shape(fast.root) == shape(exact.root)
    # The port does not count the scalars that are nothing.
    assert 0 < exact.count <= fast.count


def shape(node: object) -> object:
    if isinstance(node, ScalarNode):
        return (node.line, node.tag, node.anchor, node.value, node.plain, node.quoted)
    if isinstance(node, SequenceNode):
        return (node.line, node.tag, node.anchor, [shape(item) for item in node.items])
    if isinstance(node, MappingNode):
        pairs = [(shape(key), shape(value)) for key, value in node.pairs]
        return (node.line, node.tag, node.anchor, pairs)
    assert isinstance(node, AliasNode)
    return (node.line, node.name)


@pytest.fixture
def without_libyaml(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delattr(yaml, "cyaml")
    nodes._kept.clear()
    yield
    nodes._kept.clear()


@pytest.mark.usefixtures("without_libyaml")
def test_without_libyaml_the_vectors_still_hold() -> None:
    vectors = json.loads(VECTORS.read_text(encoding="utf-8"))
    files = {"libs": vectors["libs"], "read_spec": vectors["read_spec"]}

    assert [check for check in checks(files) if not check.passed] == []


def test_the_kept_nodes_do_not_mix_up_the_two_lines_of_go_yaml() -> None:
    data = b"a: b: c\n"
    old = decode_spec(data, "/x", gpucdi.cdi.Library("1.1.0"))
    new = decode_spec(data, "/x", NEWEST)

    assert "error converting YAML to JSON" in str(old)
    assert "error converting YAML to JSON" not in str(new)
