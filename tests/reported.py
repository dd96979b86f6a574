"""A job with everything that a report can contain; the texts a desk or a model would write are chosen by the caller."""

from __future__ import annotations

import base64
import io
import json

from PIL import Image

from hotdesk.checks.seam import DrawnPixels, Fault, Value, Verdict
from hotdesk.checks.verdict_json import make_stored_verdict
from hotdesk.checks.verdict_json import to_json as verdict_to_json
from hotdesk.event import (
    Acted,
    Alarm,
    Amended,
    Answered,
    Asked,
    Certified,
    Decided,
    Exchange,
    HandedBack,
    JobBegun,
    JobBurnt,
    JobEnded,
    JobPaused,
    Kept,
    Observed,
    Planned,
    Preflight,
    Resumed,
    RolledBack,
    SentBack,
    StepBegun,
    StepEnded,
    Summed,
    Thought,
    TookOver,
    Verified,
)
from hotdesk.hands.reader.pixels import encode_png
from hotdesk.job.record import papers
from hotdesk.job.record.papers import Papers
from hotdesk.plan import Plan, Step, to_json
from tests.ledger import DESK, JOB, PLAN, Ledger


def screen(width: int = 640, height: int = 400) -> bytes:
    return encode_png(Image.linear_gradient("L").resize((width, height)).convert("RGB"))


def foreign() -> bytes:
    made = io.BytesIO()
    Image.new("RGBA", (64, 64), (200, 10, 10, 128)).save(made, "PNG")
    return made.getvalue()


def seen(text: str, ok: bool = True, image: bytes = b"") -> str:
    return json.dumps({"text": text, "ok": ok, "image": base64.b64encode(image).decode(), "media": "image/png"})


def verdict(word: str, *, passed: bool) -> bytes:
    sheet = Image.new("RGB", (620, 877), (250, 250, 250))
    pages = tuple(DrawnPixels(*sheet.size, sheet.tobytes()) for _ in range(3))
    faults = () if passed else (Fault("total", f"Sheet1!C42 {word}", f"1,204.00 {word}", f"1,240.00 {word}"),)
    values: dict[str, Value] = {f"rows {word}": 500, "total": 61768.22, word: word}
    made = Verdict(("opens", word), faults, (f"6 columns, 500 rows {word}",), values, {word: f"24.2 {word}"}, pages)
    return verdict_to_json(make_stored_verdict(made, "xlsx", "office", {word: word}, (f"macros {word}",)))


def reported_job(ledger: Ledger, word: str = "plain", brain: str = "anthropic:claude", more: int = 0) -> None:
    """Write a job with everything that a report can contain; `more` acts are added to its second step."""
    kept = papers.create(ledger.jobs, JOB)
    plan = Plan(
        (Step("read", f"Read the orders {word}", makes=(word,)), Step("write", f"Write it {word}", risk="high"))
    )
    begin(ledger, kept, word, brain, plan)
    first_step(ledger, kept, word)
    second_step(ledger, kept, word, more)
    at_the_door(ledger, word)
    finish(ledger, kept, word)


def begin(ledger: Ledger, kept: Papers, word: str, brain: str, plan: Plan) -> None:
    """Write the beginning of a job: planned, tried, approved, changed."""
    paper = kept.write(to_json(plan))
    ledger.note(JobBegun(JOB, f"Compare the invoices with their orders {word}", "ab" * 32, brain, f"uid 0 {word}"))
    ledger.note(Planned(JOB, "11" * 32, (word,), paper, 1, (f"step 1 goes beyond the brief {word}",)))
    ledger.note(Planned(JOB, plan.digest, ("read", "write"), paper, 2))
    pending = ledger.ask(kept, words=word)
    ledger.note(
        Preflight(JOB, PLAN.digest, (f"erp.test resolves {word}",), (f"no desk {word}",)),
        Decided(JOB, pending.id, pending.digest, "approved", f"uid 0 pid 7 {word}"),
        Amended(JOB, plan.digest, ("read", "write"), paper, word, (word,)),
        StepBegun(JOB, "desk", f"with the inputs {word}", DESK),
    )


