"""A desk's screen: pictures of it, pointer and keys, over one persistent connection.

The frame is stored here and updated with changes. A picture is *fresh* if it includes everything that was painted
before it was requested. For that, the changes are requested, and then one pixel whether it changed or not. A server
answers in order, so when that pixel arrives, all earlier changes have arrived.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Literal

import anyio

from hotdesk.errors import DeskError
from hotdesk.hands.reader import SCREEN_PORT, Dial, VerbResult, pixels
from hotdesk.hands.reader.connection import MAX_REPLY_BYTES, ScreenConnection
from hotdesk.hands.reader.rfb import encode_key, encode_pointer, encode_request

SIZE = (1280, 800)
MAX_SIDE_PIXELS = 4096
"""Pixels of a picture's side, however it is scaled."""
_REPLY_TIMEOUT_S = 10.0
"""Seconds a call may take in addition to the time it was asked to wait."""
MAX_WAIT_S = 120.0
MAX_EVENTS = 10_000
_MAX_MARKS = 4
POLL_INTERVAL_S = 0.04
BUTTONS = 8
_LAST_KEYSYM = 0x1FFF_FFFF
Event = Sequence[object]


class Display:
    VERBS = frozenset({"shot", "input", "settle", "cursor", "mark", "difference"})

    def __init__(
        self, dial: Dial, size: pixels.Size = SIZE, patience: float = _REPLY_TIMEOUT_S, most: int = MAX_REPLY_BYTES
    ) -> None:
        self.dial = dial
        self.size = size
        self.patience = patience
        self.most = most
        self.line: ScreenConnection | None = None
        self.looks = 0
        self.buttons = 0
        self.pointer: tuple[int, int] | None = None
        self.marks: dict[str, bytearray] = {}
        self.turn = anyio.Lock()

    @staticmethod
    def warm() -> None:
        """Encode a picture of each kind now, because the libraries load files at the first use."""
        image = pixels.make_picture(bytearray(64), (4, 4), (0, 0, 4, 4), (2, 2))
        pixels.encode_png(image)
        pixels.encode_jpeg(image, 80)
        pixels.compare(bytearray(64), bytearray(64), (4, 4), (0, 0, 4, 4))

    async def shot(
        self,
        region: Sequence[int] | None = None,
        width: int | None = None,
        height: int | None = None,
        format: Literal["png", "jpeg"] = "png",
        quality: int = 80,
    ) -> VerbResult:
        """Return a fresh picture of the screen or a region of it: left, top, right, bottom."""
        box = self.check_region(region)
        scaled = scale(box, width, height)
        if format not in ("png", "jpeg") or not 1 <= quality <= 95:
            raise DeskError(
                f"invalid picture format {format} or quality {quality}: use png or jpeg, and a quality from 1 to 95"
            )
        async with self.hold_connection() as line:
            await self.look(line)
            image = pixels.make_picture(line.frame, self.size, box, scaled)
        data = pixels.encode_png(image) if format == "png" else pixels.encode_jpeg(image, quality)
        return VerbResult({"width": image.width, "height": image.height, "media": f"image/{format}"}, data)

    async def input(self, events: Sequence[Event]) -> VerbResult:
        """Send pointer and key events in this order; return when the server has processed all of them."""
        if len(events) > MAX_EVENTS:
            raise DeskError(f"{len(events)} input events at once are too many; the limit is {MAX_EVENTS}")
        for event in events:
            self.check(event)
        pauses = sum(_get_pause_seconds(event) for event in events)
        if pauses > MAX_WAIT_S:
            raise DeskError(f"the pauses of the input are too long ({pauses:g} s); the limit is {MAX_WAIT_S:g} s")
        async with self.hold_connection(pauses) as line:
            waiting = bytearray()
            for event in events:
                if event[0] == "pause":
                    await line.send(waiting)
                    waiting.clear()
                    await anyio.sleep(_get_pause_seconds(event))
                else:
                    waiting += self.encode_event(event)
            await self.look(line, waiting, whole=False)
        return VerbResult()

    async def settle(
        self, quiet: float = 0.3, timeout: float = 10.0, region: Sequence[int] | None = None
    ) -> VerbResult:
        """Wait until the picture stops changing; return whether it did, when, and what share of it changed."""
        box = self.check_region(region)
        if not 0 <= quiet <= timeout <= MAX_WAIT_S:
            times = f"quiet {quiet:g} s, timeout {timeout:g} s"
            raise DeskError(
                f"invalid times: {times}; quiet may be at most timeout, and timeout at most {MAX_WAIT_S:g} s"
            )
        async with self.hold_connection(timeout) as line:
            await self.look(line)
            begin = last = anyio.current_time()
            first, previous = bytearray(line.frame), bytearray(line.frame)
            while (now := anyio.current_time()) < last + quiet and now < begin + timeout:
                await anyio.sleep(min(POLL_INTERVAL_S, last + quiet - now))
                if await self.look(line) and pixels.compare(previous, line.frame, self.size, box)[0]:
                    previous[:] = line.frame
                    last = anyio.current_time()
            share, _ = pixels.compare(first, line.frame, self.size, box)
        return VerbResult({"settled": now >= last + quiet, "seconds": round(last - begin, 3), "changed": share})

    async def cursor(self) -> VerbResult:
        """Return where this process last moved the pointer, or `None` if it never did."""
        return VerbResult({"x": self.pointer[0], "y": self.pointer[1]} if self.pointer else None)

    async def mark(self, name: str) -> VerbResult:
        """Store the current picture under a name for later comparison. The oldest is dropped if there are too many."""
        async with self.hold_connection() as line:
            await self.look(line)
            self.marks.pop(name, None)
            while len(self.marks) >= _MAX_MARKS:
                del self.marks[next(iter(self.marks))]
            self.marks[name] = bytearray(line.frame)
        return VerbResult()

    async def difference(self, name: str, region: Sequence[int] | None = None) -> VerbResult:
        box = self.check_region(region)
        if name not in self.marks:
            raise DeskError(f"no picture was saved as {name!r}; save one first")
        async with self.hold_connection() as line:
            await self.look(line)
            share, where = pixels.compare(self.marks[name], line.frame, self.size, box)
        return VerbResult({"changed": share, "region": where})

    @asynccontextmanager
    async def hold_connection(self, longer: float = 0.0) -> AsyncIterator[ScreenConnection]:
        """Hold the connection for one call; it is opened again if it broke, and closed if the call fails."""
        async with self.turn:
            try:
                with anyio.fail_after(self.patience):
                    if self.line is not None and not await self.line.is_alive():
                        self.drop()
                if self.line is None:
                    self.line = ScreenConnection(await self.dial(SCREEN_PORT), self.size, self.most)
                with anyio.fail_after(self.patience + longer):
                    await self.line.shake_hands()
                    yield self.line
            except TimeoutError as e:
                self.drop()
                raise DeskError(f"the screen did not respond within {self.patience + longer:g} s; try again") from e
            except OSError as e:
                self.drop()
                raise DeskError("the connection to the screen was lost; the last input may not have arrived") from e
            except BaseException:
                self.drop()
                raise

    def drop(self) -> None:
        """Drop the connection: the next call opens another."""
        if self.line is not None:
            with suppress(OSError):
                self.line.close()
        self.line, self.buttons = None, 0

    async def look(self, line: ScreenConnection, before: bytes | bytearray = b"", whole: bool = True) -> bool:
        """Update the frame, or only wait until all input is processed; return whether anything may have changed."""
        width, height = self.size
        self.looks += 1
        x, y = self.looks % width, self.looks // width % height
        changes = encode_request(True, 0, 0, width, height) if whole and line.painted else b""
        surely = (
            encode_request(False, 0, 0, width, height)
            if whole and not line.painted
            else encode_request(False, x, y, 1, 1)
        )
        await line.send(before + changes + surely)
        return await line.wait_for_update(x, y)

    def check_region(self, region: Sequence[int] | None) -> pixels.Box:
        width, height = self.size
        if region is None:
            return 0, 0, width, height
        if len(region) != 4 or any(type(each) is not int for each in region):
            raise DeskError("a region must be four whole numbers: left, top, right, bottom")
        left, top, right, bottom = region
        if not (0 <= left < right <= width and 0 <= top < bottom <= height):
            raise DeskError(f"region {list(region)} is not on the screen, which is {width} by {height} pixels")
        return left, top, right, bottom

    def check(self, event: Event) -> None:
        width, height = self.size
        match event:
            case ["move", int(x), int(y)] if 0 <= x < width and 0 <= y < height:
                return
            case ["button", int(number), bool()] if 1 <= number <= BUTTONS:
                return
            case ["key", int(keysym), bool()] if 0 < keysym <= _LAST_KEYSYM:
                return
            case ["pause", int() | float() as seconds] if 0 <= seconds <= MAX_WAIT_S:
                return
        raise DeskError(
            f"invalid input event {list(event)!r:.80}: give a point on the screen of {width} by {height} pixels, a "
            f"button from 1 to {BUTTONS}, an X11 keysym, or a pause of 0 to {MAX_WAIT_S:g} s"
        )

    def encode_event(self, event: Event) -> bytes:
        match event:
            case ["move", int(x), int(y)]:
                self.pointer = (x, y)
            case ["button", int(number), bool(down)]:
                bit = 1 << number - 1
                self.buttons = self.buttons | bit if down else self.buttons & ~bit
            case ["key", int(keysym), bool(down)]:
                return encode_key(keysym, down)
        return encode_pointer(self.buttons, *(self.pointer or (self.size[0] // 2, self.size[1] // 2)))


def _get_pause_seconds(event: Event) -> float:
    match event:
        case ["pause", int() | float() as pause]:
            return float(pause)
    return 0.0


def scale(box: pixels.Box, width: int | None, height: int | None) -> pixels.Size:
    """Return a picture's size; one side alone keeps the proportions."""
    wide, high = box[2] - box[0], box[3] - box[1]
    if width is None:
        width = wide if height is None else max(1, round(wide * height / high))
    if height is None:
        height = max(1, round(high * width / wide))
    if not (1 <= width <= MAX_SIDE_PIXELS and 1 <= height <= MAX_SIDE_PIXELS):
        raise DeskError(f"invalid picture size {width} by {height}: use 1 to {MAX_SIDE_PIXELS} pixels each")
    return width, height
