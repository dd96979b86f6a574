"""Tests of a swarm from the page alone, in a real Chromium: started, approved, its map used, register downloaded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.server import door_template, swarm_template
from tests.e2e.server.chromium import Seen
from tests.e2e.server.conftest import Served, served
from tests.e2e.server.native import client
from tests.e2e.server.swarm_template import HOSTILE, WORDS

pytestmark = [pytest.mark.container, pytest.mark.long, pytest.mark.timeout(300)]
LONG = 90_000


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[Served]:
    with door_template.site() as settings, served(home / "web-swarm", config=settings) as found:
        swarm_template.install(found.settings.lib / "templates", asks=True)
        yield found


@pytest.fixture(scope="module")
def begun(seen: Seen, tmp_path_factory: pytest.TempPathFactory) -> Page:
    page, words = seen.page, tmp_path_factory.mktemp("sent") / "words.txt"
    words.write_text("".join(f"{word}\n" for word in WORDS))
    page.get_by_role("link", name="New job").click()
    page.get_by_role("button", name="Count letters").click()
    page.get_by_label("Input files").set_input_files(words)
    page.get_by_text("Limits and approval").click()
    page.get_by_label("Items to finish first").fill("2")
    page.get_by_role("button", name="Start").click()
    plan = page.get_by_role("article", name="Carry out this plan?")
    plan.get_by_role("button", name="Approve").click(timeout=LONG)
    return page


def test_requests_of_all_items_are_one_card_and_one_approval(seen: Seen, begun: Page, server: Served) -> None:
    cohort = begun.get_by_role("article", name="Allow this for every item?")
    expect(cohort).to_contain_text("/words/{item}", timeout=LONG)
    with client(server) as api:
        kinds = [each["kind"] for each in api.get("/approvals").json()["items"]]
    assert kinds == ["cohort"]
    cohort.get_by_role("button", name="Approve").click()
    seen.require_peace()


def test_the_pilot_is_shown_with_a_forecast_and_approved(seen: Seen, begun: Page) -> None:
    pilot = begun.get_by_role("article", name="Continue with all items?")
    expect(pilot).to_contain_text("forecast for all", timeout=LONG)
    expect(begun.get_by_role("button", name="line-000001: passed")).to_be_visible(timeout=LONG)
    expect(begun.get_by_role("button", name="item 2: not finished")).to_be_visible()
    pilot.get_by_role("button", name="Approve").click()
    seen.require_peace()


def test_the_map_shows_every_item_and_opens_its_evidence(seen: Seen, begun: Page) -> None:
    failed = begun.get_by_role("button", name=re.compile("line-000003: in quarantine"))
    expect(failed).to_be_visible(timeout=LONG)
    expect(begun.locator('.itemmap button[data-is="done"]')).to_have_count(4, timeout=LONG)
    begun.get_by_role("button", name="line-000002: passed").click()
    shown = begun.get_by_role("dialog", name="Item line-000002")
    expect(shown).to_contain_text(f'"letters": 5, "word": "{json.dumps(HOSTILE)[1:-1]}three"')
    expect(shown).to_contain_text("clean desk")
    shown.get_by_role("button", name="Close").click()
    failed.focus()
    begun.keyboard.press("ArrowRight")
    begun.keyboard.press("Enter")
    expect(begun.get_by_role("dialog", name="Item line-000004")).to_be_visible()
    begun.get_by_role("button", name="Close").click()
    seen.require_peace()


def test_failures_are_grouped_by_cause_and_lead_to_their_evidence(seen: Seen, begun: Page) -> None:
    group = begun.get_by_role("region", name="In quarantine, by cause")
    expect(group).to_contain_text("1 item", timeout=LONG)
    group.get_by_role("button", name="line-000003").click()
    expect(begun.get_by_role("dialog", name="Item line-000003")).to_contain_text(HOSTILE)
    begun.get_by_role("button", name="Close").click()
    seen.require_peace()


def test_the_register_is_downloaded(seen: Seen, begun: Page) -> None:
    report = begun.get_by_role("region", name="Report")
    expect(report).to_be_visible(timeout=LONG)
    with begun.expect_download() as taken:
        report.get_by_role("link", name="Download").first.click()
    rows = Path(taken.value.path()).read_text().split()
    assert rows[0] == "item,letters"
    assert rows[1:] == [f"line-{at:06},{len(word)}" for at, word in enumerate(WORDS, 1) if word != "broken"]
    seen.require_peace()


def test_a_phone_shows_the_map_without_scrolling_sideways(seen: Seen, begun: Page) -> None:
    begun.set_viewport_size({"width": 390, "height": 844})
    for part in (".tabs", ".itemmap", "body"):
        assert begun.locator(part).first.evaluate("(box) => box.scrollWidth - box.clientWidth") <= 0, part
    begun.set_viewport_size({"width": 1280, "height": 860})
    seen.require_peace()


def test_items_are_added_to_a_swarm_that_is_done(seen: Seen, begun: Page, tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("".join(f"{word}\n" for word in [*WORDS, "thirteen"]))
    begun.get_by_text("Add items").click()
    begun.get_by_label("Files", exact=True).set_input_files(words)
    begun.get_by_role("button", name="Add", exact=True).click()
    expect(begun.get_by_role("button", name="line-000006: passed")).to_be_visible(timeout=LONG)
    expect(begun.locator(".chip[data-is=done]").first).to_be_visible(timeout=LONG)
    seen.require_peace()
