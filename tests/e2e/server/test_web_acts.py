"""Tests of what people do at the page besides jobs of a template: desks, files, the drive, keys, their own briefs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, WebSocket, expect

from hotdesk.brief import parse_rule
from hotdesk.brief.load import parse_job
from hotdesk.door.policy.scope import scope_of
from tests.e2e.server.chromium import Seen, opened
from tests.e2e.server.conftest import Served
from tests.e2e.server.native import client

pytestmark = pytest.mark.container
GOAL = 'Sum up "Q3 \\ Q4".\nOne line per customer: Grüße, 世界\t\x7f. \'\'\' """'
"""A goal that is hard to write as TOML."""
RULES = ["GET https://example.com/*", "https://files.example.com"]


@pytest.fixture(scope="module")
def server(own_server: Served) -> Served:
    return own_server


@pytest.fixture(scope="module")
def api(server: Served) -> Iterator[httpx.Client]:
    with client(server) as made:
        yield made


@pytest.fixture(scope="module")
def desk(seen: Seen, server: Served) -> str:
    page = at(seen, server, "desks")
    page.get_by_label("Image").select_option("base")
    page.get_by_role("button", name="Open a desk").click()
    page.get_by_role("tab", name="Terminal").wait_for()
    return page.get_by_role("heading", level=1).inner_text().split()[-1]


def at(seen: Seen, server: Served, place: str) -> Page:
    """Open a place of the page, and wait until it is drawn."""
    seen.page.goto("about:blank")
    seen.page.goto(f"{server.url}/#/{place}")
    seen.page.get_by_role("heading", level=1).wait_for()
    return seen.page


def agree(page: Page, act: str) -> None:
    """Confirm an act that cannot be undone."""
    page.get_by_role("dialog").get_by_role("button", name=act).click()
    expect(page.get_by_role("dialog")).to_have_count(0)


# -- desks ----------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_desk_is_paused_and_continues(seen: Seen, server: Served, api: httpx.Client, desk: str) -> None:
    page = at(seen, server, f"desks/{desk}/files")
    page.get_by_role("button", name="Pause").click()
    resume = page.get_by_role("button", name="Resume")
    resume.wait_for()
    assert api.get(f"/desks/{desk}").json()["state"] == "paused"
    resume.click()
    page.get_by_role("button", name="Pause").wait_for()
    assert api.get(f"/desks/{desk}").json()["state"] != "paused"
    seen.require_peace()


def test_a_file_is_put_at_a_desk_and_removed(
    seen: Seen, server: Served, api: httpx.Client, desk: str, tmp_path: Path
) -> None:
    sent = tmp_path / "a b & c.txt"
    sent.write_bytes(b"brought")
    page = at(seen, server, f"desks/{desk}/files")
    page.get_by_label("Upload files").set_input_files(sent)
    row = page.get_by_role("listitem").filter(has_text=sent.name)
    row.wait_for()
    assert api.get(f"/desks/{desk}/file", params={"path": sent.name}).content == b"brought"
    row.get_by_role("button", name="Remove").click()
    agree(page, "Remove")
    expect(row).to_have_count(0)
    assert api.get(f"/desks/{desk}/file", params={"path": sent.name}).status_code == 404
    seen.require_peace()


def test_a_terminal_survives_a_flood_and_a_keyboard_leaves_it(seen: Seen, server: Served, desk: str) -> None:
    sent: list[WebSocket] = []
    seen.page.on("websocket", lambda link: link.on("framesent", lambda _: sent.append(link)))
    page = at(seen, server, f"desks/{desk}/terminal")
    expect(page.locator(".panel .chip")).to_have_text("live")
    log, keys = page.get_by_role("log", name="Terminal"), page.get_by_label("Terminal input")
    keys.press_sequentially("stty size | sed 's/^/size: /'\n")
    expect(log).to_contain_text(re.compile(r"size: [1-9]\d 1\d\d"))  # as large as it is shown, though opened by address
    keys.press_sequentially("yes | head -c 60000; echo end of the $((1 + 1))nd flood\n")
    expect(log).to_contain_text("end of the 2nd flood", timeout=30_000)
    assert log.evaluate("(view) => view.querySelectorAll('div > div > div').length") <= 2400
    keys.press_sequentially("stty -echo; printf '\\033[6n%.0s' $(seq 20000); echo asked $((6 * 7)); exec sleep 60\n")
    typed = len(sent)
    expect(log).to_contain_text("asked 42", timeout=30_000)
    page.wait_for_timeout(500)
    assert 0 < len(sent) - typed < 5000
    keys.press("Tab")
    expect(keys).to_be_focused()
    keys.press("Control+Alt+KeyG")
    expect(page.get_by_role("tabpanel", name="Terminal")).to_be_focused()
    seen.require_peace()


# -- the drive ------------------------------------------------------------------------------------------------------


