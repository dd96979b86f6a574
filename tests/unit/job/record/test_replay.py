"""Tests of a recorded job's decisions: the replies of each step's last attempt, in order."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hotdesk.brain.models.codec import reply_to_json
from hotdesk.brain.models.seam import Reply
from hotdesk.config import Config
from hotdesk.drive.journal import FILE
from hotdesk.event import JobEvent, Planned, Resumed, StepBegun, StepEnded, Thought
from hotdesk.job.local import LocalMachine, local_machine
from hotdesk.job.record import papers
from hotdesk.job.record.replay import load_replay
from hotdesk.plan import Plan, Step, to_json

pytestmark = pytest.mark.anyio
JOB = "i" + "a1b2" * 5
PLAN = Plan((Step("one", "Do it."), Step("two", "Do more.")))


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[LocalMachine]:
    settings = Config(tmp_path / "run", tmp_path / "lib", tmp_path / "images")
    settings.lib.mkdir()
    async with local_machine(settings) as made:
        yield made


def load(machine: LocalMachine, *events: JobEvent | str) -> dict[str, list[str]]:
    """Record a job and load it again. A text is a reply of the step that began last."""
    kept = papers.create(machine.config.lib / "jobs", JOB)
    step = ""
    machine.note(Planned(JOB, PLAN.digest, ("one", "two"), kept.write(to_json(PLAN)), 1, ()))
    for event in events:
        if isinstance(event, str):
            paper = kept.write(json.dumps(reply_to_json(Reply(event))))
            machine.note(Thought(JOB, step, 1, "m", paper, 1, 1, 0, 1, 1))
        else:
            machine.note(event)
            step = event.step if isinstance(event, StepBegun) and event.step in ("one", "two") else step
    found = load_replay(machine.config.lib / "keys" / FILE, JOB, kept)
    return {name: [reply.text for reply in replies] for name, replies in (found.steps or {}).items()}


def begin(step: str, attempt: int = 1) -> StepBegun:
    return StepBegun(JOB, step, "do", attempt=attempt)


async def test_a_desk_that_ends_during_a_step_does_not_end_the_step(machine: LocalMachine) -> None:
    events = (begin("desk"), begin("one"), "1", StepEnded(JOB, "desk", "done"), "2", StepEnded(JOB, "one", "done"))
    assert load(machine, *events, begin("two"), "3") == {"one": ["1", "2"], "two": ["3"]}


async def test_an_attempt_that_was_interrupted_goes_on_and_another_one_begins_anew(machine: LocalMachine) -> None:
    second = (begin("one", 2), "2", Resumed(JOB, "uid 0 pid 2"), begin("one", 2), "3")
    assert load(machine, begin("one"), "1", *second) == {"one": ["2", "3"]}
