"""The variants of the agent's DaemonSet say what the shipped one says, but for what they are for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.e2e.daemon_set import INSTALL, OBSERVE, UNINSTALL, daemon_set, images


def leaves(value: object, path: str = "") -> Mapping[str, object]:
    """Every scalar of a document with its path; list items that have a name are called by it."""
    if isinstance(value, dict):
        items = [(str(key), item) for key, item in value.items()]
    elif isinstance(value, list):
        items = [
            (str(item.get("name", index)) if isinstance(item, dict) else str(index), item)
            for index, item in enumerate(value)
        ]
    else:
        return {path: value}
    found: dict[str, object] = {}
    for key, item in items:
        found |= leaves(item, f"{path}/{key}")
    return found


def differences(first: Path, second: Path) -> set[str]:
    ours, theirs = leaves(daemon_set(first)), leaves(daemon_set(second))
    return {path for path in ours.keys() | theirs.keys() if ours.get(path) != theirs.get(path)}


POD = "/spec/template/spec"
AGENT = f"{POD}/containers/agent"
ABOUT_OBSERVING = (
    f"{POD}/securityContext/",
    f"{AGENT}/securityContext/",
    f"{AGENT}/args/",
    f"{AGENT}/volumeMounts/host/",
    *(f"{AGENT}/volumeMounts/{name}/" for name in ("etc-cdi", "run-cdi", "state", "run-nvidia")),
    *(f"{POD}/volumes/{name}/" for name in ("etc-cdi", "run-cdi", "state", "run-nvidia")),
)
ABOUT_UNINSTALLING = (
    f"{POD}/containers/",
    f"{POD}/initContainers/",
    f"{POD}/automountServiceAccountToken",
    f"{POD}/terminationGracePeriodSeconds",
    f"{POD}/volumes/token/",
    f"{POD}/volumes/tmp/",
    "/spec/updateStrategy/",
    "/spec/template/metadata/annotations/",
)


@pytest.mark.parametrize(
    ("variant", "allowed"), [(OBSERVE, ABOUT_OBSERVING), (UNINSTALL, ABOUT_UNINSTALLING)]
)
def test_a_variant_differs_in_nothing_else(variant: Path, allowed: tuple[str, ...]) -> None:
    assert {each for each in differences(INSTALL, variant) if not each.startswith(allowed)} == set()


def test_uninstalling_runs_the_image_with_the_mounts_of_the_agent() -> None:
    agent, revert = (leaves(daemon_set(manifest)) for manifest in (INSTALL, UNINSTALL))
    mounts = f"{POD}/initContainers/revert/volumeMounts/"
    seen = {
        path.removeprefix(mounts): item for path, item in revert.items() if path.startswith(mounts)
    }
    assert seen
    assert seen == {path: agent[f"{AGENT}/volumeMounts/{path}"] for path in seen}
    assert revert[f"{POD}/initContainers/revert/image"] == agent[f"{AGENT}/image"]


def test_every_manifest_runs_the_same_image() -> None:
    assert images(INSTALL) == images(UNINSTALL) == images(OBSERVE) != set()
