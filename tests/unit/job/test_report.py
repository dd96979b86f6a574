"""Tests of a job's report: complete, honest about unknowns, small, and replacing only our own files."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.ledger import DESK, JOB, PLAN, Ledger, paused_job
from tests.reported import reported_job, screen

from hotdesk.errors import BriefError
from hotdesk.event import (
    Exchange,
    Forgotten,
    JobBegun,
    JobEnded,
    Kept,
    Planned,
    StepBegun,
    StepEnded,
    Summed,
    Thought,
    Verified,
)
from hotdesk.job.record import papers
from hotdesk.job.record.progress import Cost
from hotdesk.job.report import make, name_beside, write
from hotdesk.job.report.collect import gather
from hotdesk.job.report.markup import Markup, cut, render_block, tag
from hotdesk.job.report.page import CSS, render_page
from hotdesk.job.report.paper_text import describe_failure, describe_use
from hotdesk.job.report.pictures import Album, read_screen, spread
from hotdesk.job.report.summary import describe_cost, render_brain
from hotdesk.job.results import Out
from hotdesk.plan import Plan, Step, to_json


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger(tmp_path)
    yield made
    made.journal.close()


def text_of(html: str) -> str:
    body = html.partition("</style>")[2]
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


def told(ledger: Ledger, job: str = JOB) -> str:
    """Make a report; return what a person reads."""
    return text_of(render_page(gather(ledger.path, ledger.jobs, job)))


def test_a_report_tells_all_of_a_job(ledger: Ledger) -> None:
    reported_job(ledger)
    text = told(ledger)
    wanted = [
        "Compare the invoices with their orders plain",
        "The work failed after",
        "notes.csv does not hold plain",
        "Brain: anthropic:claude",
        "6 columns, 500 rows plain",
        "Not checked macros plain",
        "Looked for opens, plain",
        "total 61768.22",
        "Report plain.xlsx.certificate.json",
        "0f" * 32,
        "hotdesk verify 'Report plain.xlsx'",
        "No certificate: the file did not pass its checks.",
        "a plan ✓ approved uid 0 pid 7 plain",
        "at the door: POSTplain erp.testplain/orders plain ✓ approved uid 0 plain",
        "Step read ✕ failed, rolled back",
        "Act 1 failed: shell python3 parse.py plain Traceback: line 42 plain",
        "It continued with act 2: browser_screenshot",
        "Why it failed it gave up plain: ValueError plain",
        "Step read , attempt 2 ✓ done",
        "Report plain.xlsx failed its check and went back to step write",
        "Faults Sheet1!C42 plain: expected 1,204.00 plain, found 1,240.00 plain",
        "unknown",
        "~$0.0123",
        "erp.testplain 1 1 GET 1.2 KiB 46.9 KiB erp-token in header plain",
        "evilplain 1 plain /plain no rule plain",
        "placeholder erp-token plain",
        "Destroyed desk",
        "until it is removed",
        "Left behind mount plain",
        "1 picture",
    ]
    assert [each for each in wanted if each not in text] == []


def test_the_report_names_who_decided() -> None:
    for name in ("written script 1a2b", "recorded script 1a2b"):
        assert "came from a script, not from a model" in render_brain(name).html
    assert "scripted adversary, not from a model" in render_brain("adversary hijacked").html
    assert "no model was called" in render_brain("replay of job x").html
    assert "written" not in render_brain("anthropic:claude").html
    assert "not recorded" in render_brain("").html


def finished(ledger: Ledger, summary: str, *, kept: bool = True, outcome: str = "done") -> None:
    paper = papers.create(ledger.jobs, JOB)
    plan = Plan((Step("find", "Find it", makes=("out/a b.csv",)), Step("tidy", "Tidy up")))
    ledger.note(
        JobBegun(JOB, "Find what differs", "b", "anthropic:m"),
        Planned(JOB, plan.digest, ("find", "tidy"), paper.write(to_json(plan))),
        StepBegun(JOB, "find", "Find it", DESK),
        Summed(JOB, "find", paper.write(summary)),
        StepEnded(JOB, "find", "done", "", DESK),
        StepBegun(JOB, "tidy", "Tidy up", DESK),
        Summed(JOB, "tidy", paper.write("all is tidy now")),
        StepEnded(JOB, "tidy", "done", "", DESK),
        *([Kept(JOB, "out/a b.csv", "ef" * 32, 10, 1)] if kept else []),
        JobEnded(JOB, outcome, ""),  # type: ignore[arg-type]
    )


def heading(ledger: Ledger) -> str:
    return text_of(render_page(gather(ledger.path, ledger.jobs, JOB)).partition("</h1>")[0]).rpartition("report ")[2]


def test_a_report_begins_with_what_was_found_and_then_names_the_task(ledger: Ledger) -> None:
    finished(ledger, "3 of 500 invoices differ,\nby 32,624.36 EUR")
    assert heading(ledger) == "3 of 500 invoices differ, by 32,624.36 EUR"
    assert "The worker's summary. The task: Find what differs" in told(ledger)


@pytest.mark.parametrize(
    ("summary", "kept", "outcome"),
    [("Done.", True, "done"), ("3 of 500 differ", False, "done"), ("3 of 500 differ", True, "failed")],
    ids=["says nothing", "made nothing", "failed"],
)
def test_a_report_begins_with_the_task_where_nothing_was_found(
    ledger: Ledger, summary: str, kept: bool, outcome: str
) -> None:
    finished(ledger, summary, kept=kept, outcome=outcome)
    assert heading(ledger) == "Find what differs"


def test_a_report_links_to_files_by_name_and_only_to_those_beside_it(ledger: Ledger) -> None:
    finished(ledger, "3 of 500 invoices differ")
    inside, beside = (make(ledger.path, ledger.jobs, JOB, beside=each).decode() for each in (False, True))
    assert '<a href="#file-1"><bdi>out/a b.csv</bdi></a> passed every check' in inside.replace("<span>", "").replace(
        "</span>", ""
    )
    assert 'id="file-1"' in inside
    assert "./out" not in inside
    assert '<a href="./out/a%20b.csv"><bdi>out/a b.csv</bdi></a>' in beside


def test_a_job_that_stopped_says_how_it_continues(ledger: Ledger) -> None:
    paused_job(ledger, JOB, "its acts were used up")
    text = told(ledger)
    assert "• paused The job stopped after" in text
    assert f"its acts were used up . Resume it with hotdesk resume {JOB}" in text
    assert "The job delivered no file." in text
    assert "The receipt was not recorded" in text


@pytest.mark.parametrize(
    ("outcome", "sentence"),
    [
        ("done", "No file was stored."),
        ("broken", "hotdesk itself failed: why"),
        ("interrupted", "The job was interrupted"),
    ],
)
def test_the_outcome_of_a_job_is_one_sentence(ledger: Ledger, outcome: str, sentence: str) -> None:
    ledger.begin()
    ledger.note(JobEnded(JOB, outcome, "why"))  # type: ignore[arg-type]
    assert sentence in told(ledger)


def test_a_killed_job_is_reported_without_a_known_end(ledger: Ledger) -> None:
    ledger.begin()
    assert "its end was not recorded" in told(ledger)


def test_destroyed_papers_are_reported(ledger: Ledger) -> None:
    reported_job(ledger)
    for file in (ledger.jobs / JOB).iterdir():
        if file.name == "key":
            file.unlink()
    assert "stored files could not be read; the content is missing here" in told(ledger)
    ledger.note(Forgotten(JOB, "uid 0", "retention"))
    text = told(ledger)
    assert "The job's stored data was deleted by uid 0" in text
    assert "The full verdict was deleted with the job's stored data" in text
    assert "Report plain.xlsx" in text


def test_time_and_cost_are_reported_by_step(ledger: Ledger) -> None:
    kept = papers.create(ledger.jobs, JOB)
    ledger.note(
        JobBegun(JOB, "g", "b", "anthropic:m"), Planned(JOB, PLAN.digest, ("a", "b"), kept.write(to_json(PLAN)))
    )
    paper = kept.write("{}")
    for name, dollars in (("a", 0.5), ("b", 1.0)):
        ledger.note(
            StepBegun(JOB, name, name),
            Thought(JOB, name, 1, "m", paper, 9, 5, 0, 99, 7, dollars),
            StepEnded(JOB, name, "done"),
        )
    ledger.note(Thought(JOB, "", 1, "m", paper, 9, 5, 0, 99, 7, 0.25), JobEnded(JOB, "done"))
    html = render_page(gather(ledger.path, ledger.jobs, JOB))
    text = text_of(html)
    assert "~$1.7500" in text
    assert "planning, approvals, opening desks" in text
    assert all(f'width="{width}" height="10" class="fill"' in html for width in (500, 1000, 250))


def test_a_script_costs_nothing_and_an_unknown_price_is_reported() -> None:
    assert describe_cost(Cost(replies=3)) == "none"
    assert describe_cost(Cost(replies=3, unpriced=3, input=5)) == "unknown price"


@pytest.mark.slow
def test_a_long_job_stays_small_and_says_what_is_left_out(ledger: Ledger) -> None:
    reported_job(ledger, more=300)
    report = gather(ledger.path, ledger.jobs, JOB)
    html = render_page(report)
    shown = [act.picture for each in report.attempts for act in each.acts if act.picture]
    assert len(shown) == 24
    assert html.count("<img ") == 24 + 3
    assert "pictures are omitted" in text_of(html)
    assert len(html) < 6_000_000


def test_an_album_has_a_size_limit() -> None:
    album = Album(room=90_000)
    taken = [album.add_screen(screen(1280, 800)) for _ in range(12)]
    shown = [each for each in taken if each is not None]
    assert 0 < sum(len(each.source) for each in shown) <= 90_000
    assert album.left_out == 12 - len(shown) > 0
    assert all(each.width == 960 for each in shown)


def test_a_picture_is_read_as_it_was_written() -> None:
    read = read_screen(screen(64, 40))
    assert read is not None
    assert read.size == (64, 40)
    assert read.getpixel((10, 0)) != read.getpixel((10, 39))


def test_pictures_are_chosen_from_first_to_last() -> None:
    assert spread(3, 24) == {0, 1, 2}
    assert len(spread(500, 24)) == 24
    assert {0, 499} <= spread(500, 24)


def test_the_style_is_applied_by_its_hash_and_nothing_else_is_loaded(ledger: Ledger) -> None:
    ledger.begin()
    html = render_page(gather(ledger.path, ledger.jobs, JOB))
    style = html.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert style == CSS.read_text()
    assert "url(" not in style
    assert "@import" not in style
    assert f"default-src &#x27;none&#x27;; img-src data:; style-src &#x27;sha256-{digest}&#x27;" in html
    assert '<meta name="referrer" content="no-referrer">' in html


class Outline(HTMLParser):
    """Takes down headings, landmarks, and what has no words for those who cannot see."""

    def __init__(self) -> None:
        super().__init__()
        self.headings: list[int] = []
        self.tags: list[str] = []
        self.faults: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if (tag == "img" and not dict(attrs).get("alt")) or (tag == "svg" and dict(attrs).get("aria-hidden") != "true"):
            self.faults.append(tag)


def test_a_report_has_landmarks_headings_in_order_captions_and_words_for_pictures(ledger: Ledger) -> None:
    reported_job(ledger)
    html = render_page(gather(ledger.path, ledger.jobs, JOB))
    outline = Outline()
    outline.feed(html)
    assert '<html lang="en">' in html
    assert [outline.tags.count(each) for each in ("header", "nav", "main", "footer", "h1")] == [1] * 5
    assert all(after <= before + 1 for before, after in zip(outline.headings, outline.headings[1:], strict=False))
    assert outline.tags.count("table") == outline.tags.count("caption") > 5
    assert outline.faults == []
    assert "<th scope=" in html


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


PAIRS = [
    *((ink, paper) for ink in ("ink", "quiet", "accent") for paper in ("paper", "card", "code", "soft")),
    *((tone, f"{tone}-back") for tone in ("good", "bad", "wait")),
]


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("ink", "paper"), PAIRS)
def test_every_text_can_be_read_in_both_schemes(scheme: int, ink: str, paper: str) -> None:
    block = re.findall(r":root \{([^}]*)\}", CSS.read_text())[scheme]
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block))
    light, dark = sorted((luminance(colours[ink]), luminance(colours[paper])), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5


@pytest.mark.parametrize(
    ("arguments", "short"),
    [
        ({"command": "ls\n  -l"}, "ls -l"),
        ({"argv": ["python3", "a b.py"]}, "python3 'a b.py'"),
        ({"url": "https://a.test/"}, "https://a.test/"),
        ({"path": "a.txt", "data": "AAAA"}, "a.txt"),
        ({"x": 1, "data": "AAAA"}, '{"x": 1}'),
        ({}, ""),
        (["odd"], "['odd']"),
        ({"command": "x" * 500}, "x" * 159 + "…"),
    ],
)
def test_what_a_tool_was_used_for_is_one_short_line(arguments: object, short: str) -> None:
    assert describe_use({"arguments": arguments}) == short


def test_a_program_that_failed_says_its_last_words() -> None:
    words = base64.b64encode(b"no such file\n").decode()
    text = json.dumps({"exit_code": 3, "stdout": "", "stderr": words})
    assert describe_failure({"text": text}) == "exit code 3: no such file"
    assert describe_failure({"text": "it was refused"}) == "it was refused"


def test_text_is_escaped_cut_and_laid_out_by_line() -> None:
    assert tag("p", "<b>", class_='"').html == '<p class="&quot;">&lt;b&gt;</p>'
    assert render_block("a\n\u202eb").html == '<div class="words"><bdi>a</bdi><br><bdi>\\u202eb</bdi></div>'
    assert cut("abcdef", 3) == "abc… (3 more characters)"


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("script", {}),
        ("iframe", {}),
        ("a", {"href": "https://a.test"}),
        ("a", {"href": "javascript:1"}),
        ("a", {"href": "./../a"}),
        ("a", {"href": "./a/%2e%2e/%2E./a"}),
        ("a", {"href": ".//a.test"}),
        ("a", {"href": "./a?b"}),
        ("a", {"href": "a.xlsx"}),
        ("img", {"src": "https://a.test"}),
        ("img", {"src": "data:text/html,x"}),
        ("p", {"onclick": "1"}),
        ("p", {"style": "x"}),
    ],
)
def test_active_or_loading_elements_cannot_be_created(name: str, attributes: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="a report must not contain"):
        tag(name, **attributes)


def test_a_style_holds_no_text() -> None:
    with pytest.raises(ValueError, match="must not contain the element style"):
        tag("style", "p {}")
    assert tag("style", Markup("p{}")).html == "<style>p{}</style>"


def test_an_earlier_report_is_replaced_and_nothing_else(ledger: Ledger, tmp_path: Path) -> None:
    ledger.begin()
    first = make(ledger.path, ledger.jobs, JOB)
    ledger.note(JobEnded(JOB, "done"))
    second = make(ledger.path, ledger.jobs, JOB)
    for data in (first, second):
        with Out(tmp_path / "out", ["report.html"]) as out:
            assert write(out, "report.html", data).read_bytes() == data
    (tmp_path / "out/report.html").write_bytes(second.replace(b"done", b"mine"))
    with Out(tmp_path / "out", ["report.html"]) as out, pytest.raises(BriefError, match="move it away"):
        write(out, "report.html", first)


def test_a_report_takes_no_results_name() -> None:
    assert name_beside(["a.xlsx", "b/report.html"]) == "report.html"
    assert name_beside(["report.html"]) == name_beside(["report.html/x"]) == "job-report.html"


def test_a_job_that_still_runs_says_so(ledger: Ledger) -> None:
    ledger.begin()
    report = gather(ledger.path, ledger.jobs, JOB)
    assert "The job is still running" in text_of(render_page(replace(report, state=("running", ""))))
    assert "hotdesk approve 1a2b" in text_of(render_page(replace(report, state=("waiting", "1a2b"))))


def test_a_request_that_nobody_approved_was_not_admitted(ledger: Ledger) -> None:
    ledger.begin(goal="Compare\nthe prices.")
    place = ("GET", "https", "erp.test", 443, "/x")
    asked = Exchange(DESK, "read", "ask", "ask read erp.test", *place, 403, 0, 0, 9, (), "the request was not approved")
    approved = replace(asked, status=200, up=80, down=20, note="approved")
    ledger.note(StepBegun(JOB, "read", "r", DESK), asked, asked, approved, JobEnded(JOB, "failed", "no prices"))
    text = told(ledger)
    assert "1 admitted, 2 refused" in text
    assert "ask read erp.test: not approved" in text
    assert "Compare the prices." in text


def test_of_two_checks_of_a_kind_both_are_shown_and_both_must_pass(ledger: Ledger) -> None:
    ledger.begin()

    def verified(check: str, *findings: str, passed: bool = True) -> Verified:
        return Verified(JOB, DESK, "a.xlsx", "cd" * 32, check, "passed" if passed else "failed", findings)

    first = (verified("active-content"), verified("xlsx", "D5: no sum", passed=False), verified("xlsx", "7 columns"))
    ledger.note(StepBegun(JOB, "read", "r", DESK), *first)
    assert "passed every check" not in (text := told(ledger))
    assert text.index("D5: no sum") < text.index("7 columns")
    ledger.note(verified("active-content"), verified("xlsx", "4 columns"), verified("xlsx", "7 columns"))
    assert "passed every check" in (text := told(ledger))
    assert "4 columns" in text
