"""Reads the options of a check in a brief; each error says what to write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Annotated, Literal, TypeAlias, TypeVar

from hotdesk.brief.brief import DRIVE
from hotdesk.brief.faults import ExpectationError, make_unknown_error
from hotdesk.checks.count_range import Span, read_span
from hotdesk.errors import make_printable
from hotdesk.strict import REQUIRED, By, Length, Range, StrictError, list_keys, read

MOST_WORDS = 1000
T = TypeVar("T")


def read_expectations(kind: type[T], check: str, expect: Mapping[str, object], example: str) -> T:
    options = list_keys(kind)
    if unknown := sorted(set(expect) - set(options)):
        raise make_unknown_error(check, unknown[0], options)
    try:
        return read(kind, dict(expect))
    except StrictError as e:
        if e.why == REQUIRED:
            raise ExpectationError(
                f"check {check} needs `{e.where}` in expect; write expect = {example}", e.path
            ) from None
        why = f": invalid {e.where}: {e.why}" if e.path else f": {e.why}"
        raise ExpectationError(f"{check}{why}; write expect = {example}", e.path) from None


def explain_column(column: object, columns: Sequence[str]) -> str:
    """Explain, after the name of an option, that its column is not one of the headings that a brief lists."""
    shown = [repr(make_printable(str(each)[:80])) for each in (column, *columns[:20])]
    others = ", ".join(shown[1:])
    return f"names the column {shown[0]}, which `columns` does not list; write one of {others}, or add it to `columns`"


def check_place(name: str) -> str:
    """Validate the path of an input below the brief's folder or in the drive; `""` means none."""
    path = PurePosixPath(name.removeprefix(DRIVE))
    if name and (path.is_absolute() or ".." in path.parts or not path.parts or not name.isprintable()):
        raise ValueError(f"expected a path below the brief's folder, or {DRIVE}NAME")
    return name


Texts: TypeAlias = Annotated[tuple[str, ...], Length(MOST_WORDS)]
SomeTexts: TypeAlias = Annotated[tuple[str, ...], Length(MOST_WORDS, 1)]
Table: TypeAlias = Annotated[Mapping[str, object], Length(MOST_WORDS)]
Place: TypeAlias = Annotated[str, check_place]
Places: TypeAlias = Annotated[tuple[Place, ...], Length(MOST_WORDS)]
ImageName: TypeAlias = Literal["base", "office", "desktop"]
Seconds: TypeAlias = Annotated[float, Range(0.1, 600)]
Count: TypeAlias = Annotated[Span | None, By(read_span)]
"""A number, or a table with `min` and `max`; `None` if the brief has none."""
Counts: TypeAlias = Annotated[Mapping[str, Annotated[Span, By(read_span)]], Length(MOST_WORDS)]
