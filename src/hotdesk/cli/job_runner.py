"""Runs a job on this terminal: shows it, asks the person here, stops on request."""

from __future__ import annotations

import sys
import time
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any

from hotdesk.brief.brief import Brief
from hotdesk.brief.ceiling import admit_brief
from hotdesk.brief.routing import route_brief
from hotdesk.cli.board import Board, JsonLines, ShownLimits, format_receipt
from hotdesk.cli.job_request import PAUSED, JobRequest, machine_for, make_brain, make_result_folders, say, survey_walls
from hotdesk.cli.job_terminal import UNDONE, ask_here, change_limits, copy_out, halt, run_beside_board
from hotdesk.cli.ordinary import require_root_for_job
from hotdesk.cli.prompt import open_terminal
from hotdesk.cli.terminal import run_interruptible
from hotdesk.config import Config
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import new_id
from hotdesk.drive.certificate import SUFFIX
from hotdesk.drive.identity import describe_actor
from hotdesk.drive.journal import FILE as JOURNAL
from hotdesk.drive.journal import read
from hotdesk.drive.keep import Drive
from hotdesk.errors import HotdeskError, NodeLost, make_printable
from hotdesk.event import Decided, Event, JobBegun, Pending
from hotdesk.job import report
from hotdesk.job.machine import Machine
from hotdesk.job.people.wait import Card
from hotdesk.job.record import papers
from hotdesk.job.record.receipt import Receipt
from hotdesk.job.results import Out
from hotdesk.work import JobContext, work

_MOST_NODES = 10
"""Maximum nodes that one process of a job may lose."""


