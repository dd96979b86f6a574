"""Tests of a job in a person's own words, in a real Chromium: the form, a model without a key, and the certificate."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from hotdesk.job.record.decisions import JOBS
from hotdesk.job.record.lock import hold_lock
from tests.e2e.server.chromium import Seen
from tests.e2e.server.conftest import Served, served
from tests.e2e.server.native import client, job_when, waits
from tests.providers.acting import Acting
from tests.providers.behind import behind
from tests.providers.server import Provider

pytestmark = pytest.mark.container
LONG = 60_000
KEY = "k3-of-the-chat-server"
OWN_KEY = "o9-of-the-client-itself"
KEYLESS = "openai:gpt-5"


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with behind("chat", Acting(Path(__file__).with_name("words_worker.py"))) as made:
        yield made


@pytest.fixture(scope="module")
def keyless() -> Iterator[Provider]:
    with behind("openai", Acting(Path(__file__).with_name("words_worker.py"))) as made:
        yield made


@pytest.fixture(scope="module")
def server(home: Path, provider: Provider, keyless: Provider) -> Iterator[Served]:
    config = f'[serve]\nmodels = ["{KEYLESS}", "chat:worker@{provider.base_url}"]\n'
    env = {"HOTDESK_CHAT_KEY": KEY, "HOTDESK_CHAT_URL": provider.base_url, "HOTDESK_CHAT_WINDOW": "64000",
           "OPENAI_BASE_URL": keyless.base_url}  # fmt: skip
    with served(home / "words", config=config, env=env) as made:
        yield made


@pytest.fixture(scope="module")
def paused(seen: Seen, tmp_path_factory: pytest.TempPathFactory) -> Page:
    """Return the page of a job that was started from the form with the server's default, for which there is no key."""
    page, numbers = seen.page, tmp_path_factory.mktemp("sent") / "numbers.csv"
    numbers.write_text("nuts,5\nbolts,7\n")
    page.get_by_role("link", name="New job").click()
    page.get_by_role("tab", name="In your words").click()
    page.get_by_label("What should be done?").fill("Put the numbers into a workbook.")
    page.get_by_label("Which file do you want back?").fill("Report.xlsx")
    page.get_by_label("Input files").set_input_files(numbers)
    assert page.get_by_label("Model").input_value() == KEYLESS
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("region", name="Paused")).to_be_visible(timeout=LONG)
    return page


@pytest.mark.parametrize(
    ("goal", "names", "image"),
    [
        ("Add them up.", ["Sums.xlsx"], "office"),
        ("Add them up.", ["sums.json", "Numbers.ODS"], "office"),
        ("Write a letter.", ["Letter.docx"], "office"),
        ("Sign in to the shop's website and list the orders.", ["orders.xlsx"], "desktop"),
        ("Sort the lines.", ["lines.txt", "input.txt"], "base"),
    ],
)
def test_the_image_is_chosen_by_the_requested_deliverables(seen: Seen, goal: str, names: list[str], image: str) -> None:
    code = "async ([goal, names]) => (await import('/web/new.js')).imageFor(goal, names)"
    assert seen.page.evaluate(code, [goal, names]) == image


def test_a_paused_job_shows_the_reason_and_the_remedy(seen: Seen, paused: Page) -> None:
    banner = paused.get_by_role("region", name="Paused")
    expect(banner).to_contain_text(f"{KEYLESS} could not be called: no API key was found")
    expect(banner).to_contain_text("Choose another model, or enter a key for this one.")
    expect(banner.get_by_label("Model", exact=True)).to_be_visible()
    seen.require_peace()


@pytest.mark.long
def test_a_page_notices_that_a_jobs_process_ended_without_an_event(server: Served, paused: Page) -> None:
    job = paused.url.rpartition("/")[2]
    banner = paused.get_by_role("region", name="Paused")
    with hold_lock(server.settings.lib / JOBS / job):  # its process holds the lock for a moment after it has paused
        paused.reload()
        expect(paused.get_by_text("running", exact=True)).to_be_visible()
        expect(banner).not_to_be_visible()
    expect(banner).to_be_visible(timeout=LONG)


