"""The lab's pytest fixtures; loaded for every test by ``tests/conftest.py``."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.lab import driver, programs
from tests.lab.cluster import Cluster
from tests.lab.hardware import Hardware
from tests.lab.node import Node, NodeDescription
from tests.lab.programs import ProgramMissingError

CLUSTER_TEST_SECONDS = 300
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


@dataclass(frozen=True, slots=True)
class DriverFiles:
    """A driver's user space in a folder of its own, for tests that need no node and no root."""

    root: Path
    libraries: Path
    config: Path

    @property
    def environment(self) -> Mapping[str, str]:
        """What a child process needs to load the stub as ``libnvidia-ml.so.1``."""
        return {
            "LD_LIBRARY_PATH": str(self.libraries),
            driver.STUB_CONFIG_VARIABLE: str(self.config),
        }


MakeDriver = Callable[[Hardware], DriverFiles]


@pytest.fixture
def make_driver(tmp_path: Path) -> MakeDriver:
    """Lay driver roots (libraries and nvidia-smi, no device nodes) below the test's folder."""

    def make(machine: Hardware) -> DriverFiles:
        root = Path(tempfile.mkdtemp(prefix="driver-", dir=tmp_path))
        try:
            libraries = driver.lay_driver_root(root, machine)
        except ProgramMissingError as missing:
            pytest.skip(str(missing))
        config = root / driver.STUB_CONFIG_PATH.lstrip("/")
        driver.write_stub_config(config, machine)
        return DriverFiles(root, libraries, config)

    return make


@pytest.fixture(scope="session")
def _running_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Start one cluster a test run; its logs stay in pytest's folder of temporary files."""
    with tempfile.TemporaryDirectory(prefix="gpucdi-cluster-") as base:
        try:
            programs.require_namespaces()
            cluster = Cluster(Path(base) / "cluster", tmp_path_factory.mktemp("cluster-logs"))
            cluster.start()
        except ProgramMissingError as missing:
            pytest.skip(str(missing))
        yield cluster
        cluster.close()


@pytest.fixture
def cluster(_running_cluster: Cluster) -> Iterator[Cluster]:
    """The one-node cluster, with the node as in the first incident."""
    yield _running_cluster
    _running_cluster.restore_incident()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever asks for the cluster is an end-to-end test, and may wait for it to start."""
    for item in items:
        if isinstance(item, pytest.Function) and "_running_cluster" in item.fixturenames:
            item.add_marker(pytest.mark.e2e)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(CLUSTER_TEST_SECONDS))
