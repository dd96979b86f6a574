"""Tests of a person at a desk's screen: a real page in a real browser, which runs in a desk of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from hotdesk import config
from hotdesk.brief import Scope, parse_grant, parse_rule
from hotdesk.config import Config
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.owner.keeper_handle import KeeperHandle
from hotdesk.desk.seam import Spec
from hotdesk.drive.journal import FILE, read
from hotdesk.hands.screen.reader_client import DeskSeat
from hotdesk.host import Host
from hotdesk.linux import private_files, uids
from hotdesk.vault import Token, Vault
from tests.e2e.conftest import environment
from tests.e2e.server.test_web_access import FAINT
from tests.upstream import Upstream, upstream

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]

WATCH = [sys.executable, "-c", "from hotdesk.cli import main; main()", "watch", "--json", "--no-open"]
FORM = "data:text/html,<title>Work</title><input id=i style='position:fixed;inset:0;font-size:60px'>"
LOGIN = b"""<title>Login</title><form action=/login method=post>
<input name=password type=password style="position:fixed;inset:0;font-size:60px"></form>"""
PASSWORD = "correct-horse-battery-staple-42"
CANVAS = "document.querySelector('canvas').getBoundingClientRect()"
TAKE = "fetch('wheel', {method: 'POST', body: JSON.stringify({act: 'take'})}).then(r => window.answer = r.status)"
RETURN = "\N{CARRIAGE RETURN}"
KEYS = {RETURN: 0xFF0D}


@dataclass
class Scene:
    """A desk where a worker works, and a desk whose browser shows its screen."""

    host: Host
    desk: LinkedDesk
    eye: DeskSeat
    up: Upstream

    async def see(self, expression: str, seat: DeskSeat | None = None) -> object:
        asked = f"JSON.stringify({expression})"
        told = (await (seat or self.eye).ask("browser.evaluate", expression=asked)).value
        assert isinstance(told, dict)
        return json.loads(json.loads(str(told["text"])))

    async def until(self, expression: str, seat: DeskSeat | None = None) -> None:
        with anyio.fail_after(30):
            while not await self.see(expression, seat):
                await anyio.sleep(0.02)

    async def click(self, x: int, y: int) -> None:
        """Click at a position of the desk's screen in the page, as the person does."""
        box = await self.see(CANVAS)
        top = await self.see("window.outerHeight - window.innerHeight")
        assert isinstance(box, dict)
        assert isinstance(top, int)
        across, down = int(box["x"] + x * box["width"] / 1280), int(box["y"] + y * box["height"] / 800 + top)
        events = [["move", across, down], ["pause", 0.05], ["button", 1, True], ["button", 1, False], ["pause", 0.05]]
        await self.eye.ask("screen.input", events=events)

    async def type(self, text: str) -> None:
        keys = [["key", KEYS.get(letter, ord(letter)), down] for letter in text for down in (True, False)]
        await self.eye.ask("screen.input", events=[*keys, ["pause", 0.1]])

    async def press(self, name: str) -> None:
        await self.see(f"document.getElementById('{name}').click() || true")

    async def take(self) -> None:
        await self.press("wheel")
        await self.until("!document.getElementById('banner').hidden")

    async def work_at(self, url: str) -> DeskSeat:
        seat = self.host.get_seat(self.desk)
        await seat.ask("browser.goto", url=url)
        return seat

    async def typed(self) -> object:
        return await self.see("i.value", self.host.get_seat(self.desk))

    async def arrives(self, text: str) -> None:
        """Wait until the form contains a text."""
        with anyio.fail_after(10):
            while await self.typed() != text:
                await anyio.sleep(0.05)

    def noted(self) -> list[dict[str, object]]:
        rows = read(self.host.config.lib / "keys" / FILE, self.desk.id)
        return [{"name": row.name, **json.loads(row.data)} for row in rows if row.name in ("TookOver", "HandedBack")]


@pytest.fixture(scope="module")
async def scene(home: Path) -> AsyncIterator[Scene]:
    """Open both desks; the one with the worker has a placeholder for a login outside."""
    folder = home / "watch"
    folder.mkdir(mode=0o755)
    private_files.make_folder(folder / "lib/keys", uids.KEYS)
    Vault.make(folder / "lib/keys", "file").put("password", Token(), PASSWORD.encode())
    (folder / "lib/viewer").symlink_to(config.load().lib / "viewer")
    images = Path(os.environ.get("HOTDESK_IMAGES") or "/var/lib/hotdesk/images")
    with upstream(folder, "erp.test") as up:
        scope = Scope(
            rules=(parse_rule("GET,POST https://erp.test/**"),),
            grants=(parse_grant("password@erp.test form=password:POST:/login env=ERP_PASSWORD"),),
            names={"erp.test": up.address},
        )
        own = Config(run=folder / "run", lib=folder / "lib", images=images, ca=str(up.ca))
        async with (
            Host(own) as host,
            host.open_desk(Spec(image="desktop"), scope) as desk,
            host.open_desk(Spec(image="desktop")) as eye,
        ):
            assert isinstance(desk, LinkedDesk)
            here = Scene(host, desk, host.get_seat(eye), up)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(here.work_at, FORM)
                tasks.start_soon(here.see, "1")
            yield here


