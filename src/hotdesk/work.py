"""One job, from brief to ashes: plan, approve, act, verify in a second desk, keep, burn. Read this first."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

import anyio

from hotdesk.brain.scripted import DeskHands
from hotdesk.brain.seam import Brain, Step
from hotdesk.brain.vision import vision
from hotdesk.brief import CLOSED, Scope
from hotdesk.brief.job import Deliverable, Job
from hotdesk.brief.rules import STEP_SHAPE
from hotdesk.checks import find
from hotdesk.checks.seam import Check
from hotdesk.desk.keeper_client import BURN_SECONDS
from hotdesk.desk.seam import Desk, Done, Spec, new_id
from hotdesk.desk.transfer import put
from hotdesk.drive.journal import FILE as JOURNAL
from hotdesk.drive.keep import Drive
from hotdesk.drive.receipt import Receipt, read_receipt
from hotdesk.errors import DeskError, FileError, HotdeskError, printable
from hotdesk.event import JobBegun, JobEnded, JobEvent, Kept, Note, StepBegun, StepEnded, Verified, ignore
from hotdesk.host import Host
from hotdesk.tool import Vision

LARGEST = 64 << 20
"""Bytes of the largest deliverable."""
LONGEST = 500
"""Characters of a note."""
MOST_STEPS = 100
OURS = ("plan", "approve", "desk", "verify", "keep")
"""Steps of the line itself: a worker's step of such a name would tell a false story."""
GRACE = 60.0
"""Seconds a desk may outlive the job's own time, so that the job ends first and says why."""


async def work(host: Host, job: Job, brain: Brain, heard: Note = ignore) -> Receipt:
    """Carry out a brief. What the worker could not do is in the receipt; what hotdesk could not is raised.

    `heard` is told every event once it is on disk.
    """
    checks = {item.path: find(item.check, item.expect) for item in job.deliverables}
    line = await begin(host, job, heard)
    with line.journaled(), line.budgeted():
        plan = line.plan(brain)
        line.approve(plan)
        async with line.desk("with the inputs, behind the door", job.scope, job.image) as desk:
            for name in job.inputs:
                await put(desk, job.folder / name, name)
            for step in plan:
                await line.act(brain, step, desk)
            made = [(item, await line.fetch(desk, item.path)) for item in job.deliverables]
            for item, data in made:
                check = checks[item.path]
                async with line.desk("clean, for the deliverable alone", CLOSED, check.image, sterile=True) as second:
                    await line.verify(check, second, item, data)
            for item, data in made:
                line.keep(item.path, data)
    return read_receipt(host.config.lib / "keys" / JOURNAL, line.id)


class Stopped(Exception):  # noqa: N818 - the end of a line is a result, and caught where it is written down
    """The job ends here, by the worker's own doing."""


async def begin(host: Host, job: Job, heard: Note) -> Line:
    """Have the journal ready before anything happens."""
    await host.doors.ready()
    eyes = vision(job.look) if job.look else None
    return Line(host, job, new_id(), Drive(host.config.lib / "drive"), heard, eyes)


