"""Tests of a desk's screen driven by pixels and keys, on a form of the tests that records what reaches it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import anyio
import pytest
from PIL import Image

from hotdesk.desk.seam import Desk, Spec
from hotdesk.errors import DeskError
from hotdesk.hands.screen import computer
from hotdesk.hands.screen.keyboard import Keyboard
from hotdesk.hands.screen.reader_client import DISPLAY
from hotdesk.hands.screen.screen import Screen, Screenshot
from hotdesk.host import Host
from tests.conftest import settings_in

pytestmark = pytest.mark.container
FORM = Path(__file__).with_name("screen_form.py")
COLOURS = {
    "name": (255, 1, 1),
    "note": (1, 255, 1),
    "agreed": (255, 1, 255),
    "pad": (1, 1, 255),
    "submit": (255, 255, 1),
}
PUNCTUATION = "".join(map(chr, range(33, 127)))
SCRIPTS = "äöüß€ñ Καλημέρα Привет שלום 日本語 한국 😀🚀e\u0301"
PAINTER = """
import sys, tkinter
root = tkinter.Tk()
root.overrideredirect(True)
root.geometry("100x100+1100+650")
for line in sys.stdin:
    root.configure(bg=line.strip())
    root.update()
    root.winfo_pointerxy()  # the server answers: it has painted
    print("painted", flush=True)
"""


@dataclass
class Place:
    """A desk with the form on its screen, and the positions of the form's parts."""

    desk: Desk
    screen: Screen
    at: dict[str, tuple[int, int]]

    async def events(self, act: Callable[[], Awaitable[object]], last: str, count: int = 1) -> list[list[Any]]:
        """Return the events of the pad during an act, up to the `count`-th event of the kind `last`."""
        await self.desk.write("pad.jsonl", b"")
        await act()
        with anyio.fail_after(30):
            while True:
                lines = [
                    json.loads(line) for line in (await self.desk.read("pad.jsonl")).replace(b"\0", b"").splitlines()
                ]
                if sum(line[0] == last for line in lines) >= count:
                    return lines
                await anyio.sleep(0.02)

    async def submitted(self) -> dict[str, Any]:
        await self.desk.remove("form.json")
        await self.screen.click(*self.at["submit"])
        with anyio.fail_after(30):
            while True:
                try:
                    told: dict[str, Any] = json.loads(await self.desk.read("form.json"))
                except DeskError:
                    await anyio.sleep(0.02)
                else:
                    return told


def opened(picture: Screenshot) -> Image.Image:
    return Image.open(BytesIO(picture.data)).convert("RGB")


