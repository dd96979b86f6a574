"""Tests of what arguments a tool accepts, and its messages about invalid ones."""

from __future__ import annotations

import json
import math
from typing import get_args

import pytest
from hypothesis import given as generated
from hypothesis import strategies as st

from hotdesk.brain.models.clean import parse_arguments
from hotdesk.tool import Kind, Parameter, Tool, ToolArgumentError, fits

PAINT = Tool(
    "paint",
    "Paint a wall.",
    (
        Parameter("wall", "text", "which wall", required=True, longest=5),
        Parameter("coats", "integer", "how many coats", default=1, least=1, most=3),
        Parameter("litres", "number", "how much paint", least=0.5),
        Parameter("dry", "flag", "whether to wait until it is dry"),
        Parameter("finish", "text", "how it shines", choices=("matt", "gloss")),
        Parameter("colours", "texts", "which colours", longest=5, items=2),
        Parameter("shares", "integers", "parts of each", least=0, most=10),
    ),
    {"wall": "north", "coats": 2},
)


def test_valid_arguments_come_back_with_defaults() -> None:
    assert PAINT.check({"wall": "north"}) == {"wall": "north", "coats": 1}
    given = {"wall": "ß", "coats": 3, "litres": 1, "dry": False, "finish": "matt", "colours": ["a"], "shares": [0, 10]}
    assert PAINT.check(given) == given
    assert PAINT.check({"wall": "north", "dry": None}) == {"wall": "north", "coats": 1}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([], "its arguments must be a JSON object"),
        ("north", "its arguments must be a JSON object"),
        ({}, "wall is missing"),
        ({"wall": None}, "wall is missing"),
        ({"wall": 3}, "wall is 3, not text"),
        ({"wall": "northern"}, "wall has 8 characters; at most 5 are allowed"),
        ({"wall": "a\0"}, "wall contains a lone surrogate or a zero byte"),
        ({"wall": "\ud800"}, "wall contains a lone surrogate"),
        ({"wall": "n", "coats": True}, "coats is True, not a whole number"),
        ({"wall": "n", "coats": 1.0}, "coats is 1.0, not a whole number"),
        ({"wall": "n", "coats": 4}, "coats is 4; it must be between 1 and 3"),
        ({"wall": "n", "litres": 0.1}, "litres is 0.1; it must be at least 0.5"),
        ({"wall": "n", "litres": math.nan}, "litres is nan, not a number"),
        ({"wall": "n", "dry": "yes"}, "dry is 'yes', not true or false"),
        ({"wall": "n", "finish": "silk"}, "finish is 'silk'; it must be one of matt, gloss"),
        ({"wall": "n", "colours": "red"}, "colours is 'red', not a list of texts"),
        ({"wall": "n", "colours": ["a", "b", "c"]}, "colours has 3 items; at most 2 are allowed"),
        ({"wall": "n", "colours": ["orange"]}, "colours has 6 characters; at most 5 are allowed"),
        ({"wall": "n", "shares": [1, 11]}, "shares is 11; it must be between 0 and 10"),
        ({"wall": "n", "brush": 1}, "unknown parameter 'brush'"),
        ({"wall": "n", "\x1b[2J": 1}, "unknown parameter '\\x1b[2J'"),
    ],
)
def test_invalid_arguments_are_reported_with_an_example(given: object, why: str) -> None:
    with pytest.raises(ToolArgumentError) as told:
        PAINT.check(given)
    text = str(told.value)
    assert text.startswith("paint was not used: ")
    assert why in text
    assert "wall: text, required (which wall)" in text
    assert text.endswith('For example: {"wall": "north", "coats": 2}')
    assert text.isprintable()


def test_a_schema_says_what_check_demands() -> None:
    schema = PAINT.build_schema()
    assert schema["required"] == ["wall"]
    assert schema["additionalProperties"] is False
    assert schema["properties"] == {
        "wall": {"type": "string", "description": "which wall"},
        "coats": {"type": "integer", "description": "how many coats", "minimum": 1, "maximum": 3, "default": 1},
        "litres": {"type": "number", "description": "how much paint", "minimum": 0.5},
        "dry": {"type": "boolean", "description": "whether to wait until it is dry"},
        "finish": {"type": "string", "description": "how it shines", "enum": ["matt", "gloss"]},
        "colours": {"type": "array", "items": {"type": "string"}, "description": "which colours"},
        "shares": {
            "type": "array",
            "items": {"type": "integer", "minimum": 0, "maximum": 10},
            "description": "parts of each",
        },
    }


KINDS: tuple[Kind, ...] = get_args(Kind)
TOOL = Tool("try", "Try.", tuple(Parameter(kind, kind, "", least=0, most=9) for kind in KINDS))
NUMBERS = st.integers() | st.integers(10**300, 10**320) | st.floats() | st.just(10**400)
TEXTS = st.text(st.sampled_from("ab9-\0\ud800\udc00é"))
VALUES = st.recursive(st.none() | st.booleans() | NUMBERS | TEXTS, st.lists, max_leaves=5)


@generated(st.dictionaries(st.sampled_from(KINDS) | TEXTS, VALUES) | VALUES)
def test_any_json_is_checked_or_refused(arguments: object) -> None:
    parsed = parse_arguments(json.dumps(arguments))
    refusals: list[str] = []
    try:
        assert set(TOOL.check(parsed)) <= set(KINDS)
    except ToolArgumentError as e:
        refusals.append(str(e))
    assert all(each.startswith("try was not used: ") for each in refusals)


def test_an_integer_of_any_size_is_a_number() -> None:
    assert fits(10**400, "number")
    assert not fits(float("inf"), "number")
    assert not fits(True, "number")
