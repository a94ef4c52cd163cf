"""Suggested edits: as small as can be, comments kept, nothing written."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpucdi.host import HostTree
from gpucdi.toolkit import ToolkitConfig
from gpucdi.toolkit.suggest import suggest_edit

MakeTree = Callable[[Mapping[str, str | bytes]], HostTree]

FILE = "/etc/nvidia-container-runtime/config.toml"
TEXT = """# kept
[nvidia-container-runtime]
  mode = "cdi" # why
  [nvidia-container-runtime.modes]
    [nvidia-container-runtime.modes.cdi]
      # also kept
      default-kind = "management.nvidia.com/gpu"
"""


def config(file: str = FILE) -> ToolkitConfig:
    return ToolkitConfig(file, exists=True)


def changed_lines(diff: str) -> list[str]:
    return [
        line
        for line in diff.splitlines()
        if line[:1] in {"+", "-"} and line[:3] not in {"+++", "---"}
    ]


def test_one_value_changes_one_line_and_keeps_its_comment(make_tree: MakeTree) -> None:
    host = make_tree({FILE: TEXT})
    found = suggest_edit(host, config(), mode="auto")
    assert found is not None
    assert changed_lines(found.diff) == ['-  mode = "cdi" # why', '+  mode = "auto" # why']
    assert host.read(FILE) == TEXT.encode()


def test_the_diff_names_the_file_in_force(make_tree: MakeTree) -> None:
    found = suggest_edit(make_tree({FILE: TEXT}), config(), default_kind="nvidia.com/gpu")
    assert found is not None
    assert found.diff.startswith(f"--- a{FILE}\n+++ b{FILE}\n@@")
    assert len(changed_lines(found.diff)) == 2


@pytest.mark.parametrize("text", ["", "# only a comment\n", "[nvidia-ctk]\npath = 'x'\n"])
def test_a_missing_table_is_added_and_the_rest_stays(make_tree: MakeTree, text: str) -> None:
    found = suggest_edit(make_tree({FILE: text}), config(), mode="auto", default_kind="a.com/b")
    assert found is not None
    assert found.text.startswith(text)
    assert not [line for line in changed_lines(found.diff) if line.startswith("-")]


def test_a_missing_file_becomes_a_new_one(make_tree: MakeTree) -> None:
    found = suggest_edit(make_tree({}), config(), mode="auto")
    assert found is not None
    assert 'mode = "auto"' in found.text


def test_nothing_to_change_is_no_suggestion(make_tree: MakeTree) -> None:
    assert suggest_edit(make_tree({FILE: TEXT}), config(), mode="cdi") is None


@pytest.mark.parametrize("content", ["[", b"\xff", "nvidia-container-runtime = 1\n"])
def test_a_file_that_cannot_be_edited_faithfully_gives_none(
    make_tree: MakeTree, content: str | bytes
) -> None:
    assert suggest_edit(make_tree({FILE: content}), config(), mode="auto") is None


def test_the_toolkits_own_file_comes_with_the_lasting_way(make_tree: MakeTree) -> None:
    file = "/usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml"
    found = suggest_edit(make_tree({file: TEXT}), config(file), mode="auto")
    assert found is not None
    assert "NVIDIA_CONTAINER_RUNTIME_MODE=auto" in str(found.lasting)


@pytest.mark.parametrize("text", [TEXT.replace("\n", "\r\n"), "\ufeff" + TEXT])
def test_line_ends_and_byte_order_mark_survive(make_tree: MakeTree, text: str) -> None:
    found = suggest_edit(make_tree({FILE: text}), config(), mode="auto")
    assert found is not None
    assert found.text == text.replace('mode = "cdi"', 'mode = "auto"')


@given(st.permutations([*TEXT.splitlines()[1:3], "[x]", "y = [1, # c", "2]", "a.b = 'c'"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_whatever_the_file_the_edit_says_what_was_asked_or_is_not_made(
    make_tree: MakeTree, lines: list[str]
) -> None:
    host = make_tree({FILE: "\n".join(lines)})
    found = suggest_edit(host, config(), mode="legacy")
    assert found is None or 'mode = "legacy"' in found.text
