"""Waits for people: a question is an event, and so is its answer, whichever process gives it."""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path

from hotdesk import strict
from hotdesk.dataclass import dataclass
from hotdesk.drive.chain import Row
from hotdesk.drive.journal import read
from hotdesk.errors import BriefError
from hotdesk.event import Decided, Event, Forgotten, JobEnded, Pending
from hotdesk.job.record.papers import Papers

KINDS = tuple(kind.__name__ for kind in (Pending, Decided, JobEnded, Forgotten))
"""What waiting is made of."""
EDITED = ("plan", "amendment")
"""Kinds whose subject is a plan, which a person may edit."""
MAX_QUOTE_CHARS = 300
"""Characters of a worker's words that a card shows."""


@dataclass(frozen=True, slots=True)
class Card:
    """A card for a person: facts worked out by hotdesk first, the worker's words last."""

    title: str
    facts: Mapping[str, str]
    """In the order they are shown. None of them is a desk's or a worker's word."""
    lines: tuple[str, ...] = ()
    """More facts, a line each: the steps of a plan, a difference."""
    words: str = ""
    """What the worker says: untrusted, at most `WORDS` characters."""
    subject: str = ""
    """The subject of the decision, whole, as text: a plan, a rule, a question. Its SHA-256 is what is approved."""
    stakes: tuple[str, ...] = ()
    """What is at stake, a sentence each."""
    steps: tuple[tuple[str, ...], ...] = ()
    """The steps of a plan in sentences: of each first its name."""

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.subject.encode("utf-8", "surrogatepass")).hexdigest()

    def as_json(self) -> str:
        fields = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps({**fields, "facts": dict(self.facts), "words": self.words[:MAX_QUOTE_CHARS]})


def read_card(text: str) -> Card:
    return strict.read(Card, json.loads(text))


@dataclass(slots=True)
class OpenQuestions:
    """The open questions of one job, folded from its events."""

    pending: dict[str, Pending] = field(default_factory=dict)
    decided: dict[str, Decided] = field(default_factory=dict)
    """The first decision in the chain holds; what comes after it decides nothing."""
    history: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Of everything that ever waited: its kind, and in which step."""
    decided_at: dict[str, int] = field(default_factory=dict)
    """Milliseconds since 1970, by the journal."""
    last: int = 0
    """The place in the file up to which it was read."""

    def take(self, event: Event, at: int = 0) -> None:
        match event:
            case Pending():
                self.pending[event.id] = event
                self.history[event.id] = (event.kind, event.step)
            case Decided() if self.is_valid_decision(event, at):
                self.decided.setdefault(event.id, event)
                self.decided_at.setdefault(event.id, at)
            case JobEnded():  # what was decided holds if it is opened again
                self.pending = {number: each for number, each in self.pending.items() if number in self.decided}
            case Forgotten():
                self.pending.clear()

    def is_valid_decision(self, event: Decided, at: int) -> bool:
        """Return whether a decision fits its question, and is in time; an edited plan has a digest of its own."""
        pending = self.pending.get(event.id)
        if pending is None or (at > pending.until and event.answer != "expired"):
            return False
        edited = event.answer == "approved" and bool(event.paper) and pending.kind in EDITED
        return event.digest == pending.digest or edited

    def take_row(self, row: Row) -> None:
        """Take a stored event; one of a later version is skipped."""
        self.last = max(self.last, row.id)
        with suppress(ValueError, RecursionError):
            self.take(row.read_event(), row.at)

    def read_on(self, journal: Path, job: str) -> None:
        for row in read(journal, job, names=KINDS, after=self.last):
            self.take_row(row)

    @property
    def open(self) -> list[Pending]:
        return [each for each in self.pending.values() if each.id not in self.decided]


def read_waiting(journal: Path, job: str) -> OpenQuestions:
    found = OpenQuestions()
    found.read_on(journal, job)
    return found


def read_all_waiting(journal: Path) -> dict[str, OpenQuestions]:
    """Read what waits in every job, in one pass; a journal that is not there has none."""
    found: dict[str, OpenQuestions] = {}
    for row in read(journal, names=KINDS) if journal.exists() else ():
        found.setdefault(row.chain, OpenQuestions()).take_row(row)
    return found


def require_open(pending: Pending, waiting: OpenQuestions, digest: str, now: int) -> None:
    """Refuse a decision that was already made, is about something else, or comes too late."""
    if (earlier := waiting.decided.get(pending.id)) is not None:
        raise BriefError(describe_decision(earlier, waiting.decided_at[pending.id]))
    if not pending.digest.startswith(digest):
        raise BriefError(
            f"request {pending.id} has the digest {pending.digest[:16]}, not {digest[:80]}; it is still pending, "
            f"`hotdesk approve` shows it"
        )
    if now >= pending.until:
        raise BriefError(
            f"request {pending.id} expired at {format_utc(pending.until)} and counts as {pending.otherwise}"
        )


def describe_decision(decided: Decided, at: int) -> str:
    if not decided.by:
        return f"request {decided.id} expired without an answer at {format_utc(at)}"
    return f"request {decided.id} was {decided.answer} by {decided.by} at {format_utc(at)}"


def format_utc(at: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at / 1000))


def new_pending(job: str, kind: str, card: Card, papers: Papers, seconds: float, step: str = "") -> Pending:
    until = int((time.time() + seconds) * 1000)
    number = secrets.token_hex(4)
    return Pending(job, number, kind, card.digest, papers.write(card.as_json()), until, step=step)  # type: ignore[arg-type]


def decide(
    pending: Pending, card: Card, papers: Papers, answer: str, by: str, *, edited: str = "", words: str = ""
) -> Decided:
    """Make the event by which a person decides: what is approved is the digest of the card's subject, or of an edit."""
    if card.digest != pending.digest:
        raise BriefError(
            f"the stored details of request {pending.id} were changed; it is still pending, and can only be refused"
        )
    digest = hashlib.sha256(edited.encode()).hexdigest() if edited else pending.digest
    paper = papers.write(edited or words) if edited or words else ""
    return Decided(pending.job, pending.id, digest, answer, by, paper)  # type: ignore[arg-type]
