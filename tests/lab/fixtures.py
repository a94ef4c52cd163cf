"""The lab's pytest fixtures; loaded for every test by ``tests/conftest.py``."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.lab.node import Node, NodeDescription
from tests.lab.programs import ProgramMissingError

MakeNode = Callable[[NodeDescription], Node]


@pytest.fixture
def make_node() -> Iterator[MakeNode]:
    """Start nodes from descriptions; each is gone when the test ends.

    A test that needs a program which is not on this machine is skipped with the reason.
    """
    with ExitStack() as stack:

        def make(description: NodeDescription) -> Node:
            base = stack.enter_context(tempfile.TemporaryDirectory(prefix="gpucdi-node-"))
            try:
                return stack.enter_context(Node(description, Path(base)))
            except ProgramMissingError as missing:
                pytest.skip(str(missing))

        yield make
