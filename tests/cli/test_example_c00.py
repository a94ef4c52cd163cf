"""The captured incident: consistent in itself, and the incident of the report."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml
from tests.cli.running import CHECKOUT

from gpucdi.cdi import SUPPORTED, Accepted, Library, decode_spec, lint_spec
from gpucdi.findings import Cause
from gpucdi.host import FileKind, HostTree
from gpucdi.node import Assessment, assess, observe, proc_inventory
from gpucdi.programs import CapturedPrograms

TEXT = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
    "could not apply required modification to OCI specification: error modifying OCI spec: "
    "failed to inject CDI devices: unresolvable CDI devices "
    "management.nvidia.com/gpu=GPU-4044aeb5-b7e4-8cb0-69a8-40490ce01a2f"
)
SPECS = (
    "/etc/cdi/nvidia.yaml",
    "/var/run/cdi/management.nvidia.com-gpu.yaml",
    "/var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json",
)


def verdict(tree: Path) -> Assessment:
    host = HostTree(tree)
    return assess(observe(host, CapturedPrograms.of(host), proc_inventory(host)), host)


def test_the_pod_fails_with_the_literal_text(c00: Path) -> None:
    pod = yaml.safe_load((c00 / "pod.yaml").read_text())
    terminated = pod["status"]["containerStatuses"][0]["lastState"]["terminated"]
    assert terminated["message"] == TEXT
    assert (terminated["reason"], terminated["exitCode"]) == ("StartError", 128)
    assert terminated["startedAt"] == "1970-01-01T00:00:00Z"


@pytest.mark.parametrize("path", SPECS)
@pytest.mark.parametrize("library", SUPPORTED, ids=str)
def test_every_spec_is_accepted_by_every_library(c00: Path, path: str, library: Library) -> None:
    outcome = decode_spec(HostTree(c00).read(path), path, library)
    assert isinstance(outcome, Accepted)


@pytest.mark.parametrize("path", SPECS)
def test_every_file_and_device_that_a_spec_names_is_in_the_tree(c00: Path, path: str) -> None:
    host = HostTree(c00)
    outcome = decode_spec(host.read(path), path, SUPPORTED[-1])
    assert isinstance(outcome, Accepted)
    assert lint_spec(outcome.spec, host) == ()


def test_the_verdict_is_the_report_s(c00: Path) -> None:
    found = verdict(c00)
    kind = found.kind("management.nvidia.com/gpu")
    assert kind is not None
    assert kind.cause is Cause.ONLY_ALL_DEVICE
    assert kind.near_miss is not None
    assert kind.near_miss.kind == "nvidia.com/gpu"
    assert found.findings == ()


def test_var_run_is_a_link_that_survives_a_copy(copy: Path) -> None:
    assert (copy / "var/run").is_symlink()
    assert HostTree(copy).realpath("/var/run/cdi") == "/run/cdi"


def test_the_verdict_is_the_same_with_the_absolute_link_of_debian(copy: Path, c00: Path) -> None:
    (copy / "var/run").unlink()
    (copy / "var/run").symlink_to("/run")
    assert verdict(copy).kinds == verdict(c00).kinds


def test_git_keeps_links_and_programs(c00: Path, tmp_path: Path) -> None:
    if not (CHECKOUT / ".git").exists():
        pytest.skip("not a git checkout")
    archive = tmp_path / "examples.tar"
    command = ["git", "archive", "--output", str(archive), "HEAD", "examples/c00"]
    subprocess.run(command, cwd=CHECKOUT, check=True)
    subprocess.run(["tar", "-xf", archive, "-C", tmp_path], check=True)
    kept = HostTree(tmp_path / "examples/c00")
    assert kept.lstat("/var/run").kind is FileKind.SYMLINK
    assert kept.stat("/usr/local/nvidia/toolkit/nvidia-container-runtime").mode & 0o111
    assert kept.read("/proc/modules") == HostTree(c00).read("/proc/modules")
