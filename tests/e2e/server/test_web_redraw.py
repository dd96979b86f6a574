"""Tests of how the page redraws itself while people use it, in a real Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, Route, expect

from tests.e2e.server import job_template
from tests.e2e.server.chromium import Seen
from tests.e2e.server.conftest import Served
from tests.e2e.server.native import client, waits

pytestmark = pytest.mark.container
FOCUS = """async () => {
  const { h, keep } = await import("/web/dom.js");
  const place = document.getElementById("main").appendChild(h("div"));
  const draw = (names) => h("ul", null, names.map((name) => h("li", null,
    h("a", { href: `#/jobs/${name}`, class: "name" }, name), h("button", { type: "button" }, "Remove"),
    h("details", null, h("summary", null, `${names.length} files`)))));
  keep(place, ["b"], draw);
  place.querySelector("details").open = true;
  const focused = [];
  for (const [selector, names] of [["a", ["a", "b"]], ["button", ["a", "c", "b"]], ["summary", ["b"]], ["a", ["a"]]]) {
    [...place.querySelectorAll("li")].find((each) => each.textContent.startsWith("b")).querySelector(selector).focus();
    keep(place, names, draw);
    const now = document.activeElement;
    focused.push([now.localName, now.closest("li")?.querySelector("a").textContent ?? ""]);
  }
  keep(place, ["a", "b"], draw);
  const open = [...place.querySelectorAll("details")].map((each) => each.open);
  place.remove();
  return [focused, open];
}"""
"""Redraws a list whose row b has the focus, with rows before it and at last without it."""
OVERTAKEN = """async () => {
  const { newest } = await import("/web/api.js");
  const waiting = [], shown = [];
  const load = newest(() => new Promise((settle) => waiting.push(settle)), (found) => shown.push(found));
  const all = [load(), load(), load()];
  waiting[1]("second");
  await all[1];
  waiting[0]("first");
  waiting[2]("third");
  await Promise.all(all);
  return shown;
}"""
CARD = """async () => {
  const { card } = await import("/web/card.js");
  const until = Date.now() / 1000 + 2.5;
  window.settled = [];
  const asked = { id: "1", kind: "plan", card: { title: "Test" }, digest: "0".repeat(64), until, plan_text: "plan" };
  document.getElementById("main").prepend(card(asked, async () => window.settled.push(Date.now() / 1000 - until)));
}"""
STORY = {
    "moments": [], "last": 3, "more": False,
    "steps": [{"number": 1, "step": "a", "attempt": 1, "at": 1, "ended": 0, "outcome": "", "rolled_back": False,
               "what": "Work.", "note": "", "leaves": ""}],
    "acts": [{"attempt": 1, "act": number, "tool": "shell", "call": "true", "why": "", "result": "", "picture": False,
              "seconds": 1, "outcome": "failed" if number in (3, 2990) else "done"} for number in range(1, 3001)],
}  # fmt: skip
COUNTED = """
[[values]]
name = "count"
title = "How many?"
kind = "number"
default = 3
"""


@pytest.fixture(scope="module")
def api(server: Served) -> Iterator[httpx.Client]:
    job_template.install(server.settings.lib / "templates")
    with client(server) as made:
        yield made


@pytest.fixture(scope="module")
def job(api: httpx.Client) -> Iterator[str]:
    upload = api.post("/uploads", params={"name": "names.txt"}, content=b"Anna\n").json()
    files = [{"upload": upload["id"], "name": "names.txt"}]
    made = str(api.post("/jobs", json={"template": "greeting", "approve": "plan", "files": files}).json()["id"])
    waits(api, made, "plan")
    yield made
    api.post(f"/jobs/{made}/stop")


def at(seen: Seen, server: Served, place: str) -> Page:
    """Open a place of the page, and wait until it is drawn."""
    seen.page.goto("about:blank")
    seen.page.goto(f"{server.url}/#/{place}")
    seen.page.get_by_role("heading", level=1).wait_for()
    return seen.page


def test_the_focus_and_what_was_folded_out_survive_a_redraw(seen: Seen, server: Served) -> None:
    focused, opened_before = at(seen, server, "jobs").evaluate(FOCUS)
    assert focused == [["a", "b"], ["button", "b"], ["summary", "b"], ["main", ""]]
    assert opened_before == [False, False]
    seen.require_peace()


def test_a_reply_that_a_later_one_overtook_is_not_shown(seen: Seen, server: Served) -> None:
    assert at(seen, server, "jobs").evaluate(OVERTAKEN) == ["second", "third"]


def test_a_cards_time_runs_out_and_its_forms_have_a_way_back(seen: Seen, server: Served) -> None:
    page = at(seen, server, "keys")
    page.evaluate(CARD)
    card = page.get_by_role("article", name="Test")
    first = card.get_by_text(" left").inner_text()
    card.get_by_role("button", name="Edit").click()
    card.get_by_label("The plan").fill("edited")
    card.get_by_role("button", name="Refuse").click()
    card.get_by_role("button", name="Back").click()
    expect(card.get_by_label("The plan")).to_have_value("edited")
    card.get_by_role("button", name="Back").click()
    expect(card.get_by_role("button", name="Approve")).to_be_focused()
    expect(card).to_contain_text("expired")
    page.wait_for_timeout(100)
    assert first == "2 s left" or first == "3 s left"
    assert 0 <= page.evaluate("window.settled[0]") < 2
    seen.require_peace()


def test_a_timeline_that_cannot_be_read_says_so_and_a_long_one_is_folded(seen: Seen, server: Served, job: str) -> None:
    def refuse(route: Route) -> None:
        route.fulfill(status=429, json={"code": "many", "message": "too many requests"})

    seen.page.route("**/story?*", refuse)
    page = at(seen, server, f"jobs/{job}/timeline")
    expect(page.get_by_role("alert")).to_contain_text("could not be read. too many requests")
    expect(page.get_by_text("Nothing happened yet")).to_be_hidden()
    page.unroute_all()
    page.route("**/story?*", lambda route: route.fulfill(json=STORY))
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("#act-3000")).to_be_visible(timeout=10_000)
    expect(page.get_by_text("could not be read")).to_be_hidden()
    expect(page.get_by_role("button", name="Show earlier acts (470)")).to_contain_text("up to act 2,500")
    assert page.locator(".acts > li").count() == 500
    assert page.locator(".acts > li:visible").count() == 30
    page.get_by_role("button", name="Show earlier acts").click()
    expect(page.locator("#act-2501")).to_be_visible()
    page.unroute_all()
    seen.require_peace()


def test_places_that_were_left_ask_the_server_nothing_more(
    seen: Seen, server: Served, api: httpx.Client, job: str
) -> None:
    desk = api.post("/desks", json={}).raise_for_status().json()["id"]
    held, urls = list[Route](), list[str]()

    def hold(route: Route) -> None:
        held.append(route)

    page = at(seen, server, f"jobs/{job}/door")
    page.get_by_text("No network requests").wait_for()
    page.route(f"**/desks/{desk}", hold)
    page.get_by_role("tab", name="Overview").click()
    page.on("request", lambda request: urls.append(request.url))
    api.put("/drive/event.txt", content=b"1").raise_for_status()  # an event
    page.wait_for_timeout(1000)
    assert [url for url in urls if url.endswith("/approvals?limit=200")]
    assert [url for url in urls if "/door?" in url] == []
    page.goto(f"{server.url}/#/desks/{desk}")
    while not held:
        page.wait_for_timeout(50)
    page.goto(f"{server.url}/#/keys")
    page.get_by_role("heading", name="Keys").wait_for()
    held[0].continue_()
    page.wait_for_timeout(500)
    assert [url for url in urls if url.endswith(("/usage", "/terminal", "/wheel")) or f"{desk}/entries" in url] == []
    page.unroute_all()
    api.delete(f"/desks/{desk}")
    seen.require_peace()


def test_numbers_of_a_form_may_be_fractions_or_left_to_their_default(
    seen: Seen, server: Served, tmp_path: Path
) -> None:
    folder = server.settings.lib / "templates/counting"
    job_template.install(folder.parent, folder.name)
    (folder / "template.toml").write_text(job_template.TEMPLATE + COUNTED)
    brief = folder / "brief.toml"
    brief.write_text(brief.read_text().replace("write hello.json", "{count} times, write hello.json"))
    page = at(seen, server, "new?template=counting")
    sent = tmp_path / "names.txt"
    sent.write_text("Anna\n")
    page.get_by_label("Input files").set_input_files(sent)
    count = page.get_by_label("How many?")
    count.fill("1.5")
    assert count.evaluate("(input) => input.validity.valid")
    count.fill("")
    page.get_by_text("Limits and approval").click()
    page.get_by_label("Cost limit in dollars").fill("0.1")
    with page.expect_response(lambda told: told.request.method == "POST" and told.url.endswith("/jobs")) as posted:
        page.get_by_role("button", name="Start").click()
    order = posted.value.request.post_data_json or {}
    assert (order["values"], order["limits"]) == ({"whom": "the world"}, {"dollars": 0.1})
    assert posted.value.status == 201, posted.value.text()
    expect(page.get_by_role("heading", level=1)).to_contain_text("3 times, write hello.json")
    job = page.url.rpartition("/")[2]
    with client(server) as api:
        api.post(f"/jobs/{job}/stop")
    seen.require_peace()


def test_a_list_that_goes_on_says_where_it_was_cut(seen: Seen, server: Served) -> None:
    def page_of(route: Route) -> None:
        after = int(httpx.URL(route.request.url).params.get("after", 0))
        items = [{"name": f"f{after + n}", "at": 1, "size": 1, "checks": [], "certificate": ""} for n in range(200)]
        route.fulfill(json={"items": items, "next": str(after + 200)})

    seen.page.route("**/drive?*", page_of)
    page = at(seen, server, "drive")
    expect(page.get_by_text("Only the first 1,000 are shown.")).to_be_visible()
    page.unroute_all()
    seen.require_peace()
