"""A desk's screen: pictures, pointer and keyboard, from Python and as tools."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import anyio

from hotdesk.dataclass import dataclass
from hotdesk.errors import BriefError, DeskError, LinkError
from hotdesk.hands.reader import keysyms
from hotdesk.hands.screen import windows
from hotdesk.hands.screen.keyboard import Events, Keyboard, Way, build_key_events, press_keys, release_keys
from hotdesk.hands.screen.reader_client import Seat
from hotdesk.hands.screen.tools import (
    HEIGHT,
    TOOLS,
    WIDTH,
    Button,
    Direction,
    Format,
    Point,
    Region,
    get_button,
    get_point,
    parse_optional_integer,
    parse_path,
    parse_region,
)
from hotdesk.hands.screen.widgets import Widgets
from hotdesk.hands.screen.windows import Window
from hotdesk.tool import Arguments, Observation, get_integer, get_number, get_text, get_texts

SIZE = (WIDTH, HEIGHT)
BUTTONS: dict[Button, int] = {"left": 1, "middle": 2, "right": 3, "back": 8}
_FORWARD = "9"
"""xdotool's number of the button that RFB cannot send."""
WHEEL: dict[Direction, int] = {"up": 4, "down": 5, "left": 6, "right": 7}
_CURSOR_SHARE = 0.001
"""The largest share of the screen that a text cursor covers."""
_MAX_HOLD_S = 100.0
_STRIDE = 20
"""Pixels the pointer moves at a time during a drag: programs expect to see the movement."""
_STEP_S = 0.01
"""Seconds between two such moves."""

FOCUS_DELAY_S = 0.1
"""Seconds between a click and the next input: keys sent earlier reach the window that had the focus before."""
_TAKES_FOCUS_S = 0.2
"""Seconds without a change after which a clicked widget has the focus."""


@dataclass(frozen=True, slots=True)
class Screenshot:
    """A picture of the screen, as an encoded file."""

    data: bytes
    media: str
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Stability:
    """Whether the picture stopped changing."""

    settled: bool
    seconds: float
    """Seconds until its last change."""
    changed: float
    """The share of its pixels that differ from the first picture."""


