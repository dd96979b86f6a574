"""Asks people and waits, in this process or another. During a long wait the job gives its desks back."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import field
from pathlib import Path
from typing import Protocol

import anyio

from hotdesk.brain.seam import JobHaltedError
from hotdesk.dataclass import dataclass
from hotdesk.errors import unwrap_group
from hotdesk.event import Decided, Pending
from hotdesk.job.people.wait import WHILE_WORKING, Card, OpenQuestions, new_pending
from hotdesk.job.record.log import ASKED, JobLog

POLL_INTERVAL_S = 0.2
"""Seconds between two reads of the journal."""


class Prompt(Protocol):
    """Asks a person at this terminal."""

    async def __call__(self, pending: Pending, card: Card) -> Decided | None:
        """Return the decision, or `None` if none is made here. Cancelled when the answer comes from another process."""
        ...


async def ask_nobody(pending: Pending, card: Card) -> Decided | None:
    """Return no decision: it comes from another process."""
    return None


@dataclass(slots=True)
class People:
    """Asks people for the decisions of one job."""

    log: JobLog
    journal: Path
    seconds: float
    """Seconds to wait for an answer."""
    patience: float
    """Seconds to keep the desks open while waiting."""
    waiting: OpenQuestions = field(default_factory=OpenQuestions)
    """Earlier questions and their decisions."""
    prompt: Prompt = ask_nobody
    give_back: Callable[[], Awaitable[bool]] | None = None
    """Gives the desks back; returns `False` if it must be tried again."""

    async def decide(self, kind: str, card: Card, step: str = "") -> Decided:
        """Ask a person to decide, unless the same card of this kind and step was already put to people."""
        pending = self.find_asked(kind, card, step)
        if pending is None:
            pending = new_pending(self.log.job, kind, card, self.log.papers, self.seconds, step)
            self.waiting.take(pending)
            self.log.note(pending)
        if pending.id not in self.waiting.decided:
            with nullcontext() if kind in WHILE_WORKING else self.log.waiting():
                decided = await self.wait(pending, card)
            self.waiting.take(decided)
            self.log.listener(decided)  # the first decision in the journal, from this process or another
        return self.waiting.decided[pending.id]

    def find_asked(self, kind: str, card: Card, step: str = "") -> Pending | None:
        """Return the latest question with this card, or `None` if there is none or it expired while nothing ran."""
        found = [each for each in self.waiting.pending.values() if (each.kind, each.step) == (kind, step)]
        latest = next((each for each in reversed(found) if each.digest == card.digest), None)
        return None if latest is not None and self.has_lapsed(latest) else latest

    def has_lapsed(self, pending: Pending) -> bool:
        """Return whether a question's time ended before anyone recorded that; record it now.

        Its job was not running, so no person could expect an answer to have an effect: it is asked anew.
        """
        if pending.id in self.waiting.decided or time.time() * 1000 <= pending.until:
            return False
        self.log.machine.note(Decided(pending.job, pending.id, pending.digest, "expired", ""))
        self.waiting.read_on(self.journal, pending.job)  # an answer in time may have been recorded first
        return self.waiting.decided[pending.id].answer == "expired"

    def settle(self, kind: str, card: Card, by: str, step: str = "") -> None:
        pending = new_pending(self.log.job, kind, card, self.log.papers, self.seconds, step)
        decided = Decided(self.log.job, pending.id, card.digest, "approved", by)
        self.log.machine.note(pending, decided)
        self.log.listener(decided)

    async def wait(self, pending: Pending, card: Card) -> Decided:
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.ask_here, pending, card)
                found = await self.look(pending)
                tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise unwrap_group(group) from None
        return found

    async def ask_here(self, pending: Pending, card: Card) -> None:
        """Ask at this terminal. The decision is written to the journal, where `look` finds it like any other."""
        if (decided := await self.prompt(pending, card)) is not None:
            self.log.machine.note(decided)

    async def look(self, pending: Pending) -> Decided:
        began, given_back = time.monotonic(), False
        while True:
            self.waiting.read_on(self.journal, pending.job)
            if pending.id in self.waiting.decided:
                return self.waiting.decided[pending.id]
            if time.time() * 1000 > pending.until:
                expired = Decided(pending.job, pending.id, pending.digest, "expired", "")
                self.log.machine.note(expired)
                continue  # another answer may have been recorded first
            if self.log.halted:
                raise JobHaltedError(ASKED)
            if self.give_back and not given_back and time.monotonic() - began > self.patience:
                given_back = await self.give_back()
            await anyio.sleep(POLL_INTERVAL_S)
