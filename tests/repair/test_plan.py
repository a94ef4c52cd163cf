"""A repair adds what is missing, takes nothing away, and refuses what it cannot prove."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from tests.trees import c00

from gpucdi.api import Intent, RepairMode
from gpucdi.api.names import OWN_FILE_MARK
from gpucdi.cdi import NEWEST, Accepted, decode_spec
from gpucdi.findings import Cause, Finding, Severity
from gpucdi.host import HostTree
from gpucdi.node import Inventory
from gpucdi.repair import Plan, RemoveFile, WriteFile, plan, removal, verify, wanted

NAMES = ("0", c00.UUIDS[0], "1", c00.UUIDS[1], "all")
OWN = "/etc/cdi/gpucdi-management.nvidia.com-gpu.yaml"


@pytest.fixture
def host(tmp_path: Path) -> HostTree:
    return c00.copy(tmp_path / "root")


SILENT = Inventory(
    problem=Finding(Cause.DRIVER_NOT_READY, Severity.WARNING, "no libnvidia-ml", "load the driver")
)

MINORS_UNKNOWN = Inventory(
    replace(c00.GPUS, devices=tuple(replace(gpu, minor=None) for gpu in c00.GPUS.devices))
)


def planned(host: HostTree, names: tuple[str, ...] = NAMES) -> Plan:
    judged = c00.judge(host)
    requests = wanted(judged, host)
    return plan(judged, host, requests, {item.kind: c00.generated(names) for item in requests})


def carry_out(host: HostTree, made: Plan) -> None:
    for action in made.actions:
        path = host.outside(action.path)
        if isinstance(action, WriteFile):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(action.content)
        else:
            path.unlink()


def written(made: Plan) -> WriteFile:
    (action,) = made.actions
    assert isinstance(action, WriteFile)
    return action


def names_in(content: bytes) -> list[str]:
    return [device["name"] for device in yaml.safe_load(content)["devices"]]


def test_the_toolkit_of_the_asking_handler_is_to_generate(host: HostTree) -> None:
    (request,) = wanted(c00.judge(host), host)
    assert request.kind == c00.MANAGEMENT
    assert request.ctk == "/usr/local/nvidia/toolkit/nvidia-ctk"
    assert request.hook == "/usr/local/nvidia/toolkit/nvidia-cdi-hook"


@pytest.mark.parametrize("place", ["/usr/bin", "/home/kubernetes/bin/nvidia/toolkit"])
def test_without_a_handler_of_nvidias_any_nvidia_ctk_of_the_node_is_to_generate(
    host: HostTree, place: str
) -> None:
    host = c00.without_toolkit(host)
    for path in (host.root / "etc/containerd").rglob("*.toml"):
        path.unlink()
    for path in (host.root / "usr/bin").glob("nvidia-*"):
        path.unlink()
    for name in ("nvidia-ctk", "nvidia-cdi-hook"):
        program = host.root / place.lstrip("/") / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.touch(mode=0o755)
    judged = c00.judge(host, intent=Intent(mode=RepairMode.AUTO, extra_kinds=("example.com/gpu",)))

    (request,) = wanted(judged, host)

    assert (request.ctk, request.hook) == (f"{place}/nvidia-ctk", f"{place}/nvidia-cdi-hook")


def test_only_the_missing_names_are_written(host: HostTree) -> None:
    assert names_in(written(planned(host)).content) == ["0", c00.UUIDS[0], "1", c00.UUIDS[1]]


def test_the_file_goes_below_the_foreign_file_of_the_kind(host: HostTree) -> None:
    assert written(planned(host)).path == OWN


def test_the_file_bears_our_mark_in_its_first_line(host: HostTree) -> None:
    assert written(planned(host)).content.startswith(OWN_FILE_MARK.encode())


def test_device_numbers_are_left_to_the_host(host: HostTree) -> None:
    assert b"major" not in written(planned(host)).content


def test_device_numbers_of_the_generator_are_not_held_against_the_host(host: HostTree) -> None:
    judged = c00.judge(host)
    spec = yaml.safe_load(c00.generated(NAMES))
    for device in spec["devices"]:
        for node in device["containerEdits"]["deviceNodes"]:
            node |= {"type": "c", "major": 4095, "minor": 0}
    content = yaml.safe_dump(spec).encode()
    made = plan(judged, host, wanted(judged, host), {c00.MANAGEMENT: content})
    assert made.refusals == ()
    assert b"4095" not in written(made).content


def test_after_the_repair_every_expected_name_resolves(host: HostTree) -> None:
    made = planned(host)
    carry_out(host, made)
    assert verify(made, host) == ()
    assert c00.judge(host).is_resolved


def test_all_of_the_management_kind_is_still_the_toolkits(host: HostTree) -> None:
    carry_out(host, planned(host))
    reader = c00.judge(host).kinds[0].readers[0]
    device = reader.registry.devices[f"{c00.MANAGEMENT}=all"]
    assert device.file.path == "/var/run/cdi/management.nvidia.com-gpu.yaml"


def test_a_second_pass_has_nothing_to_do(host: HostTree) -> None:
    carry_out(host, planned(host))
    judged = c00.judge(host)
    assert wanted(judged, host) == ()
    assert plan(judged, host, (), {}).actions == ()


TOOLKIT_FILE = "/run/cdi/management.nvidia.com-gpu.yaml"


@pytest.mark.parametrize("content", [None, b"kind: [", b"kind: management.nvidia.com/gpu\nx: 1\n"])
def test_our_file_is_never_in_the_way_of_the_toolkits_when_it_comes_back(
    host: HostTree, content: bytes | None
) -> None:
    toolkit_file = host.outside(TOOLKIT_FILE)
    whole = toolkit_file.read_bytes()
    toolkit_file.unlink()
    if content is not None:
        toolkit_file.write_bytes(content)
    action = written(planned(host))
    assert action.path == OWN
    assert "all" not in names_in(action.content)
    carry_out(host, planned(host))
    toolkit_file.write_bytes(whole)
    assert c00.judge(host).is_resolved


@pytest.mark.parametrize(
    "change", [lambda text: text[:600], lambda text: text.replace(b"management.", b"")]
)
def test_our_file_is_repaired_whatever_it_has_become_by_hand(
    host: HostTree, change: Callable[[bytes], bytes]
) -> None:
    carry_out(host, planned(host))
    path = host.outside(OWN)
    path.write_bytes(change(path.read_bytes()))
    made = planned(host)
    assert [action.path for action in made.actions] == [OWN]
    carry_out(host, made)
    assert c00.judge(host).is_resolved


def test_a_toolkit_that_is_away_takes_no_file_of_ours_away(host: HostTree) -> None:
    carry_out(host, planned(host))
    assert planned(c00.without_toolkit(host)).actions == ()


def test_what_lies_where_our_file_would_go_sends_it_elsewhere(host: HostTree) -> None:
    host.outside(OWN).mkdir()
    assert written(planned(host)).path == "/run/cdi/gpucdi-management.nvidia.com-gpu.yaml"


def test_a_directory_that_cannot_be_written_is_passed_over(host: HostTree) -> None:
    judged = c00.judge(host)
    requests = wanted(judged, host)
    generated = {item.kind: c00.generated(NAMES) for item in requests}
    made = plan(judged, host, requests, generated, unwritable={"/etc/cdi"})
    assert written(made).path == "/run/cdi/gpucdi-management.nvidia.com-gpu.yaml"


def test_a_name_that_a_foreigner_starts_to_define_leaves_our_file(host: HostTree) -> None:
    carry_out(host, planned(host))
    foreign = host.outside("/etc/cdi/admin.yaml")
    foreign.write_bytes(c00.generated(["0"]))
    made = planned(host)
    assert "0" not in names_in(written(made).content)
    carry_out(host, made)
    assert c00.judge(host).is_resolved


def test_our_file_goes_when_foreigners_define_everything(host: HostTree) -> None:
    carry_out(host, planned(host))
    host.outside("/run/cdi/zz.yaml").write_bytes(c00.generated(NAMES[:-1]))
    (action,) = planned(host).actions
    assert isinstance(action, RemoveFile)
    assert action.path == OWN


def test_while_nvml_is_silent_our_names_stay(host: HostTree) -> None:
    carry_out(host, planned(host))
    judged = c00.judge(host, SILENT)
    assert wanted(judged, host) == ()
    assert plan(judged, host, (), {}).actions == ()


def test_names_in_a_foreign_conflict_are_left_alone(host: HostTree) -> None:
    for name in ("one.yaml", "two.yaml"):
        host.outside(f"/run/cdi/{name}").write_bytes(c00.generated(["0"]))
    assert "0" not in names_in(written(planned(host)).content)


def test_a_device_without_its_own_node_is_not_written(host: HostTree) -> None:
    judged = c00.judge(host)
    requests = wanted(judged, host)
    content = c00.generated(NAMES, gpu=0).replace(b"/dev/nvidia0", b"/dev/nvidia-uvm")
    made = plan(judged, host, requests, {c00.MANAGEMENT: content})
    assert made.actions == ()
    assert {item.cause for item in made.refusals} == {Cause.DEVICE_WITHOUT_NODE}


def test_a_device_with_the_node_of_another_gpu_is_not_written(host: HostTree) -> None:
    judged = c00.judge(host)
    requests = wanted(judged, host)
    made = plan(judged, host, requests, {c00.MANAGEMENT: c00.generated(NAMES, gpu=0)})
    assert names_in(written(made).content) == ["0", c00.UUIDS[0]]
    assert [item.names for item in made.refusals] == [("1",), (c00.UUIDS[1],)]
    assert "/dev/nvidia0, but its GPU is /dev/nvidia1" in made.refusals[0].message


def test_where_the_minor_is_not_known_the_generator_is_believed(host: HostTree) -> None:
    judged = c00.judge(host, MINORS_UNKNOWN)
    requests = wanted(judged, host)
    made = plan(judged, host, requests, {c00.MANAGEMENT: c00.generated(NAMES, gpu=0)})
    assert made.refusals == ()
    assert len(names_in(written(made).content)) == 4


def test_a_device_whose_node_is_missing_on_the_host_is_not_written(host: HostTree) -> None:
    judged = c00.judge(host, MINORS_UNKNOWN)
    requests = wanted(judged, host)
    made = plan(judged, host, requests, {c00.MANAGEMENT: c00.generated(NAMES, gpu=7)})
    assert made.actions == ()
    assert {item.cause for item in made.refusals} == {Cause.REPAIR_REFUSED}
    assert "/dev/nvidia7" in made.refusals[0].message


def test_output_that_is_no_spec_is_a_refusal(host: HostTree) -> None:
    judged = c00.judge(host)
    made = plan(judged, host, wanted(judged, host), {c00.MANAGEMENT: b"not a spec"})
    assert made.actions == ()
    assert [item.kind for item in made.refusals] == [c00.MANAGEMENT]


def test_what_a_crash_of_a_reader_would_follow_is_never_written(host: HostTree) -> None:
    content = written(planned(host)).content
    for reader in c00.judge(host).observation.readers:
        assert isinstance(decode_spec(content, OWN, reader.reader.library), Accepted)
    assert isinstance(decode_spec(content, OWN, NEWEST), Accepted)


def test_a_file_without_our_mark_is_not_ours_whatever_its_name(host: HostTree) -> None:
    host.outside(OWN).write_bytes(c00.generated(["x"]))
    assert removal(c00.judge(host).observation, host).actions == ()


def test_removal_takes_exactly_our_files(host: HostTree) -> None:
    carry_out(host, planned(host))
    actions = removal(c00.judge(host).observation, host).actions
    assert [action.path for action in actions] == [OWN]


def test_a_broken_configuration_takes_no_file_of_ours_away(host: HostTree) -> None:
    carry_out(host, planned(host))
    config = "/usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml"
    host.outside(config).write_text("mode = [")
    assert planned(host).actions == ()


def test_a_failed_generator_does_not_keep_our_file_from_shrinking(host: HostTree) -> None:
    carry_out(host, planned(host))
    host.outside("/etc/cdi/admin.yaml").write_bytes(c00.generated(["0"]))
    judged = c00.judge(host)
    failure = Finding(Cause.GENERATOR_FAILED, Severity.ERROR, "exit 1", "read its stderr")
    made = plan(judged, host, wanted(judged, host), {c00.MANAGEMENT: failure})
    assert names_in(written(made).content) == [c00.UUIDS[0], "1", c00.UUIDS[1]]


def test_a_name_that_the_generator_leaves_out_is_kept_while_it_is_sound(host: HostTree) -> None:
    carry_out(host, planned(host))
    newer = c00.status(host).gpus.driver + ".1"
    inventory = Inventory(replace(c00.GPUS, driver=newer))
    judged = c00.judge(host, inventory)
    requests = wanted(judged, host)
    made = plan(judged, host, requests, {c00.MANAGEMENT: c00.generated(NAMES[:2])})
    assert names_in(written(made).content) == ["0", c00.UUIDS[0], "1", c00.UUIDS[1]]


def test_a_changed_driver_asks_for_a_fresh_file(host: HostTree) -> None:
    carry_out(host, planned(host))
    judged = c00.judge(host, Inventory(replace(c00.GPUS, driver="580.1")))
    assert [request.kind for request in wanted(judged, host)] == [c00.MANAGEMENT]
