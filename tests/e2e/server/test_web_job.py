"""Tests of a job from the page alone, in a real Chromium: started, approved, watched, driven, answered, downloaded."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.server import web_template
from tests.e2e.server.chromium import Seen, opened
from tests.e2e.server.conftest import Served
from tests.e2e.server.web_template import HOSTILE, SHOWN

pytestmark = pytest.mark.container
LONG = 60_000


@pytest.fixture(scope="module")
def seen(server: Served, browser: Browser) -> Iterator[Seen]:
    web_template.install(server.settings.lib / "templates")
    with opened(browser) as made:
        made.sign_in(server)
        yield made


@pytest.fixture(scope="module")
def asked(seen: Seen, tmp_path_factory: pytest.TempPathFactory) -> Page:
    page, names = seen.page, tmp_path_factory.mktemp("sent") / "names.txt"
    names.write_text("Anna\n")
    page.get_by_role("link", name="New job").click()
    page.get_by_role("button", name="Greeting at a screen").click()
    page.get_by_label("Whom?").fill(HOSTILE)
    page.get_by_label("Input files").set_input_files(names)
    page.get_by_role("button", name="Start").click()
    plan = page.get_by_role("article", name="Carry out this plan?")
    expect(plan).to_contain_text(HOSTILE, timeout=LONG)
    page.get_by_role("tab", name="Desktop").click()
    expect(page.get_by_text("No desk is open")).to_be_visible()
    plan.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("article", name="The worker asks")).to_contain_text(HOSTILE, timeout=LONG)
    return page


@pytest.mark.long
def test_a_desk_is_watched_once_it_opens_taken_over_and_handed_back(seen: Seen, asked: Page) -> None:
    expect(asked.locator(".panel .chip")).to_have_text("live", timeout=LONG)
    asked.get_by_role("button", name="Take over").click()
    expect(asked.get_by_text("You have control.")).to_be_visible(timeout=LONG)
    asked.get_by_role("button", name="Hand back").click()
    expect(asked.get_by_role("button", name="Take over")).to_be_visible(timeout=LONG)
    seen.require_peace()


def test_a_terminal_shows_input_and_output(seen: Seen, asked: Page) -> None:
    asked.get_by_role("tab", name="Terminal").click()
    expect(asked.locator(".panel .chip")).to_have_text("live")
    asked.get_by_label("Terminal input").press_sequentially("echo $((6 * 7))-\n")
    log = asked.get_by_role("log", name="Terminal")
    expect(log).to_contain_text("42-")
    assert log.evaluate("(box) => box.scrollTop") == 0, "its first line is out of sight"
    seen.require_peace()


def test_a_hostile_file_name_is_shown_as_it_is_written(seen: Seen, asked: Page) -> None:
    asked.get_by_role("tab", name="Files").click()
    expect(asked.get_by_text(f"{HOSTILE}{SHOWN}")).to_be_visible()
    seen.require_peace()


def test_the_door_log_shows_refused_requests(seen: Seen, asked: Page) -> None:
    asked.get_by_role("tab", name="Door").click()
    row = asked.get_by_role("row").filter(has_text="thief.example")
    expect(row).to_contain_text("refused")
    seen.require_peace()


def test_a_phone_shows_every_tab_and_all_of_the_door_log(seen: Seen, asked: Page) -> None:
    asked.set_viewport_size({"width": 390, "height": 844})
    asked.get_by_role("tab", name="Door").click()
    asked.get_by_role("button", name="Allow thief.example for this job").wait_for()
    for part in (".tabs", ".scroll"):
        assert asked.locator(part).evaluate("(box) => box.scrollWidth - box.clientWidth") == 0, part
    asked.set_viewport_size({"width": 1280, "height": 860})
    seen.require_peace()


def test_the_timeline_has_a_picture_of_the_screen(seen: Seen, asked: Page) -> None:
    asked.get_by_role("tab", name="Timeline").click()
    picture = asked.get_by_role("img", name=re.compile("The screen after act"))
    expect(picture).to_be_visible()
    picture.click()
    frame = asked.get_by_role("dialog").locator("iframe")
    assert frame.get_attribute("sandbox") == ""
    assert re.match(r"http://content\.localhost:\d+/content/", frame.get_attribute("src") or "")
    asked.get_by_role("button", name="Close").click()
    seen.require_peace()


def test_an_answer_ends_the_job_and_its_verified_file_is_downloaded(seen: Seen, asked: Page) -> None:
    asked.get_by_label("Your answer").fill("Good day")
    asked.get_by_role("button", name="Send answer").click()
    asked.get_by_role("tab", name="Overview").click()
    expect(asked.locator(".chip[data-is=verified]")).to_be_visible(timeout=2 * LONG)
    with asked.expect_download() as taken:
        asked.get_by_role("link", name="Download").click()
    data = Path(taken.value.path()).read_bytes()
    assert json.loads(data) == {"hello": "Good day"}
    asked.get_by_role("button", name="Certificate").click()
    expect(asked.get_by_role("dialog", name="Certificate")).to_contain_text(hashlib.sha256(data).hexdigest())
    asked.get_by_role("button", name="Close").click()
    seen.require_peace()
