"""CRI-O, Docker and Podman as each reads its own files."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from gpucdi.engines import Engine, EngineName, discover_engines
from gpucdi.findings import Cause, SourceKind
from gpucdi.host import HostTree
from gpucdi.programs import CapturedPrograms, EngineProcess

MakeTree = Callable[[Mapping[str, str | bytes]], HostTree]

CRIO = "/etc/crio/crio.conf"
CRIO_D = "/etc/crio/crio.conf.d"
DOCKER = "/etc/docker/daemon.json"
PODMAN = "/usr/bin/podman"


def engine(host: HostTree, name: EngineName, version: str | None = None) -> Engine:
    engines = {} if version is None else {name.value: version}
    [found] = [
        each
        for each in discover_engines(host, CapturedPrograms(engines=engines))
        if each.name is name
    ]
    return found


def binaries(found: Engine) -> dict[str, str | None]:
    return {handler.name: handler.binary.value for handler in found.handlers}


class Running:
    """One engine of which the command line is known."""

    def __init__(self, name: str, *arguments: str) -> None:
        self.name = name
        self.process = EngineProcess("1.34.0", arguments)

    def version_output(self, path: str) -> str | None:
        del path
        return None

    def engine(self, name: str) -> EngineProcess | None:
        return self.process if name == self.name else None


def test_crio_takes_later_files_for_scalars_and_keeps_other_handlers(make_tree: MakeTree) -> None:
    host = make_tree(
        {
            CRIO: '[crio.runtime]\ndefault_runtime = "runc"\n[crio.runtime.runtimes.runc]\n'
            'runtime_path = "/usr/bin/runc"\n[crio.runtime.runtimes.nvidia]\nruntime_path = "/a"\n'
            'runtime_type = "oci"\n',
            f"{CRIO_D}/99-nvidia.conf": '[crio.runtime]\ndefault_runtime = "nvidia"\n'
            '[crio.runtime.runtimes.nvidia]\nruntime_path = "/b"\n',
        }
    )
    found = engine(host, EngineName.CRIO, "1.34.0")
    assert binaries(found) == {"runc": "/usr/bin/runc", "nvidia": "/b"}
    assert found.default_handler.value == "nvidia"
    nvidia = found.handler("nvidia")
    assert nvidia is not None
    assert nvidia.is_default
    assert nvidia.runtime_type.value is None
    assert (nvidia.binary.source.file, nvidia.binary.source.line) == (
        f"{CRIO_D}/99-nvidia.conf",
        4,
    )


def test_crio_reads_drop_ins_of_any_name_in_sub_folders_too(make_tree: MakeTree) -> None:
    host = make_tree(
        {
            f"{CRIO_D}/10-a.toml.bak": '[crio.runtime.runtimes.a]\nruntime_path = "/a"\n',
            f"{CRIO_D}/20/deep": '[crio.runtime.runtimes.b]\nruntime_path = "/b"\n',
        }
    )
    found = engine(host, EngineName.CRIO)
    assert binaries(found) == {"a": "/a", "b": "/b"}
    assert found.cdi_enabled.value is None
    assert found.default_handler.value is None


@pytest.mark.parametrize(("version", "default"), [("1.29.0", "runc"), ("1.34.0", "crun")])
def test_crios_built_in_default_depends_on_the_release(
    make_tree: MakeTree, version: str, default: str
) -> None:
    found = engine(make_tree({CRIO: ""}), EngineName.CRIO, version)
    assert found.default_handler.value == default
    assert found.cdi_enabled.value is True


def test_a_handler_of_crio_may_inherit_the_default_runtime(make_tree: MakeTree) -> None:
    text = (
        '[crio.runtime]\ndefault_runtime = "crun"\n[crio.runtime.runtimes.crun]\n'
        'runtime_path = "/usr/bin/crun"\n[crio.runtime.runtimes.high]\n'
        "inherit_default_runtime = true\n"
    )
    assert binaries(engine(make_tree({CRIO: text}), EngineName.CRIO))["high"] == "/usr/bin/crun"


def test_crios_command_line_beats_its_files(make_tree: MakeTree) -> None:
    host = make_tree({CRIO: '[crio.runtime]\ncdi_spec_dirs = ["/x"]\n'})
    running = Running("cri-o", "crio", "--cdi-spec-dirs=/a,/b", "--default-runtime", "nvidia")
    [found] = discover_engines(host, running)
    assert found.spec_dirs.value == ("/a", "/b")
    assert found.spec_dirs.source.kind is SourceKind.PROCESS
    assert found.default_handler.value == "nvidia"


@pytest.mark.parametrize(
    ("path", "content"),
    [(CRIO, "[crio"), (f"{CRIO_D}/x", b"\xff"), (DOCKER, "{"), (DOCKER, '{"runtimes": []}')],
)
def test_a_broken_file_is_a_finding_that_names_it(
    make_tree: MakeTree, path: str, content: str | bytes
) -> None:
    [found] = discover_engines(make_tree({path: content}), CapturedPrograms())
    assert [(each.cause, each.file) for each in found.findings] == [(Cause.CONFIG_UNREADABLE, path)]


def test_the_hook_file_beside_cdi_is_the_known_double_injection(make_tree: MakeTree) -> None:
    hook = "/run/containers/oci/hooks.d/oci-nvidia-hook.json"
    found = engine(make_tree({CRIO: "", hook: "{}"}), EngineName.CRIO)
    assert [(each.cause, each.file) for each in found.findings] == [(Cause.MODE_CONFLICT, hook)]


def test_docker_names_runtimes_by_path_or_by_shim(make_tree: MakeTree) -> None:
    text = """{
      "default-runtime": "nvidia",
      "runtimes": {
        "nvidia": {"path": "nvidia-container-runtime", "runtimeArgs": []},
        "nvidia-cdi": {"runtimeType": "io.containerd.runc.v2",
                       "options": {"BinaryName": "/usr/bin/nvidia-container-runtime.cdi"}},
        "kata": {"runtimeType": "io.containerd.kata.v2"}
      },
      "features": {"cdi": true},
      "cdi-spec-dirs": ["/etc/cdi"]
    }"""
    found = engine(make_tree({DOCKER: text}), EngineName.DOCKER, "27.4.0")
    assert binaries(found) == {
        "runc": None,
        "nvidia": "nvidia-container-runtime",
        "nvidia-cdi": "/usr/bin/nvidia-container-runtime.cdi",
        "kata": None,
    }
    assert found.default_handler.value == "nvidia"
    assert found.cdi_enabled.value is True
    assert found.spec_dirs.value == ("/etc/cdi",)


@pytest.mark.parametrize(
    ("version", "text", "enabled"),
    [
        ("24.0.0", '{"features": {"cdi": true}}', False),
        ("27.4.0", "{}", False),
        ("28.1.0", '{"features": {"cdi": true}}', True),
        ("28.2.0", "{}", True),
        ("29.0.0", '{"features": {"cdi": false}}', False),
        ("29.0.0", '{"cdi-spec-dirs": [""]}', False),
        (None, "{}", None),
        (None, '{"features": {"cdi": false}}', False),
        ("29.0.0", "", True),
    ],
)
def test_dockers_switch_means_what_the_release_says(
    make_tree: MakeTree, version: str | None, text: str, enabled: bool | None
) -> None:
    found = engine(make_tree({DOCKER: text}), EngineName.DOCKER, version)
    assert found.cdi_enabled.value is enabled


def test_podman_takes_the_first_listed_path_that_exists(make_tree: MakeTree) -> None:
    text = (
        '[engine]\nruntime = "nvidia"\ncdi_spec_dirs = ["/run/cdi"]\n[engine.runtimes]\n'
        'nvidia = ["/usr/local/bin/nvidia-container-runtime", "/usr/bin/nvidia-container-runtime"]\n'
        'crun = ["/usr/bin/crun"]\n'
    )
    host = make_tree(
        {
            PODMAN: "x",
            "/usr/share/containers/containers.conf": '[engine]\nruntime = "runc"\n',
            "/etc/containers/containers.conf.d/nvidia.conf": text,
            "/usr/bin/nvidia-container-runtime": "x",
        }
    )
    found = engine(host, EngineName.PODMAN, "5.5.0")
    assert binaries(found)["nvidia"] == "/usr/bin/nvidia-container-runtime"
    assert found.default_handler.value == "nvidia"
    assert found.spec_dirs.value == ("/run/cdi",)
    assert found.cdi_enabled.value is True


@pytest.mark.parametrize(
    ("version", "read"),
    [
        ("5.4.1", ("/etc/cdi", "/var/run/cdi")),
        ("5.5.1", ("/etc/cdi",)),
        ("5.6.0", ("/etc/cdi", "/var/run/cdi")),
        (None, ("/etc/cdi", "/var/run/cdi")),
    ],
)
def test_podmans_default_directories_are_those_of_its_release(
    make_tree: MakeTree, version: str | None, read: tuple[str, ...]
) -> None:
    assert engine(make_tree({PODMAN: "x"}), EngineName.PODMAN, version).spec_dirs.value == read


def test_containers_conf_without_podman_is_no_engine(make_tree: MakeTree) -> None:
    host = make_tree({"/etc/containers/containers.conf": "[engine]\n"})
    assert discover_engines(host, CapturedPrograms()) == ()
