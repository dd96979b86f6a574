"""How a job begins and ends, and what becomes of its results: each an event before and after."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from hotdesk.brain.seam import Halted, Spent
from hotdesk.brief.job import Deliverable, Job
from hotdesk.checks import find
from hotdesk.checks.seam import Verdict
from hotdesk.desk.seam import Desk
from hotdesk.drive.catalog import Version
from hotdesk.drive.identity import OPERATOR, me
from hotdesk.drive.keep import Drive
from hotdesk.errors import DeskError, FileError, HotdeskError, ModelError, printable
from hotdesk.event import JobBurnt, JobEnded, JobPaused, Kept, StepBegun, StepEnded, Verified
from hotdesk.job.checkpoint import Checkpoints
from hotdesk.job.desks import Desks
from hotdesk.job.log import JobLog
from hotdesk.job.past import Past
from hotdesk.job.plans import Plans, Stopped
from hotdesk.job.said import LONGEST, said
from hotdesk.job.steps import Steps
from hotdesk.plan import Step

LARGEST = 64 << 20
"""Bytes of the largest deliverable."""


@dataclass(slots=True)
class Line:
    """One job, from brief to ashes."""

    job: Job
    id: str
    log: JobLog
    past: Past
    plans: Plans
    steps: Steps
    desks: Desks
    checkpoints: Checkpoints
    drive: Drive
    retention: float
    """Days that papers are kept."""

    @contextmanager
    def journaled(self) -> Iterator[None]:
        """Write down how the job ends, however it does, and what is left of it."""
        ended: JobEnded | JobPaused = JobEnded(self.id, "interrupted", "")
        try:
            yield
            ended = JobEnded(self.id, "done", "")
        except (Stopped, DeskError) as e:  # a desk that breaks was broken by what is in it
            ended = JobEnded(self.id, "failed", said(e))
        except (Halted, Spent, ModelError) as e:
            ended = JobPaused(self.id, said(e))
        except HotdeskError as e:  # what this machine lacks may be mended, and the work so far is kept
            ended = JobPaused(self.id, said(e))
            raise
        except Exception as e:
            ended = JobEnded(self.id, "broken", said(e))
            raise
        finally:
            self.log.note(ended)
            self.bury(ended)

    def bury(self, ended: JobEnded | JobPaused) -> None:
        """Destroy what nobody goes on with, and write the receipt."""
        if isinstance(ended, JobEnded):
            self.checkpoints.destroy()
        self.log.note(self.ashes(ended))

    def ashes(self, ended: JobEnded | JobPaused) -> JobBurnt:
        """Say what was destroyed, what is kept on purpose, and what was found that should be gone."""
        desks = {**self.past.desks, **dict.fromkeys(self.desks.opened, True)}
        left = [desk for desk in desks if self.log.machine.has(desk)]  # type: ignore[arg-type]
        destroyed = [f"desk {desk}" for desk in desks if desk not in left]
        kept = [f"{each.path} in the drive: a deliverable, until it is removed" for each in self.past.kept.values()]
        kept.append(f"papers in {self.log.papers.folder}: for show and replay, {self.retention:g} days")
        if isinstance(ended, JobPaused) and self.past.checkpoint is not None:
            kept.append(f"its workspace, sealed: to be resumed, {self.retention:g} days")
        if isinstance(ended, JobEnded):
            destroyed.append("its workspace and the key of its checkpoints")
        return JobBurnt(self.id, tuple(destroyed), tuple(kept), tuple(f"desk {desk}" for desk in left))

    async def plan(self) -> None:
        """Have the brain think before it acts."""
        await self.plans.make()

    async def approve(self) -> None:
        """Have policy or a person admit the plan."""
        await self.plans.approve()

    def at_desks(self) -> AbstractAsyncContextManager[None]:
        """Burn whatever desk is open when the block ends."""
        return self.desks.closing()

    def steps_left(self) -> Iterator[Step]:
        """Give the steps that are to be taken."""
        return self.steps.left()

    async def act(self, step: Step) -> None:
        """Have the brain take one step."""
        await self.steps.take(step)

    @contextmanager
    def part(self, name: str, what: str, desk: str = "") -> Iterator[None]:
        """Write a part of the line down before and after."""
        self.log.note(StepBegun(self.id, name, what, desk))
        try:
            yield
        except BaseException as e:
            self.log.note(StepEnded(self.id, name, "failed", said(e), desk))
            raise
        self.log.note(StepEnded(self.id, name, "done", "", desk))

    async def fetch(self, item: Deliverable) -> bytes:
        """Take a deliverable from the desk, unread: these bytes are checked, and these are kept."""
        if self.desks.main is None:
            await self.steps.open()
        assert self.desks.main is not None
        try:
            return await self.desks.main.read(item.path, limit=LARGEST)
        except FileError as e:
            raise Stopped(f"there is no {item.path} to take: {printable(e.reason)}") from e

    async def verify(self, item: Deliverable, data: bytes) -> None:
        """Have a deliverable looked at where nothing else is, and judge here what was seen."""
        for wanted in item.checks:
            check = find(wanted.check, wanted.expect)
            async with self.desks.sterile(check.image) as desk:
                with self.part("verify", f"{item.path} by {wanted.check}", desk.id):
                    name = f"deliverable{PurePosixPath(item.path).suffix}"
                    await desk.write(name, data)
                    self.judged(item, wanted.check, desk, data, check.judge(await check.gather(desk, name)))

    def judged(self, item: Deliverable, check: str, desk: Desk, data: bytes, verdict: Verdict) -> None:
        """Write a verdict down; one that is no ends the job."""
        outcome: Literal["passed", "failed"] = "passed" if verdict.passed else "failed"
        digest = hashlib.sha256(data).hexdigest()
        self.log.note(Verified(self.id, desk.id, item.path, digest, check, outcome, verdict.findings))
        if not verdict.passed:
            raise Stopped(f"{item.path} failed its check: {'; '.join(verdict.findings)}"[:LONGEST])

    def keep(self, item: Deliverable, data: bytes) -> None:
        """Keep what passed, as the operator's; the event is on disk before the name is.

        What this job has kept already stays as it is.
        """
        name, digest = f"{self.id}/{item.path}", hashlib.sha256(data).hexdigest()
        there = any(each.sha256 == digest for each in self.drive.ls(name, who=OPERATOR) if each.name == name)
        if there and item.path in self.past.kept:
            return

        def intent(version: Version) -> None:
            event = Kept(self.id, item.path, version.sha256, version.size, version.number)
            self.log.note(event)
            self.past.kept[item.path] = event

        with self.part("keep", item.path):
            self.drive.keep(name, data, owner=me(), job=self.id, brief=self.job.digest, intent=intent)
