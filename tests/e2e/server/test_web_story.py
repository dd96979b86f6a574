"""Tests of a job's timeline and files in a real Chromium: the plan in sentences, every act, the pages of its files."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.server import files_template
from tests.e2e.server.chromium import Seen, opened
from tests.e2e.server.conftest import Served
from tests.e2e.server.native import client, job_when, waits

pytestmark = pytest.mark.container
LONG = 60_000
DRAWN = """async (image) => {
  image.scrollIntoView();
  await image.decode();
  return [image.naturalWidth, image.naturalHeight];
}"""
LEFT = "(box) => box.getBoundingClientRect().bottom"
TOP = "(box) => box.getBoundingClientRect().top"


@pytest.fixture(scope="module")
def api(server: Served) -> Iterator[httpx.Client]:
    files_template.install(server.settings.lib / "templates")
    with client(server) as made:
        yield made


@pytest.fixture(scope="module")
def waiting(api: httpx.Client) -> str:
    job = str(api.post("/jobs", json={"template": "files", "approve": "plan"}).raise_for_status().json()["id"])
    waits(api, job, "plan")
    return job


@pytest.fixture(scope="module")
def done(api: httpx.Client, seen: Seen, server: Served, waiting: str) -> str:
    """Return the same job when it is done; its timeline is open meanwhile."""
    page = at(seen, server, f"jobs/{waiting}/timeline")
    plan = waits(api, waiting, "plan")
    api.post(f"/approvals/{plan['id']}", json={"answer": "approve", "digest": plan["digest"]}).raise_for_status()
    expect(page.get_by_role("list", name="What happened")).to_contain_text("The job ended: done", timeout=2 * LONG)
    job_when(api, waiting, "done")
    return waiting


def at(seen: Seen, server: Served, place: str) -> Page:
    """Open a place of the page, and wait until it is drawn."""
    seen.page.goto("about:blank")
    seen.page.goto(f"{server.url}/#/{place}")
    seen.page.get_by_role("heading", level=1).wait_for()
    return seen.page


def no_wider(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0


# -- the plan -------------------------------------------------------------------------------------------------------


def test_a_plan_begins_with_its_risks_in_sentences(seen: Seen, server: Served, waiting: str) -> None:
    card = at(seen, server, f"jobs/{waiting}").get_by_role("article", name="Carry out this plan?")
    stakes = card.get_by_role("region", name="What is at stake")
    expect(stakes).to_contain_text(
        "Step make may send data to shop.example (POST https://shop.example/orders, at most 4.0 KiB in total), "
        "without using a secret of yours."
    )
    steps = card.get_by_role("region", name="Steps")
    expect(steps).to_contain_text("Sends data to shop.example")
    expect(steps).to_contain_text("Writes out/Totals.xlsx, out/Letter.docx, out/Paper.pdf and out/rows.csv.")
    assert stakes.evaluate(LEFT) <= steps.evaluate(TOP)
    assert card.evaluate("(box) => [...box.querySelectorAll('pre')].some((each) => each.checkVisibility())") is False
    card.get_by_text("The exact plan").click()
    expect(card.get_by_label("The exact plan")).to_contain_text(
        "reaches shop.example: POST https://shop.example/orders up=4K"
    )
    seen.require_peace()


@pytest.mark.long
def test_a_plan_fits_a_phone(server: Served, browser: Browser, waiting: str) -> None:
    with opened(browser, 390, 844, dark=True) as phone:
        phone.sign_in(server)
        page = at(phone, server, f"jobs/{waiting}")
        page.get_by_role("region", name="What is at stake").wait_for()
        no_wider(page)
        phone.require_peace()


# -- the timeline ---------------------------------------------------------------------------------------------------


def test_the_timeline_describes_an_act_like_the_report(seen: Seen, server: Served, done: str) -> None:
    page = at(seen, server, f"jobs/{done}/timeline")
    act = page.locator("#act-1")
    expect(act).to_contain_text("sh -c 'echo half of it is done; echo the printer is on fire >&2; exit 3'")
    expect(act).to_contain_text("exit code 3: half of it is done\nthe printer is on fire")
    expect(page.locator("#act-2")).to_contain_text("“That did not work. Once more, without a printer.”")
    expect(page.locator("#act-3")).to_contain_text("made")
    expect(page.get_by_role("list", name="What happened")).to_contain_text(
        f"The worker's summary{files_template.FOUND}"
    )
    expect(page.get_by_role("list", name="Events")).to_be_hidden()
    seen.require_peace()


def test_an_act_is_opened_and_everything_is_shown_on_request(seen: Seen, server: Served, done: str) -> None:
    page = at(seen, server, f"jobs/{done}/timeline")
    act = page.locator("#act-2")
    act.locator("summary").click()
    expect(act).to_contain_text("import openpyxl")
    page.get_by_label("Show everything").check()
    events = page.get_by_role("list", name="Events")
    expect(events).to_contain_text("StepBegun")
    expect(events).to_contain_text('"outcome":"failed"')
    seen.require_peace()


@pytest.mark.long
def test_a_timeline_fits_a_phone(server: Served, browser: Browser, done: str) -> None:
    with opened(browser, 390, 844) as phone:
        phone.sign_in(server)
        page = at(phone, server, f"jobs/{done}/timeline")
        page.locator("#act-2 summary").click()
        expect(page.locator("#act-2")).to_contain_text("import openpyxl")
        no_wider(page)


def test_a_story_is_read_in_pieces_and_as_a_whole(api: httpx.Client, done: str) -> None:
    whole = api.get(f"/jobs/{done}/story").raise_for_status().json()
    assert [each["act"] for each in whole["acts"]] == [1, 2, 3, 4]
    assert [each["outcome"] for each in whole["steps"]] == ["done"]
    later = api.get(f"/jobs/{done}/story", params={"after": whole["last"]}).json()
    assert (later["moments"], later["steps"], later["acts"], later["last"]) == ([], [], [], whole["last"])


@pytest.mark.parametrize("place", ["jobs/{}/acts/99", "jobs/iaaaaaaaaaaaaaaaaaaaa/story"])
def test_an_unknown_act_is_not_found(api: httpx.Client, done: str, place: str) -> None:
    assert api.get(f"/{place.format(done)}").status_code == 404


# -- deliverables -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "pages"), [("Totals.xlsx", 1), ("Letter.docx", 1), ("Paper.pdf", 2)], ids=["xlsx", "docx", "pdf"]
)
def test_a_file_is_shown_as_the_pages_that_its_check_rendered(
    seen: Seen, server: Served, done: str, name: str, pages: int
) -> None:
    page = at(seen, server, f"jobs/{done}")
    page.get_by_role("listitem").filter(has_text=name).get_by_role("button", name="Preview").click()
    shown = page.get_by_role("dialog", name=name).get_by_role("img")
    expect(shown).to_have_count(pages)
    assert min(shown.last.evaluate(DRAWN)) > 100
    page.get_by_role("button", name="Close").click()
    seen.require_peace()


def test_a_text_file_is_shown_as_text(seen: Seen, server: Served, done: str) -> None:
    page = at(seen, server, "drive")
    row = page.get_by_role("listitem").filter(has_text="rows.csv")
    row.get_by_role("button", name="Preview").click()
    expect(page.frame_locator("iframe").locator("body")).to_contain_text("row,amount")
    page.get_by_role("button", name="Close").click()
    seen.require_peace()


def test_a_file_without_a_picture_is_reported(seen: Seen, server: Served, api: httpx.Client) -> None:
    api.put("/drive/folder/by-hand.xlsx", content=b"PK").raise_for_status()
    page = at(seen, server, "drive")
    page.get_by_role("listitem").filter(has_text="by-hand.xlsx").get_by_role("button", name="Preview").click()
    expect(page.get_by_role("dialog", name="by-hand.xlsx")).to_contain_text("There is no preview of this file")
    page.get_by_role("button", name="Close").click()
    assert api.get("/drive/folder/by-hand.xlsx", params={"page": 1}).status_code == 404


def test_a_files_own_name_comes_first(seen: Seen, server: Served, api: httpx.Client, done: str) -> None:
    row = at(seen, server, "drive").get_by_role("listitem").filter(has_text="Totals.xlsx")
    expect(row.locator(".name")).to_have_text(re.compile(rf"^Totals\.xlsxin out/from job {done}$"))
    row.get_by_role("link", name=done).click()
    expect(seen.page.get_by_role("heading", name="Compare the rows with the books.")).to_be_visible()


def test_a_report_begins_with_what_was_found_and_names_the_files(seen: Seen, server: Served, done: str) -> None:
    page = at(seen, server, f"jobs/{done}")
    page.get_by_role("button", name="Report").click()
    report = page.frame_locator("iframe")
    expect(report.locator("h1")).to_have_text(files_template.FOUND)
    expect(report.locator(".task")).to_contain_text("Compare the rows with the books.")
    page.get_by_role("button", name="Close").click()
    seen.require_peace()


# -- what is missing --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["jobs/nope", "jobs/iaaaaaaaaaaaaaaaaaaaa", "desks/nope"])
def test_missing_pages_are_reported(seen: Seen, server: Served, place: str) -> None:
    noun, name = place.split("/")
    page = at(seen, server, place)
    expect(page.get_by_role("alert")).to_contain_text(f"{noun.removesuffix('s').title()} {name} was not found.")
    expect(page.get_by_role("link", name=f"All {noun}")).to_be_visible()


@pytest.mark.parametrize("place", ["fleet", "keys", "drive"])
def test_the_first_card_is_clear_of_the_heading(seen: Seen, server: Served, place: str) -> None:
    page = at(seen, server, place)
    page.locator(".rows, .tiles, .empty").first.wait_for()
    gap = page.locator(".rows, .tiles, .empty").first.evaluate(TOP) - page.locator(".top").evaluate(LEFT)
    assert gap >= 16


# -- forgotten jobs ---------------------------------------------------------------------------------------------------


def test_a_forgotten_jobs_words_and_pages_are_gone(api: httpx.Client, done: str) -> None:
    assert "the printer is on fire" in api.get(f"/jobs/{done}/story").text
    assert api.get(f"/drive/{done}/out/Paper.pdf", params={"page": 2}).status_code == 200
    api.delete(f"/jobs/{done}").raise_for_status()
    told = api.get(f"/jobs/{done}/story").raise_for_status().text
    assert "the printer is on fire" not in told
    assert "half of it is done" not in api.get(f"/jobs/{done}/acts/1").text
    assert api.get(f"/drive/{done}/out/Paper.pdf", params={"page": 2}).status_code == 404
    assert api.get(f"/drive/{done}/out/Paper.pdf").status_code == 200
