"""Tests of a VNC client of another project at a desk: what it sees, which keys arrive, and what the worker is told."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest
from asyncvnc import Client, UpdateType, connect

from hotdesk.config import Config
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.owner.remote import RemoteRuntime
from hotdesk.desk.owner.runtime import SESSION
from hotdesk.desk.seam import Spec
from hotdesk.drive.journal import FILE, read
from hotdesk.errors import BriefError
from hotdesk.event import HandedBack, TookOver
from hotdesk.hands.screen.reader_client import DISPLAY
from hotdesk.hands.toolbox import Toolbox
from hotdesk.host import Host, reach
from hotdesk.tool import Observation

pytestmark = pytest.mark.container

COLOUR = (18, 52, 86)
PROGRAM = """
import tkinter
root = tkinter.Tk()
root.geometry("1280x800+0+0")
root.configure(bg="#123456")
seen = open("seen.txt", "ab", buffering=0)
root.bind("<KeyPress>", lambda event: seen.write(event.char.encode()))
root.bind("<ButtonPress>", lambda event: seen.write(b"[%d %d]" % (event.x_root, event.y_root)))
root.bind("<FocusIn>", lambda event: root.after(300, lambda: print("ready", flush=True)))
root.focus_force()
root.mainloop()
"""
SET = "printf {} | xclip -selection {} >/dev/null 2>&1"
GET = "xclip -o -selection {} 2>/dev/null || true"


@dataclass
class Place:
    """A desk with a program that records keys and clicks, its worker's tools, and its owner for other processes."""

    host: Host
    desk: LinkedDesk
    toolbox: Toolbox
    owner: RemoteRuntime

    @asynccontextmanager
    async def look(self, *rights: str) -> AsyncIterator[Viewer]:
        name = secrets.token_hex(16)
        sock = await self.owner.upgrade("/".join(["/desks", self.desk.id, "view", name, *rights]), "hotdesk-screen")
        async with connect("", opener=lambda *_: asyncio.open_connection(sock=sock)) as client:
            yield Viewer(self, name, client)

    async def arrived(self) -> str:
        """Return the keys and clicks that reached the program since the last call; the last one is the worker's own."""
        await self.host.get_seat(self.desk).ask(
            "screen.input", events=[["key", ord("."), True], ["key", ord("."), False]]
        )
        with anyio.fail_after(10):
            while not (seen := (await self.desk.read("seen.txt")).decode()).endswith("."):
                await anyio.sleep(0.02)
        await self.desk.run(["truncate", "--size=0", "seen.txt"])
        return seen[:-1]

    async def clipboard(self, selection: str) -> str:
        return (await self.desk.run(["sh", "-c", GET.format(selection)], env=DISPLAY, timeout=10)).text

    def noted(self) -> list[TookOver | HandedBack]:
        events = [row.read_event() for row in read(self.host.config.lib / "keys" / FILE, self.desk.id)]
        return [event for event in events if isinstance(event, TookOver | HandedBack)]


@dataclass
class Viewer:
    """A person with a VNC client."""

    place: Place
    name: str
    client: Client

    async def act(self, text: str) -> None:
        """Type, click, and offer a text for pasting; then request a picture, so that all of it was processed."""
        self.client.keyboard.write(text)
        self.client.mouse.move(640, 400)
        self.client.mouse.click()
        self.client.writer.write(b"\x06\0\0\0\0\0\0\x05paste")  # the client's own method leaves two bytes out
        await self.client.screenshot()

    async def turn(self, act: str) -> None:
        told = {"act": act, "viewer": self.name, "secret": ""}
        await self.place.owner.call("POST", f"/desks/{self.place.desk.id}/wheel", told)