@asynccontextmanager
async def page(scene: Scene, *options: str) -> AsyncIterator[str]:
    """Serve the page on the loopback of the viewing desk, and open it there; yield its address."""
    assert isinstance(scene.eye.desk, LinkedDesk)
    assert isinstance(scene.eye.desk.outside, KeeperHandle)
    inside = ["nsenter", f"--net=/proc/{scene.eye.desk.outside.pid}/ns/net"]
    env = {**environment(scene.host.config), "PYTHONPATH": ":".join(sys.path)}
    with subprocess.Popen([*inside, *WATCH, *options, scene.desk.id], stdout=subprocess.PIPE, env=env) as served:
        try:
            assert served.stdout is not None
            address = json.loads(await anyio.to_thread.run_sync(served.stdout.readline))["url"]
            await scene.eye.ask("browser.goto", url=address)
            await scene.until("document.getElementById('state').textContent === 'live'")
            yield address
            await scene.eye.ask("browser.goto", url="about:blank")
        finally:
            served.terminate()


async def test_a_person_takes_the_wheel_types_and_hands_back(scene: Scene) -> None:
    wheel = scene.host.get_wheel(scene.desk)
    async with page(scene, "--control"):
        await scene.click(640, 400)
        await scene.type("early")
        assert await scene.typed() == ""
        await scene.take()
        assert "person" in (wheel.explain_refusal() or "")
        assert await scene.see(f"({FAINT})()") == []
        await scene.click(640, 400)
        await scene.type("secret")
        await scene.arrives("secret")
        await scene.press("wheel")
        await scene.until("document.getElementById('banner').hidden")
        assert wheel.explain_refusal() is None
        await scene.click(640, 400)
        await scene.type("late")
        assert await scene.typed() == "secret"
        await scene.take()
    with anyio.fail_after(30):
        while wheel.explain_refusal():  # until the person has left the page
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


async def test_a_person_signs_in_with_a_secret_that_never_enters_the_desk(scene: Scene) -> None:
    html = {"Content-Type": "text/html"}
    scene.up.answers |= {"/": (200, html, LOGIN), "/login": (200, html, b"<title>In</title>")}
    seat = await scene.work_at("https://erp.test/")
    async with page(scene, "--control"):
        assert await scene.see("document.getElementById('secrets').hidden")
        await scene.take()
        assert await scene.see("document.getElementById('secret').value") == "password"
        await scene.click(640, 400)
        await scene.until("document.activeElement.name === 'password'", seat)  # a person looks first, too
        await scene.press("type")
        await scene.until("document.querySelector('input').value.length > 8", seat)
        await scene.type(RETURN)
        await scene.until("document.title === 'In'", seat)
        await scene.press("wheel")
        await scene.until("document.getElementById('banner').hidden")
    assert [seen.body for seen in scene.up.seen if seen.path == "/login"] == [f"password={PASSWORD}".encode()]
    search = "grep -rlaF -e $0 /home /tmp /run /etc /proc/[0-9]*/environ 2>/dev/null"
    assert (await scene.desk.run(["sh", "-c", search, PASSWORD], timeout=30)).text == ""


@pytest.mark.long
async def test_a_viewer_without_control_moves_nothing_and_sees_the_end(scene: Scene) -> None:
    await scene.work_at(FORM)
    async with page(scene) as address:
        assert await scene.see("document.getElementById('wheel').hidden")
        await scene.see(f"({TAKE}, true)")
        await scene.until("window.answer === 409")
        assert scene.host.get_wheel(scene.desk).explain_refusal() is None
        await scene.click(640, 400)
        await scene.type("nothing")
        assert await scene.typed() == ""
        await scene.host.burn(scene.desk.id)
        await scene.until("document.getElementById('state').textContent === 'gone'")
        await scene.eye.ask("browser.goto", url=address)
        assert "Run `hotdesk watch` again" in str(await scene.see("document.body.innerText"))
