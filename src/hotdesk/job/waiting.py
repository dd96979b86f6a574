"""Waits for people: what is asked is an event, and so is the answer, whichever process gives it."""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hotdesk.drive.journal import read
from hotdesk.errors import BriefError
from hotdesk.event import Decided, Event, JobEnded, Pending
from hotdesk.job.papers import Papers

WORDS = 300
"""Characters of a worker's words that a card shows."""


@dataclass(frozen=True, slots=True)
class Card:
    """What a person is shown: facts we worked out first, the worker's words last."""

    title: str
    facts: Mapping[str, str]
    """In the order they are shown. None of them is a desk's or a worker's word."""
    lines: tuple[str, ...] = ()
    """More facts, a line each: the steps of a plan, a difference."""
    words: str = ""
    """What the worker says: untrusted, at most `WORDS` characters."""
    subject: str = ""
    """What is decided, whole, as text: a plan, a rule, a question. Its SHA-256 is what is approved."""

    @property
    def digest(self) -> str:
        """Give the digest of what is decided."""
        return hashlib.sha256(self.subject.encode("utf-8", "surrogatepass")).hexdigest()

    def as_json(self) -> str:
        """Write it for a paper."""
        told = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps({**told, "facts": dict(self.facts), "words": self.words[:WORDS]})


def read_card(text: str) -> Card:
    """Read a card from its paper."""
    told = json.loads(text)
    return Card(told["title"], told["facts"], tuple(told["lines"]), told["words"], told["subject"])


@dataclass(slots=True)
class Waiting:
    """What waits in one job, folded from its events."""

    pending: dict[str, Pending] = field(default_factory=dict)
    decided: dict[str, Decided] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        """Take an event in."""
        match event:
            case Pending():
                self.pending[event.id] = event
            case Decided():
                self.decided.setdefault(event.id, event)
            case JobEnded():
                self.pending.clear()

    @property
    def open(self) -> list[Pending]:
        """List what nobody has decided."""
        return [each for each in self.pending.values() if each.id not in self.decided]


def waiting_in(journal: Path, job: str) -> Waiting:
    """Read what waits in a job."""
    found = Waiting()
    for row in read(journal, job):
        found.take(row.event())
    return found


def new_pending(job: str, kind: str, card: Card, papers: Papers, seconds: float, step: str = "") -> Pending:
    """Make the event by which something waits."""
    until = int((time.time() + seconds) * 1000)
    number = secrets.token_hex(4)
    return Pending(job, number, kind, card.digest, papers.write(card.as_json()), until, step=step)  # type: ignore[arg-type]


def decide(
    pending: Pending, card: Card, papers: Papers, answer: str, by: str, *, edited: str = "", words: str = ""
) -> Decided:
    """Make the event by which a person decides: what is approved is the digest of the card's subject, or of an edit."""
    if card.digest != pending.digest:
        raise BriefError(f"{pending.id} no longer says what was asked; nothing is decided")
    digest = hashlib.sha256(edited.encode()).hexdigest() if edited else pending.digest
    paper = papers.write(edited or words) if edited or words else ""
    return Decided(pending.job, pending.id, digest, answer, by, paper)  # type: ignore[arg-type]


def all_open(journal: Path, jobs: Iterable[str]) -> list[Pending]:
    """List what waits in several jobs."""
    return [each for job in jobs for each in waiting_in(journal, job).open]
