"""Tests of a screen's methods and tools against a seat that records its requests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

import anyio
import pytest

from hotdesk.desk.seam import Desk, Done
from hotdesk.errors import BriefError, DeskError, LinkError
from hotdesk.hands.reader import VerbResult
from hotdesk.hands.screen import windows
from hotdesk.hands.screen.screen import FOCUS_DELAY_S, Screen
from hotdesk.hands.screen.tools import TOOLS


class Programs:
    """A desk in which programs say what the test has them say."""

    def __init__(self, *said: bytes | int) -> None:
        self.said = list(said)
        self.ran: list[list[str]] = []
        self.stdin: list[bytes] = []

    async def run(self, argv: Sequence[str], *, stdin: bytes = b"", **_: object) -> Done:
        self.ran.append(list(argv))
        self.stdin.append(stdin)
        said = self.said.pop(0) if self.said else b""
        return Done(said, b"") if isinstance(said, int) else Done(0, said)


class Scripted:
    """A seat that records its requests."""

    def __init__(self, *said: bytes | int, told: VerbResult | None = None) -> None:
        self.programs = Programs(*said)
        self.desk = cast(Desk, self.programs)
        self.told = told or VerbResult()
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def close(self) -> None:
        """Release nothing."""

    async def ask(self, verb: str, /, **arguments: object) -> VerbResult:
        self.asked.append((verb, arguments))
        return self.told

    @property
    def events(self) -> list[list[object]]:
        return [event for verb, given in self.asked if verb == "screen.input" for event in given["events"]]


async def use(seat: Scripted, name: str, **given: object) -> object:
    tool = next(each for each in TOOLS if each.name == name)
    return await Screen(seat).use(name, tool.check(given))


async def test_a_click_with_keys_presses_and_releases_them_around_it() -> None:
    seat = Scripted()
    await use(seat, "screen_click", x=5, y=6, button="right", keys="ctrl+shift")
    press, release = [["key", 0xFFE3, True], ["key", 0xFFE1, True]], [["key", 0xFFE1, False], ["key", 0xFFE3, False]]
    assert seat.events == [*press, ["move", 5, 6], ["button", 3, True], ["button", 3, False], *release]


async def test_a_click_without_a_point_happens_where_the_pointer_really_is() -> None:
    seat = Scripted(b"x:31 y:42 screen:0 window:5\n")
    await use(seat, "screen_click")
    assert seat.events[0] == ["move", 31, 42]


@pytest.mark.parametrize("said", [b"", b"x:9999999999 y:1 ", b"nonsense", 1, b"x:4000 y:5 screen:0"])
async def test_a_pointer_that_cannot_be_is_refused(said: bytes | int) -> None:
    with pytest.raises(DeskError):
        await use(Scripted(said), "screen_click")


async def test_nothing_follows_a_click_before_the_focus_could_move() -> None:
    screen = Screen(Scripted())
    await screen.click(1, 1)
    start = anyio.current_time()
    await screen.press_chords("a")
    assert anyio.current_time() - start > FOCUS_DELAY_S * 0.8


async def test_a_held_key_is_released_when_the_wait_is_cancelled() -> None:
    seat = Scripted()
    with anyio.move_on_after(0.05):
        await Screen(seat).hold_key("shift+Down", 60)
    assert seat.events[-2:] == [["key", 0xFF54, False], ["key", 0xFFE1, False]]


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("screen_click", {"x": 5}),
        ("screen_scroll", {"direction": "up", "y": 5}),
        ("screen_drag", {"path": [1, 2]}),
        ("screen_drag", {"path": [1, 2, 3, 4, 5]}),
        ("screen_screenshot", {"region": [0, 0, 5]}),
        ("screen_zoom", {"region": [0, 0, 1281, 5]}),
        ("screen_zoom", {"region": [5, 5, 5, 9]}),
    ],
)
async def test_invalid_input_is_refused_before_any_request(name: str, given: dict[str, object]) -> None:
    seat = Scripted()
    with pytest.raises(BriefError):
        await use(seat, name, **given)
    assert (seat.asked, seat.programs.ran) == ([], [])


@pytest.mark.parametrize("told", [None, 5, {}, {"width": "1", "height": 1, "media": "image/png"}])
async def test_a_reader_that_gives_no_picture_misbehaves(told: object) -> None:
    with pytest.raises(LinkError):
        await Screen(Scripted(told=VerbResult(told))).screenshot()


async def test_plain_text_is_typed_without_asking_for_keys() -> None:
    seat = Scripted()
    assert await Screen(seat).type("a\n") == "keys"
    assert seat.programs.ran == []
    assert seat.events == [["key", 0x61, True], ["key", 0x61, False], ["key", 0xFF0D, True], ["key", 0xFF0D, False]]


async def test_a_text_with_more_letters_than_keys_is_typed_in_parts() -> None:
    first, second = json.dumps([1, [0xE4]]).encode(), json.dumps([1, [0xF6]]).encode()
    seat = Scripted(first, second)
    assert await Screen(seat).type("äaö") == "keys"
    assert [verb for verb, _ in seat.asked] == ["screen.input", "screen.settle", "screen.input"]
    assert [json.loads(each) for each in seat.programs.stdin] == [[[0xE4, 0xF6], False], [[0xF6], True]]


@pytest.mark.parametrize("said", [b"", b"[1", b"{}", b'[1, ["x"]]', b"[0, []]", 1])
async def test_a_text_without_keys_is_pasted_when_the_clipboard_keeps_it(said: bytes | int) -> None:
    text = "ä"
    kept = Scripted(said, b"", text.encode(), b"", text.encode())
    assert await Screen(kept).type(text) == "clipboard"
    assert kept.events == [["key", 0xFFE1, True], ["key", 0xFF63, True], ["key", 0xFF63, False], ["key", 0xFFE1, False]]
    lost = Scripted(said, b"", b"another", b"", b"another")
    with pytest.raises(DeskError, match="could not be typed or pasted"):
        await Screen(lost).type(text)


async def test_windows_are_read_from_lines_and_invalid_lines_are_skipped() -> None:
    said = "0x40000c 519 369 244 134  2 XTerm a\x1b[31m title\n0x2   0 \nrubbish\n0x3 -5 0 10 10  0  \n"
    first, second = await windows.list_windows(Scripted(said.encode()))
    assert (first.id, first.x, first.pid, first.program, first.title) == (
        "0x40000c",
        519,
        2,
        "XTerm",
        r"a\x1b[31m title",
    )
    assert (second.x, second.title) == (-5, "")


def test_every_tool_has_a_valid_example() -> None:
    for tool in TOOLS:
        assert tool.check(tool.example) is not None