@pytest.fixture(scope="module")
async def place(home: Path) -> AsyncIterator[Place]:
    folder = home / "viewer"
    folder.mkdir(mode=0o755)
    images = Path(os.environ.get("HOTDESK_IMAGES") or "/var/lib/hotdesk/images")
    own = Config(run=folder / "run", lib=folder / "lib", images=images)
    async with (
        Host(own) as host,
        host.open_desk(Spec(image="desktop")) as desk,
        reach(own, desk.id) as lent,
    ):
        assert isinstance(desk, LinkedDesk)
        program = await desk.start([SESSION, "python3", "-c", PROGRAM], stdin=False)
        with anyio.fail_after(20):
            async for _ in program.output():
                break
        yield Place(host, desk, await host.hands(desk), lent.runtime)


async def test_a_viewer_without_control_sees_everything_and_moves_nothing(place: Place) -> None:
    async with place.look() as viewer:
        picture = await viewer.client.screenshot()
        assert picture.shape == (800, 1280, 4)
        assert tuple(picture[300, 300, :3]) == COLOUR
        await viewer.act("abc")
        with pytest.raises(BriefError, match="this viewer may only watch"):
            await viewer.turn("take")
        await viewer.act("def")
    assert await place.arrived() == ""


async def test_only_the_person_at_the_wheel_can_type(place: Place) -> None:
    async with place.look("control") as first, place.look("control") as second:
        await first.act("early")
        assert await place.arrived() == ""
        await first.turn("take")
        with pytest.raises(BriefError, match="has control of this desk"):
            await second.turn("take")
        await second.turn("hand back")
        await second.act("stranger")
        await first.act("drive")
        await first.turn("hand back")
        assert await place.arrived() == "drive[640 400]"
        await first.act("late")
        assert await place.arrived() == ""
    took, back = place.noted()[-2:]
    assert isinstance(took, TookOver)
    assert isinstance(back, HandedBack)
    assert took.by == back.by == f"uid 0 pid {os.getpid()}"
    assert (back.clicks, back.keys) == (1, 5)


async def test_clipboards_are_not_shared(place: Place) -> None:
    async with place.look("control") as viewer:
        await viewer.turn("take")
        await viewer.act("")
        await viewer.turn("hand back")
        for selection in ("clipboard", "primary"):
            assert await place.clipboard(selection) == ""
            assert (await place.desk.run(["sh", "-c", SET.format("inside", selection)], env=DISPLAY, timeout=10)).ok
            assert await place.clipboard(selection) == "inside"
        viewer.client.video.data = None
        viewer.client.video.refresh()
        assert await viewer.client.read() is UpdateType.VIDEO
        assert tuple(viewer.client.video.as_rgba()[300, 300, :3]) == COLOUR
    await place.arrived()


async def test_the_workers_tools_are_refused_during_a_takeover_and_explain_it_afterwards(place: Place) -> None:
    under_way: list[Observation] = []

    async def work() -> None:
        under_way.append(await place.toolbox.use("run", {"command": "touch begun; sleep 0.5; echo done"}))

    async with place.look("control") as viewer, anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        with anyio.fail_after(10):
            while not any(entry.path.endswith("/begun") for entry in await place.desk.list()):
                await anyio.sleep(0.02)
        await viewer.turn("take")
        await viewer.act("x")
        refused = await place.toolbox.use("run", {"argv": ["true"]})
        assert not refused.ok
        assert "a person has had control of this desk for" in refused.text
        with anyio.fail_after(30), pytest.raises(BriefError, match="a person has control"):
            await place.owner.call("POST", f"/desks/{place.desk.id}/tools/run", {"argv": ["true"]})
        assert under_way == []
        await viewer.turn("hand back")
    [seen] = under_way
    assert seen.ok
    assert seen.text.startswith("done")
    assert seen.note.startswith("A person controlled this desk for ")
    assert "(1 clicks, 1 keys)" in seen.note
    assert seen.image.startswith(b"\x89PNG")
    again = await place.toolbox.use("run", {"argv": ["echo", "mine"]})
    assert again.text.startswith("mine")
    assert not again.image
