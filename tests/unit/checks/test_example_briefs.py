"""Tests of the examples' briefs: all that a check judges by name is in the task text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from hotdesk.brief.load import parse_job
from hotdesk.checks.required import describe_deliverable
from hotdesk.checks.xlsx.place import parse_area
from hotdesk.door.policy.scope import scope_of

EXAMPLES = Path(__file__).parents[3] / "examples"
BRIEFS = sorted(EXAMPLES.glob("*/brief.toml"))
NAMING = ("columns", "sheets", "words", "required", "types", "lengths", "values", "numeric")
"""Keys whose texts must occur literally in a file."""
TYPES = ("text", "number", "integer", "table", "min", "max")
CELLS = re.compile(r"\b[A-Z]{1,2}[1-9][0-9]*(?::[A-Z]{1,2}[1-9][0-9]*)?\b")


def texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case Mapping():
            yield from (text for pair in value.items() for text in texts(pair))
        case list() | tuple():
            yield from (text for each in value for text in texts(each))


def names_in(expect: Mapping[str, object]) -> set[str]:
    judged = [text for key in NAMING for text in texts(expect.get(key, ()))]
    judged += [text.removeprefix("column ") for text in texts(expect.get("formulas", ())) if "!" not in text]
    return {part for text in judged for part in re.split(r"[\[\].]+", text) if part} - set(TYPES)


def cells_in(expect: Mapping[str, object]) -> Iterator[tuple[str, int, int]]:
    """Yield the cells that a check judges by position; those of a table are identified by their column heading."""
    first = expect.get("sheet", next(texts(expect.get("sheets", ())), "")) if expect.get("columns") else ""
    for text in texts([expect.get(key, ()) for key in ("formulas", "reconcile", "mutate")]):
        if "!" in text and (judged := parse_area(text)).sheet != first:
            yield from ((text, *at) for at in judged.iterate_cells())


def is_named(row: int, column: int, told: str) -> bool:
    return any(parse_area(f"s!{each}").has(column, row) for each in CELLS.findall(told))


@pytest.mark.parametrize("path", BRIEFS, ids=[path.parent.name for path in BRIEFS])
def test_a_task_names_everything_its_check_judges(path: Path) -> None:
    job = parse_job(path.read_bytes(), path.parent, scope_of)
    tasks = [(path.parent / name).read_text() for name in job.inputs if name.endswith(".md")]
    told = " ".join(" ".join([job.goal, *tasks]).split())
    for item in job.deliverables:
        for expect in (check.expect for check in item.checks):
            assert {name for name in names_in(expect) if name.casefold() not in told.casefold()} == set()
            assert {text for text, row, column in cells_in(expect) if not is_named(row, column, told)} == set()


@pytest.mark.parametrize("path", BRIEFS, ids=[path.parent.name for path in BRIEFS])
def test_every_deliverable_is_described_before_it_is_made(path: Path) -> None:
    for item in parse_job(path.read_bytes(), path.parent, scope_of).deliverables:
        assert len(describe_deliverable(item).splitlines()) > 1
