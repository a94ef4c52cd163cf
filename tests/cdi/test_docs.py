"""The ten lines of docs/cdi.md do what the page says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cdi.support import Tree

FILE = "/var/run/cdi/a.yaml"
PAGE = Path(__file__).parents[2] / "docs" / "cdi.md"


def test_the_example_explains_why_a_name_does_not_resolve(
    tmp_path: Path, tree: Tree, spec_text: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    tree({FILE: spec_text("management.nvidia.com/gpu", "all")})
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    lines = [line for line in example.splitlines() if line]

    exec(example.replace('HostTree("/")', f"HostTree({str(tmp_path)!r})"), {})  # noqa: S102 - our page

    assert len(lines) <= 10
    assert capsys.readouterr().out.splitlines() == [
        "unresolvable CDI devices management.nvidia.com/gpu=0",
        (
            f"management.nvidia.com/gpu=0 kind lacks name ('{FILE}',) "
            f"{FILE} defines management.nvidia.com/gpu, but no device of that name"
        ),
    ]
