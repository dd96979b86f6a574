"""Tests of a job's story: every act with its arguments and result, updated while the job runs."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.ledger import DESK, JOB, Ledger
from tests.reported import reported_job, seen

from hotdesk.event import Acted, Observed, StepBegun, StepEnded, TookOver
from hotdesk.job.record import papers
from hotdesk.job.report.collect import gather
from hotdesk.job.report.facts import Moment
from hotdesk.job.report.paper_text import PaperReader, ToolOutput, read_output
from hotdesk.job.report.story import Following, Timeline


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger(tmp_path)
    yield made
    made.journal.close()


def following(ledger: Ledger) -> Following:
    return Following(JOB, Timeline(PaperReader(ledger.jobs, JOB)))


def program(code: int | None, out: str = "", err: str = "", reason: str = "") -> dict[str, object]:
    written = {"stdout": base64.b64encode(out.encode()).decode(), "stderr": base64.b64encode(err.encode()).decode()}
    return {"text": json.dumps({"exit_code": code, **written, "reason": reason})}


@pytest.mark.parametrize(
    ("answer", "output"),
    [
        (program(0, "one\n"), ToolOutput("one", 0)),
        (program(3, "one\n", "two\n"), ToolOutput("one\ntwo", 3)),
        (program(None, "", "", "its time was up"), ToolOutput("its time was up", None)),
        ({"text": json.dumps({"data": "w6TDtg=="})}, ToolOutput("äö")),
        ({"text": json.dumps({"size": 4711})}, ToolOutput("4,711 bytes")),
        ({"text": "e3 was clicked."}, ToolOutput("e3 was clicked.")),
        ({"text": '{"data": "a"}'}, ToolOutput('{"data": "a"}')),
        ({"text": "{" * 100_000}, ToolOutput("{" * 100_000)),
        ({}, ToolOutput("")),
    ],
    ids=["program", "failed", "killed", "file", "written", "words", "no base64", "nested", "nothing"],
)
def test_what_a_tool_answers_is_read(answer: dict[str, object], output: ToolOutput) -> None:
    assert read_output(answer) == output


def test_a_story_is_read_on_and_says_what_changed(ledger: Ledger) -> None:
    kept = papers.create(ledger.jobs, JOB)
    call = kept.write(json.dumps({"arguments": {"command": "make all"}}))
    ledger.note(StepBegun(JOB, "build", "Build it", DESK), Acted(JOB, "build", 1, "shell", call))
    told = following(ledger)
    told.read_on(ledger.path)
    [attempt], act = told.story.attempts, told.story.acts[1]
    assert (act.call, act.outcome, act.attempt) == ("make all", "", attempt.number)
    before = told.last
    ledger.note(Observed(JOB, "build", 1, "done", 80, kept.write(seen("built\nin 3 s"))))
    ledger.note(TookOver(DESK, 1, "uid 0"), StepEnded(JOB, "build", "done", "", DESK))
    told.read_on(ledger.path)
    assert (act.output, act.outcome) == ("built in 3 s", "done")
    assert before < act.changed < attempt.changed <= told.last
    assert [getattr(each, "title", "") for each in told.story.timeline] == ["", "A person took control"]


@pytest.mark.slow
def test_a_story_and_a_report_tell_the_same(ledger: Ledger) -> None:
    reported_job(ledger, more=30)
    told, report = following(ledger), gather(ledger.path, ledger.jobs, JOB)
    told.read_on(ledger.path)
    assert told.story.attempts[0].acts[0].words == "Traceback:\nline 42\nplain"
    assert [(each.call, each.words) for each in told.story.acts.values()] == [
        (act.call, act.words) for attempt in report.attempts for act in attempt.acts
    ]
    titles = [
        [each.title for each in found if isinstance(each, Moment)] for found in (told.story.timeline, report.timeline)
    ]
    assert sorted(titles[0]) == sorted(titles[1])
    assert "Report plain.xlsx failed its check and went back to step write" in titles[0]
