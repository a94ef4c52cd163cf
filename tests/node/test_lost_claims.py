"""What the node says of the DRA drivers' checkpoints: which claims are gone since a reboot."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.diagnosis.scenes import (
    BOOT_FILES,
    BOOT_ID,
    BOOT_S,
    CHECKPOINT,
    Scene,
    build,
    checkpoint,
    look,
    spec,
)

from gpucdi.api import GpuStatus
from gpucdi.capture import collect, open_tree, write_archive
from gpucdi.findings import Cause, Finding, Severity, Who
from gpucdi.host import HostTree
from gpucdi.node import Inventory, assess, observe
from gpucdi.node.checkpoints import PLUGIN_DIRS, read_checkpoints, this_boot, without_details
from gpucdi.programs import CapturedPrograms, Programs

UID = "973c9807-4b59-a216-7e46-f5733c39173f"
NAME = f"k8s.gpu.nvidia.com/claim={UID}-gpu-0"
CLAIM_FILE = f"/run/cdi/k8s.gpu.nvidia.com-claim_{UID}.yaml"
THERE = {CLAIM_FILE: spec("k8s.gpu.nvidia.com/claim", f"{UID}-gpu-0")}
NOBODY = 65534
OTHER_BOOT = "5cf0a4a4-9a4b-4f0e-8a3d-0e8f6b7c8d90"


def told(place: Path, files: dict[str, str], written_s: int = BOOT_S + 3600) -> list[Finding]:
    scene = Scene(files=BOOT_FILES | files, modified={CHECKPOINT: written_s})
    causes = {Cause.DRA_CLAIM_SPEC_LOST, Cause.UNDETERMINED}
    return [item for item in look(scene, place / "root").findings if item.cause in causes]


def test_a_prepared_claim_without_its_spec_is_an_error_with_file_key_and_name(
    tmp_path: Path,
) -> None:
    (found,) = told(tmp_path, {CHECKPOINT: checkpoint(UID, NAME)})
    assert (found.cause, found.severity) == (Cause.DRA_CLAIM_SPEC_LOST, Severity.ERROR)
    assert (found.file, found.key) == (CHECKPOINT, "v2.preparedClaims")
    assert found.names == (NAME,)
    assert f"no spec file defines {NAME}" in found.message


def test_a_claim_whose_spec_is_there_and_prepared_in_this_boot_is_no_finding(
    tmp_path: Path,
) -> None:
    assert not told(tmp_path, {CHECKPOINT: checkpoint(UID, NAME)} | THERE)


def test_a_spec_that_is_there_and_broken_is_not_lost(tmp_path: Path) -> None:
    broken = f"kind: k8s.gpu.nvidia.com/claim\ndevices:\n- name: {UID}-gpu-0\n"
    assert not told(tmp_path, {CHECKPOINT: checkpoint(UID, NAME), CLAIM_FILE: broken})


def test_a_claim_that_hands_out_no_name_is_judged_by_the_boot_alone(tmp_path: Path) -> None:
    files = {CHECKPOINT: checkpoint(UID)}
    assert not told(tmp_path / "since", files)
    (found,) = told(tmp_path / "before", files, BOOT_S - 3600)
    assert found.severity is Severity.WARNING


def test_another_boot_id_is_for_the_driver_to_mend_and_none_for_the_user(tmp_path: Path) -> None:
    stamped = {CHECKPOINT: checkpoint(UID, NAME, boot_id=OTHER_BOOT)} | THERE
    (by_id,) = told(tmp_path / "id", stamped)
    (by_time,) = told(tmp_path / "time", {CHECKPOINT: checkpoint(UID, NAME)} | THERE, BOOT_S - 3600)
    assert f"belongs to boot {OTHER_BOOT}, and this is boot {BOOT_ID}" in by_id.message
    assert (by_id.who, by_time.who) == (Who.COMPONENT, Who.USER)


def test_a_file_of_the_moment_of_the_boot_is_not_called_older(tmp_path: Path) -> None:
    assert not told(tmp_path, {CHECKPOINT: checkpoint(UID, NAME)} | THERE, BOOT_S - 30)


def test_the_first_layout_holds_prepared_claims_only(tmp_path: Path) -> None:
    first = json.dumps({"checksum": 1, "v1": json.loads(checkpoint(UID, NAME))["v1"]})
    (found,) = told(tmp_path, {CHECKPOINT: first})
    assert found.key == "v1.preparedClaims"


def test_the_compute_domain_driver_has_a_checkpoint_of_its_own(tmp_path: Path) -> None:
    path = CHECKPOINT.replace("/gpu.", "/compute-domain.")
    name = f"k8s.compute-domain.nvidia.com/claim={UID}-channel-0"
    (found,) = told(tmp_path, {path: checkpoint(UID, name)})
    assert (found.file, found.kind) == (path, "k8s.compute-domain.nvidia.com/claim")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is no JSON object"),
        ("[]", "is no JSON object"),
        ("[" * 5000, "is no JSON object"),
        ('{"checksum": 1, "v9": {}}', "has a layout that is not known (it has checksum, v9)"),
        ('{"v2": {"preparedClaims": []}}', "has a layout that is not known (it has v2)"),
        (" " * (4 * 1024 * 1024 + 1), "is larger than 4194304 bytes"),
    ],
    ids=["cut", "a list", "deep", "newer", "claims of another shape", "large"],
)
def test_what_cannot_be_understood_is_said_and_not_guessed(
    content: str, said: str, tmp_path: Path
) -> None:
    (found,) = told(tmp_path, {CHECKPOINT: content})
    assert (found.cause, found.severity) == (Cause.UNDETERMINED, Severity.INFO)
    assert found.message.startswith(said)
    assert found.file == CHECKPOINT


def test_a_checkpoint_that_may_not_be_read_is_unknown_and_no_fault_of_the_driver(
    tmp_path: Path,
) -> None:
    files = BOOT_FILES | {CHECKPOINT: checkpoint(UID, NAME)}
    scene = Scene(files=files, modes={CHECKPOINT: "0600"}, read_as_uid=65532)
    found = [
        item
        for item in look(scene, tmp_path / "root").findings
        if item.file and item.file in CHECKPOINT
    ]
    (denied,) = [item for item in found if item.cause is Cause.UNDETERMINED]
    assert (denied.severity, denied.file) == (Severity.INFO, PLUGIN_DIRS[0])
    assert "Permission denied" in denied.message
    assert "as root" in denied.advice
    assert "log of the DRA driver" not in denied.advice


def test_a_folder_that_may_not_be_looked_into_is_one_finding() -> None:
    with tempfile.TemporaryDirectory() as name:
        host = build(Scene(files={CHECKPOINT: checkpoint(UID, NAME)}), Path(name) / "root")
        Path(name).chmod(0o755)
        (host.root / "var/lib/kubelet").chmod(0)
        programs = CapturedPrograms.of(host)
        user = os.geteuid()
        os.seteuid(NOBODY if user == 0 else user)
        try:
            found = findings(host, programs)
        finally:
            os.seteuid(user)
            (host.root / "var/lib/kubelet").chmod(0o700)
    (denied,) = [item for item in found if item.file == PLUGIN_DIRS[0]]
    assert "gpu.nvidia.com and compute-domain.nvidia.com" in denied.message


def test_without_the_kernels_files_only_missing_specs_tell(tmp_path: Path) -> None:
    files = {CHECKPOINT: checkpoint(UID, NAME, boot_id=OTHER_BOOT)} | THERE
    status = look(Scene(files=files, modified={CHECKPOINT: 1}), tmp_path / "root")
    assert Cause.DRA_CLAIM_SPEC_LOST not in {item.cause for item in status.findings}


def test_a_node_without_dra_drivers_has_no_checkpoint(tmp_path: Path) -> None:
    assert not list(read_checkpoints(build(Scene(), tmp_path / "root")))


def test_the_boot_of_this_machine_is_known() -> None:
    boot = this_boot(HostTree("/"))
    assert boot.began_s is not None
    assert boot.id


def findings(host: HostTree, programs: Programs) -> tuple[Finding, ...]:
    return assess(observe(host, programs, Inventory(GpuStatus())), host).findings


def test_a_capture_carries_the_checkpoint_without_what_the_claims_ask_for(tmp_path: Path) -> None:
    held = json.loads(checkpoint(UID, NAME))
    opaque = {"opaque": {"driver": "gpu.nvidia.com", "parameters": {"secretThing": "hunter2"}}}
    held["v2"]["preparedClaims"][UID]["status"] = {"allocation": {"devices": {"config": [opaque]}}}
    scene = Scene(
        files=BOOT_FILES | THERE | {CHECKPOINT: json.dumps(held)},
        modified={CHECKPOINT: BOOT_S - 3600},
    )
    host = build(scene, tmp_path / "root")
    programs = CapturedPrograms.of(host)
    capture = collect(host, programs, findings)
    assert b"hunter2" not in b"".join(capture.files.values())
    assert capture.files["/proc/stat"] == b"btime 1773748800\n"
    write_archive(capture, tmp_path / "node.tar.gz")
    with open_tree(tmp_path / "node.tar.gz") as again:
        there = findings(again, CapturedPrograms.of(again))
    assert Cause.DRA_CLAIM_SPEC_LOST in {item.cause for item in there}
    assert there == findings(host, programs)


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(
                ["v1", "v2", "preparedClaims", "nodeBootID", "CDIDeviceIDs", "checkpointState"]
            )
            | st.text(),
            inner,
        )
    ),
)


@given(ANY_JSON)
def test_no_content_is_too_strange_to_be_read_or_captured(document: object) -> None:
    kept = without_details(json.dumps(document).encode())
    assert without_details(kept) == kept
