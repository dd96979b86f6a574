"""Tests of a job's inputs: files beside its brief, and files of the drive."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
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
from hotdesk.job.desks import Desks
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


@dataclass
class SlowDesk:
    """A desk in front of which a file changes before it is read."""

    source: Path
    written: dict[str, bytes] = field(default_factory=dict)

    async def write(self, path: str, data: AsyncIterator[bytes], *, mode: int) -> int:
        self.source.write_bytes(b"changed")
        self.written[path] = b"".join([piece async for piece in data])
        return 0

    async def mkdir(self, path: str) -> bool:
        return True


async def test_the_digest_of_an_input_is_that_of_the_bytes_that_were_sent(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "beside.txt").write_text("2")
    (tmp_path / "folder/a.txt").write_text("3")
    desks = Desks(None, parse_job(BRIEF.encode(), tmp_path, scope_of), "job", print, 1.0)  # type: ignore[arg-type]
    digest = hashlib.sha256(b"changed").hexdigest()
    assert await desks.bring_input(SlowDesk(tmp_path / "beside.txt"), "beside.txt", "x") == digest  # type: ignore[arg-type]
    desk = SlowDesk(tmp_path / "folder/a.txt")
    listed = hashlib.sha256(f"{digest}  a.txt\n".encode()).hexdigest()
    assert await desks.bring_input(desk, "folder", "x") == listed  # type: ignore[arg-type]
