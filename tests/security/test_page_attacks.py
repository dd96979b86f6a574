"""Attacks on users of the web page: by the output of desks and models, by foreign pages, by other tenants."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from hotdesk.api.keys import ApiKeys
from hotdesk.api.native.jobs import pages, stories
from hotdesk.api.web.content import LINK_LIFETIME_S, MAX_LINK_BYTES, MAX_LINKS, Content, link_to_response
from hotdesk.drive.catalog import Version
from hotdesk.event import Acted, Observed, StepBegun, StepEnded
from hotdesk.job.record import papers
from hotdesk.job.report.paper_text import PaperReader
from hotdesk.job.report.story import Following, Timeline
from tests.e2e.server.chromium import Seen, chromium, opened
from tests.e2e.server.conftest import Served, served
from tests.e2e.server.native import client, job_when, waits
from tests.ledger import DESK, JOB, Ledger
from tests.reported import reported_job
from tests.security import page_room
from tests.security.guards import Removal, falls_without, no_guard
from tests.security.page_room import ESCAPES, MARKUP, SHOWN_ESCAPES

pytestmark = [pytest.mark.container, pytest.mark.timeout(180)]
LONG = 15_000
RULES = (
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "base-uri 'none'", "form-action 'self'",
    "frame-ancestors 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'",
)  # fmt: skip


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[Served]:
    with served(home / "page") as found:
        yield found


@pytest.fixture(scope="module")
def api(server: Served) -> Iterator[httpx.Client]:
    """Yield a client of the attacked tenant; the hostile worker's template is installed."""
    page_room.install(server.settings.lib / "templates")
    with client(server) as made:
        yield made


@pytest.fixture(scope="module")
def other(server: Served) -> Iterator[httpx.Client]:
    with client(server, ApiKeys(server.settings.lib / "serve").make("eve", "other")) as made:
        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as made:
        yield made


@pytest.fixture(scope="module")
def seen(server: Served, browser: Browser) -> Iterator[Seen]:
    with opened(browser) as made:
        made.sign_in(server)
        yield made


@pytest.fixture(scope="module")
def asking(api: httpx.Client) -> str:
    made = api.post("/jobs", json={"template": "hostile", "values": {"whom": MARKUP}, "approve": "plan"})
    job = str(made.raise_for_status().json()["id"])
    plan = waits(api, job, "plan")
    api.post(f"/approvals/{plan['id']}", json={"answer": "approve", "digest": plan["digest"]}).raise_for_status()
    waits(api, job, "question")
    return job


@pytest.fixture(scope="module")
def done(api: httpx.Client, asking: str) -> str:
    asked = waits(api, asking, "question")
    answer = {"answer": "answer", "words": "as you like", "digest": asked["digest"]}
    api.post(f"/approvals/{asked['id']}", json=answer).raise_for_status()
    job_when(api, asking, "done")
    return asking


def ask(server: Served, path: str, name: str = "127.0.0.1", method: str = "GET") -> httpx.Response:
    port = httpx.URL(server.url).port
    return httpx.request(method, f"http://127.0.0.1:{port}{path}", headers={"Host": f"{name}:{port}"})


def look(server: Served, url: str) -> httpx.Response:
    found = httpx.URL(url)
    return ask(server, found.path, found.host)


# -- what a browser may do ------------------------------------------------------------------------------------------


@falls_without(
    "rules of the page",
    Removal(
        "web/page.py",
        'return {**ALWAYS, "content-security-policy": format_policy(scope["scheme"], host, self.content.domain)}',
        "return dict(ALWAYS)",
    ),
)
@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("GET", "/", "127.0.0.1"),
        ("GET", "/web/app.js", "127.0.0.1"),
        ("GET", "/web/nothing.js", "127.0.0.1"),
        ("POST", "/", "127.0.0.1"),
        ("GET", "/", "localhost"),
    ],
    ids=["page", "script", "missing", "changed", "elsewhere"],
)
def test_every_answer_of_the_page_has_the_security_headers(server: Served, method: str, path: str, name: str) -> None:
    told = ask(server, path, name, method)
    rules = told.headers["content-security-policy"].split("; ")
    assert [rule for rule in RULES if rule not in rules] == []
    assert [rule for rule in rules if "unsafe" in rule or "*" in rule] == []
    assert told.headers["x-content-type-options"] == "nosniff"


