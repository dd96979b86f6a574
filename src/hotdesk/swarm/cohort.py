"""Requests of many items that differ only in the item's name: one approval card and one answer for all of them.

A request's shape consists of facts known to the door, never of text from a desk: the egress rule that would be added,
method, host, path and the approximate size of the body. An answer applies to exactly that shape, also to items that ask
later. A request that differs in anything but the item's name gets a card of its own.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import field
from typing import Protocol

import anyio
from anyio.abc import TaskGroup

from hotdesk.brief.names import get_registrable_domain, put_domain_first
from hotdesk.brief.swarm import PLACEHOLDER
from hotdesk.dataclass import dataclass
from hotdesk.errors import BriefError, make_printable
from hotdesk.event import Asked, Decided
from hotdesk.job.people.wait import MAX_QUOTE_CHARS, Card

_GATHER_S = 1.0
"""Seconds that the first request of a shape waits for others, so that its card can show how many there are."""
_EXAMPLES = 5
_SIZES = ((0, "no body"), (1 << 10, "up to 1 KiB"), (1 << 16, "up to 64 KiB"), (1 << 20, "up to 1 MiB"))
_UNSIZED = {-1: "unknown: the desk asks for a rule for later requests", -2: "a body of unknown size"}


class AskingDoors(Protocol):
    """The doors of a machine, as far as they receive desks' requests for more rights."""

    on_question: Callable[[Asked], None]
    gathers: bool
    """Whether questions are answered in groups. If so, none is shown on its own."""

    async def answer(self, number: str, approved: bool, by: str, digest: str = "") -> Asked:
        """Answer a question if its digest is unchanged."""
        ...


@dataclass(frozen=True, slots=True)
class RequestShape:
    """The part that a cohort's requests have in common: everything but the item's name."""

    rule: str
    method: str
    host: str
    path: str
    size: str

    @classmethod
    def find(cls, question: Asked, item: str) -> RequestShape:
        rule, path = (_generalize(text, item) for text in (question.rule, question.path))
        return cls(rule, question.method, question.host, path, _describe_size(question.size))

    @property
    def subject(self) -> str:
        fields = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.subject.encode("utf-8", "surrogatepass")).hexdigest()


def _generalize(text: str, item: str) -> str:
    """Replace the item's name in a text by `{item}`; mark a text that already has `{item}`, so that it matches none."""
    if PLACEHOLDER in text:
        return f"as written: {text}"
    return re.sub(rf"(?<![A-Za-z0-9]){re.escape(item)}(?![A-Za-z0-9])", PLACEHOLDER, text) if item else text


def _describe_size(size: int) -> str:
    """Describe a body's size in coarse steps, because the bodies of different items differ by a few bytes."""
    if size < 0:
        return _UNSIZED.get(size, "a body of unknown size")
    return next((words for most, words in _SIZES if size <= most), "more than 1 MiB")


@dataclass(slots=True)
class Cohort:
    """The requests of one shape."""

    shape: RequestShape
    waiting: list[tuple[str, Asked]] = field(default_factory=list)
    """Unanswered requests: the item (or the desk if it has none) and its question."""
    count: int = 0
    decided: Decided | None = None

    def make_card(self) -> Card:
        """Make a cohort's approval card: facts from the door first, text from a desk last."""
        shape, reasons = self.shape, {question.reason for _, question in self.waiting if question.reason}
        names = ", ".join(item for item, _ in self.waiting[:_EXAMPLES])
        facts = {
            "domain": get_registrable_domain(shape.host),
            "request": put_domain_first(shape.host, f"{shape.method} {shape.host}{shape.path}"),
            "body": shape.size,
            "rule": shape.rule,
            "items": f"{self.count:,} so far; the answer applies to every item that makes exactly this request",
            "examples": names,
        }
        lines = [
            f"{item}: {question.method} {question.host}{question.path}" for item, question in self.waiting[:_EXAMPLES]
        ]
        words = next(iter(sorted(reasons)), "")
        more = f" [and {len(reasons) - 1} other reasons]" if len(reasons) > 1 else ""
        return Card(
            "Allow this for every item?",
            {name: make_printable(text)[:300] for name, text in facts.items()},
            tuple(make_printable(line)[:300] for line in lines),
            make_printable(words)[: MAX_QUOTE_CHARS - len(more)] + more,
            shape.subject,
        )


@dataclass(slots=True)
class Cohorts:
    """Groups the requests of a swarm's desks by shape, and gives each group the answer of a person."""

    doors: AskingDoors
    find_item: Callable[[str], str]
    """Returns the item that a desk belongs to, or an empty string."""
    decide: Callable[[Card], Awaitable[Decided]]
    """Asks a person to decide. A decision that was recorded earlier is returned without asking."""
    tasks: TaskGroup
    cohorts: dict[str, Cohort] = field(default_factory=dict)

    def hear(self, question: Asked) -> None:
        item = self.find_item(question.desk)
        shape = RequestShape.find(question, item)
        cohort = self.cohorts.get(shape.digest)
        if cohort is None:
            cohort = self.cohorts[shape.digest] = Cohort(shape)
            self.tasks.start_soon(self.settle, cohort)
        cohort.waiting.append((item or question.desk, question))
        cohort.count += 1
        if cohort.decided is not None:
            self.tasks.start_soon(self.answer, cohort)

    async def settle(self, cohort: Cohort) -> None:
        """Have a person decide on a cohort once, then answer every waiting request."""
        await anyio.sleep(_GATHER_S)
        cohort.decided = await self.decide(cohort.make_card())
        await self.answer(cohort)

    async def answer(self, cohort: Cohort) -> None:
        """Answer every waiting request of a cohort, each with its own digest."""
        assert cohort.decided is not None
        waiting, cohort.waiting = cohort.waiting, []
        is_approved = cohort.decided.answer == "approved" and cohort.decided.digest == cohort.shape.digest
        for item, question in waiting:
            if RequestShape.find(question, item if item != question.desk else "") != cohort.shape:
                continue  # its shape is not the one that was decided on
            try:
                await self.doors.answer(question.id, is_approved, cohort.decided.by or "no one", question.digest)
            except BriefError:
                pass  # its desk is gone, or the question timed out
