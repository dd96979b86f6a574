"""One swarm, from brief to ashes: list, plan, approve, try a few, take all, build the report, sign. Read this first."""

from __future__ import annotations

import hashlib
import io
import json
import time
import zipfile
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Literal

import anyio
from anyio.abc import TaskGroup

from hotdesk.brain.models.prices import read_prices
from hotdesk.brain.seam import BudgetSpentError, JobHaltedError
from hotdesk.brain.vision import vision
from hotdesk.brief.brief import ITEM, Brief, Each, JobBudget
from hotdesk.drive.catalog import Version
from hotdesk.drive.identity import me
from hotdesk.drive.swarm_certificate import encode_record
from hotdesk.errors import BriefError, DeskError, ModelError, alone, printable
from hotdesk.event import Decided, Event, ItemEnded, ItemReviewed, ItemsBegun, Kept, PilotEnded, SwarmBegun
from hotdesk.job.error_text import describe_error
from hotdesk.job.look import MeteredVision
from hotdesk.job.people.wait import Card
from hotdesk.job.record.log import ASKED
from hotdesk.job.record.receipt import read_receipt
from hotdesk.job.run import JobRun
from hotdesk.job.start import JobContext, begin_job
from hotdesk.swarm.batch_note import EventBatch
from hotdesk.swarm.brains import Brains, require_reduce
from hotdesk.swarm.cohort import AskingDoors, Cohorts
from hotdesk.swarm.fill import require_fillable
from hotdesk.swarm.items import Item, format_manifest, list_items
from hotdesk.swarm.ledger import SwarmLedger
from hotdesk.swarm.pace import MOST, Pace
from hotdesk.swarm.page import choose_quoted, make_page
from hotdesk.swarm.pilot import choose_pilot, forecast, make_card
from hotdesk.swarm.receipt import SwarmReceipt, make_receipt
from hotdesk.swarm.reduce import ReportJob
from hotdesk.swarm.results import SwarmState, read_state
from hotdesk.swarm.review import choose_sample, make_review_card
from hotdesk.swarm.verify import BATCH, ItemVerifier
from hotdesk.swarm.worker import ItemAttempt, ItemFailedError, ItemWorker, write_paper

CERTIFICATE, RECORDS, RESULTS, PAGE = "swarm-certificate.json", "records.jsonl", "results.zip", "swarm.html"
"""What a swarm leaves in the drive beside its report: what is signed, its records, the items' deliverables, a map."""
_MAX_SILENT_MODELS = 5
"""Items in a row that no model answered: then the swarm pauses."""
_UNKNOWN = (
    "it was begun by a process that was killed and may have changed something outside; look there, then retry it with "
    "--retry-failed"
)
_ONE_DAY = (1980, 1, 1, 0, 0, 0)
"""The time of every file in the archive: the same results are the same bytes."""


@dataclass(slots=True)
class SwarmContext:
    """What is carried out, who thinks, and how it is run."""

    order: JobContext
    """The job: its brief has `[each]`."""
    brains: Brains
    pilot: int = 0
    """Items that are finished first, and shown to a person before the rest."""
    review: int = 0
    """Finished items, chosen at random, that a person compares with their sources before anything is signed."""
    most: int = MOST
    """Items that may be worked at together."""
    retry_failed: bool = False
    """Whether what is in quarantine is tried again."""
    accept_failed: bool = False
    """Whether the report is built however much is in quarantine."""
    doors: AskingDoors | None = None
    """Where desks ask for more than they have; None: they have no way out."""
    on_progress: Callable[[SwarmRun], None] = lambda run: None
    """Told once, when there is something to show."""


