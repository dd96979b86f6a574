"""A desk's screen in a page: the time until a running browser, in a second desk, shows its first frame."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from bench.book import Book
from bench.hands import DESKTOP

from hotdesk import config
from hotdesk.config import Config
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.owner.keeper_handle import KeeperHandle
from hotdesk.hands.screen.reader_client import DeskSeat
from hotdesk.host import Host

FRAME = "live view: the page opens → its first frame"
HIDDEN = "about:blank"
SHOWN = "performance.getEntriesByName('first frame').map((mark) => mark.startTime)"
"""Milliseconds from the start of the navigation until the canvas has a picture."""
PROGRAM = "from hotdesk.cli import main; main()"
LONGEST = 20.0
REST = 0.5
"""Seconds without requests to a page, so that it can close, or open without being slowed down."""


async def measure(host: Host, book: Book, rounds: int) -> None:
    """Open the page once a round; the first rounds only warm the browser."""
    lend_viewer(host.config)
    async with (
        Host(host.config) as owner,
        owner.open_desk(DESKTOP) as desk,
        owner.open_desk(DESKTOP) as beside,
    ):
        assert isinstance(beside, LinkedDesk)
        eye = owner.get_seat(beside)
        await owner.get_seat(desk).ask("browser.goto", url=HIDDEN)
        await eye.ask("browser.goto", url=HIDDEN)
        async with watched(desk.id, beside) as address:
            await eye.ask("browser.goto", url=address)
            place = str(await see(eye, "location.href"))
            for number in range(-2, rounds):
                await eye.ask("browser.goto", url=HIDDEN)
                await anyio.sleep(REST)
                took = await first_frame(eye, place)
                (book if number >= 0 else Book()).note(FRAME, number, took)


def lend_viewer(settings: Config) -> None:
    """Give this run's state directory the machine's noVNC."""
    viewer = settings.lib / "viewer"
    viewer.parent.mkdir(parents=True, exist_ok=True)
    if not viewer.is_symlink():
        viewer.symlink_to(config.load({}).lib / "viewer")


@asynccontextmanager
async def watched(desk: str, beside: LinkedDesk) -> AsyncIterator[str]:
    """Have `hotdesk watch` serve a desk's page on the loopback of the second desk; yield the page's address."""
    assert isinstance(beside.outside, KeeperHandle)
    inside = ["nsenter", f"--net=/proc/{beside.outside.pid}/ns/net"]
    argv = [*inside, sys.executable, "-c", PROGRAM, "watch", "--json", "--no-open", desk]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as page:
        try:
            assert page.stdout is not None
            yield json.loads(await anyio.to_thread.run_sync(page.stdout.readline))["url"]
        finally:
            page.terminate()


async def first_frame(eye: DeskSeat, place: str) -> float:
    """Open the page and wait for its first frame; return the seconds that the page measured."""
    await eye.ask("browser.goto", url=place)
    with anyio.fail_after(LONGEST):
        while True:
            await anyio.sleep(REST)
            match await see(eye, SHOWN):
                case [float() | int() as took, *_]:
                    return took / 1000


async def see(eye: DeskSeat, expression: str) -> object:
    """Return the value of an expression in the page."""
    told = (await eye.ask("browser.evaluate", expression=f"JSON.stringify({expression})")).value
    assert isinstance(told, dict)
    return json.loads(json.loads(str(told["text"])))
