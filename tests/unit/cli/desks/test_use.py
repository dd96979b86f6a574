"""Tests of reading tool arguments from the command line."""

from __future__ import annotations

import pytest

from hotdesk.cli.desks.use import parse_values
from hotdesk.errors import BriefError
from hotdesk.tool import Parameter, Tool

KINDS = (
    Parameter("x", "integer", "a place"),
    Parameter("scale", "number", "a scale"),
    Parameter("full", "flag", "whether"),
    Parameter("text", "text", "a text"),
    Parameter("names", "texts", "some"),
    Parameter("region", "integers", "a box"),
)
TOOL = {"input_schema": Tool("try", "Try.", KINDS).build_schema()}


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("x=640", {"x": 640}),
        ("x=six", {"x": "six"}),
        ("scale=0.5", {"scale": 0.5}),
        ("full=true", {"full": True}),
        ("full=No", {"full": False}),
        ("full=perhaps", {"full": "perhaps"}),
        ("text=a=b, c", {"text": "a=b, c"}),
        ("text=", {"text": ""}),
        ("names=a,b", {"names": ["a", "b"]}),
        ("names=", {"names": []}),
        ("region=1,2,3,4", {"region": [1, 2, 3, 4]}),
        ("region=1,two", {"region": [1, "two"]}),
        ("other=7", {"other": "7"}),
    ],
)
def test_arguments_are_converted_to_the_tools_types(typed: str, read: dict[str, object]) -> None:
    assert parse_values([typed], TOOL) == read


def test_an_invalid_pair_is_refused_with_an_example() -> None:
    with pytest.raises(BriefError, match="tool arguments must be NAME=VALUE, such as x=640, not '640'"):
        parse_values(["640"], TOOL)