async def run_swarm(context: SwarmContext) -> SwarmReceipt:
    """Carry out a brief for all its items. What workers could not do is in the receipt; other failures are raised.

    A swarm that was stopped or killed goes on by the same line: items that ended are not taken again.
    """
    order, brief = context.order, context.order.job
    items = await anyio.to_thread.run_sync(prepare_items, brief, context.brains)
    await order.machine.ready()
    order.job = make_kind(brief, items)
    planner = context.brains.plan(order.job)
    try:
        with begin_job(order, planner) as line:
            run = SwarmRun(context, replace(brief, walls=order.job.walls), items, line)
            context.on_progress(run)
            run.begin()
            await line.plan()
            await line.approve()
            async with run.work():
                await run.try_pilot()
                await run.take(run.pending())
            run.require_enough()
            await run.review()
            await run.reduce()
            run.certify()
    finally:
        await planner.close()
    return make_receipt(read_receipt(order.journal, order.id), read_state(order.journal, order.id))


def prepare_items(brief: Brief, brains: Brains) -> tuple[Item, ...]:
    """List the items, once everything that can be refused was."""
    if brief.each is None:
        raise BriefError("the brief has no items; write [each] with over, or carry it out with `hotdesk work`")
    if brief.memory:
        raise BriefError("a swarm has no memory: items must not learn of each other; leave `memory` out")
    if brief.approve == "every":
        raise BriefError('the steps of a swarm cannot be approved one by one; write approve = "plan"')
    require_fillable(brief)
    require_reduce(brief, brains)
    return list_items(brief)


def make_kind(brief: Brief, items: Sequence[Item]) -> Brief:
    """Give the brief of the kind of item: what is planned and approved, once for all."""
    names = sorted({item.name for item in items})
    if len(names) > 1:
        raise BriefError(f"items of one swarm are of one kind, and these are {', '.join(names)}; narrow each.over")
    goal = (
        f"{brief.goal}\n\nThis is done for {len(items):,} items, each by a worker of its own at a desk of its own. A "
        f"worker finds its item as {names[0]} in the home folder and sees no other. {{item}} stands for its name."
    )
    return replace(brief, goal=goal, inputs=(*brief.inputs, f"{ITEM}{names[0]}"), each=None, reduce=None, frozen=True)


