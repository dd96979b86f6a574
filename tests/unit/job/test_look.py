"""Tests of a job's vision calls: recorded, counted in the budget, and listed in the certificate."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.brain.stages import finishes, wants
from tests.unit.brain.test_brain import ONE, PNG, Planned, carry_out, events, job_at, write
from tests.upstream import Upstream, upstream

from hotdesk.brief.brief import Brief, JobBudget
from hotdesk.drive.journal import FILE
from hotdesk.event import Thought, VisionAsked
from hotdesk.job.record import papers
from hotdesk.job.record.replay import load_replay
from hotdesk.job.record.resume_state import read_past

MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m-1",
    "content": [{"type": "text", "text": "A bar of 42."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 1500, "output_tokens": 5, "cache_read_input_tokens": 100},
}
DRAW = {"argv": ["python3", "-c", f"import base64; open('a.png', 'wb').write(base64.b64decode('{PNG}'))"]}
LOOK = ("look", {"path": "a.png", "question": "How high?"})


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Upstream]:
    with upstream(tmp_path, "model.test", tls=False) as made:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "key-of-nobody")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", f"http://{made.address}")
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.delenv(name, raising=False)
        answer(made, 200, MESSAGE)
        yield made


def answer(server: Upstream, status: int, value: object) -> None:
    server.answers["/v1/messages"] = (status, {"Content-Type": "application/json"}, json.dumps(value).encode())


def looking_job(folder: Path, **budget: int) -> Brief:
    return job_at(folder, look="anthropic:m-1", budget=JobBudget(**budget))


def worker(looks: int = 1) -> Planned:
    replies = [wants(("run", DRAW)), *[wants(LOOK)] * looks, write(), finishes()]
    return Planned(lambda request: replies.pop(0), plan=ONE)


@pytest.mark.slow
async def test_a_vision_call_is_recorded_with_its_cost(server: Upstream, tmp_path: Path) -> None:
    model = worker()
    receipt = await carry_out(tmp_path, looking_job(tmp_path), [model])
    assert receipt.outcome == "done", receipt.why
    [look] = events(tmp_path, receipt.job, VisionAsked)
    assert (look.step, look.model, look.outcome) == ("one", "anthropic:m-1", "done")
    assert (look.input, look.output, look.cached, look.stored) == (1500, 5, 100, 0)
    assert look.up == len(server.seen[0].body)
    share = next(each for each in receipt.costs if each.part == "look")
    assert (share.model, share.replies, share.input, share.up) == ("anthropic:m-1", 1, 1500, look.up)
    kept = papers.find(tmp_path / "lib/jobs", receipt.job)
    assert json.loads(kept.read_text(look.paper)) == {"question": "How high?", "answer": "A bar of 42."}


@pytest.mark.slow
async def test_a_vision_call_is_no_turn_of_the_worker(server: Upstream, tmp_path: Path) -> None:
    receipt = await carry_out(tmp_path, looking_job(tmp_path), [worker()])
    journal = tmp_path / "lib/keys" / FILE
    assert read_past(journal, receipt.job).spent.replies == 5
    again = load_replay(journal, receipt.job, papers.find(tmp_path / "lib/jobs", receipt.job))
    assert len((again.steps or {})["one"]) == len(events(tmp_path, receipt.job, Thought)) == 4


@pytest.mark.slow
async def test_a_failed_vision_call_is_recorded_with_the_bytes_it_sent(server: Upstream, tmp_path: Path) -> None:
    answer(server, 400, {"error": {"type": "invalid_request_error", "message": "too large"}})
    receipt = await carry_out(tmp_path, looking_job(tmp_path), [worker()])
    [look] = events(tmp_path, receipt.job, VisionAsked)
    assert (look.outcome, look.input, look.up, look.dollars) == ("failed", 0, len(server.seen[0].body), -1.0)


@pytest.mark.slow
async def test_vision_calls_use_up_the_budget(server: Upstream, tmp_path: Path) -> None:
    receipt = await carry_out(tmp_path, looking_job(tmp_path, tokens=1400), [worker(looks=5)])
    assert (receipt.outcome, "the job's budget of 1,400 tokens is used up" in receipt.why) == ("paused", True)
    assert len(server.seen) == 1


@pytest.mark.slow
async def test_no_check_runs_once_the_budget_is_spent(server: Upstream, tmp_path: Path) -> None:
    replies = [wants(("run", DRAW)), wants(LOOK, LOOK), write(), finishes()]
    model = Planned(lambda request: replies.pop(0), plan=ONE)
    receipt = await carry_out(tmp_path, looking_job(tmp_path, tokens=1400), [model])
    assert receipt.outcome == "paused"
    assert 1 <= len(server.seen) <= 2  # both may have begun at once
