"""Attacks on a report by a job whose every text is hostile: no script runs, no request is made, text stays text."""

from __future__ import annotations

import json
import re
import struct
import tempfile
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import anyio
import pytest
from hypothesis import example, given, settings, strategies
from PIL import Image

from hotdesk.desk.seam import Desk, Spec
from hotdesk.errors import BriefError, make_printable
from hotdesk.event import Acted, JobBegun, JobEnded, Kept, Observed, StepBegun
from hotdesk.hands.browser.browser import Browser
from hotdesk.hands.reader.pixels import SIGNATURE, encode_chunk, encode_png
from hotdesk.host import Host
from hotdesk.job.record import papers
from hotdesk.job.report import make, write
from hotdesk.job.report.collect import gather
from hotdesk.job.report.markup import escape_stacked_marks, isolate, render_block, tag
from hotdesk.job.report.page import CSS, render_page
from hotdesk.job.report.pictures import read_screen
from hotdesk.job.results import Out
from tests.conftest import settings_in
from tests.ledger import JOB, Ledger
from tests.reported import reported_job, screen, seen
from tests.security.guards import Removal, falls_without, no_guard

pytestmark = pytest.mark.timeout(90)

SITE = "http://127.0.0.1:8000"
HOSTILE = (
    f"<script>fetch('{SITE}/ran')</script></style></title></textarea><script src={SITE}/ran></script>"
    f"\"><img src={SITE}/ran onerror=fetch('{SITE}/ran')>'><svg onload=fetch('{SITE}/ran')><style>@import '{SITE}/ran';"
    f"</style><iframe srcdoc=\"<script>fetch('{SITE}/ran')</script>\"></iframe>"
    f"<a href=javascript:fetch('{SITE}/ran')>x</a><form action={SITE}/ran>"
    f"<meta http-equiv=refresh content='0;url={SITE}/ran'><base href={SITE}/ran>"
    f"--><!--![x]({SITE}/ran) \u202e\u200b\x1b[2J]]><plaintext>"
)
SERVER = f"""
import http.server
class Site(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *told):
        with open("/tmp/asked", "a") as file:
            file.write(self.path + "\\n")
http.server.ThreadingHTTPServer(("127.0.0.1", {SITE.rpartition(":")[2]}), Site).serve_forever()
"""
FOUND = """JSON.stringify({
tags: [...new Set([...document.querySelectorAll('*')].map(e => e.localName))],
attributes: [...new Set([...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames()))],
links: [...document.querySelectorAll('[href],[src]')].map(e => (e.getAttribute('href') || e.src).slice(0, 23)),
styled: getComputedStyle(document.querySelector('.pill')).borderTopLeftRadius,
pictures: [...document.images].filter(e => e.complete && e.naturalWidth).length,
loaded: performance.getEntriesByType('resource').map(e => e.name).filter(e => !e.startsWith('data:')),
text: document.body.innerText})"""
TAGS = set(
    "a bdi body br caption code dd details div dl dt figcaption figure footer h1 h2 h3 h4 head header html img li main "
    "meta nav ol p rect section span strong style summary svg table tbody td th thead time title tr ul".split()
)
ATTRIBUTES = set(
    "alt aria-hidden aria-label aria-labelledby charset class content datetime height href http-equiv id lang name "
    "preserveaspectratio scope src viewbox width x y".split()
)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path)


@dataclass
class Place:
    """A desk with a browser, and a site that records the requests it gets."""

    desk: Desk
    browser: Browser

    async def show(self, html: bytes) -> dict[str, Any]:
        """Open a page of the site in the browser; return what the browser made of it."""
        await self.desk.write("page.html", html)
        await self.desk.run(["truncate", "-s", "0", "/tmp/asked"])
        await self.browser.goto(f"{SITE}/page.html")
        await anyio.sleep(1.0)
        told = (await self.browser.evaluate(FOUND, most=2 << 20)).text
        found: dict[str, Any] = json.loads(json.loads(told))
        return found

    async def asked(self) -> set[str]:
        """Return the requests the site got, without the icon that a browser requests by itself."""
        told = (await self.desk.read("/tmp/asked")).decode()
        return set(told.split()) - {"/favicon.ico"}


