"""Tests of locating each value of a TOML or JSON text by line."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hotdesk.brief.lines import MAX_DEPTH, Where, find_json_lines, find_nearest_line, find_toml_lines

TOML = '''# "a" = [
goal = """
deliverables = "no"
\\""" [not.a.table]"""
quoted."a.b" = 'x # no comment'  # a comment, with "quotes"
"t\\u0061b" = 1979-05-27 07:32:00
lists = [ # one
    "one, two]",
    [1, 2,
     3],
    {in = {deep = 1}, more = []},
]

[ table . "x y" ]
key = \'\'\'
five quotes: ""\'\'\'\'\'
[[many]]
path = "a"
[[many.checks]]
name = 1
[[many.checks]]
name = 2
[many.expect]
rows = 5
[[many]]
path = "b"
  [[many.checks]]
  name = 3
'''
PLACES: dict[Where, int] = {
    ("goal",): 2,
    ("quoted",): 5,
    ("quoted", "a.b"): 5,
    ("tab",): 6,
    ("lists",): 7,
    ("lists", 0): 8,
    ("lists", 1): 9,
    ("lists", 1, 1): 9,
    ("lists", 1, 2): 10,
    ("lists", 2): 11,
    ("lists", 2, "in", "deep"): 11,
    ("lists", 2, "more"): 11,
    ("table",): 14,
    ("table", "x y", "key"): 15,
    ("many",): 17,
    ("many", 0): 17,
    ("many", 0, "path"): 18,
    ("many", 0, "checks", 0): 19,
    ("many", 0, "checks", 1, "name"): 22,
    ("many", 0, "expect", "rows"): 24,
    ("many", 1): 25,
    ("many", 1, "path"): 26,
    ("many", 1, "checks", 0, "name"): 28,
}
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def places(value: object, where: Where = ()) -> Iterator[Where]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inside:
        yield (*where, key)
        yield from places(each, (*where, key))


def test_every_value_of_a_toml_text_is_found() -> None:
    lines = find_toml_lines(TOML)
    assert {where: lines[where] for where in PLACES} == PLACES
    assert set(lines) == set(places(tomllib.loads(TOML)))


def test_a_missing_value_is_located_by_its_nearest_parent() -> None:
    lines = find_toml_lines(TOML)
    assert find_nearest_line(lines, ("many", 1, "kind")) == 25
    assert find_nearest_line(lines, ("colour",)) is None
    assert find_nearest_line(lines, ()) is None


@given(st.text("[]{}=:.,#\"'\\\n ab1-") | st.text())
def test_invalid_text_is_left_to_its_parser(text: str) -> None:
    for read in (find_toml_lines, find_json_lines):
        with suppress(ValueError):
            assert isinstance(read(text), dict)


@pytest.mark.slow
@given(PLAIN, st.sampled_from([None, 0, 2]))
def test_every_value_of_a_json_text_is_found(value: object, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    assume(max(map(len, places(value)), default=0) <= MAX_DEPTH)
    lines = find_json_lines(text)
    assert set(lines) == set(places(value))
    numbers = [lines[where] for where in places(value)]
    assert numbers == sorted(numbers)
    assert all(1 <= number <= text.count("\n") + 1 for number in numbers)
