"""Tests of what ends while the page is open, in a real Chromium: event streams, sessions, tokens, cookies."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.e2e.server import job_template
from tests.e2e.server.chromium import Seen, opened
from tests.e2e.server.conftest import Served
from tests.e2e.server.native import client, waits

pytestmark = pytest.mark.container
CLICK = "(it) => it.click()"
"""Also if the page has noticed the end of its session by itself, and its dialog covers the rest."""
HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
"""What a browser does when another tab comes to the front; a headless one shows every tab."""
SIGN_IN = """(key) => fetch("/api/v1/session", {
  method: "POST", body: JSON.stringify({ key }), headers: { "content-type": "application/json" },
}).then((told) => told.status)"""
EVENTS = "**/api/v1/events?*"


@pytest.fixture(scope="module")
def api(server: Served) -> Iterator[httpx.Client]:
    job_template.install(server.settings.lib / "templates")
    with client(server) as made:
        yield made


@pytest.fixture
def seen(server: Served, browser: Browser) -> Iterator[Seen]:
    with opened(browser) as made:
        made.sign_in(server)
        yield made


def begun(api: httpx.Client) -> str:
    upload = api.post("/uploads", params={"name": "names.txt"}, content=b"Anna\n").json()
    files = [{"upload": upload["id"], "name": "names.txt"}]
    job = str(api.post("/jobs", json={"template": "greeting", "approve": "plan", "files": files}).json()["id"])
    waits(api, job, "plan")
    return job


def sign_in_again(page: Page, server: Served) -> None:
    dialog = page.get_by_role("dialog", name="Your session has ended")
    dialog.get_by_label("Key").fill(server.key)
    dialog.get_by_role("button", name="Sign in").click()
    expect(dialog).to_have_count(0)


def type_brief(page: Page, server: Served) -> None:
    page.goto(f"{server.url}/#/new?as=brief")
    page.get_by_label("The brief, in TOML").fill("goal = \nhalf written")


# -- streams --------------------------------------------------------------------------------------------------------


def test_a_refused_event_stream_is_opened_again_and_what_was_missed_is_shown(
    server: Served, browser: Browser, api: httpx.Client
) -> None:
    with opened(browser) as seen:
        page = seen.page
        page.route(EVENTS, lambda route: route.fulfill(status=429, json={"code": "events.many"}))
        seen.sign_in(server)
        expect(page.get_by_text("Not live")).to_be_visible()
        page.goto(f"{server.url}/#/approvals")
        page.get_by_role("heading", name="Approvals").wait_for()
        job = begun(api)
        page.unroute_all()
        expect(page.locator(f".card a[href='#/jobs/{job}']")).to_be_visible(timeout=20_000)
        expect(page.get_by_text("Not live")).to_be_hidden()
        api.post(f"/jobs/{job}/stop")
        seen.require_peace()


def test_hidden_tabs_leave_their_connections_to_others_and_catch_up_when_shown(
    server: Served, seen: Seen, api: httpx.Client
) -> None:
    first, tabs = seen.page, [seen.page]
    first.goto(f"{server.url}/#/jobs")
    for _ in range(5):
        tabs.append(seen.page.context.new_page())
        tabs[-1].goto(server.url)
    for each in tabs:
        each.get_by_role("heading", name="Jobs", exact=True).wait_for()
        each.evaluate(HIDE, True)
    last = seen.page.context.new_page()
    last.goto(server.url, timeout=10_000)  # a browser makes six connections to a server
    last.get_by_role("heading", name="Jobs", exact=True).wait_for()
    job = begun(api)
    expect(last.locator(f"a[href='#/jobs/{job}']")).to_be_visible()
    expect(first.locator(f"a[href='#/jobs/{job}']")).to_have_count(0)
    first.evaluate(HIDE, False)
    expect(first.locator(f"a[href='#/jobs/{job}']")).to_be_visible()
    api.post(f"/jobs/{job}/stop")
    seen.require_peace()


# -- sessions -------------------------------------------------------------------------------------------------------


def test_signing_in_again_keeps_what_was_typed_into_the_page_and_into_a_dialog(
    server: Served, seen: Seen, api: httpx.Client
) -> None:
    page = seen.page
    type_brief(page, server)
    page.context.clear_cookies()
    page.get_by_role("button", name="Start").evaluate(CLICK)
    sign_in_again(page, server)
    expect(page.get_by_label("The brief, in TOML")).to_have_value("goal = \nhalf written")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("alert")).to_contain_text("line 1")
    page.goto(f"{server.url}/#/keys")
    page.get_by_role("button", name="New key").click()
    page.get_by_label("Name", exact=True).fill("typed-before")
    page.context.clear_cookies()
    page.get_by_role("button", name="Create key").evaluate(CLICK)
    sign_in_again(page, server)
    expect(page.get_by_label("Name", exact=True)).to_have_value("typed-before")
    page.get_by_role("button", name="Create key").click()
    page.get_by_role("dialog", name="Your new key").wait_for()
    assert "typed-before" in [each["name"] for each in api.get("/keys").json()["items"]]
    seen.require_peace()


def test_the_end_of_a_session_is_noticed_without_an_act_and_can_be_put_off(server: Served, seen: Seen) -> None:
    page = seen.page
    type_brief(page, server)
    page.context.clear_cookies()
    page.evaluate(HIDE, True)
    page.evaluate(HIDE, False)  # the stream begins anew, and is refused
    dialog = page.get_by_role("dialog", name="Your session has ended")
    dialog.get_by_role("button", name="Close").click()
    expect(page.get_by_label("The brief, in TOML")).to_have_value("goal = \nhalf written")
    page.get_by_role("button", name="Sign in").click()
    sign_in_again(page, server)
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    expect(page.get_by_text("Not live")).to_be_hidden()
    seen.require_peace()


def test_a_tab_goes_on_after_another_one_signed_in_again(server: Served, seen: Seen, api: httpx.Client) -> None:
    page = seen.page
    type_brief(page, server)
    other = page.context.new_page()
    other.goto(server.url)
    assert other.evaluate(SIGN_IN, server.key) == 200
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("alert")).to_contain_text("line 1")  # what the server says of the brief, not of a token
    someone = api.post("/keys", json={"name": "someone", "powers": ["jobs", "drive"]}).raise_for_status().json()["key"]
    assert other.evaluate(SIGN_IN, someone) == 200
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_text("someone", exact=True)).to_be_visible()  # the page begins anew for another person
    expect(page.get_by_label("The brief, in TOML")).to_have_value("")
    seen.require_peace()


def test_a_browser_that_drops_the_cookie_is_told_why_it_cannot_sign_in(server: Served, browser: Browser) -> None:
    with opened(browser) as fresh:
        page = fresh.page

        def drop(route: Route) -> None:
            if route.request.method != "POST":
                return route.continue_()
            told = route.fetch()
            page.context.clear_cookies()
            return route.fulfill(status=told.status, body=told.text(), headers={"content-type": "application/json"})

        page.route("**/api/v1/session", drop)
        page.goto(server.url)
        page.get_by_label("Key").fill(server.key)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_contain_text("does not keep the session cookie over plain HTTP")
        expect(page.get_by_label("Key")).to_be_visible()