@falls_without("rules of the page")
def test_no_other_page_can_frame_it(server: Served, browser: Browser) -> None:
    said: list[str] = []
    with opened(browser) as seen, page_room.elsewhere(f'<iframe src="{server.url}/"></iframe>') as outer:
        seen.page.on("console", lambda told: said.append(told.text))
        seen.page.goto(outer)
        for _ in range(100):
            if any("frame-ancestors" in text for text in said):
                break
            seen.page.wait_for_timeout(100)
        framed = seen.page.frames[1].evaluate("document.title")
    assert framed != "Sign in · hotdesk", said
    assert any("frame-ancestors" in text for text in said), said


@falls_without(
    "the cookie of who signs in",
    Removal(
        "access/session.py",
        'response.set_cookie(COOKIE, cookie, secure=True, httponly=True, samesite="strict", path="/")',
        'response.set_cookie(COOKIE, cookie, secure=True, samesite="strict", path="/")',
    ),
    cases="signing-in",
)
@falls_without(
    "the cookie of who signs out",
    Removal(
        "access/session.py",
        'response.delete_cookie(COOKIE, secure=True, httponly=True, samesite="strict", path="/")',
        'response.delete_cookie(COOKIE, secure=True, httponly=True, path="/")',
    ),
    cases="signing-out",
)
@pytest.mark.parametrize("method", ["POST", "DELETE"], ids=["signing-in", "signing-out"])
def test_no_cookie_is_readable_by_scripts_or_sent_by_other_pages(server: Served, method: str) -> None:
    signed = httpx.post(f"{server.url}/api/v1/session", json={"key": server.key})
    token = {"Cookie": signed.headers["set-cookie"].partition(";")[0], "X-CSRF-Token": signed.json()["csrf"]}
    if method == "DELETE":
        signed = httpx.delete(f"{server.url}/api/v1/session", headers={**token, "Origin": server.url})
    [cookie] = signed.headers.get_list("set-cookie")
    assert cookie.startswith("__Host-")
    said = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert {"httponly", "secure", "samesite=strict", "path=/"} <= said
    assert not any(part.startswith("domain") for part in said)


@falls_without(
    "names of the page",
    Removal("http/dispatch.py", "        if name not in list_own_names(self.serving):\n", "        if False:\n"),
)
@pytest.mark.parametrize("path", ["/", "/web/app.js", "/api/v1/session", "/content/x"])
def test_a_rebound_dns_name_is_refused(server: Served, path: str) -> None:
    assert ask(server, path, "rebind.evil.test").status_code == 421


@falls_without("one name to sign in at", Removal("web/page.py", "elif name in ELSEWHERE:", "elif False:"))
def test_signing_in_is_refused_at_the_origin_of_desk_content(server: Served) -> None:
    told = ask(server, "/", "localhost")
    assert (told.status_code, told.headers["location"]) == (307, f"{server.url}/")


# -- the second origin ----------------------------------------------------------------------------------------------


@falls_without(
    "only links at the second origin",
    Removal("web/page.py", "        if name == get_content_name(self.content.domain):\n", "        if False:\n"),
)
@pytest.mark.parametrize("path", ["/", "/web/app.js", "/api/v1/session", "/content/", f"/content/{'A' * 43}"])
def test_the_second_origin_serves_only_links(server: Served, path: str) -> None:
    told = ask(server, path, "content.localhost")
    assert told.status_code == 404
    assert told.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    assert "set-cookie" not in told.headers


@falls_without(
    "the sandbox of what desks wrote",
    Removal("web/content.py", "\"sandbox; default-src 'none'; ", "\"default-src 'none'; "),
)
@pytest.mark.parametrize(
    ("name", "media", "how"),
    [
        ("page.html", "text/plain; charset=utf-8", "inline"),
        ("drawn.svg", "text/plain; charset=utf-8", "inline"),
        ("script.js", "text/plain; charset=utf-8", "inline"),
        ("paper.pdf", "application/octet-stream", "attachment"),
        ("book.xlsm", "application/octet-stream", "attachment"),
        ("page.xhtml", "application/octet-stream", "attachment"),
        ("nothing", "application/octet-stream", "attachment"),
    ],
    ids=["html", "svg", "js", "pdf", "xlsm", "xhtml", "none"],
)
def test_a_file_of_a_desk_is_not_served_as_a_page(
    server: Served, api: httpx.Client, name: str, media: str, how: str
) -> None:
    api.put(f"/drive/kinds/{name}", content=b"<script>parent.hit=1</script>").raise_for_status()
    link = api.post("/content", json={"kind": "drive", "path": f"kinds/{name}"}).raise_for_status().json()["url"]
    told = look(server, link)
    assert told.status_code == 200
    assert told.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    assert told.headers["x-content-type-options"] == "nosniff"
    assert told.headers["content-type"] == media
    assert told.headers["content-disposition"].startswith(f"{how};")


