"""Tests of taking over from the page, in a real Chromium: during a job, and at one's own desk."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from hotdesk import config
from hotdesk.drive.journal import FILE, read
from hotdesk.event import Event, HandedBack, RolledBack, StepBegun, TookOver
from hotdesk.plan import OURS
from tests.e2e.server import takeover_template
from tests.e2e.server.chromium import Seen, opened
from tests.e2e.server.conftest import Served
from tests.e2e.server.native import client, job_when

pytestmark = pytest.mark.container
LONG = 60_000
TERMINAL = (55 / 1280, 783 / 800)
"""Position of the terminal's button in the panel, as a share of the screen."""


@pytest.fixture(scope="module")
def server(own_server: Served) -> Served:
    return own_server


@pytest.fixture(scope="module")
def seen(server: Served, browser: Browser) -> Iterator[Seen]:
    takeover_template.install(server.settings.lib / "templates")
    (server.settings.lib / "viewer").symlink_to(config.load().lib / "viewer")
    with opened(browser) as made:
        made.sign_in(server)
        yield made


@pytest.fixture(scope="module")
def api(server: Served) -> Iterator[httpx.Client]:
    with client(server) as made:
        yield made


def canvas(page: Page) -> Locator:
    return page.locator(".screen canvas")


def take_over(page: Page) -> None:
    page.get_by_role("button", name="Take over").click(timeout=LONG)
    expect(page.get_by_text("You have control.")).to_be_visible(timeout=LONG)
    expect(page.get_by_role("button", name="Hand back")).to_be_enabled()


def hand_back(page: Page) -> None:
    page.get_by_role("button", name="Hand back").click()
    expect(page.get_by_text("You have control.")).to_be_hidden(timeout=LONG)


def events(server: Served, *chains: str) -> list[Event]:
    return [row.read_event() for chain in chains for row in read(server.settings.lib / "keys" / FILE, chain)]


def test_a_job_is_taken_over_again_and_again_and_ends_verified(server: Served, seen: Seen, api: httpx.Client) -> None:
    page = seen.page
    order = {"template": "slowly", "approve": "auto"}
    job = api.post("/jobs", json=order).raise_for_status().json()["id"]
    page.goto(f"{server.url}/#/jobs/{job}/desktop")
    for step in ("ask", "ask", "write"):
        reach(api, job, step)
        take_over(page)
        canvas(page).hover(position={"x": 200, "y": 200})
        canvas(page).click(position={"x": 500, "y": 300})
        page.keyboard.type("x")
        driven = api.get(f"/jobs/{job}").json()
        time.sleep(1)  # a step that does not wait would continue now
        assert [each["outcome"] for each in api.get(f"/jobs/{job}").json()["steps"]] == [
            each["outcome"] for each in driven["steps"]
        ]
        expect(page.get_by_text("You have control.")).to_be_visible()
        hand_back(page)
    told = job_when(api, job, "done")
    [file] = told["deliverables"]
    assert (file["verdict"], bool(file["certificate"])) == ("passed", True)
    noted = events(server, job, *(each["id"] for each in told["desks"]))
    assert not [each for each in noted if isinstance(each, RolledBack)]
    begun = [each for each in noted if isinstance(each, StepBegun) and each.step not in OURS]
    assert [(each.step, each.attempt) for each in begun] == [("ask", 1), ("write", 1)]
    back = [each for each in noted if isinstance(each, HandedBack)]
    assert len([each for each in noted if isinstance(each, TookOver)]) == len(back) == 3
    assert all(each.note == "" and each.clicks >= 1 and each.keys >= 1 for each in back)
    expect(page.get_by_role("heading", name="The desk is burnt")).to_be_visible(timeout=LONG)
    seen.require_peace()


def reach(api: httpx.Client, job: str, step: str) -> None:
    end = time.monotonic() + LONG / 1000
    while time.monotonic() < end:
        told = api.get(f"/jobs/{job}").raise_for_status().json()
        if any(each["name"] == step and each["outcome"] for each in told["steps"]):
            return
        time.sleep(0.05)
    pytest.fail(f"{job} does not get as far as {step}: {told}")


def test_programs_of_a_persons_own_desk_run_during_a_takeover_and_get_the_input(
    server: Served, seen: Seen, api: httpx.Client
) -> None:
    page = seen.page
    page.goto(f"{server.url}/#/desks")
    page.get_by_label("Image").select_option("desktop")
    page.get_by_role("button", name="Open a desk").click()
    page.wait_for_url("**/desks/i*")
    desk = page.url.rpartition("desks/")[2].partition("/")[0]
    take_over(page)
    expect(page.locator(".banner")).not_to_contain_text("stopped")
    box = canvas(page).bounding_box()
    assert box is not None
    canvas(page).click(position={"x": box["width"] * TERMINAL[0], "y": box["height"] * TERMINAL[1]})
    wait_for(lambda: "term" in windows(api, desk).lower())
    page.keyboard.type("echo typed > typed.txt\n", delay=20)
    wait_for(lambda: api.get(f"/desks/{desk}/file", params={"path": "typed.txt"}).text == "typed\n")
    page.keyboard.press("Tab")  # every key goes to the desk, but one chord
    expect(page.get_by_role("button", name="Hand back")).not_to_be_focused()
    page.keyboard.press("Control+Alt+KeyG")
    expect(page.get_by_role("button", name="Hand back")).to_be_focused()
    canvas(page).focus()
    page.keyboard.type("\n\necho again > again.txt\n", delay=20)  # no key stayed down at the desk
    wait_for(lambda: api.get(f"/desks/{desk}/file", params={"path": "again.txt"}).text == "again\n")
    page.keyboard.press("Control+Alt+KeyG")
    page.keyboard.press("Enter")
    expect(page.get_by_text("You have control.")).to_be_hidden(timeout=LONG)
    api.delete(f"/desks/{desk}")
    seen.require_peace()


def test_a_desk_can_be_taken_over_only_once_its_screen_is_connected(
    server: Served, seen: Seen, api: httpx.Client
) -> None:
    page, held = seen.page, list[Route]()
    desk = api.post("/desks", json={"image": "desktop"}).raise_for_status().json()["id"]

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/web/novnc.js", hold)  # without it nothing reads the connection
    page.goto(f"{server.url}/#/desks/{desk}/screen")
    page.reload()  # it may have loaded the library already
    button = page.get_by_role("button", name="Take over")
    expect(page.locator(".panel .chip")).to_have_text("connecting", timeout=LONG)
    expect(button).to_have_attribute("title", "The screen is not connected yet.")
    expect(button).to_be_disabled()
    held[0].continue_()
    page.unroute_all()
    expect(button).to_be_enabled(timeout=LONG)
    expect(page.locator(".panel .chip")).to_have_text("live")
    api.delete(f"/desks/{desk}")
    seen.require_peace()


def windows(api: httpx.Client, desk: str) -> str:
    """List the windows of a desk; its programs run while a person drives."""
    order = {"argv": ["wmctrl", "-lx"], "env": {"DISPLAY": ":0"}}
    return str(api.post(f"/desks/{desk}/run", json=order).raise_for_status().json()["stdout"])


def wait_for(true: Callable[[], bool]) -> None:
    end = time.monotonic() + LONG / 1000
    while not true():
        assert time.monotonic() < end, "it never came about"
        time.sleep(0.1)