def first_step(ledger: Ledger, kept: Papers, word: str) -> None:
    call = kept.write(json.dumps({"id": "1", "tool": "shell", "arguments": {"command": f"python3 parse.py {word}"}}))
    reply = kept.write(json.dumps({"text": f"I read the invoices. {word}", "calls": []}))
    ledger.note(
        StepBegun(JOB, "read", f"Read the orders {word}", DESK, 1, word),
        Thought(JOB, "read", 1, f"anthropic:m {word}", reply, 1900, 250, 12, 99, 7, 0.0123),
        Acted(JOB, "read", 1, "shell", call),
        Observed(JOB, "read", 1, "failed", 1200, kept.write(seen(f"Traceback:\nline 42\n{word}", False))),
        Acted(JOB, "read", 2, "browser_screenshot", call),
        Observed(JOB, "read", 2, "done", 80, kept.write(seen(word, image=foreign()))),
        StepEnded(JOB, "read", "failed", f"it gave up {word}", DESK, kept.write(f"ValueError {word}")),
        RolledBack(JOB, "read", 1, word),
        StepBegun(JOB, "read", f"Read the orders {word}", DESK, 2, word),
        Acted(JOB, "read", 3, "screen_screenshot", call),
        Observed(JOB, "read", 3, "done", 80, kept.write(seen(f"640 by 400 {word}", image=screen()))),
        StepEnded(JOB, "read", "done", "", DESK),
        Summed(JOB, "read", kept.write(f"500 invoices are in orders.csv.\n{word}")),
        JobPaused(JOB, f"its operator stopped it {word}"),
        Resumed(JOB, f"uid 0 {word}", "write", (f"17 {word}",)),
    )


def second_step(ledger: Ledger, kept: Papers, word: str, more: int) -> None:
    call = kept.write(json.dumps({"id": "1", "tool": "shell", "arguments": {word: word}}))
    wrong, right = (kept.write(verdict(word, passed=passed)) for passed in (False, True))
    path = f"Report {word}.xlsx"
    ledger.note(StepBegun(JOB, "write", f"Write it {word}", DESK, 1, word))
    for number in range(4, 4 + more):
        paper = kept.write(json.dumps({"id": str(number), "tool": "shell", "arguments": {"command": f"make {number}"}}))
        image = screen(1280, 800) if number % 10 == 0 else b""
        tool = "screen_click" if image else "shell"
        ledger.note(
            Thought(
                JOB, "write", number, "anthropic:m", kept.write(f'{{"text": "{number}"}}'), 1900, 250, 1, 9, 7, 0.001
            ),
            Acted(JOB, "write", number, tool, paper),
            Observed(JOB, "write", number, "done", 80, kept.write(seen(f"line {number}\n" * 40, image=image))),
        )
    ledger.note(
        Acted(JOB, "write", 4 + more, "shell", call),
        StepEnded(JOB, "write", "done", "", DESK),
        StepBegun(JOB, "verify", f"{path} by xlsx", DESK),
        Verified(JOB, DESK, path, "cd" * 32, "xlsx", "failed", (f"C42 {word}",), wrong),
        StepEnded(JOB, "verify", "failed", "", DESK),
        SentBack(JOB, "write", path, "cd" * 32, kept.write(f"{path} does not hold {word}")),
        StepBegun(JOB, "write", f"Write it {word}", DESK, 2, word),
        StepEnded(JOB, "write", "done", "", DESK),
        Verified(JOB, DESK, path, "ef" * 32, "xlsx", "passed", (f"500 rows {word}",), right),
        Verified(JOB, DESK, f"notes {word}.csv", "aa" * 32, "csv", "failed", (f"line 3 {word}",), "00" * 32),
    )


def at_the_door(ledger: Ledger, word: str) -> None:
    host = f"erp.test{word}"
    ledger.note(
        Exchange(
            DESK, "read", "allow", word, "GET", "https", host, 443, f"/orders/{word}", 200, 1200, 48_000, 3,
            (f"erp-token in header {word}",), word,
        ),
        Exchange(DESK, "read", "deny", f"no rule {word}", word, "https", f"evil{word}", 443, f"/{word}", 403, 0, 0, 1),
        Exchange(DESK, "read", "broken", word, word, word, word, 443, word, 400, 0, 0, 1),
        Alarm(DESK, "placeholder", f"erp-token {word}", host, word),
        Asked(DESK, "ask00001", "12" * 32, word, f"POST{word}", host, f"/orders {word}", 60.0, word, 400),
        Answered(DESK, "ask00001", "12" * 32, "approved", f"uid 0 {word}"),
        TookOver(DESK, 1, f"uid 0 {word}"),
        HandedBack(DESK, 1, "uid 0", 12.0, 3, 4, word),
    )  # fmt: skip


def finish(ledger: Ledger, kept: Papers, word: str) -> None:
    path = f"Report {word}.xlsx"
    ledger.note(
        Kept(JOB, path, "ef" * 32, 48_211, 1),
        Certified(JOB, path, "ef" * 32, "0f" * 32),
        JobEnded(JOB, "failed", f"notes.csv does not hold {word}"),
        JobBurnt(JOB, (f"desk {DESK} {word}",), (f"{path} in the drive, until it is removed",), (f"mount {word}",)),
    )
