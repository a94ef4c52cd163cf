"""Every kind of node: a captured tree and the handler table that it must give.

The tables are golden files (``handlers.json`` beside each tree's capture file); ``findings.json``
holds the engines' findings where there are any.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpucdi.engines import discover_engines
from gpucdi.host import HostTree
from gpucdi.programs import CapturedPrograms
from gpucdi.toolkit import handler_rows

HERE = Path(__file__).parent
PLACES = sorted(path.name for path in HERE.iterdir() if (path / "gpucdi-capture.json").exists())


def test_every_place_of_the_reference_has_a_tree() -> None:
    assert {
        *("kubeadm", "k3s", "rke2", "microk8s", "k0s", "talos", "openshift", "eks"),
        *("bottlerocket", "gke", "aks", "plain-containerd", "plain-docker-podman"),
    } <= set(PLACES)


@pytest.mark.parametrize("place", PLACES)
def test_the_handler_table_is_the_golden_one(place: str) -> None:
    host = HostTree(HERE / place)
    assert host.capture.problem is None
    rows = [row.as_json() for row in handler_rows(host, CapturedPrograms.of(host))]
    assert rows == json.loads((HERE / "golden" / f"{place}.json").read_text())["handlers"]


@pytest.mark.parametrize("place", PLACES)
def test_the_findings_are_the_golden_ones(place: str) -> None:
    host = HostTree(HERE / place)
    programs = CapturedPrograms.of(host)
    found = [each for engine in discover_engines(host, programs) for each in engine.findings]
    found += [each for row in handler_rows(host, programs) for each in row.findings]
    short = [{"cause": each.cause.value, "file": each.file} for each in found]
    assert short == json.loads((HERE / "golden" / f"{place}.json").read_text())["findings"]