@pytest.fixture(scope="module")
async def place(home: Path) -> AsyncIterator[Place]:
    folder = home / "reports"
    folder.mkdir(mode=0o755)
    async with Host(settings_in(folder), control=False) as host, host.open_desk(Spec(image="desktop")) as desk:
        await desk.write("site.py", SERVER.encode())
        await desk.start(["python3", "site.py"])
        with anyio.fail_after(20):
            while not (await desk.run(["curl", "-sf", f"{SITE}/site.py"])).ok:
                await anyio.sleep(0.05)
        yield Place(desk, Browser(host.get_seat(desk)))


@falls_without(
    "escaped text in reports",
    Removal(
        "report/markup.py",
        "    return html.escape(escape_stacked_marks(make_printable(text)), quote=True)\n",
        "    return escape_stacked_marks(make_printable(text))\n",
    ),
)
@pytest.mark.container
async def test_a_hostile_jobs_report_runs_no_script_and_makes_no_request(place: Place, ledger: Ledger) -> None:
    reported_job(ledger, HOSTILE, HOSTILE)
    found = await place.show(make(ledger.path, ledger.jobs, JOB))
    assert await place.asked() == {"/page.html"}
    assert found["loaded"] == []
    assert set(found["tags"]) <= TAGS
    assert {each.lower() for each in found["attributes"]} <= ATTRIBUTES
    assert {each for each in found["links"] if not each.startswith("#")} == {"data:image/jpeg;base64,"}
    assert f"Read the orders {make_printable(HOSTILE)[:40]}" in found["text"]
    assert found["styled"] == "999px"
    assert found["pictures"] == 4


@falls_without(
    "links to files beside a report",
    Removal("report/markup.py", '    return link.startswith("#") or (', "    return True or ("),
    cases="../../etc/passwd",
)
@no_guard(
    "two hold at once: every path is quoted and begins with `./`",
    cases='javascript:alert(1) | //evil.test/x | a"onclick=1 | a?b#c',
)
@pytest.mark.parametrize("path", ["javascript:alert(1)", "../../etc/passwd", "//evil.test/x", 'a"onclick=1', "a?b#c"])
def test_a_link_to_a_file_leads_only_beside_the_report(ledger: Ledger, path: str) -> None:
    papers.create(ledger.jobs, JOB)
    ledger.note(JobBegun(JOB, "g", "b", "x"), Kept(JOB, path, "ef" * 32, 1, 1), JobEnded(JOB, "done", ""))
    html = make(ledger.path, ledger.jobs, JOB, beside=True).decode()
    links = re.findall(r'<a [^>]*href="([^"]*)"', html)
    assert [each for each in links if not re.fullmatch(r"#[a-z0-9-]+|\./[A-Za-z0-9._~%/-]+", each)] == []
    assert not any(".." in unquote(each).split("/") for each in links)


@falls_without(
    "the policy of a report",
    Removal("report/page.py", '        tag("meta", http_equiv="Content-Security-Policy", content=policy),\n', ""),
)
@pytest.mark.container
async def test_even_unescaped_markup_could_not_run_or_make_requests(place: Place, ledger: Ledger) -> None:
    reported_job(ledger)
    html = make(ledger.path, ledger.jobs, JOB)
    loud = f"<script src={SITE}/ran></script><img src={SITE}/ran><style>@import '{SITE}/ran';</style><p onclick=1>"
    loud += f"<script>fetch('{SITE}/ran')</script><iframe src={SITE}/ran></iframe><link rel=stylesheet href={SITE}/ran>"
    await place.show(html.replace(b"</main>", loud.encode() + b"</main>"))
    assert await place.asked() == {"/page.html"}


