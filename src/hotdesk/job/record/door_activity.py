"""The network requests and questions of a job's desks, folded from the desks' events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import TypeAlias

from hotdesk.dataclass import dataclass
from hotdesk.drive.journal import read
from hotdesk.event import Alarm, Answered, Asked, Event, Exchange

EVENTS = (Exchange, Alarm, Asked, Answered)
UNAPPROVED = "not approved"
"""The verdict on a request that a person was to approve, and did not."""
_RequestKind: TypeAlias = tuple[str, str, str, tuple[str, ...]]
"""Verdict, method, host and grants."""


@dataclass(slots=True)
class DoorActivity:
    """The traffic of a job's desks, without the requests before a desk's first step, which are its self-test."""

    exchanges: list[Exchange] = field(default_factory=list)
    alarms: list[Alarm] = field(default_factory=list)
    questions_by_id: dict[str, tuple[int, Asked]] = field(default_factory=dict)
    """Questions by id, with their time in milliseconds since 1970."""
    answered: dict[str, tuple[int, Answered]] = field(default_factory=dict)

    def take(self, event: Event, at: int) -> None:
        match event:
            case Exchange() if event.step:
                self.exchanges.append(event)
            case Alarm():
                self.alarms.append(event)
            case Asked():
                self.questions_by_id[event.id] = (at, event)
            case Answered():
                self.answered[event.id] = (at, event)

    @property
    def questions(self) -> list[tuple[int, Asked, Answered | None]]:
        """Each question with its answer and the answer's time, or with `None` and the question's own time."""
        found: list[tuple[int, Asked, Answered | None]] = []
        for at, question in self.questions_by_id.values():
            when, answer = self.answered.get(question.id, (at, None))
            found.append((when, question, answer))
        return found


def read_door(journal: Path, desks: Collection[str]) -> DoorActivity:
    """Fold the door events of some desks; skip events of a later version."""
    door = DoorActivity()
    for row in read(journal, list(desks), names=[kind.__name__ for kind in EVENTS]) if desks else ():
        with suppress(ValueError, RecursionError):
            door.take(row.read_event(), row.at)
    return door


def count_requests(exchanges: Iterable[Exchange]) -> list[tuple[_RequestKind, int]]:
    return sorted(Counter((_get_verdict(each), each.method, each.host, each.grants) for each in exchanges).items())


def _get_verdict(event: Exchange) -> str:
    return UNAPPROVED if event.verdict == "ask" and event.refused else event.verdict
