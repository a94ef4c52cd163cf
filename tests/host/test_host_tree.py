"""A captured tree answers as the host itself would."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from gpucdi.host import CAPTURE_NAME, FileKind, FileTooLargeError, HostTree, normal


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "run/cdi").mkdir(parents=True)
    (tmp_path / "run/cdi/a.yaml").write_text("a")
    (tmp_path / "var").mkdir()
    (tmp_path / "var/run").symlink_to("/run")
    return tmp_path


def test_an_absolute_link_stays_inside_the_root(root: Path) -> None:
    assert HostTree(root).read("/var/run/cdi/a.yaml") == b"a"


def test_a_link_that_climbs_out_of_the_root_ends_at_its_top(root: Path) -> None:
    (root / "escape").symlink_to("../../../../run/cdi/a.yaml")
    assert HostTree(root).realpath("/escape") == "/run/cdi/a.yaml"


def test_dot_dot_is_applied_after_the_link_is_followed(root: Path) -> None:
    (root / "opt/deep").mkdir(parents=True)
    (root / "link").symlink_to("/opt/deep")
    assert HostTree(root).realpath("/link/../x") == "/opt/x"


def test_two_spellings_of_a_directory_have_one_real_path(root: Path) -> None:
    host = HostTree(root)
    assert host.realpath("/var/run/cdi") == host.realpath("/run/cdi") == "/run/cdi"


def test_a_link_loop_is_an_error_and_not_a_hang(root: Path) -> None:
    (root / "one").symlink_to("two")
    (root / "two").symlink_to("one")
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the number below is the check
        HostTree(root).stat("/one")
    assert caught.value.errno == errno.ELOOP


def test_a_fifo_is_described_and_never_read(root: Path) -> None:
    os.mkfifo(root / "pipe")
    host = HostTree(root)
    assert host.stat("/pipe").kind is FileKind.FIFO
    with pytest.raises(OSError, match="Invalid argument"):
        host.read("/pipe")


def test_a_file_above_the_bound_is_refused_whole(root: Path) -> None:
    with pytest.raises(FileTooLargeError):
        HostTree(root).read("/run/cdi/a.yaml", limit_bytes=0)


def test_errors_name_the_host_path(root: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        HostTree(root).read("/etc/none")
    assert caught.value.filename == "/etc/none"


def capture(root: Path, **facts: object) -> HostTree:
    (root / CAPTURE_NAME).write_text(json.dumps(facts))
    return HostTree(root)


def test_a_captured_device_is_there_although_no_file_carries_it(root: Path) -> None:
    device = {"path": "/dev/nvidia0", "type": "c", "major": 195, "minor": 0}
    found = capture(root, devices=[device]).stat("/dev/nvidia0")
    assert (found.kind, found.major, found.minor) == (FileKind.CHAR_DEVICE, 195, 0)


def test_captured_devices_are_listed_in_their_directory(root: Path) -> None:
    devices = [{"path": f"/dev/nvidia{n}"} for n in (0, 1)]
    assert capture(root, devices=devices).listdir("/dev") == ["nvidia0", "nvidia1"]


def test_a_captured_mode_keeps_an_unprivileged_reader_out(root: Path) -> None:
    host = capture(root, modes={"/run/cdi/a.yaml": "0600"}, readAsUid=1000)
    with pytest.raises(PermissionError):
        host.read("/run/cdi/a.yaml")


def test_the_capture_file_is_no_file_of_the_host(root: Path) -> None:
    assert CAPTURE_NAME not in capture(root).listdir("/")


def test_a_broken_capture_file_is_a_problem_and_not_an_error(root: Path) -> None:
    (root / CAPTURE_NAME).write_text('{"devices": 3}')
    assert HostTree(root).capture.problem is not None


@pytest.mark.parametrize(
    ("path", "cleaned"), [("/a//b/../c", "/a/c"), ("//a", "/a"), ("", "/"), ("a/.", "/a")]
)
def test_paths_are_cleaned_as_go_cleans_them(path: str, cleaned: str) -> None:
    assert normal(path) == cleaned