def middle(image: Image.Image, colour: tuple[int, int, int]) -> tuple[int, int] | None:
    channels = zip(image.split(), colour, strict=True)
    masks = [band.point([255 * (value == wanted) for value in range(256)]) for band, wanted in channels]
    both = Image.composite(masks[0], Image.new("L", image.size), masks[1])
    box = Image.composite(both, Image.new("L", image.size), masks[2]).getbbox()
    return None if box is None else ((box[0] + box[2]) // 2, (box[1] + box[3]) // 2)


@pytest.fixture(scope="module")
async def place(home: Path) -> AsyncIterator[Place]:
    """Yield a desk with the form on its screen.

    The session's check for leftovers does not cover it, because its programs come and go between tests.
    """
    async with Host(settings_in(home / "screen"), control=False) as host, host.open_desk(Spec(image="desktop")) as desk:
        screen = Screen(host.get_seat(desk))
        await desk.write("form.py", FORM.read_bytes())
        await screen.launch(["python3", "form.py"])
        with anyio.fail_after(20):
            while None in (found := [middle(opened(await screen.screenshot()), each) for each in COLOURS.values()]):
                await anyio.sleep(0.05)
        await screen.settle()
        yield Place(desk, screen, {name: at for name, at in zip(COLOURS, found, strict=True) if at is not None})


async def test_a_form_is_filled_by_coordinates_only(place: Place) -> None:
    for field, text in (("name", "Ada Lovelace"), ("note", f"first\n\tsecond {PUNCTUATION}")):
        await place.screen.click(*place.at[field])
        assert await place.screen.type(text) == "keys"
    await place.screen.click(*place.at["agreed"])
    told = await place.submitted()
    assert told == {"name": "Ada Lovelace", "note": f"first\n\tsecond {PUNCTUATION}", "agreed": True}


async def test_any_script_arrives_letter_for_letter(place: Place) -> None:
    many = "".join(map(chr, range(0x4E00, 0x4E00 + 150)))  # more than there are spare keys
    await place.screen.click(*place.at["name"])
    assert await place.screen.type(SCRIPTS) == "keys"
    await place.screen.click(*place.at["note"])
    assert await place.screen.type(many + "\n" + SCRIPTS) == "keys"
    await place.screen.settle()
    told = await place.submitted()
    assert told["name"] == SCRIPTS
    assert told["note"] == many + "\n" + SCRIPTS


async def test_capitals_leave_caps_lock_off(place: Place) -> None:
    await place.screen.click(*place.at["note"])
    await place.screen.type("HOTDESK Types")
    await place.screen.press_chords("A")
    assert (await place.submitted())["note"] == "HOTDESK TypesA"
    done = await place.desk.run(["sh", "-c", "DISPLAY=:0 xset q"])
    assert "Caps Lock:   off" in done.text


async def test_a_text_without_keys_is_pasted(place: Place) -> None:
    await place.screen.click(*place.at["note"])
    await Keyboard(place.screen.seat).paste(SCRIPTS)
    await place.screen.settle()
    assert (await place.submitted())["note"] == SCRIPTS
    assert await place.screen.read_clipboard() == SCRIPTS


async def test_clicks_arrive_where_they_are_aimed_with_their_button_count_and_keys(place: Place) -> None:
    x, y = place.at["pad"]
    for number, name in ((1, "left"), (2, "middle"), (3, "right")):
        seen = await place.events(lambda name=name: place.screen.click(x, y, name), "ButtonRelease")  # type: ignore[misc]
        assert [each[:4] for each in seen if "Button" in each[0]] == [
            ["ButtonPress", number, x, y], ["ButtonRelease", number, x, y]
        ]  # fmt: skip
        await anyio.sleep(0.5)  # or the next is a double click
    seen = await place.events(lambda: place.screen.click(x, y, count=3), "ButtonRelease", 3)
    assert [each[0] for each in seen].count("Double-Button-1") == 1
    assert [each[0] for each in seen].count("Triple-Button-1") == 1
    held = await place.events(lambda: place.screen.click(x, y, keys="ctrl+shift"), "ButtonRelease")
    assert next(each[4] for each in held if each[0] == "ButtonRelease") == 0x105  # the button, Control and Shift
    after = await place.events(place.screen.click, "ButtonRelease")
    assert next(each[2:] for each in after if each[0] == "ButtonRelease") == [x, y, 0x100]


async def test_dragging_scrolling_holding_and_the_pointers_position(place: Place) -> None:
    screen, (x, y) = place.screen, place.at["pad"]
    seen = await place.events(lambda: screen.drag([(x, y), (x + 60, y), (x + 60, y + 40)]), "ButtonRelease")
    places = {(each[2], each[3]) for each in seen if each[0] == "Motion" and each[4] & 0x100}
    assert places - {(x, y), (x + 60, y), (x + 60, y + 40)}  # it does not jump; a busy toolkit leaves moves out
    assert seen[-1][:4] == ["ButtonRelease", 1, x + 60, y + 40]
    seen = await place.events(lambda: screen.scroll("down", 4, x, y), "ButtonPress", 4)
    assert [each[1] for each in seen if each[0] == "ButtonPress"] == [5] * 4
    seen = await place.events(lambda: screen.scroll("up", 2), "ButtonPress", 2)
    assert [each[1] for each in seen if each[0] == "ButtonPress"] == [4] * 2
    await screen.move(x + 5, y + 6)
    assert await screen.get_cursor_position() == (x + 5, y + 6)
    await place.events(screen.press, "ButtonPress")
    await place.events(screen.release, "ButtonRelease")
    seen = await place.events(lambda: screen.hold_key("Down", 0.4), "KeyRelease")
    assert seen[0][:2] == ["KeyPress", "Down"]
    seen = await place.events(lambda: screen.press_chords("ctrl+shift+t F5"), "KeyRelease", 4)
    assert [each[1] for each in seen if each[0] == "KeyPress"] == ["Control_L", "Shift_L", "T", "F5"]


async def test_a_picture_shows_what_was_painted_before_the_request(place: Place) -> None:
    painter = await place.desk.start(["python3", "-c", PAINTER], env=DISPLAY)
    said = painter.output()
    for number in range(-1, 20):
        colour = (number * 7 % 256, number * 13 % 256, 0)
        await painter.send("#{:02x}{:02x}{:02x}\n".format(*colour).encode())
        await anext(said)
        if number >= 0:
            assert opened(await place.screen.screenshot()).getpixel((1150, 700)) == colour
    await painter.kill()


async def test_pictures_are_cut_out_scaled_and_compared(place: Place) -> None:
    screen, at = place.screen, (place.at["pad"][0], place.at["pad"][1] + 100)  # away from the pointer
    before = opened(await screen.screenshot())
    assert before.getpixel(at) == COLOURS["pad"]
    await screen.seat.ask("screen.mark", name="before")
    await screen.click(*place.at["pad"])
    await place.events(lambda: screen.press_chords("c"), "KeyRelease")
    await screen.settle(quiet=0.1)
    whole = opened(await screen.screenshot())
    assert whole.getpixel(at) == (255, 128, 1)
    told = (await screen.seat.ask("screen.difference", name="before")).value
    assert isinstance(told, dict)
    assert 0.15 < told["changed"] < 0.2  # the pad's share of the screen
    region = (at[0] - 10, at[1] - 20, at[0] + 30, at[1] + 20)
    assert opened(await screen.screenshot(region)).tobytes() == whole.crop(region).tobytes()
    small = await screen.screenshot(width=640, format="jpeg")
    assert (small.width, small.height, small.media, opened(small).size) == (640, 400, "image/jpeg", (640, 400))
    large = await screen.zoom((0, 0, 64, 20))
    assert (large.width, large.height) == (1280, 400)


async def test_windows_are_listed_launched_and_brought_to_the_front(place: Place) -> None:
    screen = place.screen
    await screen.launch(["xterm", "-T", "Second window", "-geometry", "40x10", "-e", "cat"])
    with anyio.fail_after(10):
        while not (found := [each for each in await screen.list_windows() if each.title == "Second window"]):
            await anyio.sleep(0.05)
    assert (found[0].width > 100, found[0].program) == (True, "XTerm")
    assert (await screen.focus("for a TEST")).title == "Form for a test"
    assert (await screen.focus(found[0].id)).title == "Second window"
    await screen.rest()
    with anyio.fail_after(30):
        while [each for each in await screen.list_windows() if each.title == "Second window"]:
            await screen.press_chords("ctrl+d")  # again where the window manager was slower than the key
            await anyio.sleep(0.5)
    with pytest.raises(DeskError, match="Form for a test"):
        await screen.focus("no such window")
    with pytest.raises(DeskError, match="does not start"):
        await screen.launch(["no-such-program"])
    await screen.focus("Form for a test")


async def test_a_point_outside_the_screen_is_refused_with_its_size(place: Place) -> None:
    with pytest.raises(DeskError, match="0 to 1279, y from 0 to 799"):
        await place.screen.click(1280, 0)
    with pytest.raises(DeskError, match="0 to 1279, y from 0 to 799"):
        await place.screen.drag([(0, 0), (0, 800)])


ANTHROPIC: list[dict[str, object]] = [
    {"action": "screenshot"},
    {"action": "cursor_position"},
    {"action": "mouse_move", "coordinate": [300, 200]},
    {"action": "left_click", "coordinate": [320, 130]},
    {"action": "type", "text": "ü1"},
    {"action": "key", "text": "BackSpace", "repeat": 2},
    {"action": "hold_key", "text": "shift", "duration": 0},
    {"action": "right_click", "coordinate": [320, 130]},
    {"action": "middle_click", "coordinate": [320, 130]},
    {"action": "double_click", "coordinate": [320, 130]},
    {"action": "triple_click", "coordinate": [320, 130], "text": "shift"},
    {"action": "left_mouse_down"},
    {"action": "left_mouse_up"},
    {"action": "left_click_drag", "start_coordinate": [320, 130], "coordinate": [340, 140]},
    {"action": "scroll", "coordinate": [320, 130], "scroll_direction": "down", "scroll_amount": 1},
    {"action": "wait", "duration": 0},
    {"action": "zoom", "region": [0, 0, 100, 100]},
]
OPENAI: list[dict[str, object]] = [
    {"type": "screenshot"},
    {"type": "move", "x": 320, "y": 130},
    {"type": "click", "button": "left", "x": 320, "y": 130, "keys": ["SHIFT"]},
    {"type": "click", "button": "right", "x": 320, "y": 130},
    {"type": "click", "button": "wheel", "x": 320, "y": 130},
    {"type": "click", "button": "back", "x": 320, "y": 130},
    {"type": "click", "button": "forward", "x": 320, "y": 130},
    {"type": "double_click", "x": 320, "y": 130, "keys": None},
    {"type": "drag", "path": [{"x": 320, "y": 130}, {"x": 330, "y": 130}]},
    {"type": "keypress", "keys": ["CTRL", "A"]},
    {"type": "scroll", "x": 320, "y": 130, "scroll_x": 0, "scroll_y": 100},
    {"type": "type", "text": "ü"},
]


async def test_every_vendors_action_can_be_carried_out(place: Place) -> None:
    scale = computer.Scale(640, 400)
    named = {tool.name: tool for tool in place.screen.tools}
    uses = [
        use for action in ANTHROPIC for use in computer.translate_anthropic(action, scale)
    ] + computer.translate_openai(OPENAI, scale)
    for use in uses:
        seen = await place.screen.use(use.tool, named[use.tool].check(use.arguments))
        assert seen.ok, use
        if use.tool in ("screen_screenshot", "screen_zoom"):
            assert Image.open(BytesIO(seen.image)).size in ((640, 400), (400, 400))
    told = await place.screen.use("screen_cursor_position", {"width": 640, "height": 400})
    assert told.text == "X=320,Y=130"


PAGE = """
import http.server
class Site(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<meta charset=utf-8><textarea id=t style='position:fixed;inset:0;width:100%;height:100%'>"
                         b"</textarea><script>t.oninput=()=>{clearTimeout(w);w=setTimeout(()=>fetch('/',{method:'POST',body:t.value}),300)};"
                         b"let w;t.focus()</script>")
    def do_POST(self):
        open("chromium.txt", "wb").write(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(204)
        self.end_headers()
http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Site).serve_forever()
"""
NO_TIPS = """<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry"><item oor:path="/org.openoffice.Office.Common/Misc">
<prop oor:name="ShowTipOfTheDay" oor:op="fuse"><value>false</value></prop></item></oor:items>
"""
EVERYTHING = f"{PUNCTUATION}\n{SCRIPTS}\n\tend" + "".join(map(chr, range(0x5000, 0x5000 + 130)))


async def chromium(place: Place) -> str:
    """Type into a field of a page; a tab would leave the field."""
    await place.desk.start(["python3", "-c", PAGE], stdin=False)
    await place.screen.launch(["chromium", "--no-sandbox", "--no-first-run", "--app=http://127.0.0.1:8000/"])
    await shown(place, "127.0.0.1")
    await place.screen.click(640, 400)
    await place.screen.type(EVERYTHING.replace("\t", ""))
    await place.screen.settle(quiet=1.5)
    return (await place.desk.read("chromium.txt")).decode()


async def xterm(place: Place) -> str:
    line = "stty -echo -icanon; cat > xterm.txt"
    await place.screen.launch(["xterm", "-u8", "-T", "Terminal", "-e", "sh", "-c", line])
    await shown(place, "Terminal")
    await place.screen.type(EVERYTHING)
    await place.screen.settle()
    return (await place.desk.read("xterm.txt")).decode()


async def mousepad(place: Place) -> str:
    await place.desk.write("mousepad.txt", b"")
    await place.screen.launch(["mousepad", "mousepad.txt"])
    await shown(place, "mousepad.txt")
    await place.screen.type(EVERYTHING)
    await place.screen.settle()
    await place.screen.press_chords("ctrl+s")
    await place.screen.settle()
    return (await place.desk.read("mousepad.txt")).decode().removesuffix("\n")


async def calc(place: Place) -> str:
    """Type into cells, and copy them; Calc makes typographic quotes, and a tab goes to the next cell."""
    await place.desk.write(".config/libreoffice/4/user/registrymodifications.xcu", NO_TIPS.encode())
    await place.screen.launch(["localc", "--norestore", "--nologo"])
    await shown(place, "Calc", 60)
    await place.screen.click(640, 500)
    await place.screen.press_chords("ctrl+Home")
    await place.screen.settle()
    await place.screen.type(EVERYTHING.replace("\t", "").replace('"', "").replace("'", "") + "\n")
    await place.screen.settle(timeout=20)
    for _ in range(10):  # it is drawn long before it reads keys
        await place.screen.press_chords("ctrl+Home ctrl+shift+End ctrl+c")
        await place.screen.settle(quiet=1)
        if (copied := await place.screen.read_clipboard()).rstrip("\n").endswith(EVERYTHING[-1]):
            break
    return copied.removesuffix("\n")


async def shown(place: Place, title: str, seconds: float = 30) -> None:
    """Wait until a window exists and is drawn."""
    with anyio.fail_after(seconds):
        while not any(title in each.title for each in await place.screen.list_windows()):
            await anyio.sleep(0.1)
    await place.screen.settle(quiet=1.5, timeout=seconds)


@pytest.mark.long
@pytest.mark.parametrize(
    ("program", "lost", "process"),
    [(chromium, "\t", "chromium"), (xterm, "", "xterm"), (mousepad, "", "mousepad"), (calc, "\t\"'", "soffice")],
)
async def test_any_script_arrives_in_programs_of_every_kind(
    place: Place, program: Callable[[Place], Awaitable[str]], lost: str, process: str
) -> None:
    expected = EVERYTHING.translate(dict.fromkeys(map(ord, lost)))
    try:
        assert await program(place) == expected
    finally:
        await place.desk.run(["pkill", "-f", process])