@dataclass(frozen=True, slots=True)
class Line:
    """The parts of one job, each an event before and after."""

    host: Host
    job: Job
    id: str
    drive: Drive
    heard: Note
    eyes: Vision | None
    """The model that may be shown pictures."""

    def note(self, event: JobEvent) -> None:
        """Write an event down, then tell of it."""
        self.host.note(event)
        self.heard(event)

    @contextmanager
    def journaled(self) -> Iterator[None]:
        """Begin the job; write down how it ends, however it does."""
        self.note(JobBegun(self.id, self.job.goal, self.job.digest))
        outcome: Literal["done", "failed", "broken", "interrupted"] = "interrupted"
        why = ""
        try:
            yield
            outcome = "done"
        except (Stopped, DeskError) as e:  # a desk that breaks was broken by what is in it
            outcome, why = "failed", said(e)
        except Exception as e:
            outcome, why = "broken", said(e)
            raise
        finally:
            self.note(JobEnded(self.id, outcome, why))

    @contextmanager
    def budgeted(self) -> Iterator[None]:
        """End the job when its time is up."""
        with anyio.move_on_after(self.job.seconds) as scope:
            yield
        if scope.cancelled_caught:
            raise Stopped(f"its {self.job.seconds:g} seconds were up")

    @contextmanager
    def step(self, name: str, what: str, desk: str = "") -> Iterator[None]:
        """Write a step down before and after."""
        self.note(StepBegun(self.id, name, what, desk))
        try:
            yield
        except BaseException as e:
            self.note(StepEnded(self.id, name, "failed", said(e), desk))
            raise
        self.note(StepEnded(self.id, name, "done", "", desk))

    def plan(self, brain: Brain) -> tuple[Step, ...]:
        """Have the brain say what it means to do."""
        with self.step("plan", "what shall be done"):
            return brain.plan(self.job.goal)

    def approve(self, plan: tuple[Step, ...]) -> None:
        """Admit a plan: today every one that is one, since the brief says `approve = "auto"`."""
        told = "; ".join(f"{step.name}: {step.what.rstrip('.')}" for step in plan)
        with self.step("approve", f"{self.job.approve}: {told}"):
            if wrong := audit(plan):
                raise Stopped(wrong)

    @asynccontextmanager
    async def desk(self, what: str, scope: Scope, image: str, *, sterile: bool = False) -> AsyncIterator[Desk]:
        """Open a desk for a part of the line; it is burnt when that ends, and it is written down whether it is gone."""
        longest = self.job.seconds + GRACE
        spec = Spec(image=image, deadline=longest, idle=longest, sterile=sterile)
        desk = await self.host.open(spec, scope)
        try:
            self.note(StepBegun(self.id, "desk", what, desk.id))
            yield desk
        finally:
            with anyio.move_on_after(BURN_SECONDS, shield=True):
                await self.host.burn(desk.id)
            gone = not (self.host.config.run / "desks" / desk.id).exists()
            self.note(StepEnded(self.id, "desk", "done" if gone else "failed", "burnt" if gone else "left", desk.id))

    async def act(self, brain: Brain, step: Step, desk: Desk) -> None:
        """Have the brain take one step, with what the brief allows in that step."""
        with self.step(step.name, step.what, desk.id):
            if self.job.scope != CLOSED:
                await self.host.doors.enter_step(desk.id, step.name)
            done = await brain.act(step, DeskHands(desk, await self.host.hands(desk, self.eyes)))
            if not done.ok:
                raise Stopped(f"step {step.name} ended with {done.exit_code}: {last_words(done)}")

    async def fetch(self, desk: Desk, path: str) -> bytes:
        """Take a deliverable from the desk, unread: these bytes are checked, and these are kept."""
        try:
            return await desk.read(path, limit=LARGEST)
        except FileError as e:
            raise Stopped(f"there is no {path} to take: {printable(e.reason)}") from e

    async def verify(self, check: Check, desk: Desk, item: Deliverable, data: bytes) -> None:
        """Have a deliverable looked at where nothing else is, and judge here what was seen."""
        name = f"deliverable{PurePosixPath(item.path).suffix}"
        with self.step("verify", item.path, desk.id):
            await desk.write(name, data)
            verdict = check.judge(await check.gather(desk, name))
            outcome: Literal["passed", "failed"] = "passed" if verdict.passed else "failed"
            digest = hashlib.sha256(data).hexdigest()
            self.note(Verified(self.id, desk.id, item.path, digest, item.check, outcome, verdict.findings))
            if not verdict.passed:
                raise Stopped(f"{item.path} failed its check: {'; '.join(verdict.findings)}"[:LONGEST])

    def keep(self, path: str, data: bytes) -> None:
        """Keep what passed."""
        with self.step("keep", path):
            blob = self.drive.keep(self.id, path, data)
            self.note(Kept(self.id, path, blob.sha256, blob.size))


def audit(plan: Sequence[Step]) -> str:
    """Say what is wrong with a plan; empty: nothing."""
    names = [step.name for step in plan]
    if not 0 < len(set(names)) == len(names) <= MOST_STEPS:
        return f"a plan has 1 to {MOST_STEPS} steps, each with a name of its own"
    for name in names:
        if not name or not STEP_SHAPE.fullmatch(name) or name in OURS:
            return f"{printable(name[:80])!r} is no name for a step, or one of ours: {', '.join(OURS)}"
    return ""


def said(error: BaseException) -> str:
    """Say in a line what an error says."""
    if not isinstance(error, Exception):
        return "it was broken off"
    known = isinstance(error, Stopped | HotdeskError)
    return printable(str(error) if known else f"{type(error).__name__}: {error}")[:LONGEST]


def last_words(done: Done) -> str:
    """Give the last line a program said, made safe to show."""
    lines = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
    return printable(lines[-1][:LONGEST]) if lines else "it said nothing"
