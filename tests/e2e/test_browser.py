"""Tests of a real browser in a real desk, used by reference: forms, downloads, dialogs, tabs, a login at the door."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import pytest

from hotdesk.brief import Scope, parse_grant, parse_rule
from hotdesk.desk.seam import Desk, Spec
from hotdesk.errors import DeskError, FileError
from hotdesk.hands.browser.browser import Browser
from hotdesk.hands.browser.results import BrowserResult
from hotdesk.host import Host
from hotdesk.linux import private_files, uids
from hotdesk.tool import Observation
from hotdesk.vault import Token, Vault
from tests.conftest import settings_in
from tests.upstream import Upstream, upstream

pytestmark = pytest.mark.container

PORT = 8000
SITE = f"http://127.0.0.1:{PORT}"
PASSWORD = "correct-horse-battery-staple-42"
FORM = """<title>Order</title><h1>Order</h1>
<form action=/told method=post enctype=multipart/form-data>
<label>Name <input name=name value=old></label> <label>Mail <input name=mail type=email></label>
<label>Count <input name=count type=number></label> <label>Day <input name=day type=date></label>
<label>Note <textarea name=note></textarea></label>
<label>Country <select name=country><option>Chile<option value=NO>Norway</select></label>
<label>Extras <select name=extras multiple><option>ice<option>lemon<option>mint</select></label>
<label><input type=checkbox name=agree> Agree</label>
<label><input type=radio name=pay value=cash checked> Cash</label>
<label><input type=radio name=pay value=card> Card</label>
<label>File <input type=file name=file></label> <button>Send</button></form>"""
ODDS = """<title>Odds</title>
<button onclick="document.title = confirm('Really?') + ' ' + prompt('Who?', 'x')">Ask</button>
<button onclick="window.open('/table.html')">Pop</button>
<a href=/slow.csv>Slow</a> <a href=/broken.csv>Broken</a> <a href=/plain.csv download>Plain</a>
<div style=position:relative><button id=under onclick="document.title='pressed'">Under</button>
<div id=cover style="position:absolute;inset:0;background:#ccc">A banner</div></div>
<div style=position:relative><button style=width:300px onclick="document.title='half'">Half</button>
<div style="position:absolute;left:100px;width:150px;top:0;bottom:0;background:#ccc">B</div></div>
<button id=goes onclick="this.remove()">Goes</button> <div onclick="document.title='bare'">Bare</div>
<div contenteditable aria-label=Page>old <b>text</b></div>
<input aria-label=Short maxlength=3> <input aria-label=Fixed readonly value=1>
<button onclick="setTimeout(() => document.body.append('it is done'), 300)">Later</button>
<iframe src=http://localhost:8000/table.html></iframe><div id=host></div>
<iframe srcdoc="<button onclick=&quot;parent.document.title='framed'&quot;>Inner</button>"></iframe>
<div style=height:3000px></div><button onclick="document.title='deep'">Deep</button>
<script>document.getElementById('host').attachShadow({mode: 'open'}).innerHTML =
'<button onclick="document.title=&quot;shadow&quot;">Shade</button>'</script>"""
TABLE = """<title>Table</title><h2>Sums &amp; <em>more</em></h2><p>One <a href=/form.html>form</a>,<br>two.</p>
<table><tr><th>Item<th>Sum<tr><td>Tea<td>3|4<tr><td>世界<td>5</table><ul><li>a<ul><li>b</ul><li>c</ul>
<p hidden>never</p><label>Seen <input value=held></label><script>var x = 'never'</script>"""
LOGIN = b"""<title>Login</title><form action=/login method=post><label>User <input name=user></label>
<label>Password <input name=password type=password></label><button>Sign in</button></form>"""


@dataclass
class Place:
    """A desk, its browser, and the server outside at which it logs in."""

    desk: Desk
    browser: Browser
    up: Upstream

    async def at(self, page: str) -> BrowserResult:
        return await self.browser.goto(f"{SITE}/{page}")

    async def ref(self, name: str) -> str:
        text = (await self.browser.snapshot()).text
        found = re.search(rf'(?:"{re.escape(name)}"|text: {re.escape(name)}) \[(e\d+)\]', text)
        assert found, text
        return found[1]

    async def use(self, tool: str, **arguments: object) -> Observation:
        checked = next(each for each in self.browser.tools if each.name == tool).check(arguments)
        return await self.browser.use(tool, checked)


@pytest.fixture(scope="module")
async def place(home: Path) -> AsyncIterator[Place]:
    """Yield a desk with a site inside, and a placeholder for a login outside.

    The session's check for leftovers does not cover it, because its programs come and go between tests.
    """
    folder = home / "browser"
    folder.mkdir(mode=0o755)
    private_files.make_folder(folder / "lib/keys", uids.KEYS)
    Vault.make(folder / "lib/keys", "file").put("password", Token(), PASSWORD.encode())
    with upstream(folder, "erp.test") as up:
        scope = Scope(
            rules=(parse_rule("GET,POST https://erp.test/**"),),
            grants=(parse_grant("password@erp.test form=password:POST:/login env=ERP_PASSWORD"),),
            names={"erp.test": up.address},
        )
        own = replace(settings_in(folder), ca=str(up.ca))
        async with Host(own, control=False) as host, host.open_desk(Spec(image="desktop"), scope) as desk:
            for name, text in (("form.html", FORM), ("odds.html", ODDS), ("table.html", TABLE), ("plain.csv", "a,b\n")):
                await desk.write(f"site/{name}", f"<meta charset=utf-8>{text}".encode())
            await desk.write("site.py", Path(__file__).with_name("browser_site.py").read_bytes())
            await desk.start(["python3", "../site.py", str(PORT)], cwd="site")
            with anyio.fail_after(20):
                while not (await desk.run(["curl", "-sf", f"{SITE}/form.html"])).ok:
                    await anyio.sleep(0.05)
            yield Place(desk, Browser(host.get_seat(desk)), up)


async def test_a_form_is_filled_by_reference(place: Place) -> None:
    await place.desk.write("papers/r1.txt", b"a report")
    await place.at("form.html")
    said = "Zoë 世界 🦜\u200d"
    fields = [("Name", said), ("Mail", "a@b.test"), ("Count", "12"), ("Day", "2026-01-31"), ("Note", f"{said}\n\tb"),
              ("Country", "Norway"), ("Agree", "true"), ("Card", "true")]  # fmt: skip
    for name, text in fields:
        assert (await place.browser.fill(await place.ref(name), text)).as_meant, name
    chosen = await place.use("browser_select", ref=await place.ref("Extras"), values=["ice", "mint"])
    assert chosen.ok
    assert (await place.browser.upload(await place.ref("File"), ["papers/r1.txt"])).as_meant
    sent = await place.browser.click(await place.ref("Send"))
    assert sent.tab.title == "Told"
    told = json.loads((await place.browser.evaluate("document.querySelector('pre').innerText")).text)
    assert json.loads(told) == [
        ["name", said], ["mail", "a@b.test"], ["count", "12"], ["day", "2026-01-31"], ["note", f"{said}\r\n\tb"],
        ["country", "NO"], ["extras", "ice"], ["extras", "mint"], ["agree", "on"], ["pay", "card"],
        ["file", "r1.txt: a report"],
    ]  # fmt: skip


async def test_input_that_a_field_does_not_accept_is_reported(place: Place) -> None:
    await place.at("form.html")
    day = await place.use("browser_fill", ref=await place.ref("Day"), text="31.1.2026")
    assert not day.ok
    assert "its value is now ''" in day.text
    with pytest.raises(DeskError, match="has no such option; its options are: Chile, Norway"):
        await place.browser.select(await place.ref("Country"), ["Peru"])
    with pytest.raises(DeskError, match="is not a form field"):
        await place.browser.fill(await place.ref("Send"), "x")
    with pytest.raises(FileError):
        await place.browser.upload(await place.ref("File"), ["no-such-file"])
    await place.at("odds.html")
    short = await place.browser.fill(await place.ref("Short"), "abcdef")
    assert (short.as_meant, short.holds) == (False, "abc")
    with pytest.raises(DeskError, match="read-only"):
        await place.browser.fill(await place.ref("Fixed"), "x")
    assert (await place.browser.fill(await place.ref("Page"), "new\n世界")).as_meant


async def test_a_page_is_read_as_markdown(place: Place) -> None:
    await place.at("table.html")
    read = await place.browser.read()
    assert read.text == "\n\n".join([
        "## Sums & *more*", f"One [form]({SITE}/form.html),", "two.",
        "| Item | Sum |\n| --- | --- |\n| Tea | 3\\|4 |\n| 世界 | 5 |", "- a\n  - b\n- c", "Seen [text Seen: held]",
    ])  # fmt: skip
    part = await place.browser.read(most=40)
    rest = await place.browser.read(start=part.next)
    assert part.text + rest.text == read.text
    assert part.length == len(read.text)


async def test_downloads_are_reported_as_complete_or_incomplete(place: Place) -> None:
    await place.at("odds.html")
    before = len((await place.browser.list_downloads()).downloads)
    await place.browser.click(await place.ref("Slow"))
    under_way = (await place.browser.list_downloads()).downloads[before]
    assert (under_way.name, under_way.state, under_way.path) == ("slow.csv", "inProgress", "")
    done = await place.browser.wait_download()
    assert done.met
    assert (done.downloads[before].state, done.downloads[before].bytes) == ("completed", 8000)
    assert len(await place.desk.read(done.downloads[before].path)) == 8000
    assert not (await place.browser.wait_download(0.1)).met
    await place.browser.click(await place.ref("Broken"))
    broken = (await place.browser.wait_download()).downloads[before + 1]
    assert broken.state == "canceled"
    assert "/" not in broken.name
    went = await place.use("browser_goto", url=f"{SITE}/slow.csv")
    assert "being downloaded" in went.text
    listed = await place.use("browser_downloads", wait=True)
    assert listed.ok
    assert "- /home/user/Downloads/slow.csv: completed, 8000 of 8000 bytes" in listed.text
    assert "replacing an earlier file" in listed.text


async def test_a_dialog_never_blocks_a_call(place: Place) -> None:
    await place.at("odds.html")
    ask = await place.ref("Ask")
    asked = await place.use("browser_click", ref=ask)
    assert 'shows a dialog (confirm): "Really?"' in asked.text
    assert (await place.browser.answer_dialog(True)).dialogs[0].message == "Who?"
    assert (await place.browser.answer_dialog(True, "Ada")).tab.title == "true Ada"
    await place.browser.click(ask)
    read = await place.use("browser_read")
    assert "the confirm in tab t1 was dismissed" in read.text
    assert (await place.browser.evaluate("document.title")).text == '"false null"'
    with pytest.raises(DeskError, match="no dialog is open"):
        await place.browser.answer_dialog(True)
    assert (await place.browser.evaluate("alert('x')")).interrupted


async def test_a_window_a_page_opens_is_a_tab(place: Place) -> None:
    await place.at("odds.html")
    opened = await place.browser.click(await place.ref("Pop"))
    new = re.search(r"tab (t\d+) was opened", " ".join(opened.news))
    assert new, opened
    assert (await place.browser.select_tab(new[1])).tab.title == "Table"
    closed = await place.use("browser_tabs", do="close", tab=new[1])
    assert f"tab {new[1]} was closed" in closed.text
    assert "Odds" in closed.text


async def test_a_stale_reference_is_reported_with_the_remedy(place: Place) -> None:
    await place.at("odds.html")
    goes, table = await place.ref("Goes"), await place.ref("Pop")
    assert await place.ref("Goes") == goes
    await place.browser.click(goes)
    with pytest.raises(DeskError, match="take a new snapshot"):
        await place.browser.click(goes)
    await place.browser.back()
    with pytest.raises(DeskError, match="take a new snapshot"):
        await place.browser.click(table)


async def test_a_covered_element_is_reached_another_way_and_that_is_reported(place: Place) -> None:
    await place.at("odds.html")
    under = await place.use("browser_click", ref=await place.ref("Under"))
    assert (under.fallback, "div#cover" in under.text) == ("keyboard", True)
    assert "pressed" in under.text
    half = await place.use("browser_click", ref=await place.ref("Half"))
    assert (half.fallback, half.ok) == ("coordinates", True)
    assert "Tab t1: half" in half.text
    assert "Not shown: 1 frames of other origins" in (await place.use("browser_snapshot")).text
    for name, title in (("Deep", "deep"), ("Shade", "shadow"), ("Inner", "framed"), ("Bare", "bare")):
        clicked = await place.browser.click(await place.ref(name))
        assert (clicked.tab.title, clicked.fallback) == (title, "")


async def test_waiting_for_a_condition_succeeds_or_times_out(place: Place) -> None:
    await place.at("odds.html")
    await place.browser.click(await place.ref("Later"))
    assert (await place.browser.wait_for("text", "it is done", 5)).met
    assert not (await place.browser.wait_for("text_gone", "it is done", 0.2)).met
    assert (await place.browser.wait_for("url", "*/odds.html", 1)).met
    assert (await place.browser.wait_for("idle", timeout=5)).met
    with pytest.raises(DeskError, match=r"did not respond within 0\.5 seconds"):
        await place.browser.goto(f"{SITE}/endless", timeout=0.5)
    with pytest.raises(DeskError, match="ERR_CONNECTION_REFUSED"):
        await place.browser.goto("http://127.0.0.1:9001")
    with anyio.move_on_after(0.2):
        await place.browser.goto(f"{SITE}/endless")
    assert (await place.at("no-such-page")).status == 404


async def test_values_and_pictures_are_bounded(place: Place) -> None:
    await place.at("odds.html")
    assert (await place.browser.evaluate("[1, {a: null}]")).text == '[1,{"a":null}]'
    assert (await place.browser.evaluate("const x = 20; x + 1")).text == "21"
    long = await place.browser.evaluate("'x'.repeat(50_000_000)", most=10)
    assert (long.text, long.length) == ('"xxxxxxxxx', 50_000_002)
    for wrong, why in (
        ("while (true);", "did not end"),
        ("nope", "threw an error: ReferenceError"),
        ("1 +", "SyntaxError"),
    ):
        with pytest.raises(DeskError, match=why):
            await place.browser.evaluate(wrong, timeout=0.3)
    full = await place.use("browser_screenshot", full=True, format="jpeg")
    part = await place.use("browser_screenshot", ref=await place.ref("Under"))
    assert full.image.startswith(b"\xff\xd8\xff")
    assert part.image.startswith(b"\x89PNG")
    width, height = (int.from_bytes(part.image[at : at + 4], "big") for at in (16, 20))
    assert 20 < width < 200
    assert 10 < height < 50


async def test_a_login_is_filled_with_a_placeholder_and_the_password_never_enters_the_desk(place: Place) -> None:
    html = {"Content-Type": "text/html"}
    cookie = {"Set-Cookie": "session=s3cr3t-session-token; Path=/; Secure; HttpOnly", "Location": "/home"}
    place.up.answers |= {
        "/": (200, html, LOGIN),
        "/login": (303, cookie, b""),
        "/home": (200, html, b"<title>In</title>"),
    }
    placeholder = (await place.desk.run(["printenv", "ERP_PASSWORD"])).text.strip()
    await place.browser.goto("https://erp.test/")
    await place.browser.fill(await place.ref("User"), "ada")
    assert (await place.browser.fill(await place.ref("Password"), placeholder)).as_meant
    held = (await place.browser.evaluate("document.querySelector('[type=password]').value")).text
    assert held == json.dumps(placeholder)
    assert (await place.browser.click(await place.ref("Sign in"))).tab.title == "In"
    login, home = (next(seen for seen in place.up.seen if seen.path == path) for path in ("/login", "/home"))
    assert login.body == f"user=ada&password={PASSWORD}".encode()
    assert home.header("Cookie") == "session=s3cr3t-session-token"
    search = "grep -rlaF -e $0 -e s3cr3t-session-token /home /tmp /run /etc /proc/[0-9]*/environ 2>/dev/null"
    found = await place.desk.run(["sh", "-c", search, PASSWORD], timeout=30)
    assert found.text == ""
    assert PASSWORD not in (await place.browser.read()).text
