"""Tests of a job's inputs: files beside its brief, and files of the drive."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotdesk.brain.brain import ModelBrain
from hotdesk.brain.models.scripted import Hands, ScriptedModel, step
from hotdesk.brief.load import parse_job
from hotdesk.config import Config
from hotdesk.door.policy.scope import scope_of
from hotdesk.drive.identity import get_current_user
from hotdesk.drive.journal import read
from hotdesk.drive.keep import Drive
from hotdesk.event import Preflight
from hotdesk.job.local import local_machine
from hotdesk.work import JobContext, work

BRIEF = """
goal = "Add up"
wall = "local"
inputs = ["beside.txt", "drive:sums/june.txt@1"]
deliverables = [{path = "sum.txt", checks = []}]
"""


async def add_up(hands: Hands) -> str:
    numbers = [int(await hands.read(name)) for name in ("beside.txt", "sums/june.txt")]
    await hands.write("sum.txt", str(sum(numbers)).encode())
    return "added up"


@pytest.mark.parametrize("kept", [True, False])
async def test_a_job_begins_with_what_lies_beside_its_brief_and_what_the_drive_keeps(
    tmp_path: Path, kept: bool
) -> None:
    settings = Config(run=tmp_path / "run", lib=tmp_path / "lib", images=tmp_path / "images")
    drive = Drive(settings.lib / "drive")
    if kept:
        drive.keep("sums/june.txt", b"40", owner=get_current_user())
        drive.keep("sums/june.txt", b"9000", owner=get_current_user())
    (tmp_path / "beside.txt").write_text("2")
    job = parse_job(BRIEF.encode(), tmp_path, scope_of)
    scene = step(add_up, files=["beside.txt", "sums/june.txt"], makes=["sum.txt"])
    model = ScriptedModel.of(scene)
    async with local_machine(settings) as machine:
        order = JobContext(machine, job, exact=True)
        if not kept:
            with pytest.raises(Exception, match="no such name in the drive"):
                await work(order, ModelBrain(job, [model], [model]))
            return
        receipt = await work(order, ModelBrain(job, [model], [model]))
        tried = [row.read_event() for row in read(order.journal, order.id) if row.name == Preflight.__name__]
    assert (receipt.outcome, receipt.why) == ("done", "")
    assert drive.find(f"{order.id}/sum.txt", who=get_current_user()) == b"42"
    (preflight,) = tried
    assert isinstance(preflight, Preflight)
    assert "input drive:sums/june.txt@1, version 1, 2 bytes" in preflight.held
    assert preflight.failed == ()
