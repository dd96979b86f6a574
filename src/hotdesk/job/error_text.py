"""Errors as one line of text."""

from __future__ import annotations

from hotdesk.brain.seam import BudgetSpentError, JobHaltedError
from hotdesk.errors import HotdeskError, make_printable
from hotdesk.job.plans import JobStoppedError

MAX_NOTE_CHARS = 500
"""Maximum characters of a note."""


def shorten_words(text: str) -> str:
    return make_printable(text[:MAX_NOTE_CHARS])


def describe_error(error: BaseException) -> str:
    if not isinstance(error, Exception):
        return "it was interrupted"
    expected = isinstance(error, JobStoppedError | JobHaltedError | BudgetSpentError | HotdeskError)
    return make_printable(str(error) if expected else f"{type(error).__name__}: {error}")[:MAX_NOTE_CHARS]
