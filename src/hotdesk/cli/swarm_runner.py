"""Runs a swarm on this terminal: shows progress, asks the person here, stops on request."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from hotdesk.brain.adversaries.names import find_adversary
from hotdesk.brain.brain import describe_model
from hotdesk.brain.models.record import RecordingHeader, open_to_append, write_header
from hotdesk.brief.brief import Brief
from hotdesk.brief.ceiling import admit_brief
from hotdesk.cli import prestart
from hotdesk.cli.board.stream import JsonLines
from hotdesk.cli.job_request import PAUSED, JobRequest, machine_for, make_brain, make_result_folders, say, survey_walls
from hotdesk.cli.job_terminal import UNDONE, ask_here, change_limits, copy_out, halt, run_beside_board
from hotdesk.cli.prompt import open_terminal
from hotdesk.cli.swarm_board import SwarmBoard, format_receipt
from hotdesk.cli.terminal import run_interruptible
from hotdesk.config import Config
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import new_id
from hotdesk.drive.certificate import SUFFIX
from hotdesk.drive.identity import describe_actor
from hotdesk.drive.keep import Drive
from hotdesk.errors import BriefError, NodeLost, make_printable
from hotdesk.event import Decided, Event, Pending
from hotdesk.host import Host
from hotdesk.job.machine import Machine
from hotdesk.job.people.wait import Card
from hotdesk.job.results import Out
from hotdesk.swarm.brains import Brains, ModelBrains, ReplayBrains, ScriptBrains
from hotdesk.swarm.ending import CERTIFICATE, PAGE, RECORDS, RESULTS
from hotdesk.swarm.pace import MOST
from hotdesk.swarm.receipt import SwarmReceipt
from hotdesk.swarm.run import SwarmContext, run_swarm
from hotdesk.work import JobContext


@dataclass(frozen=True, slots=True)
class ResumeChoice:
    """Items that a resumed swarm processes, besides those that have not ended."""

    retry: bool = False
    accept: bool = False
    add: bool = False
    """Whether items that were added to the brief's folder are included."""


def add_resume_choice(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--add-items", action="store_true", help="swarms: also process items that were added to the brief's folder"
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--retry-failed",
        action="store_true",
        help="swarms: process the items in quarantine (those that failed every attempt) again",
    )
    group.add_argument(
        "--accept-failed", action="store_true", help="swarms: write the report without the items in quarantine"
    )


def read_resume_choice(arguments: argparse.Namespace) -> ResumeChoice:
    return ResumeChoice(arguments.retry_failed, arguments.accept_failed, arguments.add_items)