def test_the_list_of_jobs_shows_why_one_is_paused(seen: Seen, paused: Page) -> None:
    address = paused.url
    paused.get_by_role("navigation", name="Main").get_by_role("link", name="Jobs").click()
    expect(paused.get_by_role("listitem").filter(has_text="Put the numbers")).to_contain_text("no API key was found")
    paused.goto(address)
    seen.require_peace()


def test_an_invalid_key_is_refused_with_an_explanation(server: Served, paused: Page) -> None:
    banner = paused.get_by_role("region", name="Paused")
    banner.get_by_label("Key of the model's provider").fill("x" * 501)
    banner.get_by_role("button", name="Resume with this model").click()
    expect(banner.get_by_role("alert")).not_to_be_empty()
    banner.get_by_label("Key of the model's provider").fill("")


def test_another_model_carries_it_out_to_the_certificate(seen: Seen, paused: Page, provider: Provider) -> None:
    banner = paused.get_by_role("region", name="Paused")
    banner.get_by_label("Model", exact=True).select_option(f"chat:worker@{provider.base_url}")
    banner.get_by_role("button", name="Resume with this model").click()
    plan = paused.get_by_role("article", name="Carry out this plan?")
    plan.get_by_role("button", name="Approve").click(timeout=LONG)
    expect(paused.locator(".chip[data-is=verified]")).to_be_visible(timeout=2 * LONG)
    with paused.expect_download() as taken:
        paused.get_by_role("link", name="Download").click()
    data = Path(taken.value.path()).read_bytes()
    paused.get_by_role("button", name="Certificate").click()
    dialog = paused.get_by_role("dialog", name="Certificate")
    expect(dialog).to_contain_text(hashlib.sha256(data).hexdigest())
    expect(dialog).to_contain_text("chat:worker@")
    assert {each["authorization"] for each in provider.headers} == {f"Bearer {KEY}"}
    seen.require_peace()


def test_the_brief_of_a_client_names_only_models_that_the_server_offers(server: Served) -> None:
    lines = ('models = {plan = "NAME"}', f'models = {{plan = "{KEYLESS}", act = "NAME"}}', 'look = "NAME"')
    with client(server) as api:
        for line in lines:
            brief = f'goal = "x"\n{line}\ndeliverables = [{{path = "a.json", check = "json"}}]\n'
            refused = api.post("/jobs", json={"brief": brief.replace("NAME", "openai:gpt-5-mini")})
            assert (refused.status_code, refused.json()["code"]) == (400, "brief.models")
            assert "does not offer the model 'openai:gpt-5-mini'" in refused.json()["message"]
            assert api.post("/jobs", json={"brief": brief.replace("NAME", KEYLESS)}).status_code == 201


@pytest.mark.long
def test_a_key_that_a_client_supplies_goes_to_its_provider_and_is_stored_nowhere(
    server: Served, keyless: Provider, provider: Provider
) -> None:
    brief = 'goal = "x"\ninputs = ["numbers.csv"]\ndeliverables = [{path = "Report.xlsx", checks = []}]\n'
    with client(server) as api:
        upload = api.post("/uploads", params={"name": "numbers.csv"}, content=b"nuts,5\n").json()["id"]
        order = {"brief": brief, "files": [{"upload": upload, "name": "numbers.csv"}], "approve": "plan"}
        job = api.post("/jobs", json=order).raise_for_status().json()["id"]
        job_when(api, job, "paused")
        asked = len(keyless.headers)
        told = api.post(f"/jobs/{job}/resume", json={"key": OWN_KEY, "models": [KEYLESS]})
        assert (told.status_code, OWN_KEY in told.text) == (202, False)
        plan = waits(api, job, "plan")
        answer = {"answer": "refuse", "digest": plan["digest"], "words": "Enough."}
        api.post(f"/approvals/{plan['id']}", json=answer).raise_for_status()
        api.post(f"/jobs/{job}/stop")
    assert {each["authorization"] for each in keyless.headers[asked:]} == {f"Bearer {OWN_KEY}"}
    assert OWN_KEY not in str(provider.headers)
    files = [path for path in server.settings.run.parent.rglob("*") if path.is_file() and path.name != "pool.btrfs"]
    assert [path for path in files if OWN_KEY.encode() in path.read_bytes()] == []
