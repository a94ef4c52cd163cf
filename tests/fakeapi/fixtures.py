"""pytest fixtures of the API servers; loaded for every test by ``tests/conftest.py``."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakeapi.controlplane import ControlPlane, control_plane
from tests.lab.programs import ProgramMissingError


@pytest.fixture(scope="session")
def apiserver() -> Iterator[ControlPlane]:
    """A real kube-apiserver with our CRDs and manifest, one a test run."""
    with tempfile.TemporaryDirectory(prefix="gpucdi-apiserver-") as base:
        try:
            running = control_plane(Path(base))
            plane = running.__enter__()
        except ProgramMissingError as missing:
            pytest.skip(str(missing))
        try:
            plane.install()
            yield plane
        finally:
            running.__exit__(None, None, None)
