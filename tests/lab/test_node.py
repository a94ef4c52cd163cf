"""A node of the lab behaves like a GPU node: to nvidia-ctk, to the NVIDIA runtime and to pynvml."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from tests.lab import hardware, programs
from tests.lab.fixtures import MakeDriver, MakeNode
from tests.lab.hardware import Fault, Gpu, Hardware
from tests.lab.node import Node, NodeDescription
from tests.lab.programs import TOOLKIT_VERSIONS, ProgramMissingError
from tests.lab.toolkits import MANAGEMENT_KIND, OperatorToolkit, PackageToolkit, ToolkitConfig

pytestmark = pytest.mark.lab

CTK = "/usr/bin/nvidia-ctk"
GENERATE = (CTK, "cdi", "generate", "--mode", "nvml")
MANAGEMENT = (CTK, "cdi", "generate", "--mode", "management", "--vendor", "management.nvidia.com")
UUID_0, UUID_1 = hardware.UUID_0, hardware.UUID_1

# Asks pynvml what a monitoring program would; one JSON document on standard output.
ASK_PYNVML = """
import json, pynvml as n
n.nvmlInit()
def migs(gpu):
    try:
        current, _ = n.nvmlDeviceGetMigMode(gpu)
    except n.NVMLError_NotSupported:
        return None
    found = []
    for slot in range(n.nvmlDeviceGetMaxMigDeviceCount(gpu) if current else 0):
        try:
            mig = n.nvmlDeviceGetMigDeviceHandleByIndex(gpu, slot)
        except n.NVMLError_NotFound:
            continue
        ids = n.nvmlDeviceGetGpuInstanceId(mig), n.nvmlDeviceGetComputeInstanceId(mig)
        found.append([n.nvmlDeviceGetUUID(mig), *ids, n.nvmlDeviceGetName(mig)])
    return found
gpus = []
for index in range(n.nvmlDeviceGetCount()):
    gpu = n.nvmlDeviceGetHandleByIndex(index)
    gpus.append({
        "uuid": n.nvmlDeviceGetUUID(gpu), "minor": n.nvmlDeviceGetMinorNumber(gpu),
        "pci": n.nvmlDeviceGetPciInfo(gpu).busId, "name": n.nvmlDeviceGetName(gpu),
        "total": n.nvmlDeviceGetMemoryInfo(gpu).total, "mig": migs(gpu)})
print(json.dumps({"driver": n.nvmlSystemGetDriverVersion(), "nvml": n.nvmlSystemGetNVMLVersion(),
    "cuda": n.nvmlSystemGetCudaDriverVersion(), "gpus": gpus}))
n.nvmlShutdown()
"""

# A low-level runtime that keeps the specification it is given and starts nothing.
RECORDING_RUNTIME = """#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in --bundle) cp "$2/config.json" /run/recorded.json; shift ;; esac
  shift
