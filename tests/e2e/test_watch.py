"""A person at a desk's screen: a real page in a real browser, which stands in a desk of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import pytest

from hotdesk import config
from hotdesk.cli.watch import Far
from hotdesk.config import Config
from hotdesk.desk.linked import LinkedDesk
from hotdesk.desk.remote import remote_runtime
from hotdesk.desk.seam import Spec
from hotdesk.drive.journal import FILE, read
from hotdesk.errors import BriefError
from hotdesk.hands.seat import DeskSeat
from hotdesk.host import Host, control_path
from tests.e2e.conftest import environment
from tests.e2e.forwarding import forwarded

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]

WATCH = [sys.executable, "-c", "from hotdesk.cli import main; main()", "watch", "--json", "--no-open"]
FORM = "data:text/html,<title>Work</title><input id=i style='position:fixed;inset:0;font-size:60px'>"
CANVAS = "document.querySelector('canvas').getBoundingClientRect()"


@dataclass
class Scene:
    """A desk that is worked at, and one whose browser looks at it."""

    host: Host
    desk: LinkedDesk
    eye: DeskSeat
    settings: Config

    async def see(self, expression: str) -> object:
        """Give what an expression is in the page."""
        told = (await self.eye.ask("browser.evaluate", expression=f"JSON.stringify({expression})")).value
        assert isinstance(told, dict)
        return json.loads(json.loads(str(told["text"])))

    async def until(self, expression: str, seconds: float = 10.0) -> None:
        """Wait until an expression is so in the page."""
        with anyio.fail_after(seconds):
            while not await self.see(expression):
                await anyio.sleep(0.05)

    async def point(self, x: int, y: int) -> tuple[int, int]:
        """Give where a place of the desk's screen is on the screen of the desk that looks."""
        box = await self.see(CANVAS)
        top = await self.see("window.outerHeight - window.innerHeight")
        assert isinstance(box, dict)
        assert isinstance(top, int)
        return int(box["x"] + x * box["width"] / 1280), int(box["y"] + y * box["height"] / 800 + top)

    async def click(self, x: int, y: int) -> None:
        """Click at a place of the desk's screen, as the person does: in the page."""
        across, down = await self.point(x, y)
        events = [["move", across, down], ["pause", 0.05], ["button", 1, True], ["button", 1, False], ["pause", 0.05]]
        await self.eye.ask("screen.input", events=events)

    async def type(self, text: str) -> None:
        """Type, as the person does."""
        keys = [["key", ord(letter), down] for letter in text for down in (True, False)]
        await self.eye.ask("screen.input", events=[*keys, ["pause", 0.1]])

    async def press(self, name: str) -> None:
        """Press a button of the page's."""
        await self.see(f"document.getElementById('{name}').click() || true")

    def noted(self) -> list[dict[str, object]]:
        """Give what was written down of who drove."""
        rows = read(self.settings.lib / "keys" / FILE, self.desk.id)
        return [{"name": row.name, **json.loads(row.data)} for row in rows if row.name in ("TookOver", "HandedBack")]

    async def typed(self) -> object:
        """Give what arrived in the form of the desk that is worked at."""
        told = (await self.host.seat(self.desk).ask("browser.evaluate", expression="i.value")).value
        assert isinstance(told, dict)
        return json.loads(str(told["text"]))


@pytest.fixture
async def scene(settings: Config) -> AsyncIterator[Scene]:
    viewer = settings.lib / "viewer"
    viewer.parent.mkdir(parents=True, exist_ok=True)
    viewer.symlink_to(config.load().lib / "viewer")
    async with (
        Host(settings) as host,
        host.open_desk(Spec(image="desktop")) as desk,
        host.open_desk(Spec(image="desktop")) as eye,
    ):
        assert isinstance(desk, LinkedDesk)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(go, host.seat(desk), FORM)
            tasks.start_soon(go, host.seat(eye), "about:blank")
        yield Scene(host, desk, host.seat(eye), settings)
    viewer.unlink()


async def go(seat: DeskSeat, url: str) -> None:
    """Go to a page."""
    await seat.ask("browser.goto", url=url)