class SwarmRun:
    """One swarm under way."""

    def __init__(self, context: SwarmContext, brief: Brief, items: tuple[Item, ...], line: JobRun) -> None:
        assert brief.each is not None
        order = context.order
        self.context, self.brief, self.items, self.line = context, brief, items, line
        self.each: Each = brief.each
        self.id, self.machine, self.papers = order.id, order.machine, line.log.papers
        self.state = read_state(order.journal, order.id) if order.goes_on else SwarmState()
        self.ledger = SwarmLedger(brief.budget, self.each.budget, brief.seconds, worked=line.log.spent.ms / 1000)
        self.pace = Pace(context.most)
        self.batch = EventBatch(self.machine.note, self.record, expected=lambda: self.active - len(self.batch.events))
        self.verifier = ItemVerifier.make(self.machine, line.job, order.id)
        eyes = vision(brief.look, read_prices(self.machine.config.prices)) if brief.look else None
        self.worker = ItemWorker(
            self.machine,
            order.id,
            line.job,
            self.each,
            line.plans,
            self.ledger,
            context.brains.take,
            context.brains.exact,
            MeteredVision(eyes, line.log) if eyes is not None else None,
            lambda: self.pace.limit,
        )
        self.active = 0
        """Items under way."""
        self.finished = anyio.Event()
        self.silent_models = 0
        self.started: dict[str, float] = {}
        """When each item under way was begun."""

    # -- where it stands ----------------------------------------------------------------------------------------

    def record(self, event: Event) -> None:
        """Take in an event that is on disk, and tell of it."""
        self.state.take(event)
        self.context.order.listener(event)

    def note(self, *events: Event) -> None:
        """Write events down in one commit, then tell of them."""
        self.machine.note(*events)
        for event in events:
            self.record(event)

    def begin(self) -> None:
        """Write down which items there are; refuse to go on with others."""
        manifest = format_manifest(self.items)
        digest = hashlib.sha256(manifest).hexdigest()
        if self.state.begun is None:
            paper = self.papers.write(manifest)
            self.note(SwarmBegun(self.id, len(self.items), digest, paper))
        elif self.state.begun.manifest != digest:
            raise BriefError("the items are not those the swarm began with; put them back, or begin another swarm")
        for each in list(self.state.items.values()):
            self.recall(each)

    def recall(self, record: ItemEnded) -> None:
        """Count an item that ended before; what is gone of it, or shall be retried, is taken again."""
        self.ledger.recall(record)
        gone = record.outcome == "done" and not all(self.papers.pile.has(name) for name in record.files)
        if gone or (record.outcome != "done" and self.context.retry_failed):
            del self.state.items[record.item]
            self.state.reduce = self.state.reduced = None

    @property
    def writes(self) -> bool:
        """Say whether the plan may change something outside."""
        plans = self.line.plans
        return any(plans.may_write(step) for step in plans.plan.steps)

    def pending(self) -> list[Item]:
        """List the items that have not ended."""
        return [item for item in self.items if item.key not in self.state.items]

    # -- working ------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def work(self) -> AsyncIterator[None]:
        """Have what all items need at hand; nothing of it outlives the block."""
        try:
            async with anyio.create_task_group() as tasks:
                for part in (self.batch.run, self.verifier.run, self.pace.run):
                    tasks.start_soon(part)
                self.hear_questions(tasks)
                await self.give_up_unknown()
                yield
                tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise alone(group) from None
        finally:
            desks = (*self.worker.desks, *self.verifier.opened)
            self.line.desks.opened += [desk for desk in desks if self.machine.has(desk)]  # type: ignore[arg-type]

    def hear_questions(self, tasks: TaskGroup) -> None:
        """Have what desks ask at the door gathered, so that a person answers each kind of request once."""
        if self.context.doors is not None:
            plans, find_item = self.line.plans, self.worker.desks.get

            async def decide(card: Card) -> Decided:
                return await plans.people.decide("cohort", card)

            cohorts = Cohorts(self.context.doors, lambda desk: find_item(desk, ""), decide, tasks)
            self.context.doors.on_question = cohorts.hear

    async def give_up_unknown(self) -> None:
        """Put items into quarantine of which nobody knows what they did outside: they are not done twice unasked."""
        if self.context.retry_failed:
            return
        for item in [each for each in self.pending() if each.key in self.state.open]:
            await self.end(item, "quarantined", [], _UNKNOWN, "unknown")

    async def try_pilot(self) -> None:
        """Finish a few items first, and have a person look at them."""
        if not self.context.pilot:
            return
        chosen = choose_pilot(self.items, self.context.pilot)
        began = time.monotonic()
        await self.take([item for item in chosen if item.key not in self.state.items])
        records = [self.state.items[item.key] for item in chosen]
        if self.state.pilot is None:
            expected = forecast(records, len(self.items), time.monotonic() - began)
            keys = tuple(item.key for item in chosen)
            self.note(PilotEnded(self.id, keys, expected.dollars, expected.tokens, expected.seconds))
        found = self.state.pilot
        assert found is not None
        again = replace(
            forecast(records, len(self.items), 0.0), dollars=found.dollars, tokens=found.tokens, seconds=found.seconds
        )
        plans = self.line.plans
        plans.require(await plans.people.decide("pilot", make_card(records, again, plans.plan.digest)), "the pilot")

    async def take(self, items: Iterable[Item]) -> None:
        """Take items to their ends, many together; those that fail go to quarantine and hold up nobody."""
        queue = deque(items)
        try:
            async with anyio.create_task_group() as tasks:
                while queue or self.active:
                    if not queue or not await self.may_begin():
                        await self.wait_for_one()
                        continue
                    item = queue.popleft()
                    self.active += 1
                    self.verifier.expected += 1
                    tasks.start_soon(self.take_one, item, queue)
        except BaseExceptionGroup as group:
            raise alone(group) from None
        if self.line.log.halted:
            raise JobHaltedError(ASKED)

    async def may_begin(self) -> bool:
        """Wait for a place for another item; say whether one may begin. Raise where none ever may."""
        if self.line.log.halted:
            if not self.active:
                raise JobHaltedError(ASKED)
            return False
        if why := self.ledger.refuse_another():
            if not self.active:
                raise BudgetSpentError(why)
            return False
        if len(self.verifier.waiting) > 4 * BATCH:
            return False
        await self.pace.enter()
        return True

    async def wait_for_one(self) -> None:
        """Wait until an item under way has ended."""
        with anyio.move_on_after(1.0):
            await self.finished.wait()

    async def take_one(self, item: Item, queue: deque[Item]) -> None:
        """Take one item to its end, with a place that was given to it."""
        try:
            await self.try_item(item)
            self.silent_models = 0
        except ModelError:
            self.silent_models += 1
            if self.silent_models >= _MAX_SILENT_MODELS:
                raise
            self.pace.slow_down()
            self.ledger.end(item.key)
            queue.append(item)
        finally:
            self.active -= 1
            self.finished.set()
            self.finished = anyio.Event()

    async def try_item(self, item: Item) -> None:
        """Make attempts at an item until its deliverables pass, or it goes to quarantine."""
        self.started[item.key] = time.monotonic()
        if self.writes:
            await self.batch.add(ItemsBegun(self.id, (item.key,)))
        attempts: list[ItemAttempt] = []
        objections, why, cause, clean = "", "", "", ""
        for number in range(1, (1 if self.writes else self.each.attempts) + 1):
            attempt = ItemAttempt(number)
            attempts.append(attempt)
            failure = await self.attempt(item, attempt, objections, is_first=number == 1)
            if failure is None:
                request = await self.verifier.verify(item, attempt.candidates)
                attempt.candidates, clean = request.candidates, request.clean
                failed = [each for each in attempt.candidates if not each.passed]
                if not failed:
                    await self.end(item, "done", attempts, clean=clean)
                    return
                objections, why, cause = "\n".join(each.objection for each in failed), failed[0].reason, "check"
            else:
                objections = f"Attempt {number} failed: {failure.why}. {failure.detail[:500]}"
                why, cause = failure.why, failure.cause
            attempt.failure = objections
            if cause == "input":
                break
        await self.end(item, "quarantined", attempts, why, cause, clean)

    async def attempt(
        self, item: Item, attempt: ItemAttempt, objections: str, *, is_first: bool
    ) -> ItemFailedError | None:
        """Make one attempt at an item; give how it failed, if it did."""
        if not is_first:
            self.verifier.expected += 1
            await self.pace.enter()
        try:
            await self.worker.take(item, attempt, objections)
        except ItemFailedError as e:
            return e
        except DeskError as e:  # a desk that breaks was broken by what is in it
            return ItemFailedError(describe_error(e), "desk")
        except BriefError as e:
            return ItemFailedError(describe_error(e), "input")
        finally:
            self.pace.leave()
            self.verifier.expected -= 1
        return None

    async def end(
        self,
        item: Item,
        outcome: str,
        attempts: list[ItemAttempt],
        why: str = "",
        cause: str = "",
        clean: str = "",
    ) -> None:
        """Write down how an item ended; what it made and did are papers. On disk when this returns."""
        last = attempts[-1] if attempts else ItemAttempt(0)
        candidates = [each for each in last.candidates if not each.lacks]
        checks = dict.fromkeys(verdict.check for each in candidates for verdict in each.verdicts)
        verdicts = [
            {"path": each.item.path, "check": verdict.check, "passed": verdict.passed, "findings": verdict.findings}
            for each in candidates
            for verdict in each.verdicts
        ]
        cost = self.ledger.end(item.key)
        took = time.monotonic() - self.started.pop(item.key, time.monotonic())
        event = ItemEnded(
            self.id,
            item.key,
            item.index,
            item.sha256,
            outcome,  # type: ignore[arg-type]
            last.desk,
            clean,
            tuple(each.item.path for each in candidates),
            tuple(each.sha256 for each in candidates),
            tuple(len(each.data) for each in candidates),
            tuple(checks) if outcome == "done" else (),
            last.number,
            printable(why[:300]),
            cause,
            self.papers.write(write_paper(attempts, verdicts)) if attempts else "",
            tuple(self.papers.write(each.data) for each in candidates),
            int(took * 1000),
            cost.tokens,
            round(cost.dollars, 6),
            cost.acts,
        )
        await self.batch.add(event)

    # -- what becomes of it -------------------------------------------------------------------------------------

    def require_enough(self) -> None:
        """Pause where more items are in quarantine than the brief allows."""
        failed = len(self.state.quarantined)
        if failed == len(self.items):
            why = self.state.quarantined[0].why
            raise JobHaltedError(f"no item passed; the first: {why}. Resume with --retry-failed once that is corrected")
        if failed > self.each.quarantine * len(self.items) and not self.context.accept_failed:
            causes = "; ".join(f"{count} of: {why}" for _, why, count in self.state.group_failures()[:3])
            raise JobHaltedError(
                f"{failed} of {len(self.items)} items are in quarantine, over {self.each.quarantine:.0%}; {causes}. "
                "Resume with --retry-failed, or with --accept-failed"
            )

    async def review(self) -> None:
        """Have a person compare a random sample with its sources; the certificate says what came of it."""
        paths = {item.key: str(item.path or f"{self.each.over}: {item.key}") for item in self.items}
        for record in choose_sample(self.state.items.values(), self.context.review, self.id):
            if record.item in self.state.reviews:
                continue
            files = {path: self.papers.read(name) for path, name in zip(record.paths, record.files, strict=True)}
            card = make_review_card(record, paths[record.item], files)
            decided = await self.line.plans.people.decide("review", card, record.item)
            if decided.answer in ("approved", "refused"):
                verdict: Literal["right", "wrong"] = "right" if decided.answer == "approved" else "wrong"
                self.note(ItemReviewed(self.id, record.item, verdict, decided.by))

    async def reduce(self) -> None:
        """Build the report from all verified results."""
        if self.brief.reduce is None or self.state.reduced is not None:
            return
        total, spent = self.brief.budget, self.ledger.spent
        rest = JobBudget(
            tokens=None if total.tokens is None else max(1, total.tokens - spent.tokens),
            dollars=None if total.dollars is None else max(0.01, total.dollars - spent.dollars),
            acts=None if total.acts is None else max(1, total.acts - spent.acts),
        )
        report = ReportJob(self.context.order, self.brief, self.papers, self.context.brains, rest)
        self.note(await report.build(self.state.in_order(), self.state.reduce))

    def certify(self) -> None:
        """Have all records signed, and keep what proves each."""
        certificate = self.machine.certify_swarm(self.id)
        self.state = read_state(self.context.order.journal, self.id)
        records = self.state.in_order()
        self.keep(RECORDS, b"".join(encode_record(each) + b"\n" for each in records))
        self.keep(RESULTS, self.pack(records))
        self.keep(PAGE, self.draw_page())
        self.keep(CERTIFICATE, certificate)

    def draw_page(self) -> bytes:
        """Write the page with the map of all items."""
        texts = {each.item: self.quote(each) for each in choose_quoted(self.state)}
        return make_page(self.id, self.brief.goal, self.state, texts)

    def quote(self, record: ItemEnded) -> str:
        """Give what an item delivered, after why its attempts failed."""
        attempts = json.loads(self.papers.read(record.paper))["attempts"] if record.paper else []
        failures = [str(each["failure"]) for each in attempts if each["failure"]]
        files = (self.papers.read(name)[:4000].decode("utf-8", "replace") for name in record.files)
        return "\n".join([*failures, *files])

    def pack(self, records: Sequence[ItemEnded]) -> bytes:
        """Put the deliverables of all items that passed into one archive."""
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for each in records:
                for path, name in zip(each.paths, each.files, strict=True):
                    if each.outcome == "done":
                        archive.writestr(zipfile.ZipInfo(path, _ONE_DAY), self.papers.read(name))
        return packed.getvalue()

    def keep(self, name: str, data: bytes) -> None:
        """Keep a file in the drive; the event is on disk before the name is."""

        def intent(version: Version) -> None:
            event = Kept(self.id, name, version.sha256, version.size, version.number)
            self.machine.note(event)
            self.line.past.stored[name] = event
            self.context.order.listener(event)

        self.line.drive.keep(f"{self.id}/{name}", data, owner=me(), job=self.id, brief=self.brief.digest, intent=intent)
