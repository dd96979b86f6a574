"""Tests of sending a failed deliverable back to its step, with what was expected and found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hotdesk.brain.brain import ModelBrain
from hotdesk.brain.models.scripted import Hands, ScriptedModel, step
from hotdesk.brief.load import parse_job
from hotdesk.config import Config
from hotdesk.door.policy.scope import scope_of
from hotdesk.drive.identity import get_current_user
from hotdesk.drive.journal import read
from hotdesk.drive.keep import Drive
from hotdesk.event import Event, SentBack, StepBegun, Verified
from hotdesk.job.local import local_machine
from hotdesk.job.record.receipt import Receipt
from hotdesk.job.steps import ROUNDS
from hotdesk.plan import OURS
from hotdesk.work import JobContext, work

BRIEF = """
goal = "List what there is"
wall = "local"
deliverables = [
    {path = "list.csv", expect = {columns = ["What", "Count"], rows = 2}},
    {path = "note.txt", checks = []},
]
"""
RIGHT = b"What,Count\nnails,3\nscrews,4\n"
SHORT = b"What,Count\nnails,3\n"


async def carried_out(folder: Path, *acts: Any) -> tuple[Receipt, list[Event], Drive]:
    """Carry the brief out with steps of these functions; return its receipt, its events and the drive."""
    settings = Config(run=folder / "run", lib=folder / "lib", images=folder / "images")
    job = parse_job(BRIEF.encode(), folder, scope_of)
    model = ScriptedModel.of(*acts)
    async with local_machine(settings) as machine:
        order = JobContext(machine, job, exact=True)
        receipt = await work(order, ModelBrain(job, [model], [model]))
        return receipt, [row.read_event() for row in read(order.journal, order.id)], Drive(settings.lib / "drive")


def taken(events: list[Event]) -> list[tuple[str, int]]:
    begun = [event for event in events if isinstance(event, StepBegun)]
    return [(event.step, event.attempt) for event in begun if event.step not in OURS]


async def note(hands: Hands) -> None:
    await hands.write("note.txt", b"a note")


@pytest.mark.slow
async def test_the_step_that_made_it_is_taken_again_and_told_why(tmp_path: Path) -> None:
    told: list[str] = []

    async def count(hands: Hands) -> None:
        told.append(hands.before)
        await hands.write("list.csv", RIGHT if "expected 2" in hands.before else SHORT)

    receipt, events, drive = await carried_out(
        tmp_path, step(count, makes=["list.csv"]), step(note, makes=["note.txt"])
    )
    assert (receipt.outcome, receipt.why) == ("done", "")
    assert taken(events) == [("count", 1), ("note", 1), ("count", 2)]
    assert told[0] == ""
    assert told[-1].splitlines() == [
        "list.csv failed its checks: correct exactly what is listed here, then finish again.",
        "- expected 2 rows, found 1. Write the required number of rows below the headings, one line each, and no "
        "other lines.",
    ]
    (sent,) = [event for event in events if isinstance(event, SentBack)]
    assert (sent.step, sent.path) == ("count", "list.csv")
    checks = [(each.check, each.outcome) for each in events if isinstance(each, Verified) and each.check == "csv"]
    assert checks == [("csv", "failed"), ("csv", "passed")]
    assert drive.find(f"{receipt.job}/list.csv", who=get_current_user()) == RIGHT


@pytest.mark.slow
async def test_missing_deliverables_are_reported_too(tmp_path: Path) -> None:
    async def count(hands: Hands) -> None:
        if hands.before:
            assert hands.before == "list.csv cannot be delivered: missing. Write the file at exactly this path."
            await hands.write("list.csv", RIGHT)

    receipt, events, _ = await carried_out(tmp_path, note, count)
    assert receipt.outcome == "done", receipt.why
    assert taken(events) == [("note", 1), ("count", 1), ("count", 2)]


@pytest.mark.sample(1)
@pytest.mark.slow
@pytest.mark.parametrize("anew", [True, False])
async def test_it_ends_when_it_was_tried_often_enough_or_nothing_changes(tmp_path: Path, anew: bool) -> None:
    async def count(hands: Hands) -> None:
        await hands.write("list.csv", SHORT + b"x" * (hands.attempt if anew else 1))

    receipt, events, drive = await carried_out(tmp_path, note, count)
    assert receipt.outcome == "failed"
    assert ("the step delivered the same file again" in receipt.why) != anew
    assert "list.csv failed its checks: " in receipt.why
    assert len(taken(events)) == 1 + 1 + (ROUNDS if anew else 1)
    assert drive.ls(f"{receipt.job}/", who=get_current_user()) == []
