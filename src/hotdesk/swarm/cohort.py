"""Requests of many items that are the same but for the item's name: one card, one answer, bound to their shape.

The shape is made of facts the door has, never of a desk's words: the rule that would be added, method, host, path and
how large a body is. An answer holds for exactly that shape, also for items that ask later; whatever differs in anything
but the item's name is another card.
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
"""Seconds that the first request of a shape waits for others, so that its card can say how many there are."""
_EXAMPLES = 5
_SIZES = ((0, "no body"), (1 << 10, "up to 1 KiB"), (1 << 16, "up to 64 KiB"), (1 << 20, "up to 1 MiB"))
_UNSIZED = {-1: "unknown: the desk asks for a rule for later requests", -2: "a body of unknown size"}


class AskingDoors(Protocol):
    """Where desks ask for more rights."""

    on_question: Callable[[Asked], None]
    gathers: bool
    """Whether questions are answered together: then none is shown by itself."""

    async def answer(self, number: str, approved: bool, by: str, digest: str = "") -> Asked:
        """Answer a question if its digest is still the same."""
        ...


@dataclass(frozen=True, slots=True)
class RequestShape:
    """The common part of a cohort's requests: everything but the item's name."""

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
    """Put `{item}` where a text has the item's name; a text that has `{item}` itself is like no other."""
    if PLACEHOLDER in text:
        return f"as written: {text}"
    return re.sub(rf"(?<![A-Za-z0-9]){re.escape(item)}(?![A-Za-z0-9])", PLACEHOLDER, text) if item else text


def _describe_size(size: int) -> str:
    """Describe how large a body is, coarsely: items differ by a few bytes."""
    if size < 0:
        return _UNSIZED.get(size, "a body of unknown size")
    return next((words for most, words in _SIZES if size <= most), "more than 1 MiB")


@dataclass(slots=True)
class Cohort:
    """The requests of one shape."""

    shape: RequestShape
    waiting: list[tuple[str, Asked]] = field(default_factory=list)
    """Who asks, and what."""
    count: int = 0
    decided: Decided | None = None

    def make_card(self) -> Card:
        """Make the card of a cohort: what was worked out first, one desk's words last."""
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
    """Gathers what desks of a swarm ask, and answers each cohort as a person did."""

    doors: AskingDoors
    find_item: Callable[[str], str]
    """Names the item whose desk this is; empty: no item's."""
    decide: Callable[[Card], Awaitable[Decided]]
    """Asks a person to decide; an earlier decision is not asked for again."""
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
        """Have a person decide on a cohort, once; then answer everybody in it."""
        await anyio.sleep(_GATHER_S)
        cohort.decided = await self.decide(cohort.make_card())
        await self.answer(cohort)

    async def answer(self, cohort: Cohort) -> None:
        """Answer everybody who waits in a cohort: each exactly what it asked for."""
        assert cohort.decided is not None
        waiting, cohort.waiting = cohort.waiting, []
        is_approved = cohort.decided.answer == "approved" and cohort.decided.digest == cohort.shape.digest
        for item, question in waiting:
            if RequestShape.find(question, item if item != question.desk else "") != cohort.shape:
                continue  # it is in no cohort but its own
            try:
                await self.doors.answer(question.id, is_approved, cohort.decided.by or "no one", question.digest)
            except BriefError:
                pass  # its desk is gone, or its time was up
