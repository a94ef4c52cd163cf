"""The first incident as the domain sees it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.trees import c00

from gpucdi.api import Intent, NameRequest, NodeState
from gpucdi.findings import Cause
from gpucdi.host import HostTree
from gpucdi.node import Inventory, proc_inventory


@pytest.fixture
def host(tmp_path: Path) -> HostTree:
    return c00.copy(tmp_path / "root")


def test_the_management_kind_is_the_one_that_drifted(host: HostTree) -> None:
    kinds = c00.judge(host).kinds
    assert [kind.kind for kind in kinds if kind.missing] == [c00.MANAGEMENT]


def test_the_cause_is_that_the_kind_has_only_all(host: HostTree) -> None:
    assert c00.judge(host).cause is Cause.ONLY_ALL_DEVICE


def test_every_uuid_and_index_is_missing_and_all_is_not(host: HostTree) -> None:
    kind = c00.judge(host).kind(c00.MANAGEMENT)
    assert kind is not None
    assert [item.name for item in kind.missing] == ["0", c00.UUIDS[0], "1", c00.UUIDS[1]]


def test_the_near_miss_is_the_plain_nvidia_kind(host: HostTree) -> None:
    kind = c00.judge(host).kind(c00.MANAGEMENT)
    assert kind is not None
    assert kind.near_miss is not None
    assert (kind.near_miss.kind, kind.near_miss.count) == ("nvidia.com/gpu", 4)


def test_the_file_of_the_kind_is_named_with_its_owner(host: HostTree) -> None:
    kind = c00.judge(host).kind(c00.MANAGEMENT)
    assert kind is not None
    assert [(file.path, file.owner) for file in kind.files] == [
        ("/var/run/cdi/management.nvidia.com-gpu.yaml", "toolkit")
    ]


def test_the_captured_files_themselves_have_nothing_wrong(host: HostTree) -> None:
    assert [item.message for item in c00.judge(host).findings if item.file] == []


def test_the_status_counts_two_of_three_kinds(host: HostTree) -> None:
    status = c00.status(host)
    assert status.state is NodeState.DRIFTED
    assert sum(kind.is_resolved for kind in status.kinds) == 2
    assert len(status.kinds) == 3


def test_without_nvml_index_names_are_not_expected_of_anybody(host: HostTree) -> None:
    kind = c00.judge(host, proc_inventory(host)).kind(c00.MANAGEMENT)
    assert kind is not None
    assert kind.expected == (*c00.UUIDS, "all")


def test_without_any_inventory_the_state_is_unknown_and_nothing_is_missing(host: HostTree) -> None:
    status = c00.status(host, Inventory())
    assert (status.state, status.missing) == (NodeState.UNKNOWN, 0)


def test_a_kind_of_the_spec_is_expected_of_every_reader(host: HostTree) -> None:
    judged = c00.judge(host, intent=Intent(extra_kinds=("example.com/gpu",)))
    kind = judged.kind("example.com/gpu")
    assert kind is not None
    assert {item.cause for item in kind.missing} == {Cause.KIND_HAS_NO_SPEC}


def test_a_request_makes_nothing_expected_but_what_it_asked_for(host: HostTree) -> None:
    request = NameRequest("other.nvidia.com/gpu", (c00.UUIDS[1], "GPU-of-another-node"))
    kind = c00.judge(host, intent=Intent(requests=(request,))).kind("other.nvidia.com/gpu")
    assert kind is not None
    assert kind.expected == (c00.UUIDS[1],)


def test_a_request_for_another_vendors_kind_is_not_ours_to_answer(host: HostTree) -> None:
    request = NameRequest("example.com/gpu", (c00.UUIDS[0],))
    assert c00.judge(host, intent=Intent(requests=(request,))).kind("example.com/gpu") is None


def test_a_spec_in_a_directory_that_the_runtime_does_not_read_is_named_so(host: HostTree) -> None:
    config = host.outside("/usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml")
    text = config.read_text()
    config.write_text(text.replace('["/etc/cdi", "/var/run/cdi"]', '["/opt/cdi"]'))
    kind = c00.judge(host).kind(c00.MANAGEMENT)
    assert kind is not None
    assert {item.name: item.cause for item in kind.missing}["all"] is Cause.SPEC_DIR_NOT_READ


def test_a_card_that_was_swapped_is_a_stale_uuid_for_the_device_plugin(host: HostTree) -> None:
    path = host.outside("/var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json")
    path.write_text(path.read_text().replace(c00.UUIDS[0], "GPU-00000000-0000-0000-0000-00000000"))
    kind = c00.judge(host).kind("k8s.device-plugin.nvidia.com/gpu")
    assert kind is not None
    assert kind.cause is Cause.STALE_UUID


def test_a_second_file_with_the_same_names_is_a_conflict_with_both_files(host: HostTree) -> None:
    path = host.outside("/var/run/cdi/management.nvidia.com-gpu.yaml")
    path.with_name("copy.yaml").write_bytes(path.read_bytes())
    judged = c00.judge(host)
    conflict = next(item for item in judged.findings if item.cause is Cause.SAME_DIR_CONFLICT)
    assert judged.cause is Cause.SAME_DIR_CONFLICT
    assert "copy.yaml" in conflict.message
    assert "management.nvidia.com-gpu.yaml" in conflict.message


def test_a_broken_spec_is_a_finding_with_the_file_and_the_rest_goes_on(host: HostTree) -> None:
    host.outside("/etc/cdi/nvidia.yaml").write_text("kind: [")
    judged = c00.judge(host)
    rejected = [item for item in judged.findings if item.cause is Cause.SPEC_REJECTED]
    assert {item.file for item in rejected} == {"/etc/cdi/nvidia.yaml"}
    assert judged.cause is Cause.ONLY_ALL_DEVICE


def test_a_missing_device_node_of_a_referenced_kind_is_an_error(host: HostTree) -> None:
    path = host.outside("/var/run/cdi/management.nvidia.com-gpu.yaml")
    path.write_text(path.read_text().replace("/dev/nvidia1", "/dev/nvidia9"))
    causes = {item.cause for item in c00.judge(host).findings}
    assert Cause.DEVICE_NODE_MISSING in causes
