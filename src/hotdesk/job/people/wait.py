"""Waiting for people: a question and its answer are events, so any process can give the answer."""

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
from hotdesk.errors import BriefError, make_printable
from hotdesk.event import Decided, Event, Forgotten, JobEnded, Pending
from hotdesk.job.record.papers import Papers

KINDS = tuple(kind.__name__ for kind in (Pending, Decided, JobEnded, Forgotten))
"""Names of the events that questions are folded from."""
EDITED = ("plan", "amendment")
"""Kinds whose subject is a plan, which a person may edit."""
WHILE_WORKING = ("cohort",)
"""Kinds of questions during which the job goes on working, so that the time until the answer counts as the job's."""
MAX_QUOTE_CHARS = 300
"""Maximum characters of a worker's reasons that a card shows."""
MAX_WORDS_CHARS = 4000
"""Maximum characters of a card's words. Only a question may be so long: a person must read all of it to answer."""


@dataclass(frozen=True, slots=True)
class Card:
    """A card for a person: facts computed by hotdesk first, the worker's words last."""

    title: str
    facts: Mapping[str, str]
    """Facts in display order. None of them comes from a desk or a worker."""
    lines: tuple[str, ...] = ()
    """More facts, one per line, such as the steps of a plan or a difference."""
    words: str = ""
    """The worker's words: untrusted, at most `MAX_WORDS_CHARS` characters in JSON."""
    subject: str = ""
    """The complete subject of the decision as text: a plan, a rule or a question. Its SHA-256 is what is approved."""
    stakes: tuple[str, ...] = ()
    """The stakes, one sentence each."""
    steps: tuple[tuple[str, ...], ...] = ()
    """The steps of a plan in sentences; the first of each is the step's name."""

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.subject.encode("utf-8", "surrogatepass")).hexdigest()

    def as_json(self) -> str:
        fields = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps({**fields, "facts": dict(self.facts), "words": self.words[:MAX_WORDS_CHARS]})


def quote(text: str, longest: int = MAX_QUOTE_CHARS) -> str:
    """Return a worker's words as one printable line, and mark where they are cut."""
    line = make_printable(" ".join(text.split()))
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def read_card(text: str) -> Card:
    return strict.read(Card, json.loads(text))


@dataclass(slots=True)
class OpenQuestions:
    """The open questions of one job, folded from its events."""

    pending: dict[str, Pending] = field(default_factory=dict)
    decided: dict[str, Decided] = field(default_factory=dict)
    """Decisions by id. The first one in the journal is valid; later ones have no effect."""
    history: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Kind and step of every question so far, by id."""
    decided_at: dict[str, int] = field(default_factory=dict)
    """Time of each decision in the journal, in milliseconds since 1970."""
    last: int = 0
    """Id of the last journal row that was read."""

    def take(self, event: Event, at: int = 0) -> None:
        match event:
            case Pending():
                self.pending[event.id] = event
                self.history[event.id] = (event.kind, event.step)
            case Decided() if self.is_valid_decision(event, at):
                self.decided.setdefault(event.id, event)
                self.decided_at.setdefault(event.id, at)
            case JobEnded():  # a decision stays valid if the job is opened again
                self.pending = {number: each for number, each in self.pending.items() if number in self.decided}
            case Forgotten():
                self.pending.clear()

    def is_valid_decision(self, event: Decided, at: int) -> bool:
        """Return whether a decision matches its question and is in time. An edited plan has a digest of its own."""
        pending = self.pending.get(event.id)
        if pending is None or (at > pending.until and event.answer != "expired"):
            return False
        edited = event.answer == "approved" and bool(event.paper) and pending.kind in EDITED
        return event.digest == pending.digest or edited

    def take_row(self, row: Row) -> None:
        """Apply a stored event; skip one of a later version."""
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
    """Read the questions of every job in one pass; a missing journal has none."""
    found: dict[str, OpenQuestions] = {}
    for row in read(journal, names=KINDS) if journal.exists() else ():
        found.setdefault(row.chain, OpenQuestions()).take_row(row)
    return found


def require_open(pending: Pending, waiting: OpenQuestions, digest: str, now: int) -> None:
    """Raise `BriefError` if a question is already decided, has another digest or has expired."""
    if (earlier := waiting.decided.get(pending.id)) is not None:
        raise BriefError(describe_decision(earlier, waiting.decided_at[pending.id]))
    if not pending.digest.startswith(digest):
        raise BriefError(
            f"request {pending.id} has the digest {pending.digest[:16]}, not {digest[:80]}, so it was not "
            "decided; `hotdesk approve` shows the pending requests"
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
    """Return a person's decision: it approves the digest of the card's subject, or of the edited text."""
    if card.digest != pending.digest:
        raise BriefError(
            f"the stored details of request {pending.id} were changed; it is still pending, and can only be refused"
        )
    digest = hashlib.sha256(edited.encode()).hexdigest() if edited else pending.digest
    paper = papers.write(edited or words) if edited or words else ""
    return Decided(pending.job, pending.id, digest, answer, by, paper)  # type: ignore[arg-type]
