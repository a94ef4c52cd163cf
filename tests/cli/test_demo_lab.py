"""The demo where a real nvidia-ctk can generate the captured GPUs: it is used, and says so."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.cli.running import CHECKOUT, KIND, OTHER_UUID, UUID
from tests.lab.fixtures import MakeNode
from tests.lab.hardware import Gpu, Hardware
from tests.lab.node import NodeDescription
from tests.lab.toolkits import PackageToolkit

CAPTURED = Hardware((Gpu(UUID, 0, "00000000:3b:00.0"), Gpu(OTHER_UUID, 1, "00000000:86:00.0")))


@pytest.mark.lab
@pytest.mark.parametrize("version", ["1.17.4", "1.18.2", "1.20.2"])
def test_the_real_generator_heals_the_copy(make_node: MakeNode, version: str) -> None:
    node = make_node(NodeDescription(CAPTURED, toolkits=[PackageToolkit(version)]))
    gpucdi = Path(sys.executable).with_name("gpucdi")
    told = node.run([gpucdi, "demo"], cwd=str(CHECKOUT))
    assert told.returncode == 0, told.stdout + told.stderr
    assert "Generator: /usr/bin/nvidia-ctk (the real one)" in told.stdout
    assert f"✔ {KIND}={UUID} resolves now" in told.stdout
    assert f"✔ {KIND}=all still resolves" in told.stdout


@pytest.mark.lab
def test_a_real_generator_with_other_gpus_is_passed_over(make_node: MakeNode) -> None:
    other = Hardware((Gpu("GPU-2bd7f9eb-5916-6dc2-dea4-1d97d1fb848e", 0, "00000000:3b:00.0"),))
    node = make_node(NodeDescription(other, toolkits=[PackageToolkit("1.18.2")]))
    gpucdi = Path(sys.executable).with_name("gpucdi")
    told = node.run([gpucdi, "demo"], cwd=str(CHECKOUT))
    assert told.returncode == 0, told.stdout + told.stderr
    assert "NOT nvidia-ctk" in told.stdout
    assert f"this machine's driver has no {UUID}" in told.stdout
