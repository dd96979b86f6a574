"""Tests of a receipt as shown to people."""

from __future__ import annotations

from dataclasses import replace

from hotdesk.cli.board import format_receipt
from hotdesk.event import (
    Acted,
    Alarm,
    Certified,
    Event,
    Exchange,
    JobBegun,
    JobBurnt,
    JobEnded,
    Kept,
    Observed,
    Planned,
    RolledBack,
    StepBegun,
    StepEnded,
    Thought,
    Verified,
)
from hotdesk.job.record.receipt import Receipt, Requests, fold_timed

JOB, DESK = "i1", "i2"


def exchange(verdict: str, host: str, *grants: str) -> Exchange:
    return Exchange(DESK, "ask", verdict, "r", "GET", "https", host, 443, "/", 200, 1, 2, 3, grants)  # type: ignore[arg-type]


EVENTS: list[Event] = [
    JobBegun(JOB, "compare", "cd" * 32, "recorded script 1a2b3c4d"),
    Thought(JOB, "", 1, "anthropic:large", "p", 1200, 340, 5000, 2048, 900, 0.0312),
    Planned(JOB, "ab" * 32, ("ask", "write", "send"), "p"),
    StepBegun(JOB, "desk", "with the inputs", DESK),
    StepBegun(JOB, "ask", "Ask.", DESK),
    Thought(JOB, "ask", 1, "anthropic:small", "p", 10, 3, 0, 100, 20, -1.0),
    RolledBack(JOB, "ask", 1, "no answer"),
    StepBegun(JOB, "ask", "Ask.", DESK, 2),
    Acted(JOB, "ask", 1, "shell", "p"),
    Observed(JOB, "ask", 1, "done", 5, "p"),
    StepEnded(JOB, "ask", "done", "", DESK),
    StepBegun(JOB, "write", "Write.", DESK),
    Acted(JOB, "write", 2, "browser_open", "p"),
    Verified(JOB, "i3", "a.xlsx", "ab" * 32, "xlsx", "passed", ("5 rows",)),
    Certified(JOB, "a.xlsx", "ab" * 32, "cd" * 32),
    Kept(JOB, "a.xlsx", "ab" * 32, 4711),
    StepEnded(JOB, "desk", "done", "burnt", DESK),
    StepBegun(JOB, "desk", "clean", "i3"),
    JobEnded(JOB, "failed", "the time was up"),
    JobBurnt(JOB, ("desk i2", "2 checkpoints"), ("papers in jobs/i1, to show, until 2027-01-01",), ("desk i3",)),
    exchange("allow", "erp.test", "token in header authorization"),
    exchange("allow", "erp.test", "token in header authorization"),
    exchange("deny", "evil.test"),
    Alarm(DESK, "placeholder", "token", "evil.test"),
]


def receipt() -> Receipt:
    return fold_timed(JOB, ((float(second), event) for second, event in enumerate(EVENTS)))


def test_a_receipt_has_a_line_for_each_fact() -> None:
    assert format_receipt(receipt()) == [
        "receipt of job i1: failed, the time was up",
        f"  kept     a.xlsx, 4711 bytes, sha256 {'ab' * 32}",
        f"  proof    a.xlsx.certificate.json, sha256 {'cd' * 32}",
        "  checked  a.xlsx by xlsx: passed",
        "  door     2 x allow GET erp.test with token in header authorization",
        "  refused  1 x deny GET evil.test",
        "  ALARM    the door refused a request to evil.test that had the placeholder of the secret token",
        "  brain    recorded script 1a2b3c4d",
        "  cost     planning, anthropic:large: ~$0.0312; 1,200 tokens read (5,000 more from the provider's cache), "
        "340 written;"
        " 1 reply, 2.0 KiB sent to its provider",
        "  cost     acting, anthropic:small: unknown price; 10 tokens read, 3 written;"
        " 1 reply, 100 bytes sent to its provider",
        "  step     ask: done at attempt 2, rolled back 1 time, 5.0 s, 1 act",
        "  step     write: interrupted, 7.0 s, 1 act",
        "  step     send: not started",
        "  time     18.0 s, 2 acts",
        "  unknown  act 2 browser_open was started, but its outcome was not recorded",
        "  burnt    desk i2",
        "  LEFT     desk i3 is still open; end it with `hotdesk burn i3`",
        "  destroyed: 2 checkpoints",
        "  kept on purpose: papers in jobs/i1, to show, until 2027-01-01",
    ]


def test_a_receipt_reports_that_nothing_was_left_behind() -> None:
    clean = replace(receipt(), left=(), cleanup=JobBurnt(JOB, (), (), ()))
    assert format_receipt(clean)[-1] == "  left behind: nothing"
    found = replace(receipt(), left=(), cleanup=JobBurnt(JOB, (), (), ("a mount",)))
    assert format_receipt(found)[-1] == "  LEFT BEHIND: a mount"


def test_many_refused_hosts_do_not_bury_the_rest() -> None:
    many = tuple(Requests(n, "deny", "GET", f"h{n}.test", ()) for n in range(1, 1001))
    lines = [line for line in format_receipt(replace(receipt(), requests=many)) if line.startswith("  refused")]
    assert lines[0] == "  refused  1000 x deny GET h1000.test"
    assert lines[20:] == ["  refused  and 980 more kinds of requests; `hotdesk show i1 --door` lists all"]


def test_text_of_a_desk_adds_no_line_to_a_receipt() -> None:
    hostile = Requests(1, "deny", "GET\x1b[2J", "a\n  kept     all.xlsx", ())
    lines = format_receipt(replace(receipt(), requests=(hostile,), why="\x1b]0;x\x07\u202e"))
    assert all(line.isprintable() for line in lines)
    assert not any(line.startswith("  kept     all") for line in lines)


def test_a_receipt_says_what_has_no_certificate() -> None:
    lines = format_receipt(replace(receipt(), certified=(Certified(JOB, "a.xlsx", "ff" * 32, "cd" * 32),)))
    assert "  proof    a.xlsx has no certificate: its brief requires no check" in lines
