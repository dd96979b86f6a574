"""The order of operations of a swarm: list, plan, approve, pilot, work, report, sign. Read this first."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
from anyio.abc import TaskGroup

from hotdesk.brain.models.prices import read_prices
from hotdesk.brain.seam import BudgetSpentError, JobHaltedError
from hotdesk.brain.vision import make_eyes
from hotdesk.brief.brief import Brief, Each
from hotdesk.dataclass import dataclass
from hotdesk.errors import BriefError, DeskError, DoorError, ModelError, NodeLost, make_printable, unwrap_group
from hotdesk.event import Decided, Event, ItemEnded, ItemsBegun, PilotEnded
from hotdesk.job.error_text import describe_error
from hotdesk.job.look import MeteredVision
from hotdesk.job.people.wait import Card
from hotdesk.job.record.log import ASKED
from hotdesk.job.record.receipt import read_receipt
from hotdesk.job.record.resume_state import read_past
from hotdesk.job.run import JobRun
from hotdesk.job.start import JobContext, begin_job
from hotdesk.swarm.added import AddedItems
from hotdesk.swarm.batch_note import EventBatch
from hotdesk.swarm.brains import Brains
from hotdesk.swarm.cohort import AskingDoors, Cohorts
from hotdesk.swarm.ending import SwarmEnding
from hotdesk.swarm.items import Item
from hotdesk.swarm.ledger import ItemCost, SwarmLedger, UsageRecord
from hotdesk.swarm.listing import find_items, make_kind, require_swarm
from hotdesk.swarm.pace import MOST, Pace
from hotdesk.swarm.pilot import choose_pilot, forecast, make_card
from hotdesk.swarm.receipt import SwarmReceipt, make_receipt
from hotdesk.swarm.results import SwarmState, read_state
from hotdesk.swarm.verify import BATCH, ItemVerifier
from hotdesk.swarm.worker import ItemAttempt, ItemFailedError, ItemWorker, write_paper

_MAX_SILENT_MODELS = 5
"""Consecutive model failures after which the swarm pauses."""
_MAX_FAILED_DOORS = 5
"""Consecutive door failures after which the swarm stops, in addition to one for each item in progress."""
_BROKEN_OFF = (
    "the work on this item was interrupted and may have changed something outside; check there, then retry it "
    "with --retry-failed"
)
_UNKNOWN = (
    "the process that worked on this item was killed, and may have changed something outside; check there, "
    "then retry the item with --retry-failed"
)

_LOST = (
    "the results of this item were lost, and its work may have changed something outside; check there, then retry the "
    "item with --retry-failed"
)


class _TimeUpError(Exception):
    """The swarm's time limit is reached, so a failed item is not attempted again now."""


@dataclass(slots=True)
class SwarmContext:
    """The brief of a swarm, its brains, and its options."""

    order: JobContext
    """The swarm's job context; its brief has `[each]`."""
    brains: Brains
    pilot: int = 0
    """Number of items that are finished first and shown to a person before the rest. 0: no pilot."""
    review: int = 0
    """Number of finished items, chosen at random, that a person compares with their sources before the signature."""
    most: int = MOST
    """Maximum number of items in progress at once."""
    retry_failed: bool = False
    """Whether items in quarantine are tried again."""
    accept_failed: bool = False
    """Whether the report is built however many items are in quarantine."""
    add_items: bool = False
    """Whether items are added that were put beside the brief after the swarm started."""
    doors: AskingDoors | None = None
    """The doors at which desks ask for more rights. `None`: their requests are not grouped."""
    on_progress: Callable[[SwarmRun], None] = lambda run: None
    """Called once, when the swarm's progress can be shown."""


async def run_swarm(context: SwarmContext) -> SwarmReceipt:
    """Carry out a brief for all its items. The receipt lists items that failed; other failures are raised.

    Called again for a swarm that was stopped or killed, it resumes: items that have ended are not repeated.
    """
    order, brief = context.order, context.order.job
    require_swarm(brief, context.brains)
    items = await find_items(order.machine, brief, order.id)
    await order.machine.prepare()
    order.job, order.reopens = make_kind(brief, items), context.add_items or context.retry_failed
    planner = context.brains.choose_planner(order.job)
    try:
        with begin_job(order, planner) as line:
            run = SwarmRun(context, replace(brief, walls=order.job.walls), items, line)
            context.on_progress(run)
            run.begin()
            await line.plan()
            await line.approve()
            ending = SwarmEnding(run)
            while True:
                async with run.work():
                    await run.try_pilot()
                    await run.take(run.list_pending(), takes_more=True)
                ending.require_enough()
                await ending.review()
                await ending.reduce()
                if not await run.added.accept():
                    break
            ending.certify()
    finally:
        await planner.close()
    return make_receipt(read_receipt(order.journal, order.id), read_state(order.journal, order.id))


