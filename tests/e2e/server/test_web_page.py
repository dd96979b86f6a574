"""Tests of the page in a real Chromium: signing in, what it may load, hostile texts, how it fits a phone."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.server import job_template
from tests.e2e.server.chromium import Seen, opened
from tests.e2e.server.conftest import Served
from tests.e2e.server.native import PATIENCE, client, job_when, waits
from tests.e2e.server.web_template import HOSTILE, SHOWN
from tests.leftovers import cmdline, pids

pytestmark = pytest.mark.container
PLACES = ("jobs", "approvals", "fleet", "desks", "drive", "keys", "new", "new?as=words")
NAMELESS = """
() => [...document.querySelectorAll("button, a, input, select, textarea, iframe")]
  .filter((e) => e.checkVisibility() && !(e.innerText || e.ariaLabel || e.title || e.labels?.length))
  .map((e) => e.outerHTML)
"""
TERMINAL = """
async ([rows, columns, bytes]) => {
  const { Screen } = await import("/web/vt.js");
  const replies = [];
  const screen = new Screen(rows, columns, { reply: (text) => replies.push(text) });
  for (const each of bytes) screen.write(each);
  return [screen.grid.map((line) => line.map((cell) => cell.text).join("").trimEnd()), replies];
}
"""


@pytest.fixture(scope="module")
def api(server: Served) -> Iterator[httpx.Client]:
    job_template.install(server.settings.lib / "templates")
    with client(server) as made:
        yield made


def begun(api: httpx.Client) -> str:
    upload = api.post("/uploads", params={"name": "names.txt"}, content=b"Anna\n").json()
    files = [{"upload": upload["id"], "name": "names.txt"}]
    made = api.post("/jobs", json={"template": "greeting", "approve": "plan", "files": files})
    return str(made.raise_for_status().json()["id"])


# -- signing in ------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_wrong_key_is_refused_with_an_explanation(server: Served, browser: Browser) -> None:
    with opened(browser) as seen:
        seen.page.goto(server.url)
        seen.page.get_by_label("Key").fill("e2b_" + "0" * 40)
        seen.page.get_by_role("button", name="Sign in").click()
        expect(seen.page.get_by_role("alert")).to_contain_text("unknown key")
        expect(seen.page.get_by_role("navigation", name="Main")).to_be_hidden()


def test_a_session_outlasts_a_reload_and_ends_with_signing_out(server: Served, browser: Browser) -> None:
    with opened(browser) as seen:
        seen.sign_in(server)
        seen.page.reload()
        seen.page.get_by_role("button", name="Sign out").click()
        seen.page.reload()
        expect(seen.page.get_by_label("Key")).to_be_visible()


def test_no_script_reads_the_session(seen: Seen) -> None:
    [cookie] = seen.page.context.cookies()
    assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"]) == ("__Host-hotdesk", True, "Strict")
    assert seen.page.evaluate("document.cookie") == ""


# -- what it may load -----------------------------------------------------------------------------------------------


def test_localhost_leads_to_the_name_people_sign_in_at(server: Served) -> None:
    port = httpx.URL(server.url).port
    told = httpx.get(f"http://127.0.0.1:{port}/", headers={"Host": f"localhost:{port}"})
    assert (told.status_code, told.headers["location"]) == (307, f"http://127.0.0.1:{port}/")


def test_the_page_is_small(server: Served) -> None:
    folder = Path(__file__).parents[3] / "src/hotdesk/api/web/static"
    # no framework and no build step: it loads at once. It grew beyond 80 kB when the timeline began to describe
    # every act, and plans were written out in sentences; beyond 120 kB when it survived lost streams and sessions.
    assert sum(file.stat().st_size for file in folder.glob("*.js")) < 140_000


@pytest.mark.parametrize("name", ["static/app.js", "%2e%2e/page.py", "..%2fpage.py", "nothing.js", ""])
def test_only_the_files_of_the_page_are_served(server: Served, name: str) -> None:
    assert httpx.get(f"{server.url}/web/{name}").status_code in (400, 404)


@pytest.mark.parametrize("place", PLACES)
def test_the_page_breaks_no_rule_of_its_own_and_every_element_has_a_name(
    seen: Seen, server: Served, place: str
) -> None:
    seen.page.goto(f"{server.url}/#/{place}")
    seen.page.get_by_role("heading", level=1).wait_for()
    assert seen.page.evaluate(NAMELESS) == []
    seen.require_peace()


def test_the_page_fits_a_phone(server: Served, browser: Browser) -> None:
    with opened(browser, 360, 740, dark=True) as seen:
        seen.sign_in(server)
        for place in PLACES:
            seen.page.goto(f"{server.url}/#/{place}")
            seen.page.get_by_role("heading", level=1).wait_for()
            assert seen.page.evaluate("document.documentElement.scrollWidth") <= 360, place


# -- people decide --------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_an_edited_plan_is_carried_out(seen: Seen, api: httpx.Client, server: Served) -> None:
    job = begun(api)
    plan = waits(api, job, "plan")
    seen.page.goto(f"{server.url}/#/jobs/{job}")
    seen.page.get_by_role("button", name="Edit").click()
    text = seen.page.get_by_label("The plan")
    text.fill(text.input_value().replace("Ask how, and write it down.", "Ask, then write."))
    seen.page.get_by_role("button", name="Approve as edited").click()
    asked = waits(api, job, "question")
    told = api.get(f"/jobs/{job}").json()
    assert told["plan"] != plan["digest"]
    answer = {"answer": "refuse", "digest": asked["digest"]}
    assert api.post(f"/approvals/{asked['id']}", json=answer).status_code == 200
    api.post(f"/jobs/{job}/stop")


@pytest.mark.long
def test_a_refused_plan_ends_the_job(seen: Seen, api: httpx.Client, server: Served) -> None:
    job = begun(api)
    waits(api, job, "plan")
    seen.page.goto(f"{server.url}/#/approvals")
    card = seen.page.get_by_role("article").filter(has=seen.page.locator(f"a[href='#/jobs/{job}']"))
    card.get_by_role("button", name="Refuse").click()
    seen.page.get_by_label("Reason (passed on to the worker)").fill("not today")
    seen.page.get_by_role("button", name="Refuse").last.click()
    expect(card).to_be_hidden()
    assert job_when(api, job, "failed", "interrupted", "done", "paused")["pending"] == []


def test_the_list_of_jobs_is_live(seen: Seen, api: httpx.Client, server: Served) -> None:
    seen.page.goto(f"{server.url}/#/jobs")
    seen.page.get_by_role("heading", level=1).wait_for()
    job = begun(api)
    expect(seen.page.locator(f"a[href='#/jobs/{job}'] .chip")).to_have_text("waiting", timeout=30_000)
    api.post(f"/jobs/{job}/stop")


def test_a_job_that_was_killed_while_it_waits_is_resumed_by_one_button(
    seen: Seen, api: httpx.Client, server: Served
) -> None:
    job = begun(api)
    waits(api, job, "plan")
    seen.page.goto(f"{server.url}/#/jobs/{job}")
    expect(seen.page.get_by_role("button", name="Stop", exact=True)).to_be_visible()
    [process] = [pid for pid in pids() if job in cmdline(pid) and "--json" in cmdline(pid)]
    os.kill(process, signal.SIGKILL)
    end = time.monotonic() + PATIENCE
    while api.get(f"/jobs/{job}").json()["live"]:
        assert time.monotonic() < end
        time.sleep(0.05)
    seen.page.reload()
    seen.page.get_by_role("button", name="Resume").click()
    expect(seen.page.get_by_role("button", name="Stop", exact=True)).to_be_visible()
    assert api.get(f"/jobs/{job}").json()["live"]
    api.post(f"/jobs/{job}/stop")
    seen.require_peace()


def test_everything_is_stopped_by_one_button_after_a_confirmation(
    seen: Seen, api: httpx.Client, server: Served
) -> None:
    desk = api.post("/desks", json={}).json()["id"]
    seen.page.goto(f"{server.url}/#/fleet")
    expect(seen.page.get_by_text(desk)).to_be_visible()
    seen.page.get_by_role("button", name="Stop everything").click()
    seen.page.get_by_role("dialog").get_by_role("button", name="Stop everything").click()
    expect(seen.page.get_by_text(desk)).to_be_hidden()
    seen.require_peace()


# -- what is hostile ------------------------------------------------------------------------------------------------


def test_a_page_that_a_desk_wrote_is_shown_as_text_at_another_origin(
    seen: Seen, api: httpx.Client, server: Served
) -> None:
    api.put("/drive/page.html", content=f"<script>parent.hit=1</script>{HOSTILE}".encode()).raise_for_status()
    seen.page.goto(f"{server.url}/#/drive")
    row = seen.page.get_by_role("listitem").filter(has_text="page.html")
    row.get_by_role("button", name="Preview").click()
    shown = seen.page.frame_locator("iframe").locator("body")
    expect(shown).to_contain_text("<script>parent.hit=1</script>")
    seen.page.get_by_role("button", name="Close").click()
    seen.require_peace()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (HOSTILE, HOSTILE),
        ("a\u202egnp.exe", f"a{SHOWN}"),
        ("a\u200bb", r"a\u200bb"),
        ("a\x1b[31mb", r"a\x1b[31mb"),
        ("a\nb", r"a\nb"),
        ("\U000e0100", r"\U000e0100"),
        ("Grüße, 世界", "Grüße, 世界"),
    ],
    ids=["markup", "bidi", "zero-width", "escape", "line", "selector", "letters"],
)
def test_invisible_characters_of_a_text_are_shown(seen: Seen, text: str, shown: str) -> None:
    made = "async (text) => (await import('/web/dom.js')).h('p', null, text).textContent"
    assert seen.page.evaluate(made, text) == shown


# -- a terminal -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "lines"),
    [
        (["one\r\ntwo"], ["one", "two", ""]),
        (["abcdefghijkl"], ["abcdefghij", "kl", ""]),
        (["1\r\n2\r\n3\r\n4"], ["2", "3", "4"]),
        (["\x1b[2;3Hx"], ["", "  x", ""]),
        (["abc\x1b[1;2H\x1b[K"], ["a", "", ""]),
        (["abc\x1b[2J\x1b[Hd"], ["d", "", ""]),
        (["a\x1b[3", "1mb\x1b[", "0mc"], ["abc", "", ""]),
        (["\x1b]0;title\x07a\x1b]52;c;aGk=\x1b\\b"], ["ab", "", ""]),
        (["main\x1b[?1049hother\x1b[?1049l"], ["main", "", ""]),
        (["abcd\x1b[1;2H\x1b[2P"], ["ad", "", ""]),
        (["1\r\n2\r\n3\x1b[1;1H\x1b[L"], ["", "1", "2"]),
        (["1\r\n2\r\n3\x1b[1;1H\x1b[M"], ["2", "3", ""]),
        (["a\u202eb"], ["a\ufffdb", "", ""]),
    ],
    ids=["lines", "wrap", "scroll", "place", "erase", "clear", "split", "passed-over", "other", "delete", "insert",
         "remove", "bidi"],
)  # fmt: skip
def test_a_terminal_draws(seen: Seen, written: list[str], lines: list[str]) -> None:
    assert seen.page.evaluate(TERMINAL, [3, 10, written])[0] == lines


def test_rows_beside_a_full_screen_program_survive_a_smaller_and_a_larger_window(seen: Seen) -> None:
    code = """async () => {
      const { Screen } = await import("/web/vt.js");
      const past = [];
      const text = (line) => line.map((cell) => cell.text).join("").trimEnd();
      const screen = new Screen(6, 10, { scrolled: (line) => past.push(text(line)) });
      screen.write("1\\r\\n2\\r\\n3\\r\\n4\\r\\n$ \\x1b[?1049h\\x1b[2Hvim");
      screen.resize(3, 10);
      screen.resize(6, 10);
      screen.write("\\x1b[?1049l!");
      return [past, screen.grid.map(text)];
    }"""
    assert seen.page.evaluate(code) == [["1", "2"], ["3", "4", "$ !", "", "", ""]]


def test_a_terminal_reports_its_cursor_and_type_and_nothing_else(seen: Seen) -> None:
    written = ["ab\x1b[6n\x1b[c\x1b]0;?\x07\x1bP+q544e\x1b\\\x1b[21t"]
    assert seen.page.evaluate(TERMINAL, [3, 10, written])[1] == ["\x1b[1;3R", "\x1b[?6c"]


def test_a_key_is_shown_once_and_opens_the_page(seen: Seen, server: Served, browser: Browser) -> None:
    seen.page.goto(f"{server.url}/#/keys")
    seen.page.get_by_role("button", name="New key").click()
    seen.page.get_by_label("Name", exact=True).fill("marie")
    seen.page.get_by_role("button", name="Create key").click()
    key = seen.page.get_by_role("dialog", name="Your new key").get_by_label("Key").input_value()
    with opened(browser) as other:
        other.sign_in(server, key)
        expect(other.page.get_by_text("marie", exact=True)).to_be_visible()
        expect(other.page.get_by_role("link", name="Keys")).to_be_hidden()
    seen.page.get_by_role("button", name="Close").click()


def test_a_dialog_closes_when_its_place_is_left(seen: Seen, server: Served) -> None:
    seen.page.goto(f"{server.url}/#/drive")
    seen.page.goto(f"{server.url}/#/keys")
    seen.page.get_by_role("button", name="New key").click()
    seen.page.get_by_role("dialog", name="New key").wait_for()
    seen.page.go_back()
    expect(seen.page.get_by_role("heading", name="Drive")).to_be_visible()
    expect(seen.page.get_by_role("dialog")).to_have_count(0)