@dataclass(slots=True)
class TerminalSwarm:
    """One swarm on this terminal."""

    settings: Config
    chosen: JobRequest
    id: str
    goes_on: bool = False
    json: bool = False
    choice: ResumeChoice = ResumeChoice()
    record: Path | None = None
    answered_by: str = ""
    """Who answers in place of its models, for the header of the recording."""
    order: JobContext | None = None
    board: SwarmBoard = field(default_factory=lambda: SwarmBoard(sys.stderr, time.monotonic))
    stream: JsonLines | None = None
    terminal: int | None = None

    def carry_out(self) -> int:
        """Run the swarm; return the exit code."""
        return run_interruptible(self.work, self.stop)

    async def work(self) -> int:
        brief = admit_brief(self.chosen.build_job(), self.settings.limits, survey_walls(self.settings))
        if brief.each is None:
            raise BriefError(
                "the brief has no items; add an [each] section with `over`, or carry it out with `hotdesk work`"
            )
        writable = make_result_folders(self.settings, *([self.record.absolute().parent] if self.record else []))
        self.terminal = None if self.json or not sys.stderr.isatty() else open_terminal()
        self.stream = JsonLines(sys.stdout, time.time) if self.json else None
        report = brief.reduce.deliverables if brief.reduce is not None else ()
        names = [name for item in report for name in (item.path, item.path + SUFFIX)]
        dials = bool(brief.look) or not self.chosen.is_recorded
        whole = replace(brief, deliverables=(*brief.deliverables, *report))
        folder = Path(self.chosen.out or Path("out") / self.id)
        with Out(folder, [*names, CERTIFICATE, RECORDS, RESULTS, PAGE]) as out:
            async with machine_for(self.settings, whole, [*writable, out.folder], dials) as machine:
                await machine.prepare()
                while True:
                    try:
                        receipt = await self.work_at(machine, brief)
                        break
                    except NodeLost as e:  # the node of the report's desk; items move to other nodes by themselves
                        self.board.say(f"hotdesk: {e}; the swarm continues at other desks")
                        self.goes_on = True
            return self.finish(receipt, out)

    async def work_at(self, machine: Machine, brief: Brief) -> SwarmReceipt:
        """Run the swarm on a machine."""
        brains = _make_brains(self.chosen, brief, self.settings, self.board.say, self.record, self.answered_by)
        self.order = JobContext(machine, brief, self.id, self.goes_on, self.show_event, self.prompt, exact=brains.exact)
        self.order.request, self.order.by = self.chosen.as_bytes(), describe_actor()
        context = SwarmContext(
            self.order,
            brains,
            pilot=self.chosen.limits.get("pilot") or 0,
            review=self.chosen.limits.get("review") or 0,
            most=self.chosen.limits.get("most") or MOST,
            retry_failed=self.choice.retry,
            accept_failed=self.choice.accept,
            add_items=self.choice.add,
            doors=machine.doors if isinstance(machine, Host) else None,
            on_progress=self.board.watch,
        )
        try:
            receipt: SwarmReceipt = await run_beside_board(partial(run_swarm, context), self.board)
        finally:
            await brains.close()
        return receipt

    def show_event(self, event: Event) -> None:
        if self.stream is not None:
            self.stream.show(event)
        self.board.show(event)

    async def prompt(self, pending: Pending, card: Card) -> Decided | None:
        return await ask_here(self.settings, self.terminal, self.board, pending, card)

    def stop(self) -> None:
        """Ask the swarm to pause: running items finish, no others start."""
        halt(self.order, self.id, "the swarm pauses when the running items are finished")

    def finish(self, receipt: SwarmReceipt, out: Out) -> int:
        """Copy the results, print the receipt, and return the exit code."""
        paths = {}
        if receipt.outcome == "done":
            drive = Drive(self.settings.lib / "drive")
            for name in (CERTIFICATE, RECORDS, RESULTS, PAGE):
                paths[name], _ = copy_out(drive, receipt.job, name, out)
            for name in receipt.reports:
                paths[name], _ = copy_out(drive, receipt.report, name, out)
        self.board.close()
        say(*format_receipt(receipt))
        if self.stream is not None:
            self.stream.write("SwarmReceipt", {**asdict(receipt), "paths": paths})
        else:
            print(*(make_printable(path) for path in paths.values()), sep="\n", end="\n" if paths else "")
        if receipt.outcome == "paused":
            return PAUSED
        return 0 if receipt.outcome == "done" and not receipt.quarantined else UNDONE


def _make_brains(
    chosen: JobRequest,
    brief: Brief,
    settings: Config,
    notify: Any = None,
    record: Path | None = None,
    answered_by: str = "",
) -> Brains:
    """Return the brains. A script runs in this process, after it has dropped its privileges."""
    if record is not None and chosen.is_recorded:
        raise BriefError("--record needs --model: it records the replies of a model")
    if chosen.replay:
        raise BriefError(
            "--replay of a swarm needs a file that --record wrote; the id of a finished swarm cannot be replayed"
        )
    if chosen.recording:
        return ReplayBrains.read(Path(chosen.recording))
    if chosen.source:
        brains = ScriptBrains.from_base64(chosen.source, Path(chosen.script))
        if chosen.adversary:
            if brief.wall == "local":
                raise BriefError(
                    "--adversary needs isolation, which the wall `local` does not have: the attack would run on this "
                    "machine itself; write wall = 'container' in the brief"
                )
            brains.turn = partial(find_adversary, chosen.adversary)
        return brains
    if chosen.adversary:
        raise BriefError("--adversary in a swarm needs a script for the plan; pass --script FILE")
    found = make_brain(chosen, brief, settings, notify=notify)
    if record is None:
        return ModelBrains(found.planners, found.workers)
    models = dict.fromkeys(map(describe_model, (*found.planners, *found.workers)))
    write_header(record, RecordingHeader(tuple(models), answered_by))
    return ModelBrains(found.planners, found.workers, record=open_to_append(record))


def begin_swarm(settings: Config, chosen: JobRequest, arguments: argparse.Namespace, *, json: bool) -> int:
    options = {"pilot": arguments.pilot or None, "most": arguments.most or None, "review": arguments.review or None}
    request = replace(chosen, limits={**chosen.limits, **options})
    recording = {"record": arguments.record, "answered_by": arguments.answered_by}
    return TerminalSwarm(settings, request, arguments.id or new_id(), json=json, **recording).carry_out()


def go_on_swarm(
    settings: Config, request: JobRequest, job: str, limits: dict[str, Any], choice: ResumeChoice, *, json: bool
) -> int:
    """Resume a swarm, optionally with other limits."""
    prestart.yield_to_tenants()
    request = change_limits(settings, request, limits)
    return TerminalSwarm(settings, request, job, True, json, choice).carry_out()
