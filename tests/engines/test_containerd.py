"""containerd's handlers, default handler and native CDI, per release."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from gpucdi.engines import Engine, discover_engines
from gpucdi.findings import Cause, Severity, SourceKind
from gpucdi.host import HostTree
from gpucdi.programs import CapturedPrograms, EngineProcess

MakeTree = Callable[[Mapping[str, str | bytes]], HostTree]

MAIN = "/etc/containerd/config.toml"
CRI2 = 'plugins."io.containerd.grpc.v1.cri"'
CRI3 = "plugins.'io.containerd.cri.v1.runtime'"

DROP_IN_3 = f"""version = 3
[{CRI3}.containerd.runtimes.nvidia]
runtime_type = "io.containerd.runc.v2"
[{CRI3}.containerd.runtimes.nvidia.options]
BinaryName = "/usr/local/nvidia/toolkit/nvidia-container-runtime"
"""


def engine(host: HostTree, version: str | None) -> Engine:
    engines = {} if version is None else {"containerd": version}
    found = discover_engines(host, CapturedPrograms(engines=engines))
    assert len(found) == 1
    return found[0]


def binary(found: Engine, name: str) -> str | None:
    handler = found.handler(name)
    assert handler is not None, name
    return handler.binary.value


def test_a_node_without_containerd_has_no_engine(make_tree: MakeTree) -> None:
    assert discover_engines(make_tree({"/etc/hostname": "x"}), CapturedPrograms()) == ()


def test_a_running_containerd_without_a_file_runs_on_its_defaults(make_tree: MakeTree) -> None:
    found = engine(make_tree({}), "2.2.7")
    assert [handler.name for handler in found.handlers] == ["runc"]
    assert found.default_handler.value == "runc"
    assert found.cdi_enabled.value is True
    assert found.config_files == ()


def test_the_handler_says_which_line_names_its_binary(make_tree: MakeTree) -> None:
    found = engine(make_tree({MAIN: DROP_IN_3}), "2.1.0").handler("nvidia")
    assert found is not None
    assert found.binary.value == "/usr/local/nvidia/toolkit/nvidia-container-runtime"
    assert found.binary.source.file == MAIN
    assert found.binary.source.line == 5


def test_a_drop_in_of_2_x_adds_a_handler_and_keeps_the_others(make_tree: MakeTree) -> None:
    main = (
        f'version = 3\nimports = ["conf.d/*.toml"]\n[{CRI3}.containerd.runtimes.kata]\n'
        'runtime_type = "io.containerd.kata.v2"\n'
    )
    found = engine(
        make_tree({MAIN: main, "/etc/containerd/conf.d/99-nvidia.toml": DROP_IN_3}), "2.2.0"
    )
    assert {handler.name for handler in found.handlers} == {"runc", "kata", "nvidia"}
    assert found.config_files == (MAIN, "/etc/containerd/conf.d/99-nvidia.toml")


def test_a_drop_in_of_1_x_replaces_the_whole_cri_table(make_tree: MakeTree) -> None:
    main = (
        f'version = 2\nimports = ["/etc/containerd/conf.d/*.toml"]\n[{CRI2}]\nenable_cdi = true\n'
        f'[{CRI2}.containerd]\ndefault_runtime_name = "a"\n[{CRI2}.containerd.runtimes.a]\n'
        'runtime_type = "io.containerd.runc.v2"\n'
    )
    drop = (
        f'version = 2\n[{CRI2}.containerd]\ndefault_runtime_name = "b"\n'
        f'[{CRI2}.containerd.runtimes.b]\nruntime_type = "io.containerd.runc.v2"\n'
    )
    files = {MAIN: main, "/etc/containerd/conf.d/1.toml": drop}
    old = engine(make_tree(files), "1.7.35")
    assert [handler.name for handler in old.handlers] == ["b"]
    assert old.cdi_enabled.value is False
    new = engine(make_tree(files), "2.2.0")
    assert {handler.name for handler in new.handlers} == {"runc", "a", "b"}
    assert new.cdi_enabled.value is True


def test_conf_d_is_not_loaded_without_an_import(make_tree: MakeTree) -> None:
    files = {MAIN: "version = 3\n", "/etc/containerd/conf.d/99-nvidia.toml": DROP_IN_3}
    assert engine(make_tree(files), "2.4.2").handler("nvidia") is None


def test_a_missing_literal_import_keeps_containerd_from_starting(make_tree: MakeTree) -> None:
    found = engine(make_tree({MAIN: 'version = 2\nimports = ["/etc/gone.toml"]\n'}), "1.7.35")
    assert found.handlers == ()
    assert found.findings[0].cause is Cause.CONFIG_UNREADABLE
    assert found.findings[0].file == "/etc/gone.toml"


def test_imports_in_a_circle_end(make_tree: MakeTree) -> None:
    files = {
        MAIN: 'imports = ["b.toml"]\n',
        "/etc/containerd/b.toml": 'imports = ["config.toml"]\n',
    }
    assert engine(make_tree(files), "2.4.2").config_files == (MAIN, "/etc/containerd/b.toml")


@pytest.mark.parametrize(
    ("version", "text", "enabled"),
    [
        ("1.6.20~ds1", f"version = 2\n[{CRI2}]\nenable_cdi = true\n", False),
        ("1.7.35", "version = 2\n", False),
        ("1.7.35", f"version = 2\n[{CRI2}]\nenable_cdi = true\n", True),
        ("2.0.0", "version = 2\n", True),
        ("2.2.7", f"version = 3\n[{CRI3}]\nenable_cdi = false\n", False),
        ("2.3.7", f"version = 4\n[{CRI3}]\nenable_cdi = false\n", False),
        ("2.4.2", f"version = 4\n[{CRI3}]\nenable_cdi = false\n", True),
        (None, f"version = 4\n[{CRI3}]\nenable_cdi = true\n", True),
        (None, f"version = 4\n[{CRI3}]\nenable_cdi = false\n", None),
        (None, "version = 2\n", None),
        (None, "version = 3\n", True),
    ],
)
def test_native_cdi_is_on_off_or_unknown_by_release(
    make_tree: MakeTree, version: str | None, text: str, enabled: bool | None
) -> None:
    assert engine(make_tree({MAIN: text}), version).cdi_enabled.value is enabled


def test_an_empty_list_of_spec_dirs_means_the_defaults_from_2_4_on(make_tree: MakeTree) -> None:
    host = make_tree({MAIN: f"version = 3\n[{CRI3}]\ncdi_spec_dirs = []\n"})
    assert engine(host, "2.3.7").spec_dirs.value == ()
    assert engine(host, "2.4.2").spec_dirs.value == ("/etc/cdi", "/var/run/cdi")


def test_an_unknown_release_makes_only_the_disputed_values_unknown(make_tree: MakeTree) -> None:
    main = (
        f'version = 2\nimports = ["d.toml"]\n[{CRI2}.containerd.runtimes.runc]\nruntime_type = "r"\n'
        f'[{CRI2}.containerd.runtimes.a.options]\nBinaryName = "/a"\n'
    )
    drop = f'version = 2\n[{CRI2}.containerd.runtimes.runc]\nruntime_type = "r"\n'
    found = engine(make_tree({MAIN: main, "/etc/containerd/d.toml": drop}), None)
    disputed = found.handler("a")
    assert disputed is not None
    assert disputed.binary.value is None
    assert disputed.binary.source.kind is SourceKind.UNKNOWN
    assert found.default_handler.value == "runc"


def test_version_3_is_refused_by_1_7_with_the_file_that_says_it(make_tree: MakeTree) -> None:
    main = 'version = 2\nimports = ["d.toml"]\n'
    found = engine(make_tree({MAIN: main, "/etc/containerd/d.toml": DROP_IN_3}), "1.7.35")
    assert found.handlers == ()
    assert found.findings[0].file == "/etc/containerd/d.toml"


def test_main_2_with_a_drop_in_3_loses_the_main_table_on_2_2_and_keeps_it_on_2_4(
    make_tree: MakeTree,
) -> None:
    main = (
        f'version = 2\nimports = ["d.toml"]\n[{CRI2}]\ncdi_spec_dirs = ["/x"]\n'
        f'[{CRI2}.containerd.runtimes.a.options]\nBinaryName = "/a"\n'
    )
    host = make_tree({MAIN: main, "/etc/containerd/d.toml": DROP_IN_3})
    old = engine(host, "2.2.7")
    assert old.handler("a") is None
    assert old.spec_dirs.value == ("/etc/cdi", "/var/run/cdi")
    new = engine(host, "2.4.2")
    assert binary(new, "a") == "/a"
    assert new.spec_dirs.value == ("/x",)


def test_2_3_0_does_not_start_with_a_drop_in_newer_than_the_main_file(make_tree: MakeTree) -> None:
    host = make_tree(
        {MAIN: 'version = 2\nimports = ["d.toml"]\n', "/etc/containerd/d.toml": DROP_IN_3}
    )
    assert "higher than root config version" in engine(host, "2.3.4").findings[0].message
    assert engine(host, "2.3.5").handler("nvidia") is not None


def test_a_default_that_is_not_configured_is_a_finding(make_tree: MakeTree) -> None:
    text = f'version = 3\n[{CRI3}.containerd]\ndefault_runtime_name = "nvidia"\n'
    found = engine(make_tree({MAIN: text}), "2.4.2")
    assert found.findings[0].cause is Cause.HANDLER_MISSING
    assert found.findings[0].file == MAIN


@pytest.mark.parametrize(
    "content",
    ["version = 'two'", "[plugins\n", "plugins = 3", "imports = [1]", "version = 5", b"\xff\xfe"],
)
def test_a_broken_file_is_a_finding_and_never_an_exception(
    make_tree: MakeTree, content: str | bytes
) -> None:
    found = engine(make_tree({MAIN: content}), "2.4.2")
    assert found.handlers == ()
    assert [finding.cause for finding in found.findings] == [Cause.CONFIG_UNREADABLE]


def test_the_command_line_says_where_the_file_lies(make_tree: MakeTree) -> None:
    class Running(CapturedPrograms):
        def engine(self, name: str) -> EngineProcess | None:
            running = EngineProcess("2.4.2", ("containerd", "-c", "/opt/c.toml"))
            return running if name == "containerd" else None

    found = discover_engines(make_tree({"/opt/c.toml": DROP_IN_3}), Running())
    assert binary(found[0], "nvidia") is not None


@pytest.mark.parametrize("version", ["2.0.0", "2.2.7"])
def test_2_0_to_2_2_lose_the_cri_table_of_a_main_file_without_version(
    make_tree: MakeTree, version: str
) -> None:
    text = '[plugins.cri.containerd.runtimes.nvidia.options]\nBinaryName = "/x"\n'
    host = make_tree({MAIN: text})
    assert engine(host, version).handler("nvidia") is None
    assert binary(engine(host, "2.4.2"), "nvidia") == "/x"
    assert binary(engine(host, "1.7.35"), "nvidia") == "/x"


def test_a_disabled_cri_plugin_serves_no_kubelet(make_tree: MakeTree) -> None:
    found = engine(make_tree({MAIN: 'disabled_plugins = ["cri"]\n'}), "1.7.35")
    assert found.handlers == ()
    assert [each.severity for each in found.findings] == [Severity.INFO]


def test_old_releases_take_a_relative_pattern_from_the_root_folder(make_tree: MakeTree) -> None:
    drop = DROP_IN_3.replace("version = 3", "version = 2").replace(CRI3, CRI2)
    host = make_tree(
        {MAIN: 'version = 2\nimports = ["conf.d/*.toml"]\n', "/etc/containerd/conf.d/a.toml": drop}
    )
    assert engine(host, "1.7.15").handler("nvidia") is None
    assert engine(host, "1.7.16").handler("nvidia") is not None