@no_guard("a control: what the others would see if they failed")
@pytest.mark.container
async def test_a_page_without_these_measures_runs_scripts_and_makes_requests(place: Place) -> None:
    await place.show(f"<p class=pill>x<script>fetch('{SITE}/ran')</script><img src={SITE}/seen>".encode())
    assert await place.asked() == {"/page.html", "/ran", "/seen"}


class Strict(HTMLParser):
    """A parser that accepts only the elements a report is made of, each of them closed."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS
        assert {name for name, _ in attrs} <= ATTRIBUTES
        assert len(dict(attrs)) == len(attrs)
        assert all(value is not None and make_printable(value) == value for _, value in attrs)
        told = dict(attrs)
        assert (told.get("href") or "#").startswith("#")
        assert (told.get("src") or "data:image/jpeg;base64,").startswith("data:image/jpeg;base64,")
        if tag not in ("br", "img", "meta"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag == "rect"
        assert {name for name, _ in attrs} <= ATTRIBUTES

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["style"]:
            assert data == CSS.read_text()
            return
        assert make_printable(data.strip("\n")) == data.strip("\n")
        self.text.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    def handle_pi(self, data: str) -> None:
        raise AssertionError(data)

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(data)


def read_strictly(html: str) -> str:
    """Parse a page strictly; return its text."""
    parser = Strict()
    parser.feed(html)
    parser.close()
    assert parser.open == []
    return "".join(parser.text)


PIECES = strategies.sampled_from(
    [
        "<",
        ">",
        '"',
        "'",
        "&",
        "</",
        "<!--",
        "-->",
        "]]>",
        "<script>",
        "</style>",
        "&#60;",
        "javascript:",
        "\u202e",
        "\0",
        "\n",
    ]
)
TEXTS = strategies.lists(strategies.one_of(PIECES, strategies.text(max_size=8)), max_size=8).map("".join)


@falls_without("escaped text in reports")
@falls_without(
    "characters that cannot be seen in reports",
    Removal(
        "report/markup.py",
        "    return html.escape(escape_stacked_marks(make_printable(text)), quote=True)\n",
        "    return html.escape(escape_stacked_marks(text), quote=True)\n",
    ),
)
@settings(max_examples=8, deadline=None)
@example(HOSTILE)
@given(TEXTS)
def test_a_report_contains_only_known_elements(word: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder))
        reported_job(ledger, word, word)
        html = render_page(gather(ledger.path, ledger.jobs, JOB))
        ledger.journal.close()
    assert escape_stacked_marks(make_printable(f"Read the orders {word[:200]}")) in read_strictly(html)


@falls_without("escaped text in reports")
@falls_without(
    "escaped quotes in reports",
    Removal(
        "report/markup.py",
        "    return html.escape(escape_stacked_marks(make_printable(text)), quote=True)\n",
        "    return html.escape(escape_stacked_marks(make_printable(text)), quote=False)\n",
    ),
)
@falls_without("characters that cannot be seen in reports")
@settings(max_examples=400, deadline=None)
@given(TEXTS)
def test_any_text_stays_text_in_an_element_and_in_an_attribute(word: str) -> None:
    made = tag("div", word, isolate(word, 10_000), render_block(word, 10_000), alt=word, class_=word)
    assert read_strictly(made.html).count(escape_stacked_marks(make_printable(word.strip("\n").split("\n")[0]))) >= 1
    assert unescape(made.html.split('alt="')[1].split('"')[0]) == escape_stacked_marks(make_printable(word))


@falls_without(
    "marks that pile up in reports",
    Removal("report/markup.py", "character if run <= MARKS else escape_character(character)", "character"),
)
def test_combining_marks_do_not_cover_neighbouring_lines() -> None:
    assert tag("p", "z" + "\u0301" * 6).html == "<p>z" + "\u0301" * 4 + "\\u0301\\u0301</p>"
    assert tag("p", "שָׁלוֹם, tiếng Việt, กำ").html == "<p>שָׁלוֹם, tiếng Việt, กำ</p>"


@falls_without(
    "pictures of a desk's making",
    Removal(
        "report/story.py",
        "            act.has_picture = act.tool.startswith(DRAWN_HERE)\n",
        "            act.has_picture = True\n",
    ),
)
def test_a_picture_made_in_a_desk_is_not_decoded(ledger: Ledger) -> None:
    kept = ledger.begin()
    picture = kept.write(seen("a picture", image=screen()))
    ledger.note(
        StepBegun(JOB, "read", "read"),
        Acted(JOB, "read", 1, "browser_screenshot", kept.write("{}")),
        Observed(JOB, "read", 1, "done", 1, picture),
    )
    html = render_page(gather(ledger.path, ledger.jobs, JOB))
    assert "<img" not in html
    assert "1 picture made inside a desk" in html


def wrapped(header: bytes, lines: bytes, *more: bytes) -> bytes:
    return (
        SIGNATURE
        + encode_chunk(b"IHDR", header)
        + b"".join(more)
        + encode_chunk(b"IDAT", lines)
        + encode_chunk(b"IEND", b"")
    )


def head(width: int, height: int, *kind: int) -> bytes:
    return struct.pack(">IIBBBBB", width, height, *(kind or (8, 2, 0, 0, 0)))


ODD = {
    "a bomb": wrapped(head(4, 4), zlib.compress(bytes(64 << 20), 1)),
    "too few lines": wrapped(head(4, 4), zlib.compress(bytes(13))),
    "sides without end": wrapped(head(1 << 30, 1 << 30), b""),
    "many pixels": wrapped(head(8192, 8192), zlib.compress(bytes(8192 * (3 * 8192 + 1)), 1)),
    "a filter": wrapped(head(1, 1), zlib.compress(b"\4\0\0\0")),
    "a palette": wrapped(head(1, 1, 8, 3, 0, 0, 0), zlib.compress(b"\0\0")),
    "interlaced": wrapped(head(1, 1, 8, 2, 0, 0, 1), zlib.compress(bytes(4))),
    "something between": wrapped(head(1, 1), zlib.compress(bytes(4)), encode_chunk(b"iCCP", b"x")),
    "no packed lines": wrapped(head(1, 1), b"never packed"),
    "nothing": b"",
    "no end": encode_png(Image.new("RGB", (4, 4)))[:-12],
}


@falls_without(
    "pictures as we write them",
    Removal("report/pictures.py", "    if tuple(kind) != RGB or not sized or ", "    if "),
    cases="many pixels | interlaced",
)
@falls_without(
    "lines without a filter",
    Removal(
        "report/pictures.py",
        "    if len(lines) != size or any(lines[:: 3 * width + 1]):\n",
        "    if len(lines) != size:\n",
    ),
    cases="a filter",
)
@falls_without(
    "as many lines as announced",
    Removal("report/pictures.py", "    if len(lines) != size or any(lines[:: 3 * width + 1]):\n", "    if False:\n"),
    cases="a bomb | too few lines | a filter",
)
@no_guard(
    "several rules refuse it; `as we write them` is one",
    cases="sides without end | a palette | something between | no packed lines | nothing | no end",
)
@pytest.mark.parametrize("data", ODD.values(), ids=ODD)
def test_a_picture_not_in_our_own_encoding_is_not_decoded(data: bytes) -> None:
    assert read_screen(data) is None


@falls_without(
    "somebody else's file",
    Removal("report/write.py", "    if there is not None and not is_ours(there):\n", "    if False:\n"),
)
def test_a_foreign_file_is_not_taken_for_a_report(ledger: Ledger, tmp_path: Path) -> None:
    ledger.begin()
    made, folder = make(ledger.path, ledger.jobs, JOB), tmp_path / "out"
    folder.mkdir()
    (folder / "report.html").write_bytes(made.replace(b"<h1", b"<!-- mine --><h1"))
    with Out(folder, ["report.html"]) as out, pytest.raises(BriefError, match="move it away"):
        write(out, "report.html", made)
    assert b"mine" in (folder / "report.html").read_bytes()
