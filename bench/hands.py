"""The hands at a screen compared with the programs a worker could run in the desk: `scrot` and `xdotool`."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable

import anyio
from bench.book import Book, timed
from bench.start import ready

from hotdesk.config import MIB
from hotdesk.desk.owner.runtime import SESSION
from hotdesk.desk.seam import Desk, Process, Spec
from hotdesk.hands.screen.reader_client import DISPLAY
from hotdesk.hands.screen.screen import Screen
from hotdesk.host import Host

DESKTOP = Spec(image="desktop")
PNG, SCROT_PNG = "screenshot, PNG, in the host's hands", "scrot, PNG, read by the host"
JPEG, SCROT_JPEG = "screenshot, JPEG, in the host's hands", "scrot, JPEG, read by the host"
KEY, XDOTOOL_KEY = "key: the program has it, and the call is back", "xdotool key: likewise"
CLICK, XDOTOOL_CLICK = "click: the program has it, and the call is back", "xdotool click: likewise"
WARM, WARM_BASE = "warm desktop claim → first screenshot", "warm base claim, and one screenshot"
UP, MEMORY = "cold desktop: its screen is up", "idle desktop: MiB of memory"
KEPT = 2
REST = 0.15
"""Seconds between two measurements: a person is no quicker, and the program draws meanwhile."""
PROGRAM = """
import random, time, tkinter
root = tkinter.Tk()
root.geometry("1270x700+0+0")
page = tkinter.Canvas(root, bg="white")
page.pack(fill="both", expand=True)
def draw():
    page.delete("all")
    for row in range(40):
        page.create_line(0, row * 17, 1280, row * 17, fill="#ccc")
        for column in range(8):
            page.create_text(column * 160 + 60, row * 17 + 9, text="%d: %.6f" % (row, random.random()))
    for bar in range(20):
        page.create_rectangle(bar * 64, 760, bar * 64 + 40, 760 - random.randrange(80), fill="#48c")
def got(event):
    print(time.clock_gettime_ns(time.CLOCK_MONOTONIC), flush=True)
    root.after(1, draw)
root.bind("<KeyPress>", got)
root.bind("<ButtonPress>", got)
root.after(1000, lambda: print("ready", flush=True))
draw()
root.update()
root.mainloop()
"""
"""Shows a table and bars that change after each event, and prints when an event arrived, by the shared clock."""


def arrival(name: str) -> str:
    """Return the name of the time until the program gets an event, by the name of the time until its call returns."""
    return f"{name.partition(':')[0]}, until the program has it"


async def lines_of(process: Process) -> AsyncGenerator[str, None]:
    """Yield a program's output, line by line."""
    rest = b""
    async for _, data in process.output():
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line.decode()


async def reached(lines: AsyncGenerator[str, None], way: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """Return the seconds from the start of a call until the program got its event, and until the call returned."""
    await anyio.sleep(REST)
    start = time.monotonic()
    await way()
    back = time.monotonic() - start
    arrived = int(await anext(lines)) / 1e9 - start
    return arrived, max(arrived, back)


async def scrot(desk: Desk, name: str) -> bytes:
    """Take a picture as a worker without hands does."""
    done = await desk.run(["scrot", "--overwrite", "--quality", "80", name], env=DISPLAY)
    if not done.ok:
        raise RuntimeError(f"scrot ended with {done.exit_code}: {done.stderr[-200:]!r}")
    return await desk.read(name)


async def measure(host: Host, book: Book, rounds: int) -> None:
    """Measure everything once a round; the first round only warms caches."""
    host.keep_ready(DESKTOP, KEPT)
    host.keep_ready(Spec(), KEPT)
    async with Host(host.config, control=False) as poolless, poolless.open_desk(DESKTOP) as desk:
        await come_up(desk, book)
        screen = Screen(poolless.get_seat(desk))
        process = await desk.start([SESSION, "python3", "-c", PROGRAM], stdin=False)
        lines = lines_of(process)
        await anext(lines)
        for number in range(-1, rounds):
            kept = book if number >= 0 else Book()
            await look(screen, kept, number)
            await act(screen, lines, kept, number)
            await claim(host, screen, kept, number)


async def come_up(desk: Desk, book: Book) -> None:
    """Measure how long a desktop takes to start, and the memory it uses when idle."""
    book.note(UP, 0, await timed(lambda: desk.run([SESSION])))
    await anyio.sleep(1)
    book.facts[MEMORY] = (await desk.usage()).memory / MIB


async def look(screen: Screen, book: Book, number: int) -> None:
    """Take a picture each way, of a screen that has changed since the last one."""
    desk = screen.seat.desk
    ways: dict[str, Callable[[], Awaitable[object]]] = {
        PNG: screen.screenshot,
        SCROT_PNG: lambda: scrot(desk, "shot.png"),
        JPEG: lambda: screen.screenshot(format="jpeg"),
        SCROT_JPEG: lambda: scrot(desk, "shot.jpg"),
    }
    for name, way in ways.items():
        await anyio.sleep(REST)
        book.note(name, number, await timed(way))


async def act(screen: Screen, lines: AsyncGenerator[str, None], book: Book, number: int) -> None:
    """Press a key and a button each way."""
    desk = screen.seat.desk
    xdotool = ["xdotool", "mousemove", "640", "400", "click", "1"]
    ways: dict[str, Callable[[], Awaitable[object]]] = {
        KEY: lambda: screen.press_chords("a"),
        XDOTOOL_KEY: lambda: desk.run(["xdotool", "key", "a"], env=DISPLAY),
        CLICK: lambda: screen.click(640, 400),
        XDOTOOL_CLICK: lambda: desk.run(xdotool, env=DISPLAY),
    }
    for name, way in ways.items():
        with anyio.fail_after(20):
            await reached(lines, way)  # the first event through another connection sends every program the keymap again
            times = [await reached(lines, way) for _ in range(3)]
        book.note(arrival(name), number, *[arrived for arrived, _ in times])
        book.note(name, number, *[done for _, done in times])


async def claim(host: Host, screen: Screen, book: Book, number: int) -> None:
    """Claim a ready desktop and take a picture; then claim a desk without a screen, and take a picture of another."""
    opened: list[Desk] = []

    async def see() -> None:
        opened.append(await host.open(DESKTOP))
        await Screen(host.get_seat(opened[0])).screenshot()

    async def answer() -> None:
        opened.append(await ready(host))
        await screen.screenshot()

    for name, way in ((WARM, see), (WARM_BASE, answer)):
        await host.pool.wait_until_full()
        await anyio.sleep(REST)
        book.note(name, number, await timed(way))
        await host.burn(opened.pop().id)
