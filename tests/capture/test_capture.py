"""A captured node answers as the node did, and carries no secret off it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpucdi.capture import Capture, collect, open_tree, redacted, write_archive
from gpucdi.cdi import Reader
from gpucdi.host import CAPTURE_NAME, FileKind, HostTree
from gpucdi.programs import CapturedPrograms, EngineProcess, Programs
from gpucdi.toolkit import handler_rows, reader_of
from gpucdi.toolkit.locate import is_program

REPOSITORY = Path(__file__).parents[2]
TREES = [
    REPOSITORY / "examples" / "c00",
    *sorted(path.parent for path in (REPOSITORY / "tests/places").glob(f"*/{CAPTURE_NAME}")),
]


def verdict(host: HostTree, programs: Programs) -> object:
    """Everything that a diagnosis of handlers and registries looks at."""
    answers: list[object] = []
    for row in handler_rows(host, programs):
        answers.append((row.as_json(), row.engine.findings, row.findings))
        reader = reader_of(row.runtime)
        if reader is None:
            continue
        registry = reader.load(host)
        answers.append((sorted(registry.devices), registry.errors, registry.directories))
        answers.extend((file.path, file.claimed_names) for file in registry.files)
    return answers


def captured(tree: Path, into: Path) -> Path:
    host = HostTree(tree)
    write_archive(collect(host, CapturedPrograms.of(host), verdict), into)
    return into


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.name)
def test_the_verdict_on_the_capture_is_the_verdict_on_the_node(tree: Path, tmp_path: Path) -> None:
    host = HostTree(tree)
    with open_tree(captured(tree, tmp_path / "node.tar.gz")) as again:
        assert again.capture.problem is None
        assert verdict(again, CapturedPrograms.of(again)) == verdict(
            host, CapturedPrograms.of(host)
        )


def test_a_capture_is_the_same_bytes_each_time(tmp_path: Path) -> None:
    first, second = (captured(TREES[0], tmp_path / name) for name in ("a.tar.gz", "b.tar.gz"))
    assert first.read_bytes() == second.read_bytes()


def test_a_capture_of_a_capture_says_the_same(tmp_path: Path) -> None:
    with open_tree(captured(TREES[0], tmp_path / "a.tar.gz")) as once:
        write_archive(collect(once, CapturedPrograms.of(once), verdict), tmp_path / "b.tar.gz")
        with open_tree(tmp_path / "b.tar.gz") as twice:
            assert verdict(twice, CapturedPrograms.of(twice)) == verdict(
                once, CapturedPrograms.of(once)
            )


def only(*actions: Callable[[HostTree], object]) -> Callable[[HostTree, Programs], object]:
    return lambda host, _: [action(host) for action in actions]


def taken(root: Path, *actions: Callable[[HostTree], object]) -> Capture:
    return collect(HostTree(root), CapturedPrograms(), only(*actions))


def test_only_what_was_looked_at_leaves_the_node(tmp_path: Path) -> None:
    for name in ("read", "seen", "other"):
        (tmp_path / name).write_text(f"content of {name}")
    found = taken(tmp_path, lambda host: host.read("/read"), lambda host: host.exists("/seen"))
    assert found.files == {"/read": b"content of read", "/seen": b""}


def test_links_are_kept_as_links_with_what_they_lead_to(tmp_path: Path) -> None:
    (tmp_path / "run/cdi").mkdir(parents=True)
    (tmp_path / "run/cdi/a.yaml").write_text("x")
    (tmp_path / "var").mkdir()
    (tmp_path / "var/run").symlink_to("/run")
    (tmp_path / "run/b.yaml").symlink_to("cdi/a.yaml")
    found = taken(
        tmp_path,
        lambda host: host.listdir("/var/run/cdi"),
        lambda host: host.read("/var/run/b.yaml"),
    )
    assert found.links == {"/var/run": "/run", "/run/b.yaml": "cdi/a.yaml"}
    assert found.files == {"/run/cdi/a.yaml": b"x"}
    write_archive(found, tmp_path / "out.tar.gz")
    with open_tree(tmp_path / "out.tar.gz") as again:
        assert again.read("/var/run/b.yaml") == b"x"
        assert again.listdir("/var/run/cdi") == ["a.yaml"]


def test_a_link_that_climbs_is_followed_below_a_root_that_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "node/etc").mkdir(parents=True)
    (tmp_path / "node/usr").mkdir()
    (tmp_path / "node/usr/release").write_text("x")
    (tmp_path / "node/etc/release").symlink_to("../usr/release")
    (tmp_path / "root").symlink_to("node")
    found = taken(tmp_path / "root", lambda host: host.read("/etc/release"))
    assert found.links == {"/etc/release": "../usr/release"}
    write_archive(found, tmp_path / "out.tar.gz")
    with open_tree(tmp_path / "out.tar.gz") as again:
        assert again.read("/etc/release") == b"x"


def test_a_circle_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    found = taken(tmp_path, lambda host: host.exists("/a"))
    assert found.links == {"/a": "b", "/b": "a"}


def test_modes_devices_and_programs_are_facts_beside_the_files(tmp_path: Path) -> None:
    (tmp_path / "secret.yaml").write_text("x")
    (tmp_path / "secret.yaml").chmod(0o600)
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "program").write_bytes(b"\x7fELF\0\0" + b"x" * 5000)
    (tmp_path / "program").chmod(0o755)
    found = taken(
        tmp_path,
        lambda host: host.read("/secret.yaml"),
        lambda host: host.lstat("/fifo"),
        lambda host: host.read("/program"),
    )
    assert found.modes["/secret.yaml"] == 0o600
    assert found.devices["/fifo"].kind is FileKind.FIFO
    assert found.files["/program"] == b"\x7fELF"
    assert found.executables == {"/program"}


def test_a_file_that_is_stated_to_be_no_program_is_none(tmp_path: Path) -> None:
    (tmp_path / "program").write_text("#!/bin/sh\n")
    assert is_program(HostTree(tmp_path), "/program")
    (tmp_path / CAPTURE_NAME).write_text(json.dumps({"modes": {"/program": "0644"}}))
    assert not is_program(HostTree(tmp_path), "/program")
    found = taken(tmp_path, lambda host: host.exists("/program"))
    assert found.modes == {"/program": 0o644}


class Running:
    """An engine with a command line and an environment."""

    def version_output(self, path: str) -> str | None:
        return f"version of {path}"

    def engine(self, name: str) -> EngineProcess | None:
        environment = {"XDG_CONFIG_HOME": "/x", "REGISTRY_PASSWORD": "hunter2"}
        proxy = "--http-proxy=http://me:hunter2@proxy:3128"
        return EngineProcess("2.2.7", (name, "-c", "/c.toml", proxy), environment)


def test_the_running_engine_is_captured_without_its_secrets(tmp_path: Path) -> None:
    found = collect(
        HostTree(tmp_path),
        Running(),
        lambda _, programs: (programs.engine("containerd"), programs.version_output("/bin/x")),
    )
    write_archive(found, tmp_path / "out.tar.gz")
    with open_tree(tmp_path / "out.tar.gz") as again:
        programs = CapturedPrograms.of(again)
        assert programs.engine("containerd") == EngineProcess(
            "2.2.7",
            ("containerd", "-c", "/c.toml", "--http-proxy=http://REDACTED@proxy:3128"),
            {"XDG_CONFIG_HOME": "/x"},
        )
        assert programs.version_output("/bin/x") == "version of /bin/x"


def test_a_folder_is_opened_where_it_is() -> None:
    with open_tree(TREES[0]) as host:
        assert host.root == TREES[0]


def test_a_file_beyond_the_bound_is_named_and_left_out(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * (5 * 1024 * 1024))
    found = taken(tmp_path, lambda host: host.read("/big"))
    assert found.files == {"/big": b""}
    assert found.omitted[0].startswith("/big: ")


def test_of_a_large_program_only_that_it_is_there_counts(tmp_path: Path) -> None:
    (tmp_path / "program").write_bytes(b"\x7fELF" + bytes(5 * 1024 * 1024))
    (tmp_path / "program").chmod(0o755)
    found = taken(tmp_path, lambda host: host.read("/program"))
    assert (found.files, found.executables) == ({"/program": b""}, {"/program"})
    assert found.omitted == []


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ('password = "hunter2"', "hunter2"),
        ('  "auth": "aHVudGVyMg==",', "aHVudGVyMg=="),
        ("identitytoken: hunter2 # x", "hunter2"),
        ("'my-secret' = 'hunter2'", "hunter2"),
        ('env: ["API_TOKEN=hunter2"]', "hunter2"),
        ('"http-proxy": "http://me:hunter2@proxy:3128"', "hunter2"),
        ("Authorization: Bearer abcdefgh12345678", "abcdefgh12345678"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabcd\n-----END RSA PRIVATE KEY-----", "abcd"),
    ],
)
def test_secrets_do_not_leave_the_node(text: str, secret: str) -> None:
    found = redacted(text.encode()).decode()
    assert secret not in found
    assert found.count("\n") == text.count("\n")


@pytest.mark.parametrize(
    "text",
    [
        'mode = "cdi"',
        "default-kind = 'nvidia.com/gpu'",
        'imports = ["/etc/containerd/conf.d/*.toml"]',
        "accept-nvidia-visible-devices-as-volume-mounts = false",
        "enable_tls_streaming = false",
        'kind: "k8s.device-plugin.nvidia.com/gpu"',
        'config_path = "/etc/containerd/certs.d"',
        "path: /dev/nvidia0",
    ],
)
def test_what_decides_about_devices_stays_as_it_is(text: str) -> None:
    assert redacted(text.encode()) == text.encode()


@given(st.text(max_size=200))
def test_redaction_never_moves_a_line(text: str) -> None:
    found = redacted(text.encode("utf-8", "surrogatepass"))
    assert found.count(b"\n") == text.encode("utf-8", "surrogatepass").count(b"\n")


def test_a_registry_reads_alike_from_the_capture(tmp_path: Path) -> None:
    host = HostTree(TREES[0])
    with open_tree(captured(TREES[0], tmp_path / "node.tar.gz")) as again:
        for row in handler_rows(host, CapturedPrograms.of(host)):
            reader = reader_of(row.runtime)
            if reader is not None:
                assert isinstance(reader, Reader)
                assert sorted(reader.load(again).devices) == sorted(reader.load(host).devices)
