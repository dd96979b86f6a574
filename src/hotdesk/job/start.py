"""Starts a job: everything it needs is prepared before its first event."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path

from hotdesk.brain.models.prices import read_prices
from hotdesk.brain.seam import Brain
from hotdesk.brain.vision import make_eyes
from hotdesk.brief.brief import Brief
from hotdesk.brief.routing import route_brief
from hotdesk.checks import find
from hotdesk.checks.required import list_checks
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import new_id
from hotdesk.drive.certificate import SUFFIX
from hotdesk.drive.identity import get_current_user
from hotdesk.drive.journal import FILE as JOURNAL
from hotdesk.drive.keep import Drive
from hotdesk.drive.memory import MemoryStore
from hotdesk.drive.names import check_name
from hotdesk.errors import BriefError, make_printable
from hotdesk.event import JobBegun, JobEvent, Note, Resumed, ignore
from hotdesk.job.checkpoint import Checkpoints
from hotdesk.job.desks import Desks
from hotdesk.job.look import MeteredVision
from hotdesk.job.machine import Machine
from hotdesk.job.memory import JobMemory
from hotdesk.job.people.people import People, Prompt, ask_nobody
from hotdesk.job.plans import Plans
from hotdesk.job.record import papers
from hotdesk.job.record.job_notes import read_notes
from hotdesk.job.record.lock import hold_lock
from hotdesk.job.record.log import JobLog
from hotdesk.job.record.papers import Papers
from hotdesk.job.record.resume_state import ResumeState, read_past
from hotdesk.job.run import JobRun
from hotdesk.job.steps import Steps
from hotdesk.job.surroundings import describe_desk


@dataclass(slots=True)
class JobContext:
    """The brief, the machine it runs on, and the callbacks for its events and questions."""

    machine: Machine
    job: Brief
    id: str = field(default_factory=new_id)
    goes_on: bool = False
    """Whether this job was started before and is resumed."""
    listener: Note = ignore
    """Receives every event once it is on disk."""
    prompt: Prompt = ask_nobody
    """Asks a person at this terminal; by default, answers come from another process."""
    request: bytes = b""
    """The stored request, from which the job can be resumed: the brief as it was read, and the models."""
    by: str = field(default_factory=lambda: f"uid {os.getuid()} pid {os.getpid()}")
    """The person or process that requested it."""
    anew: bool = False
    """Whether a resumed job's stored request is replaced by `request`."""
    exact: bool = False
    """Whether a script acts, instead of a model."""
    reopens: bool = False
    """Whether a job that is done is resumed, because there is more to do."""
    log: JobLog | None = None
    """The job's log once it has started; the job is stopped through it."""

    @property
    def journal(self) -> Path:
        return self.machine.config.lib / "keys" / JOURNAL


@contextmanager
def begin_job(order: JobContext, brain: Brain) -> Iterator[JobRun]:
    """Start or resume a job. It is locked against other processes, and its end is recorded."""
    if order.job.each is not None:
        raise BriefError("this brief is for many items; carry it out with `hotdesk swarm`")
    order.job = route_brief(order.job, order.machine.walls, order.machine.config.verify_wall)
    folder = _prepare_papers(order)
    with hold_lock(folder.folder):
        line = _build_run(order, brain, folder)
        _refuse_ended(line, reopens=order.reopens)
        if order.goes_on and order.anew:
            folder.keep_order(order.request)
        line.log.note(_make_first_event(order, brain, line.past))
        with line.record_end():
            line.memory.offer()
            yield line


def _prepare_papers(order: JobContext) -> Papers:
    """Check the deliverables' names and checks, then return the job's papers, with a new job's request."""
    for item in order.job.deliverables:
        check_name(f"{order.id}/{item.path}")
        if item.path.endswith(SUFFIX):
            raise BriefError(
                f"{make_printable(item.path[:200])} is reserved for a certificate; give the deliverable another name"
            )
        for name, expect in list_checks(item):
            find(name, expect)
    jobs = order.machine.config.lib / "jobs"
    if order.goes_on:
        return papers.find(jobs, order.id)
    folder = papers.create(jobs, order.id)
    folder.keep_order(order.request)
    return folder


def _build_run(order: JobContext, brain: Brain, folder: Papers) -> JobRun:
    job, machine, settings = order.job, order.machine, order.machine.config
    past = read_past(order.journal, order.id) if order.goes_on else ResumeState(order.id)
    brain.recall(read_notes(order.journal, order.id, folder))
    log = order.log = JobLog(order.id, machine, folder, order.listener, job.budget, job.seconds, past.spent)
    people = People(log, order.journal, job.wait, settings.patience, past.summary.waiting, order.prompt)
    eyes = MeteredVision(make_eyes(job.look, read_prices(settings.prices)), log) if job.look else None
    tools = machine.list_worker_tools(job.image, eyes, exact=order.exact)
    desk = describe_desk(machine.get_image_facts(job.image), job)
    drive = Drive(settings.lib / "drive", settings.drive_quota)
    memory = JobMemory(job, log, past, MemoryStore(drive, get_current_user()), order.journal)
    plans = Plans(machine, job, brain, log, people, past, tools, memory, desk)
    desks = Desks(machine, job, order.id, log.note, job.seconds)
    checkpoints = Checkpoints(folder.folder, job.size.disk)
    steps = Steps(machine, brain, log, people, plans, desks, checkpoints, past, memory, eyes, order.exact)
    people.give_back = steps.give_back_while_waiting
    return JobRun(job, order.id, log, past, plans, steps, desks, checkpoints, drive, memory, settings.retention_days)


def _refuse_ended(line: JobRun, *, reopens: bool) -> None:
    """Refuse to resume a job that has ended. If it was killed before its receipt was written, write that now."""
    if (ended := line.past.summary.ended) is not None and not (reopens and ended.outcome == "done"):
        if line.past.summary.receipt is None:
            line.bury(ended)
        line.checkpoints.destroy()
        raise BriefError(f"job {line.id} has ended: {ended.outcome}; `hotdesk show {line.id}` shows details")


def _make_first_event(order: JobContext, brain: Brain, past: ResumeState) -> JobEvent:
    if past.summary.begun:
        return Resumed(order.id, order.by, past.current, past.surfaced)
    return JobBegun(order.id, order.job.goal, order.job.digest, brain.name, order.by)
