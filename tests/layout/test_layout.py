"""The walls of the house that no import contract can see."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
SOURCE_ROOTS = ("core", "kube", "agent", "operator", "cli")
PACKAGES = (
    *("gpucdi.api", "gpucdi.cdi", "gpucdi.engines", "gpucdi.failures", "gpucdi.diagnosis"),
    *("gpucdi.node", "gpucdi.repair", "gpucdi.toolkit", "gpucdi_kube"),
)


@pytest.mark.parametrize("root", SOURCE_ROOTS)
def test_a_source_root_is_never_a_package(root: str) -> None:
    assert not (PROJECT / root / "__init__.py").exists()


def test_no_test_folder_is_called_like_a_module_of_the_standard_library() -> None:
    assert not (PROJECT / "tests" / "operator").exists()


def test_every_source_root_is_in_the_wheel() -> None:
    config = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    packages = config["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {package.split("/")[0] for package in packages} == set(SOURCE_ROOTS)


@pytest.mark.parametrize("package", PACKAGES)
def test_what_a_room_exports_is_sorted_and_there(package: str) -> None:
    module = importlib.import_module(package)
    exported = list(module.__all__)
    assert exported == sorted(exported, key=_isort)
    assert all(hasattr(module, name) for name in exported)


def _isort(name: str) -> tuple[int, str]:
    # Constants, then classes, then functions: the order that ruff keeps in `__all__`.
    if name.isupper():
        return 0, name
    return (1 if name[0].isupper() else 2), name
