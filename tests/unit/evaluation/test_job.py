"""Tests of reading a job's output, and of naming the model on its command line and to people."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hotdesk.brain.models.record import RecordingHeader, write_header
from hotdesk.errors import HostError
from hotdesk.evaluation.job import EvalWorker, JobOutput
from hotdesk.evaluation.task import find_tasks
from hotdesk.event import JobEnded

[TASK] = find_tasks(Path(__file__).parents[2] / "evals")
LABEL = TASK.format_label(1)
HAND = "chat:hand@http://127.0.0.1:1/v1"


def line(event: str, **data: object) -> bytes:
    """Write a line as `hotdesk work --json` does."""
    return json.dumps({"at": 1, "event": event, "data": data}).encode()


def test_events_and_the_receipt_are_taken_in() -> None:
    output = JobOutput()
    assert output.take(line("JobEnded", job="j", outcome="done", why="")) == JobEnded("j", "done", "")
    assert output.take(line("Later", job="j")) is None
    assert output.take(line("Receipt", paths={"a.txt": "/results/a.txt"}, outcome="done")) is None
    assert output.events == [JobEnded("j", "done", "")]
    assert output.paths == {"a.txt": "/results/a.txt"}
    assert len(output.lines) == 3


@pytest.mark.parametrize("text", [b"", b"[]", b'{"at": 1}', line("JobEnded", job="j", outcome="fine")])
def test_a_line_that_is_not_an_event_is_refused(text: bytes) -> None:
    with pytest.raises(HostError, match="malformed line"):
        JobOutput().take(text)


def test_the_command_line_names_the_model(tmp_path: Path) -> None:
    assert EvalWorker(is_reference=True).build_arguments(TASK, LABEL) == ["--script", str(TASK.folder / "solution.py")]
    assert EvalWorker(replay=tmp_path).build_arguments(TASK, LABEL) == [
        "--replay",
        str(tmp_path / "code-sample-1.jsonl"),
    ]
    models = EvalWorker(("a:1", "b:2"), ("c:3",), record=tmp_path, answered_by="by hand")
    assert models.build_arguments(TASK, LABEL) == [
        *("--model", "a:1", "--model", "b:2", "--planner", "c:3"),
        *("--record", str(tmp_path / "code-sample-1.jsonl"), "--answered-by", "by hand"),
    ]


def test_the_report_names_the_model_that_answered(tmp_path: Path) -> None:
    by_hand = "by hand through a loopback provider"
    assert EvalWorker(is_reference=True).describe([LABEL]).endswith("no model is called")
    assert EvalWorker((HAND,), record=tmp_path).describe([LABEL]) == HAND
    assert EvalWorker((HAND,), answered_by=by_hand).describe([LABEL]) == f"{HAND}; answered {by_hand}"
    write_header(tmp_path / f"{LABEL}.jsonl", RecordingHeader((HAND,), by_hand))
    told = EvalWorker(replay=tmp_path).describe([LABEL])
    assert told == f"replay of recordings; no model is called. Recorded with {HAND}, answered {by_hand}."
    (tmp_path / "old.jsonl").write_text("")
    assert EvalWorker(replay=tmp_path).describe(["old"]).endswith("The recording does not say how it was made.")
