"""From a handler to the program, its configuration and its mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from gpucdi.engines import EngineName, Handler
from gpucdi.findings import Cause, Source, Sourced, SourceKind
from gpucdi.host import HostTree
from gpucdi.programs import CapturedPrograms, EngineProcess
from gpucdi.toolkit import HandlerRuntime, Mode, resolve_runtime

MakeTree = Callable[[Mapping[str, str | bytes]], HostTree]

DIR = "/usr/local/nvidia/toolkit"
OWN_CONFIG = f"{DIR}/.config/nvidia-container-runtime/config.toml"
ETC_CONFIG = "/etc/nvidia-container-runtime/config.toml"
ELF = b"\x7fELF"

WRAPPER_118 = f"""#! /bin/sh
cat /proc/modules | grep -e "^nvidia " >/dev/null 2>&1
if [ "${{?}}" != "0" ]; then
	echo "nvidia driver modules are not yet loaded, invoking runc directly" >&2
	exec runc "$@"
fi
NVIDIA_CTK_CONFIG_FILE_PATH={OWN_CONFIG} \\
PATH={DIR}:$PATH \\
	{DIR}/nvidia-container-runtime.real \\
		"$@"
"""
WRAPPER_117 = f"""#! /bin/sh

cat /proc/modules | grep -e "^nvidia " >/dev/null 2>&1
if [ "${{?}}" != "0" ]; then
	echo "nvidia driver modules are not yet loaded, invoking runc directly"
	exec runc "$@"
fi

PATH={DIR}:$PATH \\
XDG_CONFIG_HOME={DIR}/.config \\
{DIR}/nvidia-container-runtime.real \\
	"$@"
"""
C00_CONFIG = """[nvidia-container-runtime]
  mode = "cdi"

  [nvidia-container-runtime.modes]

    [nvidia-container-runtime.modes.cdi]
      annotation-prefixes = ["cdi.k8s.io/"]
      default-kind = "management.nvidia.com/gpu"
      spec-dirs = ["/etc/cdi", "/var/run/cdi"]