@asynccontextmanager
async def watching(scene: Scene, settings: Config, *options: str) -> AsyncIterator[str]:
    """Have a page shown, and its port in the desk that looks; give its address."""
    argv = [*WATCH, *options, scene.desk.id]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, env={**environment(settings), "PYTHONPATH": ":".join(sys.path)}
    ) as page:
        try:
            assert page.stdout is not None
            told = await anyio.to_thread.run_sync(page.stdout.readline)
            assert told, "the page's server ended; its complaint is above"
            address = json.loads(told)["url"]
            async with forwarded(scene.eye.desk, int(address.split(":")[2].split("/")[0])):
                yield address
        finally:
            page.terminate()


@asynccontextmanager
async def page(scene: Scene, settings: Config, *options: str) -> AsyncIterator[str]:
    """Have a page shown, opened and live; give its address."""
    async with watching(scene, settings, *options) as address:
        await scene.eye.ask("browser.goto", url=address)
        await scene.until("document.getElementById('state').textContent === 'live'")
        await scene.until("performance.getEntriesByName('first frame').length === 1")
        try:
            yield address
        finally:
            await scene.eye.ask("browser.goto", url="about:blank")


async def test_a_person_takes_the_wheel_types_and_hands_back(scene: Scene, settings: Config) -> None:
    wheel = scene.host.wheel(scene.desk)
    async with page(scene, settings, "--control"):
        await scene.click(640, 400)
        await scene.type("early")
        assert await scene.typed() == ""
        await scene.press("wheel")
        await scene.until("!document.getElementById('banner').hidden")
        assert "person" in (wheel.refusal() or "")
        await scene.click(640, 400)
        await scene.type("secret")
        assert await scene.typed() == "secret"
        await scene.press("wheel")
        await scene.until("document.getElementById('banner').hidden")
        assert wheel.refusal() is None
        await scene.click(640, 400)
        await scene.type("late")
        assert await scene.typed() == "secret"
        await scene.press("wheel")
        await scene.until("!document.getElementById('banner').hidden")
    with anyio.fail_after(5):
        while wheel.refusal():  # the page was left
            await anyio.sleep(0.02)
    told = await wheel.welcome()
    assert told is not None
    assert "handed it back" in told.text
    assert told.image.startswith(b"\x89PNG")
    took, back, again, left = scene.noted()
    assert [each["name"] for each in (took, back, again, left)] == ["TookOver", "HandedBack"] * 2
    assert (back["clicks"], back["keys"], left["note"]) == (1, 6, "its viewer left")
    assert took["by"] == back["by"]
    assert "secret" not in json.dumps(scene.noted())
    assert (await scene.desk.run(["true"])).ok


async def owner_refuses(scene: Scene) -> None:
    """See that a desk's owner knows itself who may drive, whatever a page's server says."""
    async with remote_runtime(control_path(scene.settings, os.getpid())) as runtime:
        owner = Far(runtime, scene.desk.id)
        with await owner.screen("a" * 32, control=False), pytest.raises(BriefError, match="only looks"):
            await owner.turn("take", "a" * 32, "")
        with pytest.raises(BriefError, match="nobody of that name"):
            await owner.turn("take", "b" * 32, "")
        with await owner.screen("c" * 32, control=True), pytest.raises(BriefError, match="looks already"):
            await owner.screen("c" * 32, control=True)
        with pytest.raises(BriefError, match="small letters"):
            await owner.screen("A" * 32, control=True)
        assert (await owner.wheel())["holder"] == ""


async def test_who_only_looks_moves_nothing_and_learns_of_the_end(scene: Scene, settings: Config) -> None:
    async with page(scene, settings) as address:
        assert await scene.see("document.getElementById('wheel').hidden")
        refused = (
            "fetch('wheel', {method: 'POST', body: JSON.stringify({act: 'take'})}).then(r => window.answer = r.status)"
        )
        await scene.see(f"({refused}, true)")
        await scene.until("window.answer === 409")
        await scene.click(640, 400)
        await scene.type("nothing")
        assert await scene.typed() == ""
        await owner_refuses(scene)
        await scene.host.burn(scene.desk.id)
        await scene.until("document.getElementById('state').textContent === 'gone'")
        await scene.eye.ask("browser.goto", url=address)
        assert "Run `hotdesk watch` again" in str(await scene.see("document.body.innerText"))
