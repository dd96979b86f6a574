"""Pending decisions of jobs, with their cards: read from the journal, whether or not the job is running."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Literal, TypeAlias

from hotdesk.config import Config
from hotdesk.dataclass import dataclass
from hotdesk.drive.journal import FILE
from hotdesk.errors import BriefError, HotdeskError
from hotdesk.event import Decided, Pending
from hotdesk.job.people import wait
from hotdesk.job.people.approval_text import format_card
from hotdesk.job.people.wait import Card, OpenQuestions, describe_decision, read_all_waiting, read_card, read_waiting
from hotdesk.job.record import papers
from hotdesk.job.record.papers import Papers

JOBS = "jobs"
MIN_ID_CHARS = 4
"""Minimum characters of an abbreviated id."""
PLANS = ("plan", "amendment")
"""Kinds whose subject is a plan."""
Answer: TypeAlias = Literal["approved", "refused", "answered"]


@dataclass(frozen=True, slots=True)
class OpenDecision:
    """A question a job has put to people, with its details."""

    pending: Pending
    waiting: OpenQuestions
    papers: Papers | None
    """The job's papers, or `None` if they were deleted."""
    card: Card | None

    def format_text(self, now: int) -> str:
        return format_card(self.pending, self.card, now)

    def as_dict(self) -> dict[str, object]:
        card = None if self.card is None else json.loads(self.card.as_json())
        return {**asdict(self.pending), "card": card}

    def require_open(self, digest: str) -> None:
        """Raise `BriefError` if the question is already decided, has another digest or has expired."""
        wait.require_open(self.pending, self.waiting, digest, int(time.time() * 1000))


def get_journal_path(settings: Config) -> Path:
    return settings.lib / "keys" / FILE


def _read_open_questions(settings: Config) -> dict[str, OpenQuestions]:
    """Read the questions of every job; return none if the journal is not readable."""
    journal = get_journal_path(settings)
    return read_all_waiting(journal) if os.access(journal, os.R_OK) else {}


def open_cases(settings: Config, now: int) -> list[OpenDecision]:
    found = _read_open_questions(settings).values()
    return [load_decision(settings, each, one) for each in found for one in each.open if one.until > now]


def find_case(settings: Config, text: str) -> OpenDecision | None:
    """Return the question with an id or a unique prefix of one, decided or not; `None` if there is none."""
    pairs = [(one, each) for each in _read_open_questions(settings).values() for one in each.pending.values()]
    exact = [pair for pair in pairs if pair[0].id == text]
    begun = [pair for pair in pairs if len(text) >= MIN_ID_CHARS and pair[0].id.startswith(text)]
    chosen = exact or begun
    if len(chosen) > 1:
        raise BriefError(f"{len(chosen)} requests have ids that start with {text!r}; pass more characters of the id")
    return load_decision(settings, chosen[0][1], chosen[0][0]) if chosen else None


def load_decision(settings: Config, found: OpenQuestions, pending: Pending) -> OpenDecision:
    """Load the details of a question. The card is `None` if it is missing or was changed."""
    try:
        folder = papers.find(settings.lib / JOBS, pending.job)
    except BriefError:
        return OpenDecision(pending, found, None, None)
    try:
        card = read_card(folder.read_text(pending.paper))
    except (HotdeskError, ValueError, KeyError, TypeError):
        return OpenDecision(pending, found, folder, None)
    return OpenDecision(pending, found, folder, card if card.digest == pending.digest else None)


def make_decision(case: OpenDecision, answer: Answer, by: str, edited: str = "", words: str = "") -> Decided:
    """Return the decision. A question without a readable card can only be refused."""
    if case.papers is not None and case.card is not None:
        return wait.decide(case.pending, case.card, case.papers, answer, by, edited=edited, words=words)
    if answer != "refused":
        raise BriefError(
            f"the details of request {case.pending.id} are missing or were changed, so it can only be refused"
        )
    return Decided(case.pending.job, case.pending.id, case.pending.digest, answer, by)


def require_first(settings: Config, decision: Decided) -> None:
    """Raise `BriefError` if a recorded decision had no effect: another one was first, or it was too late."""
    found = read_waiting(get_journal_path(settings), decision.job)
    if (first := found.decided.get(decision.id)) is None:
        raise BriefError(
            f"request {decision.id} was decided too late, or its job has ended; the decision has no effect"
        )
    if first != decision:
        raise BriefError(describe_decision(first, found.decided_at[decision.id]))
