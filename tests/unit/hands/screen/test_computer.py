"""Tests that every action of every vendor's computer tool has a tool of ours, by the vendors' own packages."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from anthropic.types.beta import BetaComputerMemberInput, BetaComputerMemberName
from openai.types.responses import computer_action, response_computer_tool_call

from hotdesk.hands.screen.computer import Scale, ScreenAction, translate_anthropic, translate_member, translate_openai
from hotdesk.hands.screen.tools import TOOLS
from hotdesk.tool import ToolArgumentError

NAMED = {tool.name: tool for tool in TOOLS}
ITS_OWN = Scale()
HALF = Scale(640, 400)
VALUES: dict[str, object] = {
    "coordinate": [10, 20],
    "start_coordinate": [1, 2],
    "region": [0, 0, 100, 50],
    "duration": 1,
    "repeat": 2,
    "scroll_amount": 3,
    "scroll_direction": "down",
}
DOCUMENTED_20250124 = [
    "key", "hold_key", "type", "cursor_position", "mouse_move", "left_mouse_down", "left_mouse_up", "left_click",
    "left_click_drag", "right_click", "middle_click", "double_click", "triple_click", "scroll", "wait", "screenshot",
]  # fmt: skip
"""The package has no type for that tool's input."""


def check(uses: list[ScreenAction]) -> None:
    assert uses
    for use in uses:
        NAMED[use.tool].check(use.arguments)


def fields(name: str) -> dict[str, object]:
    wanted = "".join(part.capitalize() for part in name.split("_"))
    kind = next(each for each in get_args(BetaComputerMemberInput) if each.__name__ == f"BetaComputer{wanted}Input")
    given = {each: VALUES.get(each, "text") for each in kind.model_fields}
    if name in ("key", "hold_key") or ("text" in given and name != "type"):
        given["text"] = "ctrl+shift"
    kind.model_validate(given)
    return given


@pytest.mark.parametrize("name", get_args(BetaComputerMemberName))
def test_every_member_of_the_toolset_becomes_a_use_of_ours(name: str) -> None:
    check(translate_member(name, fields(name), ITS_OWN))
    check(translate_member(name, fields(name), HALF))


@pytest.mark.parametrize("name", [*DOCUMENTED_20250124, "zoom"])
def test_every_action_of_the_single_tools_becomes_a_use_of_ours(name: str) -> None:
    check(translate_anthropic({"action": name, **fields(name)}, ITS_OWN))


def test_the_members_are_the_actions_of_the_single_tools() -> None:
    assert {*DOCUMENTED_20250124, "zoom"} == set(get_args(BetaComputerMemberName))


def test_every_member_has_an_input_type() -> None:
    assert len(get_args(BetaComputerMemberInput)) == len(get_args(BetaComputerMemberName))


def openai_kinds(union: Any) -> list[Any]:
    return list(get_args(get_args(union)[0]))


KINDS = openai_kinds(computer_action.ComputerAction) + openai_kinds(response_computer_tool_call.Action)
OPENAI_VALUES: dict[str, object] = {
    "x": 10, "y": 20, "scroll_x": 0, "scroll_y": 250, "text": "words", "keys": ["CTRL", "SHIFT"],
    "path": [{"x": 1, "y": 2}, {"x": 30, "y": 40}, {"x": 50, "y": 60}],
}  # fmt: skip


def openai_action(kind: Any, **more: object) -> dict[str, object]:
    given = {name: OPENAI_VALUES.get(name) for name in kind.model_fields}
    (given["type"],) = get_args(kind.model_fields["type"].annotation)
    given |= {"button": "left"} if "button" in given else {}
    kind.model_validate(given | more)
    return given | more


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_action_of_a_computer_call_becomes_a_use_of_ours(kind: Any) -> None:
    check(translate_openai([openai_action(kind)], ITS_OWN))
    check(translate_openai([openai_action(kind)], HALF))


@pytest.mark.parametrize("button", get_args(computer_action.Click.model_fields["button"].annotation))
def test_every_button_can_be_clicked(button: str) -> None:
    check(translate_openai([openai_action(computer_action.Click, button=button)], ITS_OWN))


