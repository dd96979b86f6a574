"""Tests of the page's accessibility: texts have contrast in both colour schemes, and a keyboard alone is enough."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.server import job_template
from tests.e2e.server.chromium import Seen, opened
from tests.e2e.server.conftest import Served
from tests.e2e.server.native import client, waits

pytestmark = pytest.mark.container
PLACES = (
    "jobs", "approvals", "fleet", "desks", "drive", "keys", "new", "new?as=words", "new?as=brief", "jobs/{job}",
    "jobs/{job}/timeline", "jobs/{job}/files", "jobs/{job}/door", "jobs/{job}/terminal", "desks/{desk}/files",
    "desks/{desk}/terminal",
)  # fmt: skip
FAINT = """
() => {
  const parse = (text) => {
    const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
    return { r, g, b, a };
  };
  const over = (top, below) => ({
    r: top.r * top.a + below.r * (1 - top.a), g: top.g * top.a + below.g * (1 - top.a),
    b: top.b * top.a + below.b * (1 - top.a), a: 1,
  });
  const ground = (element) => {
    const chain = [];
    for (let e = element; e; e = e.parentElement) chain.push(parse(getComputedStyle(e).backgroundColor));
    return chain.reverse().reduce((below, top) => over(top, below), { r: 255, g: 255, b: 255, a: 1 });
  };
  const light = ({ r, g, b }) => {
    const [x, y, z] = [r, g, b].map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ratio = (a, b) => {
    const [high, low] = [light(a), light(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };
  const seen = (e) => e.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true });
  const faint = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !seen(element) || element.closest(":disabled, noscript, option")) continue;
    const style = getComputedStyle(element);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const below = ground(element);
    const found = ratio(over(parse(style.color), below), below);
    if (found < (large ? 3 : 4.5)) faint.push(`${found.toFixed(2)} ${walker.currentNode.data.slice(0, 40)}`);
  }
  const controls = "input:not([type=checkbox], [type=file]), select, textarea:not(.keys)";
  for (const element of document.querySelectorAll(controls)) {
    const found = ratio(parse(getComputedStyle(element).borderTopColor), ground(element.parentElement));
    if (seen(element) && found < 3) faint.push(`${found.toFixed(2)} the border of ${element.outerHTML.slice(0, 60)}`);
  }
  return faint;
}
"""
LOST = """
() => {
  const lost = [];
  for (const name of ["h1", "main", "body > header", "nav[aria-label=Main]", "html[lang]", "title:not(:empty)"])
    if (document.querySelectorAll(name).length !== 1) lost.push(name);
  const parts = "section, nav, [role=tablist], [role=tabpanel], [role=region], [role=log]";
  for (const each of document.querySelectorAll(parts))
    if (!each.ariaLabel && !document.getElementById(each.getAttribute("aria-labelledby")))
      lost.push(each.outerHTML.slice(0, 80));
  for (const each of document.querySelectorAll("[id]"))
    if (document.querySelectorAll(`[id="${each.id}"]`).length > 1) lost.push(`${each.id} twice`);
  for (const each of document.querySelectorAll("input, select, textarea"))
    if (each.checkVisibility() && !each.labels.length && !each.ariaLabel) lost.push(each.outerHTML.slice(0, 80));
  return lost;
}
"""


@pytest.fixture(scope="module")
def api(server: Served) -> Iterator[httpx.Client]:
    job_template.install(server.settings.lib / "templates")
    with client(server) as made:
        yield made


@pytest.fixture(scope="module")
def ids(api: httpx.Client) -> Iterator[dict[str, str]]:
    api.put("/drive/kept.txt", content=b"kept").raise_for_status()
    desk = api.post("/desks", json={}).raise_for_status().json()["id"]
    job = begun(api)
    yield {"job": job, "desk": desk}
    api.post(f"/jobs/{job}/stop")


def begun(api: httpx.Client) -> str:
    upload = api.post("/uploads", params={"name": "names.txt"}, content=b"Anna\n").json()
    files = [{"upload": upload["id"], "name": "names.txt"}]
    job = str(api.post("/jobs", json={"template": "greeting", "approve": "plan", "files": files}).json()["id"])
    waits(api, job, "plan")
    return job


@pytest.fixture(scope="module", params=["light", pytest.param("dark", marks=pytest.mark.long)])
def seen(request: pytest.FixtureRequest, server: Served, browser: Browser) -> Iterator[Seen]:
    with opened(browser, dark=request.param == "dark") as made:
        made.sign_in(server)
        yield made


@pytest.fixture(scope="module")
def one(server: Served, browser: Browser) -> Iterator[Seen]:
    with opened(browser) as made:
        made.sign_in(server)
        yield made


def at(seen: Seen, server: Served, place: str) -> Page:
    """Open a place of the page, and wait until it is drawn."""
    seen.page.goto("about:blank")
    seen.page.goto(f"{server.url}/#/{place}")
    seen.page.get_by_role("heading", level=1).wait_for()
    seen.page.wait_for_timeout(200)
    return seen.page


@pytest.mark.sample(8)
@pytest.mark.parametrize("place", PLACES)
def test_every_text_has_contrast(seen: Seen, server: Served, ids: dict[str, str], place: str) -> None:
    assert at(seen, server, place.format(**ids)).evaluate(FAINT) == []


def test_a_dialog_and_a_refusal_have_contrast(seen: Seen, server: Served) -> None:
    page = at(seen, server, "keys")
    page.get_by_role("button", name="New key").click()
    assert page.evaluate(FAINT) == []
    page.get_by_label("Name", exact=True).fill("test")
    for box in page.get_by_role("checkbox").all():
        box.uncheck()
    page.get_by_role("button", name="Create key").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("powers")
    assert page.evaluate(FAINT) == []
    page.get_by_role("button", name="Close").click()


def test_signing_in_has_contrast(server: Served, browser: Browser) -> None:
    for dark in (False, True):
        with opened(browser, dark=dark) as seen:
            seen.page.goto(server.url)
            seen.page.get_by_label("Key").wait_for()
            assert seen.page.evaluate(FAINT) == []


@pytest.mark.sample(8)
@pytest.mark.parametrize("place", PLACES)
def test_every_part_is_a_landmark_or_has_a_name(one: Seen, server: Served, ids: dict[str, str], place: str) -> None:
    assert at(one, server, place.format(**ids)).evaluate(LOST) == []


def reach(page: Page, role: str, name: str) -> None:
    """Press Tab until an element has the focus."""
    wanted = page.get_by_role(role, name=name).first  # type: ignore[arg-type]
    wanted.wait_for()
    for _ in range(60):
        page.keyboard.press("Tab")
        if wanted.evaluate("(element) => element === document.activeElement"):
            return
    pytest.fail(f"Tab does not lead to the {role} {name}")


def test_signing_in_approving_and_answering_work_with_a_keyboard_alone(
    server: Served, browser: Browser, api: httpx.Client, ids: dict[str, str]
) -> None:
    job = begun(api)
    with opened(browser) as seen:
        page = seen.page
        page.goto(server.url)
        page.get_by_label("Key").wait_for()
        page.keyboard.type(server.key)
        page.keyboard.press("Enter")
        page.locator(f"a[href='#/jobs/{job}']").wait_for()
        page.keyboard.press("Tab")
        for _ in range(60):
            if page.evaluate("document.activeElement.getAttribute('href')") == f"#/jobs/{job}":
                break
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.get_by_role("article", name="Carry out this plan?").wait_for()
        reach(page, "button", "Approve")
        page.keyboard.press("Enter")
        page.get_by_role("article", name="The worker asks").wait_for()
        assert page.evaluate("document.activeElement.id") == "main"
        reach(page, "textbox", "Your answer")
        page.keyboard.type("Good day")
        reach(page, "button", "Send answer")
        page.keyboard.press("Enter")
        page.locator(".chip[data-is=verified]").wait_for()
        reach(page, "tab", "Overview")
        page.keyboard.press("ArrowRight")
        expect(page.get_by_role("tab", name="Timeline")).to_be_focused()
        expect(page.get_by_role("tabpanel", name="Timeline")).to_contain_text("The job ended: done")
        seen.require_peace()


def test_the_focus_comes_back_from_a_dialog(one: Seen, server: Served, ids: dict[str, str]) -> None:
    page = at(one, server, f"desks/{ids['desk']}/files")
    burn = page.get_by_role("button", name="Burn")
    burn.focus()
    page.keyboard.press("Enter")
    page.get_by_role("dialog", name="Burn this desk?").wait_for()
    page.keyboard.press("Escape")
    expect(burn).to_be_focused()


def test_a_focused_element_is_marked(seen: Seen, server: Served) -> None:
    page = at(seen, server, "jobs")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    width = page.evaluate("parseFloat(getComputedStyle(document.activeElement).outlineWidth)")
    assert width >= 2
