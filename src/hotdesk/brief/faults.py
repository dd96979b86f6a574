"""The faults of a brief: collected while it is read and reported together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Protocol

from hotdesk.errors import BriefError, make_printable

_MAX_SHOWN = 20
"""Maximum faults listed in one message."""


class FaultError(ValueError):
    """One fault of a brief. Its text starts with `, line N: ` or with `: `."""

    def __init__(self, text: str, line: int | None = None) -> None:
        super().__init__(text)
        self.line = line


class BriefFaultsError(ValueError):
    """All faults of a brief, in the order of its lines."""

    def __init__(self, faults: Sequence[ValueError]) -> None:
        self.found = sorted(faults, key=lambda fault: getattr(fault, "line", None) or 0)
        texts = list(dict.fromkeys(map(str, self.found)))
        self.faults = tuple(text.removeprefix(", ").removeprefix(": ") for text in texts)
        super().__init__(texts[0] if len(texts) == 1 else self._summarize())

    def _summarize(self) -> str:
        shown = [f"({number}) {fault}" for number, fault in enumerate(self.faults[:_MAX_SHOWN], 1)]
        more = len(self.faults) - _MAX_SHOWN
        return f": {len(self.faults)} faults: {'; '.join(shown)}" + (f"; and {more} more" if more > 0 else "")


class ExpectationError(BriefError):
    """A check does not accept an option of a brief; `path` is its place within `expect`."""

    def __init__(self, message: str, path: Sequence[str | int] = ()) -> None:
        super().__init__(message)
        self.path = tuple(path)


class UnknownOptionError(ExpectationError):
    """A check has no such option."""


def make_unknown_error(check: str, key: str, choices: Iterable[str]) -> UnknownOptionError:
    """Return the error for an unknown option, with the known ones and the most similar of them."""
    close = get_close_matches(key, list(choices), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    shown = make_printable(key[:80])
    why = f"{check}: expect has no option {shown!r}; its options are {', '.join(choices)}{hint}"
    return UnknownOptionError(why, (key,))


class FindCheck(Protocol):
    """Finds a check by its name and options; raises `BriefError` if there is none."""

    def __call__(self, name: str, expect: Mapping[str, object], /) -> object: ...


def make_brief_error(begin: str, error: ValueError) -> BriefError:
    """Return a fault as an error for people; `begin` names the brief."""
    faults = error.faults if isinstance(error, BriefFaultsError) and len(error.faults) > 1 else ()
    return BriefError(f"{begin}{error}", faults)