@dataclass(slots=True)
class TerminalJob:
    """One job on this terminal."""

    settings: Config
    chosen: JobRequest
    id: str
    goes_on: bool = False
    json: bool = False
    record: Path | None = None
    answered_by: str = ""
    """Who answers in place of its models, for the header of the recording."""
    key: str = field(default="", repr=False)
    """Key of its first model, if this process has no other."""
    anew: bool = False
    order: JobContext | None = None
    board: Board | None = None
    stream: JsonLines | None = None
    terminal: int | None = None
    report: bytes = b""
    """The job's report, once it has ended."""
    report_path: str = ""
    """Path of the written report."""

    def carry_out(self) -> int:
        """Run the job; return the exit code."""
        code = run_interruptible(self.work, self.stop)
        if code >= 128 and self.board is not None:
            self.board.report_interruption()
        return code

    async def work(self) -> int:
        walls = survey_walls(self.settings)
        job = admit_brief(self.chosen.build_job(), self.settings.limits, walls)
        job = route_brief(job, walls, self.settings.verify_wall)
        require_root_for_job(job.wall, self.settings)
        folder = Path(self.chosen.out or Path("out") / self.id)
        writable = make_result_folders(self.settings, *([self.record.absolute().parent] if self.record else []))
        self.terminal = None if self.json or not sys.stderr.isatty() else open_terminal()
        self.show_on(ShownLimits(job.seconds, job.budget))
        exact = self.chosen.is_recorded
        dials = bool(job.look) or not exact
        names = [name for item in job.deliverables for name in (item.path, item.path + SUFFIX)]
        page = report.name_beside(names)
        with Out(folder, [*names, page]) as out:
            try:
                async with machine_for(self.settings, job, [*writable, out.folder], dials) as machine:
                    await machine.prepare()
                    receipt = await self.work_at(machine, job, exact=exact)
                self.leave_report(out, page)
                return self.finish(receipt, out)
            finally:
                self.leave_report(out, page)
                say(*([f"report   {self.report_path}"] if self.report_path else []))

    async def work_at(self, machine: Machine, job: Brief, *, exact: bool) -> Receipt:
        """Run the job; if the node of its desks is lost, resume it at another, as after a kill."""
        for _ in range(_MOST_NODES):
            brain = make_brain(self.chosen, job, self.settings, self.record, self.key, self.answered_by, self.tell)
            self.order = JobContext(machine, job, self.id, self.goes_on, self.show_event, self.prompt, exact=exact)
            self.order.request, self.order.by = self.chosen.as_bytes(), describe_actor()
            self.order.anew = self.anew
            try:
                assert self.board is not None
                receipt: Receipt = await run_beside_board(partial(work, self.order, brain), self.board)
                return receipt
            except NodeLost as e:
                self.tell(f"hotdesk: {e}; the job continues at another desk")
                self.goes_on, self.anew, lost = True, False, e
            finally:
                self.make_report()
                await brain.close()
        raise lost

    def make_report(self) -> None:
        """Make the job's report, however it ended, while its journal is open. A failure does not fail the job."""
        journal = self.settings.lib / "keys" / JOURNAL
        try:
            if any(read(journal, self.id, names=[JobBegun.__name__])):
                self.report = report.make(journal, self.settings.lib / "jobs", self.id, beside=True)
        except (HotdeskError, OSError) as e:
            self.warn_no_report(e)

    def leave_report(self, out: Out, name: str) -> None:
        """Write the report among the results, once."""
        data, self.report = self.report, b""
        try:
            if data:
                self.report_path = str(report.write(out, name, data))
        except (HotdeskError, OSError) as e:
            self.warn_no_report(e)

    def warn_no_report(self, why: Exception) -> None:
        say(f"hotdesk: the report could not be written: {why}; write it with `hotdesk report {self.id} --out FILE`")

    def show_on(self, limits: ShownLimits) -> None:
        """Create the board, with the earlier events of a resumed job."""
        self.board = Board(sys.stderr, None, time.time, limits)
        if self.json:
            self.stream = JsonLines(sys.stdout, time.time)
        if self.goes_on:
            journal = self.settings.lib / "keys" / JOURNAL
            self.board.recall((row.at / 1000, row.read_event()) for row in read(journal, self.id))

    def show_event(self, event: Event) -> None:
        assert self.board is not None
        if self.board.state.papers is None:
            self.board.state.papers = papers.find(self.settings.lib / "jobs", self.id)
        if self.stream is not None:
            self.stream.show(event)
        self.board.show(event)

    def tell(self, text: str) -> None:
        assert self.board is not None
        with self.board.aside():
            say(text)

    async def prompt(self, pending: Pending, card: Card) -> Decided | None:
        look = self.board.look if self.board is not None else None
        return await ask_here(self.settings, self.terminal, self.board, pending, card, look=look)

    def stop(self) -> None:
        halt(self.order, self.id, "the job stops after the current act")

    def finish(self, receipt: Receipt, out: Out) -> int:
        """Copy the results, print the receipt, and return the exit code."""
        assert self.board is not None
        drive = Drive(self.settings.lib / "drive")
        paths: dict[str, str] = {}
        proofs: dict[str, str] = {}
        for item in receipt.kept:
            paths[item.path], proof = copy_out(drive, receipt.job, item.path, out)
            if proof:
                proofs[item.path] = proof
        self.board.close()
        say(*format_receipt(receipt))
        if self.stream is not None:
            self.stream.finish(receipt, paths, proofs, self.report_path)
        else:
            print(*(make_printable(path) for path in paths.values()), sep="\n", end="\n" if paths else "")
        return {"done": 0, "paused": PAUSED}.get(receipt.outcome, UNDONE)


def begin(
    settings: Config,
    chosen: JobRequest,
    *,
    json: bool,
    record: Path | None,
    job: str | None = None,
    answered_by: str = "",
) -> int:
    started = TerminalJob(settings, chosen, job or new_id(), json=json, record=record, answered_by=answered_by)
    return started.carry_out()


def go_on(
    settings: Config,
    request: JobRequest,
    job: str,
    limits: dict[str, Any],
    *,
    json: bool,
    key: str = "",
    anew: bool = False,
) -> int:
    """Resume a job, optionally with other limits and a key for its model.

    Pass `anew` if the request has changed and must be stored for the next process.
    """
    chosen = change_limits(settings, request, limits)
    return TerminalJob(settings, chosen, job, True, json, key=key, anew=anew).carry_out()
