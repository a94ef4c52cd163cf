"""For each cause that files decide: two captured nodes that differ in one fact, one has the cause.

Nobody fails on these nodes. What is compared is the agent's own verdict on the tree: its findings
and the causes of its kinds.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.diagnosis.scenes import (
    HOST_SPEC,
    MANAGEMENT_SPEC,
    PLUGIN_SPEC,
    TOOLKIT_CONFIG,
    Scene,
    config,
    look,
    spec,
)
from tests.trees import c00

from gpucdi.api import GpuDevice, GpuStatus, MigDevice, NodeStatus
from gpucdi.findings import Cause, Severity

U0, U1 = c00.UUIDS
PLAIN = "nvidia.com/gpu"
PLUGIN = "k8s.device-plugin.nvidia.com/gpu"
ALIEN = "GPU-aaaaaaaa-b7e4-8cb0-69a8-40490ce01a2f"
MIG = "MIG-798aaddd-12d0-9210-35c8-00ead725a442"
OTHER_MIG = "MIG-798aaddd-12d0-9210-35c8-00ead725a443"
CONTAINERD = "/etc/containerd/config.toml"
DROP_IN = "/etc/containerd/conf.d/99-nvidia.toml"
LIBCUDA = "/usr/lib/x86_64-linux-gnu/libcuda.so.570.86.15"
HOOK = "/usr/local/nvidia/toolkit/nvidia-cdi-hook"
RUNTIME = "/usr/local/nvidia/toolkit/nvidia-container-runtime"
WHOLE = spec(PLAIN, "0", "1", U0, U1, "all")
CLAIM_SPEC = "/run/cdi/k8s.gpu.nvidia.com-claim_7.yaml"
CLAIM = spec("k8s.gpu.nvidia.com/claim", "7-gpu-0")
PLAIN_KIND = {TOOLKIT_CONFIG: config()}


def mig_node(defined: str) -> Scene:
    """Return a node with one MIG instance and a spec that has the instance ``defined``."""
    parent = GpuDevice(U0, 0, 0, mig_enabled=True, mig=(MigDevice(MIG, 0),))
    gpus = replace(c00.GPUS, devices=(parent, c00.GPUS.devices[1]))
    files = PLAIN_KIND | {HOST_SPEC: spec(PLAIN, "0:0", defined, "1", U1, "all")}
    return Scene(files=files, gpus=gpus)


def driver(version: str) -> GpuStatus:
    return replace(c00.GPUS, driver=version)


def switched(on: str, *, version: str = "2.1.5", **files: str) -> Scene:
    """Return a node whose containerd has its CDI support ``on`` or off."""
    change = ("enable_cdi = true", f"enable_cdi = {on}")
    return Scene(
        replace={CONTAINERD: change, DROP_IN: change},
        engines={"containerd": version},
        files={CLAIM_SPEC: CLAIM} | files,
    )


def version_2(version: str) -> Scene:
    """Return a node with a configuration that says nothing of CDI, as 1.6 and newer read it."""
    runtimes = 'plugins."io.containerd.grpc.v1.cri".containerd.runtimes'
    text = (
        f'version = 2\n[{runtimes}.nvidia]\nruntime_type = "io.containerd.runc.v2"\n'
        f'[{runtimes}.nvidia.options]\nBinaryName = "{RUNTIME}"\n'
    )
    return Scene(remove=[DROP_IN], files={CONTAINERD: text}, engines={"containerd": version})


def written(*lines: str) -> Scene:
    """Return a node whose plain spec has one device with these edits."""
    edits = "".join(f"    {line}\n" for line in lines)
    text = f'cdiVersion: "0.5.0"\nkind: {PLAIN}\ndevices:\n- name: all\n  containerEdits:\n{edits}'
    return Scene(files={HOST_SPEC: text})


def gpu_without_node(node: str) -> Scene:
    content = spec(PLAIN, "0", U0, node=node)
    common = 'containerEdits:\n  deviceNodes:\n  - path: "/dev/nvidia-uvm"\n'
    return Scene(files={HOST_SPEC: content + common})


def unread(*directories: str) -> Scene:
    """Return a node whose containerd reads these directories, with a foreign spec in /etc/cdi."""
    listed = ", ".join(f'"{path}"' for path in directories)
    change = ('cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]', f"cdi_spec_dirs = [{listed}]")
    return Scene(
        replace={CONTAINERD: change, DROP_IN: change},
        files={"/etc/cdi/intel.yaml": spec("intel.com/gpu", "card1", node="/dev/null")},
    )


def crio(version: str) -> Scene:
    """Return a node with CRI-O and without /etc/cdi."""
    return Scene(
        remove=["/etc/cdi"],
        engines={"cri-o": version},
        files={"/etc/crio/crio.conf": "[crio.runtime]\n", CLAIM_SPEC: CLAIM},
    )


def podman(version: str) -> Scene:
    return Scene(
        engines={"podman": version},
        files={
            "/etc/containers/containers.conf": '[engine]\ncdi_spec_dirs = ["/opt/cdi"]\n',
            "/opt/cdi/x.yaml": spec("example.com/gpu", "all", node="/dev/null"),
        },
    )


def accepts(answer: str) -> Scene:
    key = "accept-nvidia-visible-devices-envvar-when-unprivileged = "
    return Scene(replace={TOOLKIT_CONFIG: (f"{key}true", f"{key}{answer}")})


def prefixes(listed: str) -> Scene:
    off = switched("false")
    change = ('annotation-prefixes = ["cdi.k8s.io/"]', f"annotation-prefixes = [{listed}]")
    return replace(off, replace=dict(off.replace) | {TOOLKIT_CONFIG: change})


AT_ROOT = "/run/nvidia/driver" + LIBCUDA
OLD_HOOK = {HOST_SPEC: WHOLE + (
    "containerEdits:\n  hooks:\n  - hookName: createContainer\n"
    f"    path: {HOOK}\n    args: [nvidia-cdi-hook, update-application-profile]\n"
)}  # fmt: skip
TOO_NEW = {HOST_SPEC: WHOLE.replace("0.5.0", "0.7.0") + "containerEdits:\n  additionalGids: [4]\n"}

TWINS: dict[str, tuple[Cause, Scene, Scene]] = {
    "a device node is not there": (
        Cause.DEVICE_NODE_MISSING,
        Scene(device_numbers={"/dev/nvidia1": ()}),
        Scene(),
    ),
    "a device node has another number": (
        Cause.DEVICE_NUMBER_CHANGED,
        written("deviceNodes:", "- {path: /dev/nvidia-uvm, type: c, major: 235}"),
        written("deviceNodes:", "- {path: /dev/nvidia-uvm, type: c, major: 511}"),
    ),
    "a device node has the number of no driver": (
        Cause.DEVICE_NUMBER_CHANGED,
        Scene(device_numbers={"/dev/nvidia-uvm": (0, 0)}),
        Scene(device_numbers={"/dev/nvidia-uvm": (510, 0)}),
    ),
    "a mount source is not there": (
        Cause.MOUNT_SOURCE_MISSING,
        Scene(remove=[LIBCUDA]),
        Scene(),
    ),
    "a mount source lies below another driver root": (
        Cause.DRIVER_ROOT_WRONG,
        Scene(remove=[LIBCUDA], files={AT_ROOT: ""}),
        Scene(remove=[LIBCUDA]),
    ),
    "the driver is another than the spec's": (
        Cause.FOREIGN_SPEC_STALE,
        Scene(gpus=driver("575.64.05")),
        Scene(gpus=driver("570.86.15")),
    ),
    "a hook is not there": (Cause.HOOK_MISSING, Scene(remove=[HOOK]), Scene()),
    "a hook is older than what the spec asks of it": (
        Cause.HOOK_TOO_OLD,
        Scene(files=OLD_HOOK, toolkit_version="1.17.8"),
        Scene(files=OLD_HOOK, toolkit_version="1.18.0"),
    ),
    "a handler's program is not there": (
        Cause.HANDLER_MISSING,
        Scene(replace={DROP_IN: (f'{RUNTIME}"', f'{RUNTIME}2"')}),
        Scene(),
    ),
    "an engine's configuration does not parse": (
        Cause.CONFIG_UNREADABLE,
        Scene(replace={CONTAINERD: ("version = 3", "version = = 3")}),
        Scene(),
    ),
    "the mode is none of the runtime's": (
        Cause.CONFIG_UNREADABLE,
        Scene(files={TOOLKIT_CONFIG: config(mode="cdl")}),
        Scene(files={TOOLKIT_CONFIG: config(mode="cdi")}),
    ),
    "no spec directory exists": (
        Cause.SPEC_DIR_MISSING,
        Scene(remove=["/etc/cdi", "/run/cdi"]),
        Scene(remove=[HOST_SPEC, MANAGEMENT_SPEC, PLUGIN_SPEC]),
    ),
    "an empty spec directory exists": (
        Cause.KIND_HAS_NO_SPEC,
        Scene(remove=[HOST_SPEC, MANAGEMENT_SPEC, PLUGIN_SPEC]),
        Scene(remove=["/etc/cdi", "/run/cdi"]),
    ),
    "an old library gives up at a missing directory": (
        Cause.SPEC_DIR_MISSING,
        crio("1.24.2"),
        crio("1.26.0"),
    ),
    "the runtime does not read the directory of the spec": (
        Cause.SPEC_DIR_NOT_READ,
        Scene(files={TOOLKIT_CONFIG: config(spec_dirs=["/var/run/cdi"])}),
        Scene(files={TOOLKIT_CONFIG: config(spec_dirs=["/var/run/cdi", "/etc/cdi"])}),
    ),
    "the engine does not read the directory of another vendor's spec": (
        Cause.SPEC_DIR_NOT_READ,
        unread("/var/run/cdi"),
        unread("/var/run/cdi", "/etc/cdi"),
    ),
    "podman does not obey its configuration": (
        Cause.SPEC_DIR_NOT_READ,
        podman("5.4.2"),
        podman("5.5.0"),
    ),
    "the engine's user may not read the spec": (
        Cause.SPEC_NOT_READABLE,
        Scene(modes={HOST_SPEC: "0600"}, read_as_uid=1000),
        Scene(modes={HOST_SPEC: "0644"}, read_as_uid=1000),
    ),
    "a field is newer than the reader": (
        Cause.SPEC_TOO_NEW_FOR_READER,
        Scene(files=TOO_NEW, toolkit_version="1.14.0"),
        Scene(files=TOO_NEW),
    ),
    "a spec is no spec": (
        Cause.SPEC_REJECTED,
        Scene(replace={HOST_SPEC: ("kind: nvidia.com/gpu", "kind: nvidia.com")}),
        Scene(),
    ),
    "two files of one directory have the same names": (
        Cause.SAME_DIR_CONFLICT,
        Scene(files={HOST_SPEC: WHOLE, "/etc/cdi/copy.yaml": WHOLE}),
        Scene(files={HOST_SPEC: WHOLE, "/run/cdi/copy.yaml": WHOLE}),
    ),
    "the engine's CDI is off and a claim's spec is there": (
        Cause.ENGINE_CDI_DISABLED,
        switched("false"),
        switched("true"),
    ),
    "the engine is too old for CDI": (
        Cause.ENGINE_CDI_DISABLED,
        version_2("1.6.33"),
        version_2("2.0.0"),
    ),
    "the engine's CDI is off where nothing is said": (
        Cause.ENGINE_CDI_DISABLED,
        version_2("1.7.24"),
        version_2("2.0.0"),
    ),
    "nobody reads a plugin's annotation": (
        Cause.REQUEST_NOT_READ,
        prefixes('"nvidia.cdi.k8s.io/"'),
        prefixes('"nvidia.cdi.k8s.io/", "cdi.k8s.io/"'),
    ),
    "the runtime drops the variable of unprivileged containers": (
        Cause.ENV_REQUEST_REFUSED,
        accepts("false"),
        accepts("true"),
    ),
    "a card was swapped": (
        Cause.STALE_UUID,
        Scene(replace={PLUGIN_SPEC: (U0, ALIEN)}),
        Scene(),
    ),
    "an instance was made anew": (
        Cause.MIG_LAYOUT_CHANGED,
        mig_node(OTHER_MIG),
        mig_node(MIG),
    ),
    "a spec lacks one name": (
        Cause.SPEC_LACKS_DEVICE,
        Scene(files=PLAIN_KIND, replace={HOST_SPEC: ('name: "1"', 'name: "7"')}),
        Scene(files=PLAIN_KIND),
    ),
    "a kind has `all` alone": (
        Cause.ONLY_ALL_DEVICE,
        Scene(),
        Scene(files=PLAIN_KIND),
    ),
    "a GPU's device has another GPU's node": (
        Cause.DEVICE_WITHOUT_NODE,
        gpu_without_node("/dev/nvidia1"),
        gpu_without_node("/dev/nvidia0"),
    ),
    "a spec lacks the node that CUDA needs": (
        Cause.DEVICE_WITHOUT_NODE,
        Scene(replace={HOST_SPEC: ("  - path: /dev/nvidia-uvm\n", "")}),
        Scene(),
    ),
    "the node that CUDA needs is not there yet": (
        Cause.DEVICE_WITHOUT_NODE,
        Scene(replace={HOST_SPEC: ("  - path: /dev/nvidia-uvm\n", "")}),
        Scene(
            replace={HOST_SPEC: ("  - path: /dev/nvidia-uvm\n", "")},
            device_numbers={"/dev/nvidia-uvm": ()},
        ),
    ),
}


def causes(status: NodeStatus) -> set[Cause]:
    """Return what the node says is wrong: in findings, or with a kind."""
    return {item.cause for item in status.findings} | {
        kind.cause for kind in status.kinds if kind.cause is not None
    }


@pytest.mark.parametrize("name", TWINS)
def test_the_tree_with_the_fact_has_the_cause(name: str, tmp_path: Path) -> None:
    cause, scene, _ = TWINS[name]
    assert cause in causes(look(scene, tmp_path / "root"))


@pytest.mark.parametrize("name", TWINS)
def test_the_tree_without_it_has_not(name: str, tmp_path: Path) -> None:
    cause, _, scene = TWINS[name]
    assert cause not in causes(look(scene, tmp_path / "root"))


def test_a_claim_that_a_silent_engine_drops_is_an_error_and_a_plugins_kind_a_warning(
    tmp_path: Path,
) -> None:
    claim = look(switched("false"), tmp_path / "a").findings
    plugin = look(version_2("1.7.24"), tmp_path / "b").findings
    severities = [
        item.severity for item in (*claim, *plugin) if item.cause is Cause.ENGINE_CDI_DISABLED
    ]
    assert severities == [Severity.ERROR, Severity.WARNING]


def test_the_status_shows_each_engines_own_injection(tmp_path: Path) -> None:
    engine = look(switched("false"), tmp_path / "root").engine("containerd")
    assert engine is not None
    assert (engine.version, engine.cdi_enabled) == ("2.1.5", False)
    assert engine.spec_dirs == ("/etc/cdi", "/var/run/cdi")
    assert engine.library == "1.0.1"


def test_the_status_shows_what_a_handler_takes_as_a_request(tmp_path: Path) -> None:
    handler = look(accepts("false"), tmp_path / "root").handler("nvidia")
    assert handler is not None
    assert handler.annotation_prefixes == ("cdi.k8s.io/",)
    assert (handler.accept_env, handler.accept_mounts) == (False, False)
    assert handler.driver_root == "/"
