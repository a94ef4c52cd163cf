"""What a spec names, compared with a host."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cdi.support import Tree

from gpucdi.cdi import (
    ContainerEdits,
    Device,
    DeviceNode,
    Hook,
    LintRule,
    Mount,
    Spec,
    injection_error,
    lint_spec,
)
from gpucdi.host import CAPTURE_NAME, HostTree


def host_with_devices(root: Path, *devices: dict[str, object]) -> HostTree:
    (root / CAPTURE_NAME).write_text(json.dumps({"devices": devices}))
    return HostTree(root)


def spec_of(edits: ContainerEdits) -> Spec:
    return Spec("0.5.0", "vendor.com/gpu", devices=(Device("d0", edits=edits),))


def node_spec(node: DeviceNode) -> Spec:
    return spec_of(ContainerEdits(device_nodes=(node,)))


def test_a_missing_device_is_found_with_its_place(tmp_path: Path) -> None:
    (finding,) = lint_spec(node_spec(DeviceNode("/dev/nvidia0")), HostTree(tmp_path))

    assert finding.rule is LintRule.DEVICE_MISSING
    assert finding.device == "d0"
    assert finding.key == "devices[0].containerEdits.deviceNodes[0]"
    assert finding.fails


def test_a_missing_device_that_is_fully_declared_does_not_stop_a_container(tmp_path: Path) -> None:
    node = DeviceNode("/dev/nvidia0", type="c", major=195)

    (finding,) = lint_spec(node_spec(node), HostTree(tmp_path))

    assert not finding.fails
    assert injection_error(ContainerEdits(device_nodes=(node,)), HostTree(tmp_path)) is None


def test_the_host_path_is_what_counts(tmp_path: Path) -> None:
    host = host_with_devices(tmp_path, {"path": "/driver/dev/nvidia0", "major": 195})

    assert lint_spec(node_spec(DeviceNode("/dev/nvidia0", "/driver/dev/nvidia0")), host) == ()


def test_a_stale_major_is_found(tmp_path: Path) -> None:
    host = host_with_devices(tmp_path, {"path": "/dev/nvidia-uvm", "major": 510, "minor": 0})
    node = DeviceNode("/dev/nvidia-uvm", type="c", major=507)

    (finding,) = lint_spec(node_spec(node), host)

    assert finding.rule is LintRule.NUMBER_MISMATCH
    assert "510:0" in finding.message
    assert "507:0" in finding.message


def test_a_wrong_type_gives_the_library_s_own_error(tmp_path: Path) -> None:
    host = host_with_devices(tmp_path, {"path": "/dev/x", "type": "b", "major": 8})
    node = DeviceNode("/dev/x", type="c")

    (finding,) = lint_spec(node_spec(node), host)

    assert finding.rule is LintRule.TYPE_MISMATCH
    assert injection_error(ContainerEdits(device_nodes=(node,)), host) == (
        'failed to inject devices: CDI device ("/dev/x", "/dev/x"), host type mismatch (c, b)'
    )


def test_a_plain_file_and_a_link_are_no_device_nodes(tree: Tree) -> None:
    host = tree({"/dev/x": "", "/dev/y": "-> x"})
    nodes = (DeviceNode("/dev/x"), DeviceNode("/dev/y"))

    findings = lint_spec(spec_of(ContainerEdits(device_nodes=nodes)), host)

    assert [each.rule for each in findings] == [LintRule.NOT_A_DEVICE, LintRule.NOT_A_DEVICE]
    assert injection_error(ContainerEdits(device_nodes=nodes), host) == (
        'failed to inject devices: failed to stat CDI host device "/dev/x": not a device node'
    )


def test_a_missing_node_gives_the_library_s_own_error(tmp_path: Path) -> None:
    edits = ContainerEdits(device_nodes=(DeviceNode("/dev/nosuch0"),))

    assert injection_error(edits, HostTree(tmp_path)) == (
        'failed to inject devices: failed to stat CDI host device "/dev/nosuch0": '
        "no such file or directory"
    )


def test_mount_sources_are_followed_inside_the_root(tree: Tree) -> None:
    host = tree(
        {"/usr/lib/libcuda.so.1": "-> /usr/lib/libcuda.so.570", "/usr/lib/libcuda.so.570": ""}
    )
    mounts = (
        Mount("/usr/lib/libcuda.so.1", "/usr/lib/libcuda.so.1"),
        Mount("/usr/lib/libnvml.so.1", "/usr/lib/libnvml.so.1"),
        Mount("tmpfs", "/tmp", type="tmpfs"),
    )

    (finding,) = lint_spec(spec_of(ContainerEdits(mounts=mounts)), host)

    assert finding.rule is LintRule.MOUNT_SOURCE_MISSING
    assert finding.key == "devices[0].containerEdits.mounts[1].hostPath"


def test_hooks_must_exist_and_be_executable(tmp_path: Path, tree: Tree) -> None:
    host = tree({"/usr/bin/plain": "", "/usr/bin/hook": ""})
    (tmp_path / "usr/bin/hook").chmod(0o755)
    hooks = tuple(
        Hook("createContainer", path) for path in ("/usr/bin/hook", "/usr/bin/plain", "/nosuch")
    )

    findings = lint_spec(Spec(edits=ContainerEdits(hooks=hooks)), host)

    assert [(each.rule, each.key) for each in findings] == [
        (LintRule.HOOK_NOT_EXECUTABLE, "containerEdits.hooks[1].path"),
        (LintRule.HOOK_MISSING, "containerEdits.hooks[2].path"),
    ]


def test_mounts_and_hooks_can_be_left_out(tmp_path: Path) -> None:
    edits = ContainerEdits(mounts=(Mount("/a", "/b"),), hooks=(Hook("prestart", "/c"),))

    assert lint_spec(spec_of(edits), HostTree(tmp_path), mounts=False, hooks=False) == ()


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/dev/null/", "not a directory"),
        ("/dev/nosuch/../null", "no such file or directory"),
        ("/dev/null/../null", "not a directory"),
        ("/dev/nu\0ll", "invalid argument"),
        ("/x" * 3000, "file name too long"),
    ],
)
def test_a_device_path_that_the_kernel_refuses_is_refused(
    tmp_path: Path, path: str, text: str
) -> None:
    host = host_with_devices(tmp_path, {"path": "/dev/null", "major": 1, "minor": 3})

    error = injection_error(ContainerEdits(device_nodes=(DeviceNode(path),)), host)

    assert error is not None
    assert error.endswith(f": {text}")
    assert len(lint_spec(node_spec(DeviceNode(path)), host)) == 1


@pytest.mark.parametrize("path", ["/nosuch/../etc", "/etc/x/", "/etc/x/..", "/e\0tc"])
def test_a_mount_source_and_a_hook_that_the_kernel_refuses_are_found(tree: Tree, path: str) -> None:
    host = tree({"/etc/x": ""})
    edits = ContainerEdits(mounts=(Mount(path, "/b"),), hooks=(Hook("prestart", path),))

    assert len(lint_spec(spec_of(edits), host)) == 2