def test_a_file_is_kept_on_the_drive_and_removed(seen: Seen, server: Served, api: httpx.Client, tmp_path: Path) -> None:
    sent = tmp_path / "offers.csv"
    sent.write_bytes(b"oak,1\n")
    page = at(seen, server, "drive")
    page.get_by_label("Upload a file").set_input_files(sent)
    row = page.get_by_role("listitem").filter(has_text="offers.csv")
    expect(row).to_contain_text("unchecked")
    with page.expect_download() as taken:
        row.get_by_role("link", name="Download").click()
    assert Path(taken.value.path()).read_bytes() == b"oak,1\n"
    row.get_by_role("button", name="Remove").click()
    agree(page, "Remove")
    expect(row).to_have_count(0)
    assert api.get("/drive/offers.csv").status_code == 404
    seen.require_peace()


# -- keys -----------------------------------------------------------------------------------------------------------


def test_a_revoked_key_ends_its_session(seen: Seen, server: Served, api: httpx.Client, browser: Browser) -> None:
    made = api.post("/keys", json={"name": "leaver", "powers": ["jobs", "drive"]}).raise_for_status().json()["key"]
    with opened(browser) as other:
        other.sign_in(server, made)
        page = at(seen, server, "keys")
        row = page.get_by_role("listitem").filter(has_text="leaver")
        row.get_by_role("button", name="Revoke").click()
        agree(page, "Revoke")
        expect(row).to_contain_text("revoked")
        other.page.get_by_role("link", name="Drive").click()
        expect(other.page.get_by_label("Key")).to_be_visible()
    seen.require_peace()


def test_a_key_without_jobs_starts_at_the_first_place_it_may_see(
    api: httpx.Client, server: Served, browser: Browser
) -> None:
    made = api.post("/keys", json={"name": "filer", "powers": ["drive"]}).raise_for_status().json()["key"]
    with opened(browser) as other:
        other.sign_in(server, made)
        expect(other.page.get_by_role("heading", name="Drive", level=1)).to_be_visible()
        expect(other.page.get_by_role("link", name="Drive", exact=True)).to_have_attribute("aria-current", "page")
        other.require_peace()


# -- briefs of their own --------------------------------------------------------------------------------------------


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("goal = \nseconds = 1", "line 1"),
        ('goal = "x"\nhost = "y"', "host"),
        ('goal = "x"\nwall = "local"', "wall"),
    ],
    ids=["shape", "word", "reserved"],
)
def test_faults_of_a_typed_brief_are_shown_beside_it(seen: Seen, server: Served, text: str, why: str) -> None:
    page = at(seen, server, "new?as=brief")
    page.get_by_label("The brief, in TOML").fill(text)
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("alert")).to_contain_text(why)
    expect(page.get_by_label("The brief, in TOML")).to_have_value(text)
    expect(page.get_by_role("button", name="Start")).to_be_focused()
    seen.require_peace()


def test_a_goal_in_plain_words_becomes_a_brief(seen: Seen, server: Served, tmp_path: Path) -> None:
    sent = tmp_path / "offers.csv"
    sent.write_bytes(b"oak,1\n")
    page = at(seen, server, "new?as=words")
    page.get_by_label("What should be done?").fill(GOAL)
    page.get_by_label("Which file do you want back?").fill("Report.xlsx")
    page.get_by_label("Input files").set_input_files(sent)
    page.get_by_label("Which hosts may the job reach?").fill("\n".join(["", *RULES, "  "]))
    page.get_by_label("Model").fill("anthropic:claude-sonnet-5")
    page.get_by_text("Limits and approval").click()
    page.get_by_label("Cost limit in dollars").fill("2.5")
    page.get_by_label("Time limit in minutes").fill("3")
    with page.expect_request(lambda asked: asked.method == "POST" and asked.url.endswith("/jobs")) as posted:
        page.get_by_role("button", name="Start").click()
    told = posted.value.post_data_json or {}
    job = parse_job(told["brief"].encode(), tmp_path, scope_of)
    assert (job.goal, [each.path for each in job.deliverables]) == (GOAL, ["Report.xlsx"])
    assert list(job.scope.rules) == [parse_rule(rule) for rule in RULES]
    assert [each["name"] for each in told["files"]] == ["offers.csv"]
    assert (told["approve"], told["limits"]) == ("plan", {"dollars": 2.5, "seconds": 180})
    seen.require_peace()


def test_a_screen_without_novnc_shows_the_remedy(seen: Seen, server: Served, api: httpx.Client) -> None:
    desk = api.post("/desks", json={"image": "desktop"}).raise_for_status().json()["id"]
    try:
        page = at(seen, server, f"desks/{desk}/screen")
        expect(page.get_by_role("alert")).to_contain_text("hotdesk setup", timeout=60_000)
        expect(page.locator(".panel .chip")).not_to_have_text("connecting")
        seen.require_peace()
    finally:
        api.delete(f"/desks/{desk}").raise_for_status()
