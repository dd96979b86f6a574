"""The screen's tools: their descriptions, and how their arguments are parsed."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeAlias, cast

from hotdesk.errors import BriefError
from hotdesk.tool import Arguments, Parameter, Tool, get_integer, get_text

Button: TypeAlias = Literal["left", "middle", "right", "back", "forward"]
Direction: TypeAlias = Literal["up", "down", "left", "right"]
Format: TypeAlias = Literal["png", "jpeg"]
Point: TypeAlias = tuple[int, int]
Region: TypeAlias = tuple[int, int, int, int]
"""Left, top, right, bottom."""

WIDTH, HEIGHT = 1280, 800
BUTTONS = ("left", "middle", "right", "back")
DIRECTIONS = ("up", "down", "left", "right")
X = Parameter(
    "x", "integer", "pixels from the left; default for x and y: the pointer position", least=0, most=WIDTH - 1
)
Y = Parameter("y", "integer", "pixels from the top", least=0, most=HEIGHT - 1)
TO_X, TO_Y = replace(X, what="pixels from the left", required=True), replace(Y, required=True)
_REF = Parameter("ref", "text", "a reference from screen_read, such as a12, instead of x and y", longest=20)
_HELD_KEYS = Parameter("keys", "text", "modifier keys to hold down, such as ctrl or ctrl+shift", longest=100)
_BUTTON = Parameter("button", "text", "mouse button", default="left", choices=(*BUTTONS, "forward"))
_COUNT = Parameter("count", "integer", "number of clicks", default=1, least=1, most=3)
_HELD_BUTTON = Parameter("button", "text", "mouse button", default="left", choices=BUTTONS)
_REGION = Parameter(
    "region", "integers", "region in pixels as left, top, right, bottom; default: the whole screen", items=4, least=0
)
FORMAT = Parameter("format", "text", "png is lossless, jpeg is smaller", default="png", choices=("png", "jpeg"))
SCALED = (
    Parameter("width", "integer", "width in pixels to scale to; default: no scaling", least=1, most=4096),
    Parameter("height", "integer", "height in pixels to scale to; default: in proportion", least=1, most=4096),
)
_DURATION = Parameter("seconds", "number", "duration in seconds", required=True, least=0, most=100)

TOOLS = (
    Tool(
        "screen_screenshot",
        f"Take a screenshot of the screen ({WIDTH} by {HEIGHT} pixels) or of a region of it.",
        (_REGION, *SCALED, FORMAT),
        {"region": [0, 0, 640, 400]},
    ),
    Tool(
        "screen_zoom",
        "Take a screenshot of a region, enlarged to the size of the screen, to see small print and icons.",
        (replace(_REGION, what="region in pixels as left, top, right, bottom", required=True), *SCALED),
        {"region": [100, 100, 300, 225]},
    ),
    Tool(
        "screen_read",
        "Read the widgets of the window in front as text: role, name, value, state, a reference such as a12, and the "
        "position on the screen. screen_click and screen_type accept the reference. Some programs (Tk, Motif) expose "
        "nothing: take a screenshot there, and use browser_snapshot for web pages.",
        (
            Parameter(
                "window", "text", "words of another window's title, or all for every window", default="", longest=200
            ),
        ),
        {"window": "Calc"},
    ),
    Tool("screen_move", "Move the mouse pointer without clicking.", (TO_X, TO_Y, _HELD_KEYS), {"x": 640, "y": 400}),
    Tool(
        "screen_click",
        "Click at a point or on a widget by its screen_read reference; count is 2 for a double click, 3 for a triple "
        "click.",
        (X, Y, _REF, _BUTTON, _COUNT, _HELD_KEYS),
        {"x": 640, "y": 400, "button": "left", "count": 1},
    ),
    Tool(
        "screen_drag",
        "Drag with the mouse: press the button at the first point, move along the others, release it at the last.",
        (
            Parameter("path", "integers", "points as x, y, x, y, …; 2 to 100 points", required=True, items=200),
            _HELD_BUTTON,
            _HELD_KEYS,
        ),
        {"path": [100, 100, 400, 300]},
    ),
    Tool("screen_press", "Press a mouse button and keep it pressed.", (_HELD_BUTTON,), {"button": "left"}),
    Tool("screen_release", "Release a mouse button.", (_HELD_BUTTON,), {"button": "left"}),
    Tool(
        "screen_scroll",
        "Scroll with the mouse wheel at a point.",
        (
            Parameter("direction", "text", "the direction", required=True, choices=DIRECTIONS),
            Parameter("amount", "integer", "number of wheel clicks", default=3, least=0, most=100),
            X,
            Y,
            _HELD_KEYS,
        ),
        {"direction": "down", "amount": 5, "x": 640, "y": 400},
    ),
    Tool(
        "screen_type",
        "Type text, in any script, into the focused window, or into a widget by its screen_read reference, which is "
        "clicked first. A newline presses Return, a tab presses Tab.",
        (Parameter("text", "text", "the text to type", required=True, longest=20_000), _REF),
        {"text": "Grüße, 世界\n"},
    ),
    Tool(
        "screen_key",
        "Press a key combination, or several in sequence. Use X11 key names: Return, Escape, Page_Up, F5.",
        (
            Parameter(
                "keys",
                "text",
                "keys joined by +, as in ctrl+shift+t; in sequence: ctrl+a Delete",
                required=True,
                longest=1000,
            ),
            Parameter("repeat", "integer", "number of repetitions", default=1, least=1, most=100),
        ),
        {"keys": "ctrl+s"},
    ),
    Tool(
        "screen_hold_key",
        "Hold a key combination down for some time.",
        (Parameter("keys", "text", "the keys, such as shift or ctrl+Down", required=True, longest=100), _DURATION),
        {"keys": "Down", "seconds": 1.5},
    ),
    Tool("screen_wait", "Wait for some time. To wait until the screen has finished changing, screen_settle is faster.",
         (_DURATION,), {"seconds": 2}),
    Tool(
        "screen_settle",
        "Wait until the screen has stopped changing.",
        (
            Parameter("quiet", "number", "seconds without a change", default=0.3, least=0.05, most=10),
            Parameter("timeout", "number", "time limit in seconds", default=10.0, least=0.1, most=120),
            _REGION,
        ),
        {"quiet": 0.5, "timeout": 20},
    ),
    Tool(
        "screen_cursor_position",
        "Get the position of the mouse pointer.",
        (
            Parameter("width", "integer", "scale the result to a screen of this width", least=1, most=4096),
            Parameter("height", "integer", "scale the result to a screen of this height", least=1, most=4096),
        ),
    ),
    Tool("screen_windows", "List the windows with title, position and size."),
    Tool(
        "screen_focus",
        "Bring a window to the front.",
        (Parameter("window", "text", "the id of the window, or a part of its title", required=True, longest=200),),
        {"window": "Calculator"},
    ),
    Tool(
        "screen_launch",
        "Start a program that has a window; it keeps running.",
        (Parameter("argv", "texts", "the program and its arguments", required=True, items=200),),
        {"argv": ["mousepad", "notes.txt"]},
    ),
    Tool("screen_clipboard_get", "Get the text on the clipboard."),
    Tool(
        "screen_clipboard_set",
        "Put a text on the clipboard.",
        (Parameter("text", "text", "the text", required=True),),
        {"text": "to be pasted"},
    ),
)  # fmt: skip


def parse_optional_integer(arguments: Arguments, name: str) -> int | None:
    return get_integer(arguments, name) if name in arguments else None


def get_point(arguments: Arguments) -> tuple[int | None, int | None]:
    if ("x" in arguments) != ("y" in arguments):
        raise BriefError("give both x and y, or neither to use the pointer position")
    return parse_optional_integer(arguments, "x"), parse_optional_integer(arguments, "y")


def get_button(arguments: Arguments) -> Button:
    return cast(Button, get_text(arguments, "button"))


def _get_integers(arguments: Arguments, name: str) -> list[int]:
    value = arguments.get(name, [])
    assert isinstance(value, list)
    return [int(each) for each in value]


def parse_region(arguments: Arguments, size: Point) -> Region | None:
    if not (sides := _get_integers(arguments, "region")):
        return None
    if len(sides) != 4:
        raise BriefError("region must be four numbers: left, top, right, bottom")
    left, top, right, bottom = sides
    if not (left < right <= size[0] and top < bottom <= size[1]):
        raise BriefError(f"region {sides} is not inside the screen, which is {size[0]} by {size[1]} pixels")
    return left, top, right, bottom


def parse_path(arguments: Arguments) -> list[Point]:
    flat = _get_integers(arguments, "path")
    if len(flat) < 4 or len(flat) % 2:
        raise BriefError("path must be x, y, x, y, …: an even number of integers, at least four")
    return list(zip(flat[::2], flat[1::2], strict=True))