@falls_without(
    "downloads where people sign in",
    Removal("native/bodies.py", "f\"attachment; filename*=UTF-8''", "f\"inline; filename*=UTF-8''"),
)
def test_a_file_of_a_desk_is_a_download_at_the_main_origin(api: httpx.Client) -> None:
    api.put("/drive/own.html", content=b"<script>1</script>").raise_for_status()
    told = api.get("/drive/own.html")
    assert told.headers["content-disposition"].startswith("attachment;")
    assert told.headers["content-type"] == "application/octet-stream"
    assert told.headers["x-content-type-options"] == "nosniff"


@falls_without("names in headers", Removal("web/content.py", "{quote(link.name, safe='')}", "{link.name}"))
@pytest.mark.parametrize("name", ['a"; filename="b.exe', "a\r\nSet-Cookie: x=1", "a\u202egnp.exe"])
def test_a_file_name_cannot_inject_a_header(name: str) -> None:
    content = Content("localhost")
    link = content.find(content.offer("x", b"", name))
    assert link is not None
    told = link_to_response(link).headers["content-disposition"]
    assert re.fullmatch(r"attachment; filename\*=UTF-8''[A-Za-z0-9._%-]+", told)


@falls_without("the end of a link", Removal("web/content.py", "link.until > self.clock()", "link.until > 0"))
def test_a_link_lasts_a_minute() -> None:
    now = [1000.0]
    content = Content("localhost", lambda: now[0])
    path = content.offer("x", b"", "a.txt")
    now[0] += LINK_LIFETIME_S - 1
    assert content.find(path) is not None
    now[0] += 1
    assert content.find(path) is None


