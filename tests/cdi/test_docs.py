"""The ten lines of docs/cdi.md do what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cdi.support import Tree

from gpucdi import cdi
from gpucdi.cdi.decoding import ALIASED_LIMIT_BYTES, ERROR_LINES_LIMIT, ERROR_TEXT_LIMIT
from gpucdi.cdi.loading import ENTRY_LIMIT, PEEK_LIMIT, UNREAD_LIMIT, UNREAD_LIMIT_NODES
from gpucdi.cdi.nodes import EXACT_LIMIT_BYTES
from gpucdi.cdi.nodetypes import NESTING_LIMIT, NODE_LIMIT
from gpucdi.host import LINK_LIMIT, LIST_LIMIT, PATH_LIMIT_BYTES

FILE = "/var/run/cdi/a.yaml"
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "cdi.md"


def ten_lines() -> str:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return str(example)


def test_the_example_explains_why_a_name_does_not_resolve(
    tmp_path: Path, tree: Tree, spec_text: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    tree({FILE: spec_text("management.nvidia.com/gpu", "all")})
    example = ten_lines()
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


@pytest.mark.slow
def test_the_example_passes_the_strictest_type_check(tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(ten_lines())
    command = [sys.executable, "-m", "mypy", "--strict", f"--cache-dir={tmp_path}/cache"]

    checked = subprocess.run(
        [*command, str(tmp_path / "example.py")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize(
    "bound",
    [
        f"{cdi.FILE_LIMIT:,} in all directories",
        f"there are {cdi.LOAD_LIMIT_NODES:,}",
        f"{cdi.SPEC_LIMIT_BYTES // 2**20} MiB; real specs",
        f"{NODE_LIMIT:,}, {NESTING_LIMIT};",
        f"{EXACT_LIMIT_BYTES // 1024} KiB |",
        f"aliases repeat | {ALIASED_LIMIT_BYTES // 2**20} MiB",
        f"{ERROR_LINES_LIMIT:,} lines, {ERROR_TEXT_LIMIT // 1024} Ki",
        f"other names in a directory | {ENTRY_LIMIT:,} |",
        f"| names in a directory | {LIST_LIMIT:,} |",
        f"{UNREAD_LIMIT}, {UNREAD_LIMIT_NODES:,} nodes, of {PEEK_LIMIT} sub-directories",
        f"{PATH_LIMIT_BYTES - 1:,} bytes, {LINK_LIMIT}:",
    ],
)
def test_the_page_names_every_bound(bound: str) -> None:
    assert bound in PAGE.read_text(encoding="utf-8")
