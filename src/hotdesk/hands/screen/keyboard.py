"""Types any text at a desk's screen: characters that the keymap lacks are mapped to spare keys before any key is
pressed.

A server that gets an unknown character changes its keymap while programs still read earlier keys, and the wrong letters
arrive. So all keys that a text needs are mapped first. A desk has about a hundred spare keys; a text with more
different characters is typed in parts, each after the previous one was drawn. If keys cannot be mapped, the text is
pasted.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal, TypeAlias

import anyio

from hotdesk.errors import DeskError
from hotdesk.hands.reader import keysyms
from hotdesk.hands.screen import windows
from hotdesk.hands.screen.reader_client import Seat

Way: TypeAlias = Literal["keys", "clipboard"]
Events: TypeAlias = list[list[object]]
"""Input events of a screen in order: keys, buttons, moves and pauses."""
AT_ONCE = 500
"""Characters sent at a time."""
_MAX_KEYSYMS = 4096
PASTE = "shift+Insert"
"""Pastes in terminals, too, where Ctrl+V does not."""
BIND = """
import ctypes, itertools, json, sys
symbols, again = json.load(sys.stdin)
x = ctypes.CDLL("libX11.so.6")
x.XOpenDisplay.restype = ctypes.c_void_p
x.XGetKeyboardMapping.restype = ctypes.POINTER(ctypes.c_ulong)
display = ctypes.c_void_p(x.XOpenDisplay(None))
first, last, width = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
x.XDisplayKeycodes(display, ctypes.byref(first), ctypes.byref(last))
codes = range(first.value, last.value + 1)
def keymap():
    rows = x.XGetKeyboardMapping(display, ctypes.c_ubyte(first.value), len(codes), ctypes.byref(width))
    return {code: rows[at * width.value:at * width.value + 2] for at, code in enumerate(codes)}
have = keymap()
there = set(itertools.chain(*have.values()))
browser = {0x1008FF26, 0x1008FF27, 0x1008FF33, 0x1008FF73}  # known by their place, whatever stands on them
def media(code):
    return all(not each or 0x10080000 <= each < 0x10090000 for each in have[code])
def free(code):
    one, two = have[code]
    ours = again and one == two and (one > 0x1000000 or 0xA0 <= one < 0x100) and one not in symbols[:len(codes)]
    return ours or media(code) and not browser & set(have[code])
def movable(code):
    one, two = have[code]
    return media(code) or one == two and one > 0xA0
lacking = iter([each for each in symbols if each not in there])
runs = [list(run) for kind, run in itertools.groupby(codes, movable) if kind]
requests = 0
for run in sorted(runs, key=len, reverse=True):  # a window manager takes long to look at a changed keymap: few requests
    placed = {}
    for code in filter(free, run):
        if (each := next(lacking, None)) is None:
            break
        placed[code] = [each, each]
    if placed:
        block = range(min(placed), max(placed) + 1)
        rows = list(itertools.chain(*(placed.get(code, have[code]) for code in block)))
        x.XChangeKeyboardMapping(display, block[0], 2, (ctypes.c_ulong * len(rows))(*rows), len(block))
        requests += 1
x.XSync(display, 0)
json.dump([requests, sorted(set(symbols) & set(itertools.chain(*keymap().values())))], sys.stdout)
"""
"""Maps keysyms to spare keys; prints how often it changed the keymap, and which of the keysyms can be pressed now."""
_REBIND_DELAY_S = 0.1
"""Seconds that the window manager needs for each change of the keymap; a click would have to wait for it."""


class Keyboard:
    def __init__(self, seat: Seat) -> None:
        self.seat = seat

    async def type(self, text: str) -> Way:
        """Type a text; return how it was typed. Raise `DeskError` for a character that no key can type."""
        rest = text.replace("\r\n", "\n")
        for character in rest:
            keysyms.of_character(character)
        again = False
        while rest:
            count = await self.prepare_keys(rest, again)
            if not count:
                await self.paste(rest)
                return "clipboard"
            await self.press(rest[:count])
            rest, again = rest[count:], True
            if rest:  # programs must have read the keys that are about to be mapped again
                await self.seat.ask("screen.settle", quiet=0.3, timeout=3.0)
        return "keys"

    async def prepare_keys(self, text: str, again: bool) -> int:
        """Map keys for as much of a text as possible; return the number of characters."""
        strange = dict.fromkeys(each for each in text if not each.isascii())
        if not strange:
            return len(text)
        symbols = [keysyms.of_character(each) for each in strange][:_MAX_KEYSYMS]
        found = await self.bind(symbols, again)
        lacking = (at for at, each in enumerate(text) if not (each.isascii() or keysyms.of_character(each) in found))
        return next(lacking, len(text))

    async def bind(self, symbols: list[int], again: bool) -> set[int]:
        """Map keysyms to spare keys, with `again` also to those mapped before; return those that can be pressed now."""
        done = await windows.run(self.seat, ["python3", "-c", BIND], json.dumps([symbols, again]).encode())
        try:
            reply = json.loads(done.stdout) if done.ok else None
        except ValueError:
            reply = None
        match reply:
            case [int(changes), [*found]]:
                await anyio.sleep(_REBIND_DELAY_S * min(changes, 10))
                return {each for each in found if type(each) is int}
        return set()

    async def press(self, text: str) -> None:
        for start in range(0, len(text), AT_ONCE):
            chords = [keysyms.to_press(each) for each in text[start : start + AT_ONCE]]
            events = [event for keys in chords for event in build_key_events(keys)]
            await self.seat.ask("screen.input", events=events)

    async def paste(self, text: str) -> None:
        """Copy a text to both clipboards, verify it, and paste it."""
        for selection in windows.SELECTIONS:
            await windows.put(self.seat, text, selection)
            if await windows.read_clipboard(self.seat, selection) != text:
                raise DeskError(
                    "the text could not be typed or pasted: the clipboard did not accept it; write it to a file"
                )
        keys = keysyms.of_chord(PASTE)
        events = [["key", key, True] for key in keys] + [["key", key, False] for key in reversed(keys)]
        await self.seat.ask("screen.input", events=events)


def build_key_events(keys: Sequence[int]) -> Events:
    """Return events that press keys in order, and release them in reverse order."""
    return press_keys(keys) + release_keys(keys)


def press_keys(keys: Sequence[int]) -> Events:
    return [["key", key, True] for key in keys]


def release_keys(keys: Sequence[int]) -> Events:
    return [["key", key, False] for key in reversed(keys)]
