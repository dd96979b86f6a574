"""Tests of a job's transcript for people: complete, escaped, and without picture data."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.ledger import JOB, Ledger, whole_job

from hotdesk.drive.journal import read
from hotdesk.job.record import papers
from hotdesk.job.record.transcript import format_transcript, iterate_lines, lay_out, read_paper_lines


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger(tmp_path)
    whole_job(made)
    yield made
    made.journal.close()


def test_a_transcript_tells_thoughts_acts_and_what_was_seen_in_order(ledger: Ledger) -> None:
    lines = list(format_transcript(read(ledger.path, JOB), papers.find(ledger.jobs, JOB)))
    assert all(line.isprintable() for line in lines)
    text = "\n".join(lines)
    wanted = [
        "── read, turn 1: anthropic:m",
        "   thought: I \\x1b[2J look",
        "── read, act 1: shell with",
        "   command: ls",
        "── read, act 1: failed after 12 ms",
        "   no \\x1b[31m such file",
        "   (an image or other data, 3000 bytes)",
    ]
    assert [text.index(each) for each in wanted] == sorted(text.index(each) for each in wanted)


def test_a_paper_that_is_gone_is_reported_and_the_rest_continues(ledger: Ledger) -> None:
    for paper in (ledger.jobs / JOB / "papers").iterdir():
        paper.unlink()
    lines = list(format_transcript(read(ledger.path, JOB), papers.find(ledger.jobs, JOB)))
    assert sum("is missing" in line for line in lines) == sum(line.startswith("── ") for line in lines) > 5


def test_plain_data_is_laid_out_without_what_is_empty() -> None:
    told = {"text": "a\nb", "calls": [{"name": "shell", "arguments": {"n": 1}}, "x"], "none": None, "no": False}
    assert list(lay_out(told)) == [
        "text: a",
        "      b",
        "calls:",
        "  name: shell",
        "  arguments:",
        "    n: 1",
        "calls: x",
    ]


def test_a_long_text_is_cut_and_says_so() -> None:
    assert list(iterate_lines("a b " * 2000))[-1] == "… and 4000 more characters"


def test_a_text_made_to_be_slow_is_formatted_quickly() -> None:
    start = time.process_time()
    assert list(iterate_lines("a" + "\n" * 300_000 + "!"))[-1].startswith("… and ")
    assert time.process_time() - start < 1.0


def test_data_nested_without_end_is_shown_as_it_stands(ledger: Ledger) -> None:
    kept = papers.find(ledger.jobs, JOB)
    assert read_paper_lines(kept, kept.write("[" * 900 + "1" + "]" * 900))
    assert read_paper_lines(kept, kept.write("[" * 90_000)) != []
    assert read_paper_lines(kept, kept.write(b"\xff\xfe")) == ["(2 bytes)"]
