"""TOML with the line of every key."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpucdi.engines.merge import leaf, subtable
from gpucdi.engines.tomlfile import Table, TomlError, parse_toml
from gpucdi.findings import Sourced


def line_of(text: str, *path: str) -> int | None:
    table: Table | None = parse_toml(text.encode(), "/f").table
    assert table is not None
    found = leaf(subtable(table, *path[:-1]), path[-1])
    assert found is not None
    return found.source.line


def test_a_key_under_a_header_knows_its_line_and_its_dotted_key() -> None:
    table = parse_toml(b'# first\n[a."b.c"]\n  d = 1\n', "/etc/x.toml").table
    found = leaf(subtable(table, "a", "b.c"), "d")
    assert found is not None
    assert (found.source.file, found.source.line, found.source.key) == (
        "/etc/x.toml",
        3,
        'a."b.c".d',
    )


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ("a.b = 1\n", ("a", "b"), 1),
        ("\n\n'q' = 1", ("q",), 3),
        ('x = """\n[no]\ny = 2\n"""\ny = 1\n', ("y",), 5),
        ('x = [\n  \'=\', # ]\n  "\\"]",\n]\ny = 1\n', ("y",), 5),
        ("x = '''\n''''\ny = 1", ("y",), 3),
        ("x = { y = 1, z = { w = 2 } }\nq = 1", ("x", "z", "w"), 1),
        ("[[a]]\nx = 1\n[b]\ny = 1", ("b", "y"), 4),
        ("[a] # ]\ny = 1", ("a", "y"), 2),
        ("\ufeff\r\na = 1\r\n", ("a",), 2),
    ],
)
def test_lines_survive_every_way_to_write_a_value(
    text: str, path: tuple[str, ...], line: int
) -> None:
    assert line_of(text, *path) == line


def test_what_is_no_toml_names_the_line() -> None:
    with pytest.raises(TomlError) as caught:
        parse_toml(b"a = 1\nthis is no toml\n", "/f")
    assert caught.value.line == 2


def test_text_that_is_not_utf8_names_the_line() -> None:
    with pytest.raises(TomlError) as caught:
        parse_toml(b"a = 1\nb = '\xff'\n", "/f")
    assert caught.value.line == 2


keys = st.one_of(
    st.from_regex(r"[A-Za-z0-9_-]{1,6}", fullmatch=True),
    st.sampled_from(["'a b'", '"c.d"', '"e\\"="', "'[x]'"]),
)
values = st.sampled_from(
    [
        "1",
        "true",
        "'#'",
        '"]"',
        '"\\\\"',
        "[1, 2]",
        "[\n 1, # [\n 2\n]",
        '"""\nx = 1\n"""',
        "'''\n[t]'''",
    ]
)


@given(st.lists(st.tuples(keys, values), max_size=6), st.lists(keys, max_size=3))
def test_every_key_of_a_generated_document_is_on_the_line_where_it_was_written(
    pairs: list[tuple[str, str]], header: list[str]
) -> None:
    unique = {str(next(iter(tomllib.loads(f"{key} = 1")))): (key, value) for key, value in pairs}
    text = f"[{'.'.join(header)}]\n" if header else ""
    expected: dict[str, int] = {}
    for name, (key, value) in unique.items():
        expected[name] = text.count("\n") + 1
        text += f"{key} = {value} # end\n"
    above = [str(next(iter(tomllib.loads(f"{key} = 1")))) for key in header]
    table = subtable(parse_toml(text.encode(), "/f").table, *above)
    assert table is not None or not expected
    for name, line in expected.items():
        found = (table or {})[name]
        assert isinstance(found, Sourced)
        assert found.source.line == line
