"""Small host trees and the readers that look at them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.cdi.support import Tree

from gpucdi import cdi
from gpucdi.host import HostTree

SPEC = """\
cdiVersion: "0.6.0"
kind: {kind}
containerEdits:
  env: ["SPEC={kind}"]
devices:
{devices}"""
DEVICE = '- name: "{name}"\n  containerEdits: {{env: ["DEVICE={name}"]}}\n'


@pytest.fixture
def spec_text() -> Callable[..., str]:
    """Return a maker of spec files: ``spec_text("vendor.com/gpu", "d0", "d1")``."""

    def make(kind: str, *names: str) -> str:
        return SPEC.format(kind=kind, devices="".join(DEVICE.format(name=name) for name in names))

    return make


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Return a maker of host trees: host path to content; ``-> target`` makes a link."""

    def make(files: Mapping[str, str | bytes]) -> HostTree:
        for path, content in files.items():
            place = tmp_path / path.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, str) and content.startswith("-> "):
                place.symlink_to(content[3:])
            else:
                place.write_bytes(content.encode() if isinstance(content, str) else content)
        return HostTree(tmp_path)

    return make


@pytest.fixture(params=cdi.SUPPORTED, ids=str)
def library(request: pytest.FixtureRequest) -> cdi.Library:
    """Return each supported version in turn."""
    found: cdi.Library = request.param
    return found