def test_keys_of_a_list_become_a_chord() -> None:
    assert translate_openai([{"type": "keypress", "keys": ["CTRL", " "]}], ITS_OWN) == [
        ScreenAction("screen_key", {"keys": "CTRL+space"})
    ]


def test_actions_of_one_call_keep_their_order() -> None:
    uses = translate_openai([{"type": "move", "x": 1, "y": 2}, {"type": "screenshot"}], ITS_OWN)
    assert uses == [ScreenAction("screen_move", {"x": 1, "y": 2}), ScreenAction("screen_screenshot", {})]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"action": "left_click", "coordinate": [639, 399]}, {"x": 1278, "y": 798, "button": "left", "count": 1}),
        ({"action": "left_click"}, {"button": "left", "count": 1}),
        ({"action": "left_click", "text": "ctrl"}, {"button": "left", "count": 1, "keys": "ctrl"}),
        ({"action": "screenshot"}, {"width": 640, "height": 400}),
        ({"action": "zoom", "region": [1, 1, 3, 3]}, {"region": [2, 2, 6, 6], "width": 640, "height": 400}),
        (
            {"action": "left_click_drag", "start_coordinate": [0, 0], "coordinate": [10, 10]},
            {"path": [0, 0, 20, 20], "button": "left"},
        ),
        ({"action": "cursor_position"}, {"width": 640, "height": 400}),
    ],
)
def test_coordinates_are_those_of_the_picture_the_model_knows(
    given: dict[str, object], expected: dict[str, object]
) -> None:
    assert translate_anthropic(given, HALF)[0].arguments == expected


@pytest.mark.parametrize(
    ("pixels", "expected"),
    [((0, 250), [("down", 2)]), ((0, -30), [("up", 1)]), ((120, -100), [("up", 1), ("right", 1)]), ((0, 0), [])],
)
def test_scrolling_by_pixels_turns_the_wheel(pixels: tuple[int, int], expected: list[tuple[str, int]]) -> None:
    uses = translate_openai([{"type": "scroll", "x": 1, "y": 1, "scroll_x": pixels[0], "scroll_y": pixels[1]}], ITS_OWN)
    turned = [use.arguments for use in uses if use.tool == "screen_scroll"]
    assert [(each["direction"], each["amount"]) for each in turned] == expected


@pytest.mark.parametrize(
    "given",
    [
        {"action": "left_click", "coordinate": [640, 10]},
        {"action": "left_click", "coordinate": [-1, 10]},
        {"action": "left_click", "coordinate": [1.5, 10]},
        {"action": "left_click", "coordinate": [True, 10]},
        {"action": "left_click", "coordinate": "10,10"},
        {"action": "mouse_move"},
        {"action": "left_click_drag", "coordinate": [1, 1]},
        {"action": "zoom", "region": [0, 0, 641, 10]},
        {"action": "zoom", "region": [5, 5, 5, 10]},
        {"action": "zoom"},
        {"action": "key"},
        {"action": "type", "text": 5},
        {"action": "dance"},
        {},
    ],
)
def test_an_invalid_action_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(ToolArgumentError):
        translate_anthropic(given, HALF)


@pytest.mark.parametrize(
    "actions",
    [
        "click",
        [5],
        [{"type": "fly"}],
        [{"type": "click", "button": "nose", "x": 1, "y": 1}],
        [{"type": "click", "button": "left", "x": 640, "y": 1}],
        [{"type": "drag", "path": [{"x": 1}]}],
        [{"type": "move", "x": 1, "y": 1, "keys": "CTRL"}],
        [{"type": "scroll", "x": 1, "y": 1, "scroll_x": "1", "scroll_y": 1}],
        [{"type": "keypress", "keys": []}],
        [{"type": "wait"}] * 101,
    ],
)
def test_an_invalid_call_is_refused(actions: object) -> None:
    with pytest.raises(ToolArgumentError):
        translate_openai(actions, HALF)


def test_a_drag_over_lists_is_refused_with_the_form_of_its_points() -> None:
    with pytest.raises(ToolArgumentError, match="each item of path must be an object"):
        translate_openai([{"type": "drag", "path": [[1, 2], [3, 4]]}], ITS_OWN)
