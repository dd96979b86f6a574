"""Tests of every tool: its example is valid, and wrong arguments are refused with advice before anything runs."""

from __future__ import annotations

import json

import pytest

from hotdesk.desk.seam import Desk
from hotdesk.hands.browser.browser import Browser
from hotdesk.hands.files import Files
from hotdesk.hands.packages import Packages
from hotdesk.hands.screen.reader_client import LocalSeat
from hotdesk.hands.screen.screen import Screen
from hotdesk.hands.search import Search
from hotdesk.hands.shell import Shell
from hotdesk.hands.toolbox import Free, Toolbox
from hotdesk.hands.vision import VisionTool
from hotdesk.tool import JSON_TYPES, MAX_TEXT_CHARS, Hand, Kind, Parameter, Tool

WRONG: dict[Kind, object] = {
    "text": 7,
    "integer": "7",
    "number": "7",
    "flag": "yes",
    "texts": "one",
    "integers": [1.5],
}


class Blind:
    """A model that sees nothing."""

    async def ask(self, image: bytes, media: str, question: str) -> str:
        return "nothing"


@pytest.fixture(scope="module")
def toolbox(desk: Desk) -> Toolbox:
    """Return every hand; those of screen and browser refuse before they would ask for one."""
    seat = LocalSeat(desk)
    hands: list[Hand] = [Shell(desk), Files(desk), Search(desk), Packages(desk), VisionTool(desk, Blind())]
    hands += [Screen(seat), Browser(seat)]
    return Toolbox(hands, lambda event: None, Free(), desk.id)


def wrong_uses(tool: Tool) -> list[tuple[dict[str, object], str]]:
    right = dict(tool.example)
    uses: list[tuple[dict[str, object], str]] = [({**right, "other": 1}, "unknown parameter 'other'")]
    for parameter in tool.parameters:
        uses += [
            ({**right, parameter.name: value}, f"{parameter.name} {why}") for value, why in wrong_values(parameter)
        ]
        if parameter.required:
            uses.append(
                ({name: right[name] for name in right if name != parameter.name}, f"{parameter.name} is missing")
            )
    return uses


def wrong_values(parameter: Parameter) -> list[tuple[object, str]]:
    values: list[tuple[object, str]] = [(WRONG[parameter.kind], "is ")]
    if parameter.choices:
        values.append(("none of them", "is 'none of them'; it must be one of "))
    elif parameter.kind == "text":
        values += [("x" * (parameter.longest + 1), "has "), ("\ud800", "contains a lone surrogate")]
    if parameter.kind in ("integer", "number"):
        over = int(parameter.most) + 1
        values.append((over, f"is {over}; it must be "))
    if parameter.kind == "integers":
        values.append(([0] * (parameter.items + 1), "has "))
    if parameter.kind == "texts":
        values.append((["x"] * (parameter.items + 1), "has "))
    return values


async def test_every_tool_says_what_is_wrong_with_each_parameter_and_how_it_is_right(toolbox: Toolbox) -> None:
    assert len(toolbox.tools) == 50
    for tool in toolbox.tools:
        for arguments, why in wrong_uses(tool):
            seen = await toolbox.use(tool.name, arguments)
            assert not seen.ok
            assert seen.text.startswith(f"{tool.name} was not used: {why}"), seen.text
            assert seen.text.endswith(f"For example: {json.dumps(tool.example, ensure_ascii=False)}")
    assert WRONG.keys() == JSON_TYPES.keys()


def test_every_tool_accepts_its_example_and_describes_itself(toolbox: Toolbox) -> None:
    for tool, told in zip(toolbox.tools, toolbox.describe(), strict=True):
        assert tool.check(tool.example).items() >= tool.example.items()
        assert tool.example or not any(each.required for each in tool.parameters)
        assert json.loads(json.dumps(told)) == told
        assert set(told) == {"name", "description", "input_schema"}
        assert all(parameter.what for parameter in tool.parameters)


def test_a_limit_of_items_is_no_limit_of_characters(toolbox: Toolbox) -> None:
    of_lists = [each for tool in toolbox.tools for each in tool.parameters if each.kind in ("integers", "texts")]
    assert [each.name for each in of_lists if each.kind == "integers" and each.longest != MAX_TEXT_CHARS] == []
    assert {each.name for each in of_lists if each.longest != MAX_TEXT_CHARS} == {"names", "paths"}


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("browser_upload", {"ref": "e5", "paths": ["/home/user/" + "x" * 300]}),
        ("browser_select", {"ref": "e5", "values": ["A label " * 20]}),
        ("screen_launch", {"argv": ["chromium", "https://example.test/?" + "x" * 300]}),
        ("screen_drag", {"path": [1, 2] * 100}),
    ],
)
def test_a_long_text_or_list_within_its_limits_is_accepted(
    toolbox: Toolbox, name: str, arguments: dict[str, object]
) -> None:
    tool = next(each for each in toolbox.tools if each.name == name)
    assert tool.check(arguments).items() >= arguments.items()
