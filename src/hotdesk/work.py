"""One job, from brief to ashes: plan, approve, act, verify in a second desk, keep, burn. Read this first."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from hotdesk.brain.seam import Brain
from hotdesk.brain.vision import vision
from hotdesk.brief.job import Job
from hotdesk.checks import find
from hotdesk.desk.seam import new_id
from hotdesk.drive.journal import FILE as JOURNAL
from hotdesk.drive.keep import Drive
from hotdesk.drive.names import check_name
from hotdesk.drive.receipt import Receipt, read_receipt
from hotdesk.errors import BriefError
from hotdesk.event import JobBegun, Note, Resumed, ignore
from hotdesk.job import papers
from hotdesk.job.checkpoint import Checkpoints
from hotdesk.job.desks import Desks
from hotdesk.job.held import held
from hotdesk.job.line import Line
from hotdesk.job.log import JobLog
from hotdesk.job.machine import Machine
from hotdesk.job.papers import Papers
from hotdesk.job.past import Past, read_past
from hotdesk.job.people import People, Prompt, nobody
from hotdesk.job.plans import Plans
from hotdesk.job.steps import Steps


async def work(order: Order, brain: Brain) -> Receipt:
    """Carry out a brief. What the worker could not do is in the receipt; what hotdesk could not is raised."""
    await order.machine.ready()
    folder = papers_of(order)
    with held(folder.folder):
        line = begin(order, brain, folder)
        with line.journaled():
            await line.plans.make()
            await line.plans.approve()
            async with line.desks.closing():
                for step in line.steps.left():
                    await line.steps.take(step)
                made = [(item, await line.fetch(item)) for item in order.job.deliverables]
                for item, data in made:
                    await line.verify(item, data)
                for item, data in made:
                    line.keep(item, data)
    return read_receipt(journal_of(order.machine), line.id)


@dataclass(slots=True)
class Order:
    """What is carried out, where, and who is told."""

    machine: Machine
    job: Job
    id: str = field(default_factory=new_id)
    goes_on: bool = False
    """Whether it was begun before."""
    heard: Note = ignore
    """Told every event once it is on disk."""
    prompt: Prompt = nobody
    """Asks a person here; else answers come from another process."""
    kept: bytes = b""
    """What is kept for whoever goes on with it: the brief as it was read, who thinks."""
    by: str = ""
    """Who asked for it."""
    exact: bool = False
    """Whether a script acts."""
    log: JobLog | None = None
    """The job's log, once it has begun: by it a job is asked to stop."""


def papers_of(order: Order) -> Papers:
    """Give where a job keeps what is its own: made for a new one, once everything it names is there."""
    for item in order.job.deliverables:
        check_name(f"{order.id}/{item.path}")
        for wanted in item.checks:
            find(wanted.check, wanted.expect)
    jobs = order.machine.config.lib / "jobs"
    if order.goes_on:
        return papers.find(jobs, order.id)
    made = papers.create(jobs, order.id)
    made.keep_order(order.kept)
    return made


def begin(order: Order, brain: Brain, folder: Papers) -> Line:
    """Have everything ready before anything happens; a job that goes on is where its events end."""
    job, machine, journal = order.job, order.machine, journal_of(order.machine)
    past = read_past(journal, order.id) if order.goes_on else Past(order.id)
    by = order.by or f"uid {os.getuid()} pid {os.getpid()}"
    log = JobLog(past.job, machine, folder, order.heard, job.budget, job.seconds, past.spent)
    order.log = log
    people = People(log, journal, job.wait, machine.config.patience, past.waiting, order.prompt)
    eyes = vision(job.look) if job.look else None
    plans = Plans(machine, job, brain, log, people, past, machine.tools(job.image, eyes, exact=order.exact))
    desks = Desks(machine, job, past.job, log.note, job.seconds)
    checkpoints = Checkpoints(folder.folder)
    steps = Steps(machine, brain, log, people, plans, desks, checkpoints, past, eyes, order.exact)
    people.give_back = steps.give_back
    drive = Drive(machine.config.lib / "drive", machine.config.drive_quota)
    line = Line(job, past.job, log, past, plans, steps, desks, checkpoints, drive, machine.config.retention_days)
    if past.ended is not None:
        if past.burnt is None:
            line.bury(past.ended)
        raise BriefError(f"job {order.id} is over: {past.ended.outcome}; `hotdesk show {order.id}` says more")
    if order.goes_on:
        log.note(Resumed(past.job, by, past.current, tuple(f"{act.act} {act.tool}" for act in past.unknown)))
    else:
        log.note(JobBegun(past.job, job.goal, job.digest, brain.name, by))
    return line


def journal_of(machine: Machine) -> Path:
    """Give the journal's path."""
    return machine.config.lib / "keys" / JOURNAL