class SwarmRun:
    """One swarm in progress."""

    def __init__(self, context: SwarmContext, brief: Brief, items: tuple[Item, ...], line: JobRun) -> None:
        assert brief.each is not None
        order = context.order
        self.context, self.brief, self.items, self.line = context, brief, items, line
        self.each: Each = brief.each
        self.id, self.machine, self.papers = order.id, order.machine, line.log.papers
        self.state = read_state(order.journal, order.id) if order.goes_on else SwarmState()
        log = line.log
        self.ledger = SwarmLedger(
            brief.budget,
            self.each.budget,
            brief.seconds,
            shared=log.spent,
            measure_seconds_left=lambda: log.seconds_left,
        )
        self.usage = UsageRecord(self.id, self.ledger, self.note)
        self.pace = Pace(context.most)
        self.batch = EventBatch(self.machine.note, self.record, expected=lambda: self.active - len(self.batch.events))
        self.verifier = ItemVerifier.make(self.machine, line.job, order.id)
        eyes = make_eyes(brief.look, read_prices(self.machine.config.prices)) if brief.look else None
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
        """Number of items in progress."""
        self.finished = anyio.Event()
        self.silent_models = self.failed_doors = 0
        self.added = AddedItems(self)
        self.lost: list[str] = []
        """Keys of items that passed, but whose results are lost, as after a power failure."""
        self.started: dict[str, float] = {}
        """Monotonic start time of each item in progress, by key."""

    # -- state --------------------------------------------------------------------------------------------------

    def record(self, event: Event) -> None:
        self.state.take(event)
        self.context.order.listener(event)

    def note(self, *events: Event) -> None:
        self.machine.note(*events)
        for event in events:
            self.record(event)

    def begin(self) -> None:
        """Record the list of items, and count those that ended before; raise `BriefError` if the items changed."""
        self.added.begin()
        self.ledger.spent.add(self.state.replaced)
        self.ledger.earlier |= self.state.unfinished
        self.count_reports()
        for each in list(self.state.items.values()):
            self.recall(each)

    def recall(self, record: ItemEnded) -> None:
        """Count an item that ended before. If its results were lost or it must be retried, it becomes pending again."""
        self.ledger.recall(record)
        gone = record.outcome == "done" and not all(self.papers.pile.has(name) for name in record.files)
        if gone:
            self.lost.append(record.item)
        if gone or (record.outcome != "done" and self.context.retry_failed):
            del self.state.items[record.item]
            self.state.reduce = self.state.reduced = None

    def count_reports(self, besides: str = "") -> None:
        """Count what jobs that built a report have used, `besides` one that counts its own use."""
        self.ledger.reports = ItemCost()
        for job in self.state.reports.keys() - {besides}:
            spent = read_past(self.context.order.journal, job).spent
            self.ledger.reports.add(ItemCost(spent.budget_tokens, spent.dollars, spent.acts))

    @property
    def writes(self) -> bool:
        plans = self.line.plans
        return any(plans.may_write(step) for step in plans.plan.steps)

    def list_pending(self) -> list[Item]:
        return [item for item in self.items if item.key not in self.state.items]

    # -- working ------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def work(self) -> AsyncIterator[None]:
        """Run what all items share (event writer, verifier, pace, approvals) for the length of the block."""
        try:
            async with anyio.create_task_group() as tasks:
                for part in (self.batch.run, self.verifier.run, self.pace.run, self.usage.run):
                    tasks.start_soon(part)
                self.hear_questions(tasks)
                await self.give_up_unknown()
                yield
                tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise unwrap_group(group) from None
        finally:
            if self.context.doors is not None:
                self.context.doors.gathers = False
            desks = (*self.worker.desks, *self.verifier.opened)
            self.line.desks.opened += [desk for desk in desks if self.machine.has(desk)]  # type: ignore[arg-type]
            self.write_ends()
            self.usage.write()

    def write_ends(self) -> None:
        """Write the ends of items that still wait for their batch: the ledger no longer lists the use of these items.

        An `ItemsBegun` that still waits is dropped: its item was not begun.
        """
        self.batch.events = [event for event in self.batch.events if isinstance(event, ItemEnded)]
        self.batch.flush()

    def hear_questions(self, tasks: TaskGroup) -> None:
        """Group what desks ask at the door, so that a person answers each kind of request once."""
        if self.context.doors is not None:
            plans, find_item = self.line.plans, self.worker.desks.get

            async def decide(card: Card) -> Decided:
                return await plans.people.decide("cohort", card)

            cohorts = Cohorts(self.context.doors, lambda desk: find_item(desk, ""), decide, tasks)
            self.context.doors.on_question, self.context.doors.gathers = cohorts.hear, True

    async def give_up_unknown(self) -> None:
        """Quarantine items that may have changed something outside and whose end or results are lost: they are not
        repeated.
        """
        for item in [each for each in self.list_pending() if each.key in self.lost and self.writes]:
            await self.end(item, "quarantined", [], _LOST, "unknown")
        if self.context.retry_failed:
            return
        for item in [each for each in self.list_pending() if each.key in self.state.open]:
            await self.end(item, "quarantined", [], _UNKNOWN, "unknown")

    async def try_pilot(self) -> None:
        if not self.context.pilot:
            return
        before = set(self.state.pilot.items) if self.state.pilot is not None else set()
        chosen = [item for item in self.items if item.key in before] or choose_pilot(self.items, self.context.pilot)
        if not any(item.key in self.state.items for item in chosen):
            await self.take(chosen[:1])  # its cost is not typical: see `forecast`
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

    async def take(self, items: Iterable[Item], *, takes_more: bool = False) -> None:
        """Work on items, many at once, until all have ended. Failed ones go to quarantine and do not block the others.

        With `takes_more`, items that are offered meanwhile are added.
        """
        queue = deque(items)
        try:
            async with anyio.create_task_group() as tasks:
                while queue or self.active:
                    if takes_more and not self.line.log.halted:
                        queue.extend(await self.added.look())
                    if not queue or not await self.may_begin():
                        await self.wait_for_one()
                        continue
                    item = queue.popleft()
                    self.active += 1
                    self.verifier.expected += 1
                    tasks.start_soon(self.take_one, item, queue)
        except BaseExceptionGroup as group:
            raise unwrap_group(group) from None
        if self.line.log.halted:
            raise JobHaltedError(ASKED)

    async def may_begin(self) -> bool:
        """Wait for a free place; return whether another item may start. Raise if none ever may."""
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
        """Wait until an item in progress has ended, at most a second."""
        with anyio.move_on_after(1.0):
            await self.finished.wait()

    async def take_one(self, item: Item, queue: deque[Item]) -> None:
        try:
            await self.try_item(item)
            self.silent_models = self.failed_doors = 0
        except ModelError:
            self.silent_models += 1
            if self.silent_models >= _MAX_SILENT_MODELS:
                raise
            self.pace.slow_down()
            await self.put_back(item, queue)
        except (NodeLost, _TimeUpError):  # not the item's fault
            await self.put_back(item, queue)
        except DoorError:  # a killed door fails every desk that is being opened; the next desk gets another door
            self.failed_doors += 1
            if self.failed_doors > _MAX_FAILED_DOORS + self.active:
                raise
            await self.put_back(item, queue)
        finally:
            self.active -= 1
            self.finished.set()
            self.finished = anyio.Event()

    async def put_back(self, item: Item, queue: deque[Item]) -> None:
        """Queue an item again. One that may have changed something outside goes to quarantine instead."""
        if self.writes:
            await self.end(item, "quarantined", [], _BROKEN_OFF, "unknown")
        else:
            self.ledger.put_back(item.key)
            queue.append(item)

    async def try_item(self, item: Item) -> None:
        """Attempt an item until its deliverables pass, or it goes to quarantine."""
        self.started[item.key] = time.monotonic()
        if self.writes:
            await self.batch.add(ItemsBegun(self.id, (item.key,)))
        attempts: list[ItemAttempt] = []
        objections, why, cause, clean = "", "", "", ""
        for number in range(1, (1 if self.writes else self.each.attempts) + 1):
            if number > 1 and self.ledger.is_time_up:
                raise _TimeUpError
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
        """Make one attempt at an item; return its failure, or `None` if it delivered."""
        if not is_first:
            self.verifier.expected += 1
            await self.pace.enter()
        try:
            await self.worker.take(item, attempt, objections)
        except ItemFailedError as e:
            return e
        except NodeLost:
            raise
        except DeskError as e:  # a desk that fails was broken by what runs in it
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
        """Record how an item ended, with its results and log as papers. The event is on disk when this returns."""
        last = attempts[-1] if attempts else ItemAttempt(0)
        candidates = [each for each in last.candidates if not each.lacks]
        checks = dict.fromkeys(verdict.check for each in candidates for verdict in each.verdicts)
        verdicts = [
            {"path": each.item.path, "check": verdict.check, "passed": verdict.passed, "findings": verdict.findings}
            for each in candidates
            for verdict in each.verdicts
        ]
        log = self.papers.write(write_paper(attempts, verdicts)) if attempts else ""
        files = tuple(self.papers.write(each.data) for each in candidates)
        cost = self.ledger.end(item.key)  # after the papers: if they cannot be written, the item is unfinished
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
            make_printable(why[:300]),
            cause,
            log,
            files,
            int(took * 1000),
            cost.tokens,
            round(cost.dollars, 6),
            cost.acts,
        )
        await self.batch.add(event)
