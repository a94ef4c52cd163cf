"""A captured tree answers as the host itself would."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable
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


@pytest.fixture
def walked(root: Path) -> HostTree:
    (root / "q").mkdir()
    (root / "file").write_text("x")
    (root / "to-file").symlink_to("file")
    (root / "to-q").symlink_to("q/")
    return HostTree(root)


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/nosuch/../file",
            "/nosuch/.",
            "/nosuch/",
            "/nosuch/./x",
            "/file/",
            "/file/.",
            "/file/..",
        ),
        *("/file/../file", "/to-file/", "/to-file/../file", "/q/", "/q/.", "/q/../file", "/to-q/"),
        *("/q/nosuch/../../file", "/to-q/../file", "/./file", "//file", "/q/./../file", "/.."),
    ],
)
def test_a_path_leads_where_the_kernel_says(root: Path, walked: HostTree, path: str) -> None:
    def number(look: Callable[[], object]) -> int | None:
        try:
            look()
        except OSError as error:
            return error.errno
        return None

    kernel = number(lambda: os.stat(f"{root}{path}"))  # noqa: PTH116 - pathlib would clean the path
    assert number(lambda: walked.stat(path)) == kernel
    assert number(lambda: walked.lstat(path)) == number(lambda: os.lstat(f"{root}{path}"))


def test_a_path_whose_parts_are_missing_still_has_a_real_path(walked: HostTree) -> None:
    assert walked.realpath("/to-q/nosuch/x") == "/q/nosuch/x"
    assert walked.realpath("/q/nosuch/") == "/q/nosuch"
    with pytest.raises(FileNotFoundError):
        walked.realpath("/nosuch/../q")


@pytest.mark.parametrize("path", ["/a\0b", "/\0", "/\ud800"])
def test_what_can_be_no_path_is_an_error_of_the_system(root: Path, path: str) -> None:
    host = HostTree(root)
    for look in (host.stat, host.lstat, host.realpath, host.listdir, host.read, host.readlink):
        with pytest.raises(OSError, match="Invalid argument") as caught:
            look(path)
        assert caught.value.errno == errno.EINVAL
    assert not host.exists(path)


@pytest.mark.parametrize("path", ["/a" * 20_000, "/" + "b" * 4095, "/" * 5000, "/./" * 2000])
def test_a_path_longer_than_the_kernel_takes_is_refused_at_once(root: Path, path: str) -> None:
    began = time.process_time()
    with pytest.raises(OSError, match="File name too long"):
        HostTree(root).stat(path)
    assert time.process_time() - began < 0.1


def test_what_lies_below_a_captured_device_is_below_no_directory(root: Path) -> None:
    host = capture(root, devices=[{"path": "/dev/null"}])
    for path in ("/dev/null/", "/dev/null/.", "/dev/null/x", "/dev/null/../null"):
        with pytest.raises(NotADirectoryError):
            host.stat(path)
    assert host.stat("/dev/../dev/./null").is_device


def test_a_listing_says_that_it_is_cut(root: Path) -> None:
    for name in "abc":
        (root / name).write_text("")
    host = HostTree(root)
    assert host.listing("/", 5).is_cut is False
    cut = host.listing("/", 2)
    assert cut.is_cut
    assert len(cut.names) == 2