@falls_without(
    "bytes that links hold", Removal("web/content.py", "sum(own.values()) + len(data) > MAX_LINK_BYTES", "False")
)
def test_links_use_bounded_memory_and_displace_no_other_tenants() -> None:
    content = Content("localhost")
    theirs = content.offer("other", b"theirs", "a.txt")
    large = [content.offer("greedy", bytes(MAX_LINK_BYTES // 4), "a.txt") for _ in range(12)]
    assert sum(len(link.data) for link in map(content.find, large) if link is not None) <= MAX_LINK_BYTES
    many = [content.offer("greedy", b"", "a.txt") for _ in range(2 * MAX_LINKS)]
    assert sum(link is not None for link in map(content.find, many)) <= MAX_LINKS
    assert content.find(many[-1]) is not None
    assert content.find(theirs) is not None


@falls_without(
    "links nobody guesses",
    Removal("web/content.py", "key = secrets.token_urlsafe(32)", 'key = f"{len(self.links):043d}"'),
)
def test_every_link_is_unique(api: httpx.Client) -> None:
    api.put("/drive/same.txt", content=b"same").raise_for_status()
    order = {"kind": "drive", "path": "same.txt"}
    links = {api.post("/content", json=order).json()["url"].rpartition("/")[2] for _ in range(20)}
    assert len(links) == 20
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{43}", link) for link in links)
    assert len({link[:8] for link in links}) == 20


@no_guard("a tenant is a folder of its own: no code looks elsewhere")
@pytest.mark.parametrize("kind", ["drive", "file", "report", "frame"])
def test_no_link_is_issued_for_another_tenants_file(
    api: httpx.Client, other: httpx.Client, asking: str, kind: str
) -> None:
    api.put("/drive/ours.txt", content=b"ours").raise_for_status()
    desk = api.get(f"/jobs/{asking}").json()["desks"][-1]["id"]
    orders = {
        "drive": {"path": "ours.txt"}, "file": {"desk": desk, "path": "/etc/hostname"}, "report": {"job": asking},
        "frame": {"job": asking, "frame": 1},
    }  # fmt: skip
    told = other.post("/content", json={"kind": kind, **orders[kind]})
    assert told.status_code == 404, told.text


@falls_without(
    "links for those with a key",
    Removal(
        "access/auth.py",
        '        raise ProblemError(401, "key.unknown", MISSING if key is None else UNKNOWN, CHALLENGE)\n',
        '        caller = Caller("default", "", "")\n',
    ),
)
def test_no_link_is_issued_without_a_key(server: Served) -> None:
    told = httpx.post(f"{server.url}/api/v1/content", json={"kind": "drive", "path": "ours.txt"})
    assert told.status_code == 401


# -- what is shown --------------------------------------------------------------------------------------------------


def open_job(seen: Seen, server: Served, job: str, tab: str) -> Page:
    seen.page.goto(f"{server.url}/#/jobs/{job}/{tab}")
    seen.page.get_by_role("tab", selected=True).wait_for()
    return seen.page


@falls_without(
    "texts are texts",
    Removal(
        "static/dom.js",
        "document.createTextNode(clean(value))",
        "document.createRange().createContextualFragment(String(value))",
    ),
    Removal("web/page.py", "\"require-trusted-types-for 'script'\",", ""),
    Removal("web/page.py", "\"trusted-types 'none'\",", ""),
)
def test_a_task_is_shown_as_text(seen: Seen, server: Served, asking: str) -> None:
    seen.page.goto(f"{server.url}/#/jobs")
    expect(seen.page.locator(f"a[href='#/jobs/{asking}']")).to_contain_text(MARKUP)
    expect(open_job(seen, server, asking, "overview").get_by_role("heading", level=1)).to_contain_text(MARKUP)
    seen.require_peace()


@falls_without("texts are texts")
def test_a_question_of_a_model_is_shown_as_text(seen: Seen, server: Served, asking: str) -> None:
    card = open_job(seen, server, asking, "overview").get_by_role("article", name="The worker asks")
    expect(card).to_contain_text(MARKUP + SHOWN_ESCAPES)
    seen.require_peace()


@falls_without("texts are texts")
@falls_without(
    "texts that hide nothing",
    Removal("static/dom.js", "document.createTextNode(clean(value))", "document.createTextNode(value)"),
)
def test_a_file_name_is_shown_as_text(seen: Seen, server: Served, asking: str) -> None:
    page = open_job(seen, server, asking, "files")
    expect(page.locator(".panel").get_by_text(page_room.FILE_SHOWN, exact=True)).to_be_visible(timeout=LONG)
    seen.require_peace()


@falls_without("texts are texts")
def test_a_request_to_the_door_is_shown_as_text(seen: Seen, server: Served, asking: str) -> None:
    page = open_job(seen, server, asking, "door")
    expect(page.get_by_role("row").filter(has_text=page_room.REQUEST)).to_be_visible(timeout=LONG)
    seen.require_peace()


@falls_without("texts are texts")
def test_the_history_is_shown_as_text(seen: Seen, server: Served, asking: str) -> None:
    page = open_job(seen, server, asking, "timeline")
    expect(page.get_by_role("list", name="What happened")).to_contain_text(MARKUP, timeout=LONG)
    seen.require_peace()


@falls_without("texts are texts")
def test_arguments_and_results_of_acts_are_shown_as_text(seen: Seen, server: Served, asking: str) -> None:
    page = open_job(seen, server, asking, "timeline")
    act = page.locator("#act-1")
    expect(act).to_contain_text(page_room.FILE_SHOWN, timeout=LONG)
    act.locator("summary").click()
    expect(act.locator("dd").last).to_be_visible()
    written = page.locator("#act-2")
    written.locator("summary").click()
    expect(written.locator("dl")).to_contain_text(MARKUP + SHOWN_ESCAPES)
    page.get_by_label("Show everything").check()
    expect(page.get_by_role("list", name="Events")).to_contain_text("onerror=window.hit=1")
    seen.require_peace()


@falls_without("texts are texts")
def test_a_plan_in_sentences_is_shown_as_text(seen: Seen) -> None:
    card = {
        "title": MARKUP, "stakes": [MARKUP + ESCAPES], "lines": [MARKUP], "facts": {MARKUP: MARKUP}, "words": MARKUP,
        "steps": [{"name": MARKUP, "points": [MARKUP + ESCAPES]}],
    }  # fmt: skip
    asked = {"id": "1", "kind": "plan", "card": card, "digest": "0" * 64, "until": 0, "plan_text": MARKUP}
    told = seen.page.evaluate(
        "async (asked) => { const made = (await import('/web/card.js')).card(asked); document.body.append(made);"
        " const text = made.textContent; const found = made.querySelectorAll('img, script, iframe').length;"
        " made.remove(); return [text, found]; }",
        asked,
    )
    assert told[1] == 0
    assert told[0].count(MARKUP + SHOWN_ESCAPES) == 2
    seen.require_peace()


@falls_without("a terminal that hides nothing", Removal("static/vt.js", 'SEEN.test(character) ? "\\ufffd" : ', ""))
def test_program_output_is_shown_as_text(seen: Seen, server: Served, asking: str) -> None:
    page = open_job(seen, server, asking, "terminal")
    expect(page.locator(".panel .chip")).to_have_text("live")
    page.get_by_label("Terminal input").press_sequentially(f"cat {page_room.SAYS}\n")
    expect(page.get_by_role("log", name="Terminal")).to_contain_text(f"{MARKUP}\ufffdgnp.exe")
    seen.require_peace()


@falls_without("texts are texts")
def test_a_certificate_is_shown_as_text(seen: Seen, server: Served, done: str) -> None:
    page = open_job(seen, server, done, "overview")
    page.get_by_role("button", name="Certificate").click()
    shown = page.get_by_role("dialog", name="Certificate")
    expect(shown).to_contain_text(page_room.DELIVERED)
    page.get_by_role("button", name="Close").click()
    seen.require_peace()


@no_guard("three hold at once: its texts are escaped, its origin and frame have no script")
def test_a_report_runs_no_script(seen: Seen, server: Served, done: str) -> None:
    page = open_job(seen, server, done, "overview")
    page.get_by_role("button", name="Report").click()
    expect(page.frame_locator("iframe").locator("body")).to_contain_text(MARKUP, timeout=LONG)
    page.get_by_role("button", name="Close").click()
    seen.require_peace()


# -- what is told of acts and pages --------------------------------------------------------------------------------


@no_guard("a tenant is a folder of its own: no code looks elsewhere")
@pytest.mark.parametrize("name", ["story", "acts/1", "frames/1"])
def test_another_tenants_events_are_not_shown(other: httpx.Client, asking: str, name: str) -> None:
    assert other.get(f"/jobs/{asking}/{name}").status_code == 404


@no_guard("a tenant is a folder of its own: no code looks elsewhere")
@pytest.mark.parametrize("query", [{"pages": 1}, {"page": 1}], ids=["pages", "page"])
def test_pages_of_another_tenants_file_are_not_shown(
    api: httpx.Client, other: httpx.Client, done: str, query: dict[str, int]
) -> None:
    [made] = api.get(f"/jobs/{done}").json()["deliverables"]
    assert other.get(f"/drive/{made['name']}", params=query).status_code == 404


@falls_without(
    "words of desks are bounded", Removal("jobs/stories.py", "    if len(text) > longest:\n", "    if False:\n")
)
def test_a_desks_answers_cannot_make_a_story_endless(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    kept = papers.create(ledger.jobs, JOB)
    words = "\ud800" + "x" * 3_000_000
    call = kept.write(json.dumps({"tool": "shell", "arguments": {words: words, "command": words, "data": words}}))
    ledger.note(StepBegun(JOB, "a" * 64, words[:100_000], DESK), Acted(JOB, "a", 1, "shell", call))
    ledger.note(Observed(JOB, "a", 1, "failed", 1, kept.write(json.dumps({"text": words}))))
    ledger.note(StepEnded(JOB, "a" * 64, "failed", words[:100_000], DESK, kept.write(words[1:])))
    following = Following(JOB, Timeline(PaperReader(ledger.jobs, JOB)))
    following.read_on(ledger.path)
    told = stories.format_changes(following, 0).model_dump_json()
    act = stories.format_act(following.story.reading, following.story.acts[1]).model_dump_json()
    ledger.journal.close()
    assert len(told) < 8_000
    assert len(act) < 40_000


@falls_without(
    "pages are pictures", Removal("jobs/pages.py", "[number - 1][1]), 200, RULES,", "[number - 1][1]), 200, {},")
)
def test_a_page_of_a_file_is_always_served_as_a_picture(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    reported_job(ledger)
    ledger.journal.close()
    version = Version("a.xlsx", 1, "ef" * 32, 1, 0, "operator", JOB, "", "", tmp_path)
    answer = pages.respond_with_page(ledger.settings, version, 1)
    assert bytes(answer.body)[:3] == b"\xff\xd8\xff"
    assert answer.headers["content-type"] == "image/jpeg"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert [each.page for each in pages.describe_pages(ledger.settings, version).items] == [1, 2, 3]


@falls_without("pages of these very bytes", Removal("jobs/pages.py", " if sha256 == version.sha256:", ":"))
def test_pages_of_other_bytes_are_not_shown_for_a_file(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    reported_job(ledger)
    ledger.journal.close()
    changed = Version("a.xlsx", 2, "12" * 32, 1, 0, "operator", JOB, "", "", tmp_path)
    assert pages.describe_pages(ledger.settings, changed).items == []


@falls_without(
    "attributes that hide nothing", Removal("static/dom.js", "SHOWN.has(name) ? clean(value) : value", "value")
)
@pytest.mark.parametrize("attribute", ["title", "alt", "aria-label", "download"])
def test_labels_and_file_names_contain_no_hidden_characters(seen: Seen, attribute: str) -> None:
    made = "async ([name, text]) => (await import('/web/dom.js')).h('p', { [name]: text }).getAttribute(name)"
    assert seen.page.evaluate(made, [attribute, ESCAPES]) == SHOWN_ESCAPES
