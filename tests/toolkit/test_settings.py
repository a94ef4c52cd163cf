"""Every key of ``config.toml``: its default against the real program's, its origin, its release."""

from __future__ import annotations

import subprocess
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from tests.lab.programs import TOOLKIT_VERSIONS, ProgramMissingError, toolkit

from gpucdi.engines.versions import Release
from gpucdi.findings import DEFAULT, SourceKind
from gpucdi.host import HostTree
from gpucdi.toolkit.config import read_config
from gpucdi.toolkit.schema import SCHEMA, Schema, Type
from gpucdi.toolkit.settings import Setting, effective_settings

MakeTree = Callable[[Mapping[str, str | bytes]], HostTree]
FILE = "/etc/nvidia-container-runtime/config.toml"


def settings(host: HostTree, version: Release | None = (1, 20, 2)) -> dict[str, Setting]:
    found = effective_settings(host, read_config(host, FILE, version), version)
    return {setting.key: setting for setting in found}


def leaves(table: Mapping[str, object], above: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", tuple(value) if isinstance(value, list) else value


def keys_of(schema: Schema, above: str = "") -> Iterator[str]:
    for name, wanted in schema.items():
        if isinstance(wanted, Type):
            yield f"{above}{name}"
        else:
            yield from keys_of(wanted, f"{above}{name}.")


@pytest.mark.lab
@pytest.mark.parametrize("version", TOOLKIT_VERSIONS)
def test_the_defaults_are_those_that_the_real_program_writes(
    version: str, make_tree: MakeTree
) -> None:
    try:
        program = toolkit(version) / "nvidia-ctk"
    except ProgramMissingError as missing:
        pytest.skip(str(missing))
    done = subprocess.run(
        [program, "config", "default"], check=True, capture_output=True, text=True
    )
    real = dict(leaves(tomllib.loads(done.stdout)))
    major, minor, patch = map(int, version.split("."))
    # The program prefers ldconfig.real where this machine has it.
    there = {"/sbin/ldconfig.real": ""} if Path("/sbin/ldconfig.real").exists() else {}
    ours = settings(make_tree(there), (major, minor, patch))
    assert len(real) > 10
    assert {key: ours[key].value.value for key in real} == real
    assert {ours[key].value.source for key in real} == {DEFAULT}


def test_no_key_is_left_out_where_the_release_is_unknown(make_tree: MakeTree) -> None:
    assert list(settings(make_tree({}), None)) == list(keys_of(SCHEMA))


def test_a_release_has_no_keys_of_later_ones(make_tree: MakeTree) -> None:
    later = settings(make_tree({})).keys() - settings(make_tree({}), (1, 17, 4)).keys()
    assert later == {
        "features.allow-unknown-oci-spec-fields",
        "features.disable-cuda-compat-lib-hook",
        "features.ignore-imex-channel-requests",
        "features.no-additional-gids-for-device-nodes",
        "nvidia-container-runtime.modes.csv.compat-container-root",
        "nvidia-container-runtime.modes.jit-cdi.nvcdi-disable-hooks",
        "nvidia-container-runtime.modes.jit-cdi.nvcdi-feature-flags",
        "nvidia-container-runtime.modes.legacy.cuda-compat-mode",
    }


def test_a_value_of_the_file_knows_its_line_and_a_commented_one_is_no_default(
    make_tree: MakeTree,
) -> None:
    text = '[nvidia-container-cli]\n#root = "/run/nvidia/driver"\nload-kmods = false\n'
    found = settings(make_tree({FILE: text}))
    root, kmods = found["nvidia-container-cli.root"], found["nvidia-container-cli.load-kmods"]
    assert (root.value.value, root.value.source) == ("", DEFAULT)
    assert kmods.value.value is False
    assert (kmods.value.source.kind, kmods.value.source.line) == (SourceKind.FILE, 3)


def test_a_file_that_the_runtime_refuses_puts_nothing_into_force(make_tree: MakeTree) -> None:
    assert settings(make_tree({FILE: "disable-require = 1\n"})) == {}