"""
C00: dict[str, str | bytes] = {
    f"{DIR}/nvidia-container-runtime": WRAPPER_118,
    f"{DIR}/nvidia-container-runtime.real": ELF,
    f"{DIR}/nvidia-ctk": "#! /bin/sh\n",
    OWN_CONFIG: C00_CONFIG,
    ETC_CONFIG: '[nvidia-container-runtime]\nmode = "auto"\n',
}


def handler(binary: str | None, runtime_type: str | None = None) -> Handler:
    source = Source(SourceKind.FILE, "/etc/containerd/config.toml")
    return Handler("nvidia", EngineName.CONTAINERD, Sourced(binary, source), Sourced(runtime_type))


def resolve(
    host: HostTree, binary: str | None = f"{DIR}/nvidia-container-runtime", **programs: str
) -> HandlerRuntime:
    captured = {f"{DIR}/{name.replace('_', '-')}": text for name, text in programs.items()}
    return resolve_runtime(host, CapturedPrograms(versions=captured), handler(binary))


def test_the_first_incident_resolves_to_the_toolkits_own_file(make_tree: MakeTree) -> None:
    found = resolve(
        make_tree(C00), nvidia_ctk="NVIDIA Container Toolkit CLI version 1.18.1\ncommit: x\n"
    )
    assert found.is_nvidia
    assert found.program == f"{DIR}/nvidia-container-runtime.real"
    assert found.wrapper == f"{DIR}/nvidia-container-runtime"
    assert found.needs_kernel_module
    assert found.mode.value is Mode.CDI
    assert found.mode.source.line == 2
    assert found.config is not None
    assert found.config.file == OWN_CONFIG
    assert found.config.default_kind.value == "management.nvidia.com/gpu"
    assert found.config.default_kind.source.line == 8
    assert found.toolkit is not None
    assert found.toolkit.version.value == "1.18.1"
    assert found.toolkit.ctk == f"{DIR}/nvidia-ctk"
    assert found.resolves_through_files


def test_the_second_file_that_nobody_reads_is_named(make_tree: MakeTree) -> None:
    found = resolve(make_tree(C00))
    assert [config.file for config in found.conflicting_configs] == [ETC_CONFIG]


def test_the_wrapper_up_to_1_17_sets_the_configuration_home(make_tree: MakeTree) -> None:
    found = resolve(make_tree({**C00, f"{DIR}/nvidia-container-runtime": WRAPPER_117}))
    assert found.config is not None
    assert found.config.file == OWN_CONFIG
    assert found.toolkit is not None
    assert found.toolkit.before == (1, 18, 0)


def test_a_wrappers_shape_bounds_a_version_that_nobody_tells(make_tree: MakeTree) -> None:
    found = resolve(make_tree(C00)).toolkit
    assert found is not None
    assert found.version.value is None
    assert (found.since, found.before) == ((1, 18, 1), None)


def test_a_bare_name_is_sought_in_the_path_and_reads_the_file_in_etc(make_tree: MakeTree) -> None:
    host = make_tree({"/usr/bin/nvidia-container-runtime": ELF, ETC_CONFIG: C00_CONFIG})
    found = resolve(host, "nvidia-container-runtime")
    assert found.program == "/usr/bin/nvidia-container-runtime"
    assert found.config is not None
    assert found.config.file == ETC_CONFIG


@pytest.mark.parametrize(("suffix", "mode"), [(".cdi", Mode.CDI), (".legacy", Mode.LEGACY)])
def test_a_suffix_of_the_binary_beats_the_file(
    make_tree: MakeTree, suffix: str, mode: Mode
) -> None:
    host = make_tree({f"/usr/bin/nvidia-container-runtime{suffix}": ELF})
    found = resolve(host, f"/usr/bin/nvidia-container-runtime{suffix}").mode
    assert found.value is mode
    assert found.source.kind is SourceKind.BINARY_NAME


def test_the_engines_environment_reaches_an_unwrapped_runtime_of_1_18(make_tree: MakeTree) -> None:
    host = make_tree({"/usr/bin/nvidia-container-runtime": ELF, "/opt/c.toml": C00_CONFIG})

    class Running(CapturedPrograms):
        def engine(self, name: str) -> EngineProcess | None:
            environment = {"NVIDIA_CTK_CONFIG_FILE_PATH": "/opt/c.toml"}
            return EngineProcess(environment=environment) if name == "containerd" else None

    for version, expected in (("1.18.0", "/opt/c.toml"), ("1.17.9", ETC_CONFIG)):
        stated = {
            "/usr/bin/nvidia-container-runtime": f"NVIDIA Container Runtime version {version}"
        }
        found = resolve_runtime(
            host, Running(versions=stated), handler("/usr/bin/nvidia-container-runtime")
        )
        assert found.config is not None
        assert found.config.file == expected


@pytest.mark.parametrize(
    ("binary", "runtime_type"),
    [
        (None, "io.containerd.runc.v2"),
        (None, "io.containerd.kata.v2"),
        (None, "io.containerd.runsc.v1"),
        ("/usr/sbin/runc", None),
    ],
)
def test_what_is_no_nvidia_runtime_is_said_to_be_none(
    make_tree: MakeTree, binary: str | None, runtime_type: str | None
) -> None:
    host = make_tree({"/usr/sbin/runc": ELF})
    found = resolve_runtime(host, CapturedPrograms(), handler(binary, runtime_type))
    assert found.is_nvidia is False
    assert found.config is None


def test_an_unfamiliar_program_is_unknown_and_not_guessed(make_tree: MakeTree) -> None:
    assert resolve(make_tree({"/opt/shim": ELF}), "/opt/shim").is_nvidia is None


def test_a_missing_binary_is_a_finding_while_the_toolkit_is_reinstalled(
    make_tree: MakeTree,
) -> None:
    found = resolve(make_tree({OWN_CONFIG: C00_CONFIG}))
    assert found.program is None
    assert found.is_nvidia
    assert found.findings[0].cause is Cause.HANDLER_MISSING


@pytest.mark.parametrize(
    ("content", "key", "line"),
    [
        ("this is no toml", None, 1),
        ("[nvidia-container-runtime]\nmode = 5\n", "nvidia-container-runtime.mode", 2),
        ("nvidia-container-runtime = 1\n", "nvidia-container-runtime", 1),
        ("[nvidia-container-runtime]\nruntimes = 'runc'\n", "nvidia-container-runtime.runtimes", 2),
        (
            "[nvidia-container-cli]\nldconfig = '/sbin/ldconfig'\n",
            "nvidia-container-cli.ldconfig",
            None,
        ),
    ],
)
def test_a_file_that_the_runtime_refuses_is_a_finding(
    make_tree: MakeTree, content: str | bytes, key: str | None, line: int | None
) -> None:
    found = resolve(make_tree({**C00, OWN_CONFIG: content}))
    assert found.config is not None
    assert not found.config.usable
    assert found.mode.value is None
    [finding] = found.findings
    assert (finding.cause, finding.file, finding.key) == (Cause.CONFIG_UNREADABLE, OWN_CONFIG, key)
    assert line is None or f"{OWN_CONFIG}:{line}" in finding.message


def test_a_directory_in_place_of_the_file_is_a_finding(make_tree: MakeTree) -> None:
    host = make_tree({**C00, f"{OWN_CONFIG}.d/x": ""})
    host.outside(OWN_CONFIG).unlink()
    host.outside(f"{OWN_CONFIG}.d").rename(host.outside(OWN_CONFIG))
    found = resolve(host)
    assert found.config is not None
    assert not found.config.usable


def test_byte_order_mark_crlf_and_unknown_keys_do_no_harm(make_tree: MakeTree) -> None:
    text = '\ufeffnew-key = 1\r\n[nvidia-container-runtime]\r\nmode = "cdi"\r\n'
    found = resolve(make_tree({**C00, OWN_CONFIG: text}))
    assert found.mode.value is Mode.CDI
    assert found.mode.source.line == 3


def test_a_missing_file_means_the_defaults_without_complaint(make_tree: MakeTree) -> None:
    files = {path: content for path, content in C00.items() if path != OWN_CONFIG}
    found = resolve(make_tree(files))
    assert found.config is not None
    assert not found.config.exists
    assert found.config.usable
    assert found.mode.value is Mode.AUTO
    assert found.mode.source.kind is SourceKind.DEFAULT
    assert found.findings == ()


@pytest.mark.parametrize(
    ("text", "version"), [("foo", "1.18.1"), ("", "1.20.0"), ("jit-cdi", "1.17.4")]
)
def test_a_mode_that_the_release_does_not_know_is_a_finding(
    make_tree: MakeTree, text: str, version: str
) -> None:
    config = f'[nvidia-container-runtime]\nmode = "{text}"\n'
    found = resolve(
        make_tree({**C00, OWN_CONFIG: config, ETC_CONFIG: config}),
        nvidia_ctk=f"NVIDIA Container Toolkit CLI version {version}\n",
    )
    assert found.mode.value is None
    assert [finding.key for finding in found.findings] == ["nvidia-container-runtime.mode"]


def test_the_package_database_tells_the_version_of_what_lies_in_usr_bin(
    make_tree: MakeTree,
) -> None:
    status = (
        "Package: nvidia-container-toolkit-base\nStatus: install ok installed\n"
        "Version: 1.17.8-1\n\nPackage: other\nStatus: install ok installed\nVersion: 9.9.9-1\n"
    )
    host = make_tree({"/usr/bin/nvidia-container-runtime": ELF, "/var/lib/dpkg/status": status})
    found = resolve(host, "/usr/bin/nvidia-container-runtime").toolkit
    assert found is not None
    assert found.version.value == "1.17.8"
    assert found.version.source.file == "/var/lib/dpkg/status"


def test_a_removed_package_and_the_operators_toolkit_get_no_version_from_it(
    make_tree: MakeTree,
) -> None:
    status = (
        "Package: nvidia-container-toolkit-base\nStatus: deinstall ok config-files\n"
        "Version: 1.17.8-1\n"
    )
    files: dict[str, str | bytes] = {
        "/usr/bin/nvidia-container-runtime": ELF,
        "/var/lib/dpkg/status": status,
    }
    removed = resolve(make_tree(files), "/usr/bin/nvidia-container-runtime").toolkit
    assert removed is not None
    assert removed.version.value is None
    installed = status.replace("deinstall ok config-files", "install ok installed")
    other = resolve(make_tree({**C00, "/var/lib/dpkg/status": installed})).toolkit
    assert other is not None
    assert other.version.value is None