class Screen:
    """One desk's screen, also as a hand."""

    tools = TOOLS

    def __init__(self, seat: Seat, size: Point = SIZE) -> None:
        self.seat = seat
        self.size = size
        self.keyboard = Keyboard(seat)
        self.widgets = Widgets(seat)
        self.clicked = -FOCUS_DELAY_S

    # -- pictures ---------------------------------------------------------------------------------------------

    async def screenshot(
        self,
        region: Region | None = None,
        width: int | None = None,
        height: int | None = None,
        format: Format = "png",
        quality: int = 80,
    ) -> Screenshot:
        """Take a picture of the screen or of a region; if one side is given, the other is scaled in proportion."""
        options = {"region": region and list(region), "width": width, "height": height}
        reply = await self.seat.ask("screen.shot", **options, format=format, quality=quality)
        match reply.value:
            case {"width": int(wide), "height": int(high), "media": str(media)}:
                return Screenshot(reply.blob, media, wide, high)
        raise LinkError("malformed reply from the screen process: no picture")

    async def zoom(self, region: Region, size: Point | None = None, format: Format = "png") -> Screenshot:
        """Take a picture of a region, scaled to a size: the screen's, by default."""
        wide, high = size or self.size
        share = min(wide / max(1, region[2] - region[0]), high / max(1, region[3] - region[1]))
        width, height = (max(1, round((region[at + 2] - region[at]) * share)) for at in (0, 1))
        return await self.screenshot(region, width, height, format)

    async def settle(self, quiet: float = 0.3, timeout: float = 10.0, region: Region | None = None) -> Stability:
        """Wait until the picture has not changed for `quiet` seconds."""
        reply = await self.seat.ask("screen.settle", quiet=quiet, timeout=timeout, region=region and list(region))
        match reply.value:
            case {"settled": bool(settled), "seconds": int() | float() as after, "changed": int() | float() as share}:
                return Stability(settled, float(min(after, timeout)), float(min(share, 1)))
        raise LinkError("malformed reply from the screen process: no settled state")

    async def get_cursor_position(self) -> Point:
        return await windows.find_pointer(self.seat)

    # -- pointing ---------------------------------------------------------------------------------------------

    async def move(self, x: int, y: int, keys: str = "") -> None:
        await self.act([self.build_move(x, y)], keys)

    async def click(
        self, x: int | None = None, y: int | None = None, button: Button = "left", count: int = 1, keys: str = ""
    ) -> None:
        if button == "forward":
            await self.click_forward(await self.place(x, y), count, keys)
            return
        number = BUTTONS[button]
        clicks: Events = [["button", number, True], ["button", number, False]]
        await self.act([await self.place(x, y), *clicks * count], keys)

    async def click_forward(self, place: list[object], count: int, keys: str) -> None:
        """Click the button that RFB does not have, with a program in the desk."""
        modifiers = keysyms.of_chord(keys) if keys else []
        await self.send_input([["key", key, True] for key in modifiers] + [place])
        await windows.run(self.seat, ["xdotool", "click", "--repeat", str(count), _FORWARD])
        await self.send_input([["key", key, False] for key in reversed(modifiers)])

    async def drag(self, path: Sequence[Point], button: Button = "left", keys: str = "") -> None:
        if len(path) < 2:
            raise DeskError("a drag needs at least two points")
        number = self.get_button_number(button)
        events: Events = [self.build_move(*path[0]), ["button", number, True], ["pause", 5 * _STEP_S]]
        for (x, y), (to_x, to_y) in pairwise(path):
            steps = max(2, (abs(to_x - x) + abs(to_y - y)) // _STRIDE)
            for step in range(1, steps + 1):
                events += [
                    self.build_move(x + (to_x - x) * step // steps, y + (to_y - y) * step // steps),
                    ["pause", _STEP_S],
                ]
        await self.act([*events, ["pause", 5 * _STEP_S], ["button", number, False]], keys)

    async def press(self, button: Button = "left") -> None:
        await self.send_input([await self.place(None, None), ["button", self.get_button_number(button), True]])

    async def release(self, button: Button = "left") -> None:
        await self.send_input([await self.place(None, None), ["button", self.get_button_number(button), False]])

    async def scroll(
        self, direction: Direction, amount: int = 3, x: int | None = None, y: int | None = None, keys: str = ""
    ) -> None:
        number = WHEEL[direction]
        turn: Events = [["button", number, True], ["button", number, False]]
        await self.act([await self.place(x, y), *turn * amount], keys)

    # -- typing -----------------------------------------------------------------------------------------------

    async def type(self, text: str) -> Way:
        """Type a text in any script; return whether it was typed with keys, or pasted."""
        await self.rest()
        return await self.keyboard.type(text)

    async def press_chords(self, chords: str, repeat: int = 1) -> None:
        """Press chords such as `ctrl+a Delete` one after the other."""
        events: Events = []
        for keys in keysyms.of_chords(chords):
            events += build_key_events(keys)
        await self.send_input(events * repeat)

    async def hold_key(self, chord: str, seconds: float) -> None:
        keys = keysyms.of_chord(chord)
        if not 0 <= seconds <= _MAX_HOLD_S:
            raise DeskError(f"a key cannot be held for {seconds:g} s; the limit is {_MAX_HOLD_S:g} s")
        try:
            await self.send_input(press_keys(keys))
            await anyio.sleep(seconds)
        finally:
            with anyio.move_on_after(5, shield=True):
                await self.send_input(release_keys(keys))

    async def wait(self, seconds: float) -> None:
        await anyio.sleep(min(seconds, _MAX_HOLD_S))

    # -- windows ----------------------------------------------------------------------------------------------

    async def list_windows(self) -> list[Window]:
        return await windows.list_windows(self.seat)

    async def focus(self, window: str) -> Window:
        return await windows.focus(self.seat, window)

    async def launch(self, argv: Sequence[str]) -> int:
        """Start a program on the screen and leave it running; return its process id."""
        return await windows.launch(self.seat, argv)

    async def read_clipboard(self) -> str:
        return await windows.read_clipboard(self.seat)

    async def write_clipboard(self, text: str) -> None:
        await windows.put(self.seat, text)

    # -- as tools ---------------------------------------------------------------------------------------------

    async def use(self, tool: str, arguments: Arguments) -> Observation:
        keys = get_text(arguments, "keys")
        match tool.removeprefix("screen_"):
            case "screenshot":
                kind = cast(Format, get_text(arguments, "format"))
                return _show_picture(
                    await self.screenshot(
                        parse_region(arguments, self.size),
                        parse_optional_integer(arguments, "width"),
                        parse_optional_integer(arguments, "height"),
                        kind,
                    )
                )
            case "zoom":
                fill = (
                    parse_optional_integer(arguments, "width") or self.size[0],
                    parse_optional_integer(arguments, "height") or self.size[1],
                )
                return _show_picture(await self.zoom(parse_region(arguments, self.size) or (0, 0, *self.size), fill))
            case "move":
                await self.move(get_integer(arguments, "x"), get_integer(arguments, "y"), keys)
            case "click":
                x, y = await self.find_target(arguments)
                await self.click(x, y, get_button(arguments), get_integer(arguments, "count", 1), keys)
            case "drag":
                await self.drag(parse_path(arguments), get_button(arguments), keys)
            case "press":
                await self.press(get_button(arguments))
            case "release":
                await self.release(get_button(arguments))
            case "scroll":
                x, y = get_point(arguments)
                await self.scroll(
                    cast(Direction, get_text(arguments, "direction")), get_integer(arguments, "amount"), x, y, keys
                )
            case "key":
                await self.press_chords(keys, get_integer(arguments, "repeat", 1))
            case "hold_key":
                await self.hold_key(keys, get_number(arguments, "seconds"))
            case "wait":
                await self.wait(get_number(arguments, "seconds"))
            case "clipboard_set":
                await self.write_clipboard(get_text(arguments, "text"))
            case _:
                return await self.tell(tool.removeprefix("screen_"), arguments)
        return Observation("done")

    async def tell(self, tool: str, arguments: Arguments) -> Observation:
        match tool:
            case "read":
                return await self.widgets.read(get_text(arguments, "window"))
            case "type":
                if ref := get_text(arguments, "ref"):
                    await self.click(*await self.widgets.locate(ref))
                    await self.settle(_TAKES_FOCUS_S, 2.0)
                way = await self.type(get_text(arguments, "text"))
                return Observation("typed", fallback="" if way == "keys" else way)
            case "settle":
                settled = await self.settle(
                    get_number(arguments, "quiet"), get_number(arguments, "timeout"), parse_region(arguments, self.size)
                )
                return Observation(_describe_stability(settled))
            case "cursor_position":
                x, y = await self.get_cursor_position()
                wide, high = (
                    get_integer(arguments, "width", self.size[0]),
                    get_integer(arguments, "height", self.size[1]),
                )
                return Observation(f"X={x * wide // self.size[0]},Y={y * high // self.size[1]}")
            case "windows":
                lines = [f"{each.id} {each.width}x{each.height}+{each.x}+{each.y} pid {each.pid} {each.program}: "
                         f"{each.title}" for each in await self.list_windows()]  # fmt: skip
                return Observation("\n".join(lines) or "No window is open.")
            case "focus":
                return Observation(
                    f"the window in front is now: {(await self.focus(get_text(arguments, 'window'))).title}"
                )
            case "launch":
                return Observation(f"started, pid {await self.launch(get_texts(arguments, 'argv'))}")
            case "clipboard_get":
                return Observation(await self.read_clipboard())
        raise BriefError(f"the screen has no tool {tool}")

    async def find_target(self, arguments: Arguments) -> tuple[int | None, int | None]:
        point = get_point(arguments)
        if not (ref := get_text(arguments, "ref")):
            return point
        if point != (None, None):
            raise BriefError("give ref, or x and y, not both")
        return await self.widgets.locate(ref)

    # -- input ------------------------------------------------------------------------------------------------

    async def act(self, events: Events, keys: str = "") -> None:
        modifiers = keysyms.of_chord(keys) if keys else []
        await self.send_input(press_keys(modifiers) + events + release_keys(modifiers))

    async def send_input(self, events: Events) -> None:
        await self.rest()
        await self.seat.ask("screen.input", events=events)
        if any(event[0] == "button" for event in events):
            self.clicked = anyio.current_time()

    async def rest(self) -> None:
        """Wait until the window manager has moved the focus to the last click."""
        await anyio.sleep(max(0.0, self.clicked + FOCUS_DELAY_S - anyio.current_time()))

    async def place(self, x: int | None, y: int | None) -> list[object]:
        """Return a move to a point, or to where the pointer is now, because others may have moved it."""
        if x is None or y is None:
            x, y = await self.get_cursor_position()
        return self.build_move(x, y)

    def build_move(self, x: int, y: int) -> list[object]:
        width, height = self.size
        if not (0 <= x < width and 0 <= y < height):
            raise DeskError(f"({x}, {y}) is not on the screen: x goes from 0 to {width - 1}, y from 0 to {height - 1}")
        return ["move", x, y]

    def get_button_number(self, name: Button) -> int:
        if name not in BUTTONS:
            raise DeskError(f"the button {name} can only be clicked, not held")
        return BUTTONS[name]


def _show_picture(picture: Screenshot) -> Observation:
    return Observation(f"{picture.width} by {picture.height} pixels", image=picture.data, media=picture.media)


def _describe_stability(settled: Stability) -> str:
    if settled.settled and not settled.changed:
        return "the screen is stable: nothing has changed since this call started"
    share = f"{settled.changed:.1%} of it changed since this call started"
    if settled.settled:
        return f"the screen is stable; {share}, the last change after {settled.seconds:.1f} s"
    hint = ": perhaps only a blinking cursor" if settled.changed < _CURSOR_SHARE else ""
    return f"the screen is still changing; {share}{hint}"