done
"""


@pytest.fixture
def namespaces() -> None:
    try:
        programs.require_namespaces()
    except ProgramMissingError as missing:
        pytest.skip(str(missing))


def package_node(version: str, machine: Hardware = hardware.TWO_GPUS) -> NodeDescription:
    return NodeDescription(hardware=machine, toolkits=[PackageToolkit(version)])


def device_names(spec_text: str) -> set[str]:
    return {device["name"] for device in yaml.safe_load(spec_text)["devices"]}


def pynvml(node: Node, timeout: float = 20) -> subprocess.CompletedProcess[str]:
    return node.run([sys.executable, "-c", ASK_PYNVML], timeout=timeout)


@pytest.mark.parametrize("version", TOOLKIT_VERSIONS)
def test_real_nvidia_ctk_names_every_gpu(make_node: MakeNode, version: str) -> None:
    node = make_node(package_node(version))

    spec = node.run([*GENERATE], check=True).stdout

    assert device_names(spec) == {"0", "1", UUID_0, UUID_1, "all"}


@pytest.mark.parametrize("version", TOOLKIT_VERSIONS)
def test_real_nvidia_ctk_works_below_a_driver_root(make_node: MakeNode, version: str) -> None:
    root = "/run/nvidia/driver"
    node = make_node(replace(package_node(version), driver_root=root))

    spec = node.run([*GENERATE, "--driver-root", root], check=True).stdout

    assert device_names(spec) == {"0", "1", UUID_0, UUID_1, "all"}
    assert f"hostPath: {root}/usr/lib/" in spec


@pytest.mark.parametrize("version", TOOLKIT_VERSIONS)
def test_a_management_spec_holds_only_all(make_node: MakeNode, version: str) -> None:
    node = make_node(package_node(version))

    spec = yaml.safe_load(node.run([*MANAGEMENT], check=True).stdout)

    assert spec["kind"] == MANAGEMENT_KIND
    assert [device["name"] for device in spec["devices"]] == ["all"]


@pytest.mark.parametrize(
    ("version", "parent"), [("1.17.4", {"1", UUID_1}), ("1.18.2", set()), ("1.20.2", set())]
)
def test_mig_instances_have_names_and_capability_nodes(
    make_node: MakeNode, version: str, parent: set[str]
) -> None:
    node = make_node(package_node(version, hardware.MIG_GPU))

    spec = node.run([*GENERATE], check=True).stdout

    migs = {"1:0", "1:1", hardware.MIG_UUID_0, hardware.MIG_UUID_1}
    assert device_names(spec) == {"0", UUID_0, "all", *migs} | parent
    assert "/dev/nvidia-caps/nvidia-cap6" in spec


def test_pynvml_sees_the_same_machine(make_node: MakeNode) -> None:
    node = make_node(NodeDescription(hardware=hardware.MIG_GPU))

    seen = json.loads(pynvml(node).stdout)

    first, second = seen["gpus"]
    assert (seen["driver"], seen["nvml"], seen["cuda"]) == ("570.86.15", "12.570.86.15", 12080)
    assert first == {
        "uuid": UUID_0,
        "minor": 0,
        "pci": "00000000:3B:00.0",
        "name": "NVIDIA L4",
        "total": 23034 * 2**20,
        "mig": None,
    }
    assert second["mig"] == [
        [hardware.MIG_UUID_0, 1, 0, "NVIDIA A100-SXM4-40GB MIG 1g.5gb"],
        [hardware.MIG_UUID_1, 2, 0, "NVIDIA A100-SXM4-40GB MIG 3g.20gb"],
    ]


def test_pynvml_and_nvidia_ctk_see_a_changed_machine_at_once(make_node: MakeNode) -> None:
    node = make_node(package_node("1.18.2", hardware.TWO_GPUS))

    node.set_nvml(hardware.ONE_GPU)

    assert [gpu["uuid"] for gpu in json.loads(pynvml(node).stdout)["gpus"]] == [UUID_0]
    assert device_names(node.run([*GENERATE]).stdout) == {"0", UUID_0, "all"}


def test_a_driver_upgrade_with_a_mig_change_is_followed_by_everything(make_node: MakeNode) -> None:
    node = make_node(package_node("1.18.2", hardware.TWO_GPUS))
    upgraded = replace(hardware.MIG_GPU, driver_version="580.95.05")

    node.set_hardware(upgraded)

    spec = node.run([*GENERATE], check=True).stdout
    assert {"1:0", hardware.MIG_UUID_0} <= device_names(spec)
    assert "libcuda.so.580.95.05" in spec
    assert "570.86.15" not in spec
    assert "580.95.05" in node.path("/proc/driver/nvidia/version").read_text()
    assert hardware.MIG_UUID_1 in node.run(["nvidia-smi", "-L"]).stdout


def test_pynvml_works_with_a_driver_in_a_folder_and_no_node(make_driver: MakeDriver) -> None:
    files = make_driver(hardware.TWO_GPUS)

    child = subprocess.run(
        [sys.executable, "-c", ASK_PYNVML],
        env={**os.environ, **files.environment},
        check=True,
        capture_output=True,
        text=True,
    )

    assert [gpu["uuid"] for gpu in json.loads(child.stdout)["gpus"]] == [UUID_0, UUID_1]


PREFIX = "failed to generate CDI spec: failed to create device CDI specs: "
GENERATOR = "failed to construct device spec generators: "
LOST = Hardware((replace(hardware.ONE_GPU.gpus[0], lost=True),))
FAULTS = [
    (Fault.DRIVER_NOT_LOADED, "failed to initialize NVML: Driver Not Loaded"),
    (Fault.VERSION_MISMATCH, "failed to initialize NVML: Driver/library version mismatch"),
]


@pytest.mark.parametrize("version", TOOLKIT_VERSIONS)
@pytest.mark.parametrize(("fault", "text"), FAULTS)
def test_a_driver_fault_gives_the_text_of_the_real_one(
    make_node: MakeNode, version: str, fault: Fault, text: str
) -> None:
    node = make_node(package_node(version, replace(hardware.ONE_GPU, fault=fault)))

    done = node.run([*GENERATE])

    generator = "" if version == "1.17.4" else GENERATOR
    assert done.returncode == 1
    assert PREFIX + generator + text in done.stderr


@pytest.mark.parametrize("version", TOOLKIT_VERSIONS)
def test_one_lost_gpu_gives_the_text_of_the_real_one(make_node: MakeNode, version: str) -> None:
    node = make_node(package_node(version, LOST))

    done = node.run([*GENERATE])

    where = (
        "failed to generate CDI edits for GPU devices: "
        if version == "1.17.4"
        else f"{GENERATOR}failed to get full GPU device editors: "
    )
    assert f"{PREFIX}{where}error getting device handle for index '0': GPU is lost" in done.stderr


@pytest.mark.parametrize("version", TOOLKIT_VERSIONS)
def test_no_driver_library_gives_the_text_of_the_real_one(
    make_node: MakeNode, version: str
) -> None:
    node = make_node(replace(package_node(version), driver_root=None))

    done = node.run([*GENERATE])

    generator = "" if version == "1.17.4" else GENERATOR
    assert f"{PREFIX}{generator}failed to initialize NVML: ERROR_LIBRARY_NOT_FOUND" in done.stderr


def test_a_missing_device_node_gives_the_text_of_the_real_one(make_node: MakeNode) -> None:
    node = make_node(package_node("1.18.2"))
    node.path("/dev/nvidia1").unlink()

    done = node.run([*GENERATE])

    assert r"failed add device \"1\": invalid device, empty device edits" in done.stderr


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault.DRIVER_NOT_LOADED, "NVMLError_DriverNotLoaded: Driver Not Loaded"),
        (Fault.VERSION_MISMATCH, "NVMLError_LibRmVersionMismatch"),
    ],
)
def test_pynvml_raises_what_the_driver_would(make_node: MakeNode, fault: Fault, error: str) -> None:
    node = make_node(NodeDescription(hardware=replace(hardware.ONE_GPU, fault=fault)))

    assert error in pynvml(node).stderr


def test_a_hanging_driver_outlasts_a_deadline_and_leaves_no_process(make_node: MakeNode) -> None:
    node = make_node(NodeDescription(hardware=replace(hardware.ONE_GPU, hang_seconds=600)))

    with pytest.raises(subprocess.TimeoutExpired):
        pynvml(node, timeout=1)

    assert "pynvml" not in node.run(["ps", "-ef", "--cols", "4000"]).stdout


def runtime_node(version: str) -> NodeDescription:
    config = ToolkitConfig(
        mode="cdi", default_kind=MANAGEMENT_KIND, runtimes=("recording-runtime",)
    )
    return NodeDescription(
        hardware=hardware.TWO_GPUS,
        toolkits=[OperatorToolkit(version, config)],
        executables={"/usr/local/bin/recording-runtime": RECORDING_RUNTIME},
    )


def create(node: Node, visible_devices: str) -> subprocess.CompletedProcess[str]:
    """Ask the NVIDIA runtime to create a container, with the spec that the operator leaves."""
    ctk = "/usr/local/nvidia/toolkit/nvidia-ctk"
    output = "/var/run/cdi/management.nvidia.com-gpu.yaml"
    node.run([ctk, *MANAGEMENT[1:], "--output", output], check=True)
    process = {
        "args": ["true"],
        "cwd": "/",
        "user": {"uid": 0, "gid": 0},
        "env": ["PATH=/bin", f"NVIDIA_VISIBLE_DEVICES={visible_devices}"],
    }
    specification = {
        "ociVersion": "1.1.0",
        "root": {"path": "rootfs"},
        "process": process,
        "linux": {},
    }
    node.write("/run/bundle/config.json", json.dumps(specification))
    runtime = "/usr/local/nvidia/toolkit/nvidia-container-runtime"
    return node.run([runtime, "create", "--bundle", "/run/bundle", "container-1"])


@pytest.mark.parametrize("version", TOOLKIT_VERSIONS)
def test_the_nvidia_runtime_refuses_a_uuid_that_only_another_kind_has(
    make_node: MakeNode, version: str
) -> None:
    node = make_node(runtime_node(version))

    done = create(node, UUID_0)

    assert done.returncode == 1
    assert (
        "could not apply required modification to OCI specification: error modifying OCI spec: "
        f"failed to inject CDI devices: unresolvable CDI devices {MANAGEMENT_KIND}={UUID_0}"
    ) in done.stderr
    assert not node.path("/run/recorded.json").exists()


@pytest.mark.parametrize("version", TOOLKIT_VERSIONS)
def test_the_nvidia_runtime_injects_what_resolves(make_node: MakeNode, version: str) -> None:
    node = make_node(runtime_node(version))

    done = create(node, "all")

    assert done.returncode == 0, done.stderr
    given = json.loads(node.path("/run/recorded.json").read_text())
    assert {"/dev/nvidia0", "/dev/nvidia1"} <= {each["path"] for each in given["linux"]["devices"]}


def test_nothing_written_in_a_node_reaches_this_machine(make_node: MakeNode) -> None:
    node = make_node(NodeDescription())
    before = {path: set(Path(path).iterdir()) for path in ("/etc", "/run", "/usr/bin", "/var/lib")}

    node.run(
        ["sh", "-c", "for d in /etc /run /usr/bin /var/lib; do touch $d/gpucdi-was-here; done"]
    )

    assert node.path("/etc/gpucdi-was-here").exists()
    assert {path: set(Path(path).iterdir()) for path in before} == before


def test_two_nodes_do_not_see_each_other(make_node: MakeNode) -> None:
    one, other = make_node(NodeDescription()), make_node(NodeDescription())

    one.write("/etc/cdi/vendor.yaml", "cdiVersion: 0.5.0\n")

    assert one.run(["ls", "/etc/cdi"]).stdout == "vendor.yaml\n"
    assert other.run(["ls", "/etc/cdi"]).stdout == ""


def test_a_signal_reaches_the_program_itself(make_node: MakeNode) -> None:
    node = make_node(NodeDescription())
    script = "trap 'echo caught; exit 3' TERM; echo up; while :; do sleep 0.05; done"
    process = node.popen(["sh", "-c", script], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"

    process.terminate()

    assert process.communicate(timeout=10)[0] == "caught\n"
    assert process.returncode == 3


@pytest.mark.usefixtures("namespaces")
def test_closing_a_node_ends_what_runs_in_it_and_removes_its_files() -> None:
    base = Path(tempfile.mkdtemp(prefix="gpucdi-node-"))
    node = Node(NodeDescription(driver_root=None), base)
    node.start()
    left_behind = node.popen(["sleep", "600"])
    inner = left_behind.program_pid()

    node.close()

    assert left_behind.wait(10) != 0
    wait_until_gone(Path(f"/proc/{inner}"))
    assert not base.exists()


KILLED_RUN = """
import sys, time, pathlib
from tests.lab.node import Node, NodeDescription
node = Node(NodeDescription(driver_root=None), pathlib.Path(sys.argv[1]) / "node")
node.start()
print(node.popen(["sleep", "600"]).program_pid(), flush=True)
time.sleep(600)
"""


@pytest.mark.usefixtures("namespaces")
def test_a_killed_test_run_leaves_no_process_behind(tmp_path: Path) -> None:
    run = subprocess.Popen(
        [sys.executable, "-c", KILLED_RUN, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None
    inner = Path("/proc") / run.stdout.readline().strip()
    assert inner.exists()

    run.kill()
    run.communicate()

    wait_until_gone(inner)


def wait_until_gone(path: Path) -> None:
    deadline = time.monotonic() + 5
    while path.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not path.exists()


def test_a_gpu_may_be_hidden_from_nvml_and_known_to_the_kernel(make_node: MakeNode) -> None:
    machine = Hardware((*hardware.ONE_GPU.gpus, Gpu(UUID_1, 1, "00000000:86:00.0", in_nvml=False)))
    node = make_node(NodeDescription(hardware=machine))

    assert len(json.loads(pynvml(node).stdout)["gpus"]) == 1
    listed = node.run(["ls", "/proc/driver/nvidia/gpus"]).stdout.split()
    assert listed == ["0000:3b:00.0", "0000:86:00.0"]
