"""Vendors' computer actions as uses of the screen's tools: pure translation, with scaled coordinates.

Anthropic's `computer_20250124` and `computer_20251124` have an `action` and its fields in one input; the members of
`computer_toolset_20260801` are tools with the same names and fields. OpenAI's `computer` calls have a list of actions,
distinguished by `type`. A model sees a picture of a given size; its coordinates are scaled to the screen's pixels, and
a point outside the picture raises `ToolArgumentError`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from hotdesk.dataclass import dataclass
from hotdesk.hands.screen.tools import HEIGHT, WIDTH
from hotdesk.tool import ToolArgumentError

Action: TypeAlias = Mapping[str, object]
_CLICKS: dict[str, dict[str, object]] = {
    "left_click": {"button": "left", "count": 1},
    "right_click": {"button": "right", "count": 1},
    "middle_click": {"button": "middle", "count": 1},
    "double_click": {"button": "left", "count": 2},
    "triple_click": {"button": "left", "count": 3},
}
_OPENAI_BUTTONS = {"left": "left", "right": "right", "wheel": "middle", "back": "back", "forward": "forward"}
_OPENAI_TYPES = "click, double_click, drag, keypress, move, screenshot, scroll, type, wait"
DIRECTIONS = ("up", "down", "left", "right")
PIXELS = 100
"""Pixels that OpenAI scrolls for one click of the wheel."""
_DEFAULT_WAIT_S = 2.0
"""Seconds of a wait without a given time."""
_MAX_ACTIONS = 100
SPELT = {" ": "space", "+": "plus"}
"""Keys that would be lost when a chord is split."""


@dataclass(frozen=True, slots=True)
class ScreenAction:
    """A tool of the screen, with its arguments."""

    tool: str
    arguments: dict[str, object]


@dataclass(frozen=True, slots=True)
class Scale:
    """Converts between the picture a model sees and the screen."""

    width: int = WIDTH
    height: int = HEIGHT
    real: tuple[int, int] = (WIDTH, HEIGHT)

    @property
    def picture_size(self) -> dict[str, object]:
        """Return arguments that request a picture of the size the model knows; empty if it is the screen's own."""
        return {} if (self.width, self.height) == self.real else {"width": self.width, "height": self.height}

    def scale_point(self, x: object, y: object) -> tuple[int, int]:
        if type(x) is not int or type(y) is not int or not (0 <= x < self.width and 0 <= y < self.height):
            raise ToolArgumentError(
                f"({x!r:.20}, {y!r:.20}) is not a point on the screen: x is a whole number from 0 to {self.width - 1}, "
                f"y from 0 to {self.height - 1}"
            )
        return x * self.real[0] // self.width, y * self.real[1] // self.height

    def scale_region(self, sides: object) -> list[int]:
        match sides:
            case [int(left), int(top), int(right), int(bottom)] if (
                0 <= left < right <= self.width and 0 <= top < bottom <= self.height
            ):
                return [
                    left * self.real[0] // self.width,
                    top * self.real[1] // self.height,
                    -(-right * self.real[0] // self.width),
                    -(-bottom * self.real[1] // self.height),
                ]
        raise ToolArgumentError(
            f"the region must be [x0, y0, x1, y1] inside the screen of {self.width} by {self.height} pixels, not "
            f"{sides!r:.60}"
        )


def translate_anthropic(action: Action, scale: Scale) -> list[ScreenAction]:
    """Translate the input of a `computer` tool: 20250124 or 20251124."""
    return translate_member(str(action.get("action")), action, scale)


def translate_member(name: str, action: Action, scale: Scale) -> list[ScreenAction]:
    if name in _CLICKS:
        return [
            ScreenAction("screen_click", {**coordinate(action, scale), **_CLICKS[name], **_parse_held_keys(action)})
        ]
    match name:
        case "key":
            repeat = action.get("repeat")
            return [
                ScreenAction(
                    "screen_key", {"keys": _require_text(action), **({} if repeat is None else {"repeat": repeat})}
                )
            ]
        case "hold_key":
            return [ScreenAction("screen_hold_key", {"keys": _require_text(action), "seconds": action.get("duration")})]
        case "type":
            return [ScreenAction("screen_type", {"text": _require_text(action)})]
        case "cursor_position":
            return [ScreenAction("screen_cursor_position", scale.picture_size)]
        case "mouse_move":
            return [ScreenAction("screen_move", coordinate(action, scale, required=True))]
        case "left_mouse_down":
            return [ScreenAction("screen_press", {"button": "left"})]
        case "left_mouse_up":
            return [ScreenAction("screen_release", {"button": "left"})]
        case "left_click_drag":
            return drag([action.get("start_coordinate"), action.get("coordinate")], scale, _parse_held_keys(action))
        case "scroll":
            turned = {"direction": action.get("scroll_direction"), "amount": action.get("scroll_amount")}
            return [ScreenAction("screen_scroll", {**turned, **coordinate(action, scale), **_parse_held_keys(action)})]
        case "wait":
            return [ScreenAction("screen_wait", {"seconds": action.get("duration")})]
        case "screenshot":
            return [ScreenAction("screen_screenshot", scale.picture_size)]
        case "zoom":
            return [
                ScreenAction("screen_zoom", {"region": scale.scale_region(action.get("region")), **scale.picture_size})
            ]
    raise ToolArgumentError(f"unknown action {name[:40]!r}")


def translate_openai(actions: object, scale: Scale) -> list[ScreenAction]:
    if not isinstance(actions, Sequence) or isinstance(actions, str) or len(actions) > _MAX_ACTIONS:
        raise ToolArgumentError(f"actions must be a list of at most {_MAX_ACTIONS} actions")
    return [use for action in actions for use in _translate_openai_action(action, scale)]


def _translate_openai_action(action: object, scale: Scale) -> list[ScreenAction]:
    if not isinstance(action, Mapping):
        raise ToolArgumentError("an action must be an object with a type")
    keys = _join_keys(action.get("keys"))
    meanwhile: dict[str, object] = {"keys": keys} if keys else {}
    match action.get("type"):
        case "click":
            if (button := _OPENAI_BUTTONS.get(str(action.get("button")))) is None:
                raise ToolArgumentError(
                    f"unknown button {action.get('button')!r:.40}; the buttons are {', '.join(_OPENAI_BUTTONS)}"
                )
            return [
                ScreenAction("screen_click", {**_parse_point(action, scale), "button": button, "count": 1, **meanwhile})
            ]
        case "double_click":
            return [
                ScreenAction("screen_click", {**_parse_point(action, scale), "button": "left", "count": 2, **meanwhile})
            ]
        case "drag":
            path = action.get("path")
            points = path if isinstance(path, list) else []
            if not all(isinstance(each, Mapping) for each in points):
                raise ToolArgumentError('each item of path must be an object such as {"x": 10, "y": 20}')
            return drag([[each.get("x"), each.get("y")] for each in points], scale, meanwhile)
        case "keypress":
            if not keys:
                raise ToolArgumentError("keypress needs `keys`, a list of key names such as CTRL")
            return [ScreenAction("screen_key", {"keys": keys})]
        case "move":
            return [ScreenAction("screen_move", {**_parse_point(action, scale), **meanwhile})]
        case "screenshot":
            return [ScreenAction("screen_screenshot", scale.picture_size)]
        case "scroll":
            return scroll(action, scale, meanwhile)
        case "type":
            return [ScreenAction("screen_type", {"text": _require_text(action)})]
        case "wait":
            return [ScreenAction("screen_wait", {"seconds": _DEFAULT_WAIT_S})]
    raise ToolArgumentError(f"unknown action type {action.get('type')!r:.40}; the types are {_OPENAI_TYPES}")


def scroll(action: Action, scale: Scale, meanwhile: dict[str, object]) -> list[ScreenAction]:
    """Convert pixels to clicks of the wheel, at least one; a scroll by zero pixels only moves the pointer."""
    uses = []
    for name, back, forth in (("scroll_y", "up", "down"), ("scroll_x", "left", "right")):
        pixels = action.get(name, 0)
        if type(pixels) is not int:
            raise ToolArgumentError(f"{name} must be a whole number of pixels")
        if pixels:
            turned = {"direction": forth if pixels > 0 else back, "amount": min(100, max(1, abs(pixels) // PIXELS))}
            uses.append(ScreenAction("screen_scroll", {**turned, **_parse_point(action, scale), **meanwhile}))
    return uses or [ScreenAction("screen_move", {**_parse_point(action, scale), **meanwhile})]


def drag(points: Sequence[object], scale: Scale, meanwhile: dict[str, object]) -> list[ScreenAction]:
    path: list[int] = []
    for each in points:
        path += pair(each, scale)
    return [ScreenAction("screen_drag", {"path": path, "button": "left", **meanwhile})]


def pair(point: object, scale: Scale) -> tuple[int, int]:
    match point:
        case [x, y] | (x, y):
            return scale.scale_point(x, y)
    raise ToolArgumentError(f"a coordinate must be two whole numbers [x, y], not {point!r:.40}")


def _parse_point(action: Action, scale: Scale) -> dict[str, object]:
    x, y = scale.scale_point(action.get("x"), action.get("y"))
    return {"x": x, "y": y}


def coordinate(action: Action, scale: Scale, required: bool = False) -> dict[str, object]:
    """Return where an action happens; empty if it has no coordinate, which means at the pointer."""
    if action.get("coordinate") is None and not required:
        return {}
    x, y = pair(action.get("coordinate"), scale)
    return {"x": x, "y": y}


def _parse_held_keys(action: Action) -> dict[str, object]:
    """Return the keys held down during the action, which Anthropic calls `text`."""
    return {"keys": _require_text(action)} if action.get("text") else {}


def _require_text(action: Action) -> str:
    if not isinstance(value := action.get("text"), str):
        raise ToolArgumentError("text is missing")
    return value


def _join_keys(keys: object) -> str:
    if keys is None:
        return ""
    if not isinstance(keys, list) or not all(isinstance(each, str) for each in keys):
        raise ToolArgumentError("keys must be a list of key names, such as CTRL")
    return "+".join(SPELT.get(each) or each for each in keys)
