"""Small host trees for the tests of engine configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from gpucdi.host import HostTree

MakeTree = Callable[[Mapping[str, str | bytes]], HostTree]


@pytest.fixture
def make_tree(tmp_path: Path) -> MakeTree:
    """Build a host tree from host paths and contents."""

    def make(files: Mapping[str, str | bytes]) -> HostTree:
        for path, content in files.items():
            place = tmp_path / path.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            data = content.encode() if isinstance(content, str) else content
            place.write_bytes(data)
            if data.startswith(b"#!"):
                place.chmod(0o755)
        return HostTree(tmp_path)

    return make
