"""Tests of summarising faults as instructions: every fault is in some line, and ranges are right."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotdesk.checks.seam import Fault
from hotdesk.checks.summary import MAX_LINES, MAX_RANGES, MAX_UNLIKE, find_rectangles, find_runs, summarize
from hotdesk.checks.xlsx.place import format_column, parse_area

CELLS = st.sets(st.tuples(st.integers(1, 12), st.integers(1, 6)), min_size=1, max_size=60)
LISTED = re.compile(r"S!(.*?)(?: and (\d+) more cells?)?(?: \((\d+) cells\))?: expected a, found b\. Do it\.")


def fault(where: str, expected: str = "a", found: str = "b", remedy: str = "Do it.", rule: str = "r") -> Fault:
    return Fault(rule, where, expected, found, remedy)


def at(row: int, column: int, sheet: str = "S") -> str:
    return f"{sheet}!{format_column(column)}{row}"


@given(CELLS)
def test_rectangles_cover_exactly_the_cells_and_none_twice(cells: set[tuple[int, int]]) -> None:
    covered = [
        (row, column)
        for left, top, right, bottom, _ in find_rectangles(cells)
        for row in range(top, bottom + 1)
        for column in range(left, right + 1)
    ]
    assert sorted(covered) == sorted(cells)
    assert sum(size for *_, size in find_rectangles(cells)) == len(cells)


@given(st.sets(st.integers(0, 50)))
def test_runs_contain_exactly_the_numbers(numbers: set[int]) -> None:
    runs = find_runs(numbers)
    assert [number for first, last in runs for number in range(first, last + 1)] == sorted(numbers)
    assert all(one[1] + 1 < other[0] for one, other in pairwise(runs))


@given(CELLS)
def test_similar_cells_are_one_line_that_names_or_counts_each(cells: set[tuple[int, int]]) -> None:
    (line,) = summarize([fault(at(*each)) for each in cells])
    found = LISTED.fullmatch(line)
    assert found is not None, line
    areas = [parse_area(f"S!{each}") for each in found[1].split(", ")]
    named = {each for one in areas for each in one.iterate_cells()}
    assert named <= cells
    assert len(named) + int(found[2] or 0) == len(cells)
    assert len(areas) <= MAX_RANGES
    assert int(found[3] or 1) == len(cells)


WHERES = st.one_of(
    st.builds(at, st.integers(1, 30), st.integers(1, 30), st.sampled_from(["Data", "My sheet", "a!b", "line 3"])),
    st.builds(lambda row: f"Data!{row}:{row}", st.integers(1, 30)),
    st.builds(lambda n, rest: f"line {n}{rest}", st.integers(1, 30), st.sampled_from(["", ", Amount", ", at 1 2"])),
    st.builds(lambda n: f"page {n}", st.integers(1, 30)),
    st.builds(lambda n, m: f"a[{n}].b[{m}].c", st.integers(0, 3), st.integers(0, 30)),
    st.text(max_size=300),
)
FAULTS = st.lists(
    st.builds(
        Fault, st.sampled_from("rs"), WHERES, st.sampled_from(["a", "b", "c" * 999]), st.text(max_size=9),
        st.sampled_from(["", "Do it.", "Do that."]),
    ), max_size=80,
)  # fmt: skip


@pytest.mark.slow
@given(FAULTS, st.integers(0, 9))
def test_lines_are_few_and_short_and_cover_every_fault(faults: list[Fault], more: int) -> None:
    lines = summarize(faults, more)
    assert bool(lines) is bool(faults or more)
    assert len(lines) <= MAX_LINES + 1
    assert all(len(line) < 1000 for line in lines)
    assert summarize(faults, more) == lines
    if len(lines) <= MAX_LINES and not more:
        for each in faults:
            assert any(each.remedy in line for line in lines)


@given(st.permutations([fault(at(row, column)) for row in range(2, 5) for column in range(2, 5)]))
def test_the_order_of_faults_does_not_matter_to_a_range(faults: list[Fault]) -> None:
    assert summarize(faults) == ["S!B2:D4 (9 cells): expected a, found b. Do it."]


@pytest.mark.parametrize(
    ("wheres", "expected"),
    [
        (["Invoices!H2"], "Invoices!H2"),
        ([f"Invoices!H{row}" for row in range(2, 42)], "Invoices!H2:H41 (40 cells)"),
        ([f"Invoices!{column}7" for column in "BCDE"], "Invoices!B7:E7 (4 cells)"),
        (["S!A1", "S!A2", "S!A4", "S!C1", "S!C2"], "S!A1:A2, A4, C1:C2 (5 cells)"),
        (["My data!A1", "My data!A2"], "'My data'!A1:A2 (2 cells)"),
        (["It's!A1"], "'It''s'!A1"),
        (["Data!3:3", "Data!4:4", "Data!9:9"], "Data, rows 3-4, 9 (3 rows)"),
        (["line 2, Amount", "line 3, Amount", "line 7, Amount"], "lines 2-3, 7 (Amount)"),
        (["page 1", "page 2"], "pages 1-2"),
        (["orders[0].id", "orders[1].id", "orders[4].id"], "orders[0-1, 4].id (3 places)"),
        (["north.csv", "south.csv"], "north.csv, south.csv"),
    ],
)
def test_places_side_by_side_are_a_range(wheres: list[str], expected: str) -> None:
    assert summarize([fault(where) for where in wheres]) == [f"{expected}: expected a, found b. Do it."]


def test_a_fault_of_the_whole_file_has_no_place() -> None:
    assert summarize([fault("", "a workbook", "a poem", "Save it as one.")]) == [
        "expected a workbook, found a poem. Save it as one."
    ]
    assert summarize([fault("x", remedy="")]) == ["x: expected a, found b"]


def test_few_different_faults_are_listed_and_many_shown_by_examples() -> None:
    few = [fault(f"S!B{row}", f"{row}") for row in range(2, 2 + MAX_UNLIKE)]
    assert len(summarize(few)) == MAX_UNLIKE
    many = [fault(f"S!B{row}", f"{row}", f"'{row}'") for row in range(2, 10)]
    assert summarize(many) == [
        "S!B2:B9 (8 cells): for example B2: expected 2, found '2'; B3: expected 3, found '3'. Do it."
    ]
    same = [fault(f"S!B{row}", "a number", f"'{row}'") for row in range(2, 10)]
    assert summarize(same) == ["S!B2:B9 (8 cells): expected a number, found for example '2' (B2) and '3' (B3). Do it."]


def test_without_a_remedy_expected_values_are_listed_and_found_ones_shown_by_examples() -> None:
    assert len(summarize([fault(f"S!B{row}", f"{row}", remedy="") for row in range(2, 20)])) == 18
    many = [fault(f"line {row}", "a day off between two shifts", f"{row} shifts", remedy="") for row in range(2, 20)]
    assert summarize(many) == [
        "lines 2-19: expected a day off between two shifts, found for example 2 shifts (line 2) and 3 shifts (line 3)"
    ]


def test_rules_and_sheets_are_not_mixed() -> None:
    faults = [fault("S!A1"), fault("T!A1"), fault("S!A2", rule="s")]
    assert summarize(faults) == [f"{each}: expected a, found b. Do it." for each in ("S!A1", "T!A1", "S!A2")]


def test_omitted_faults_are_counted() -> None:
    faults = [fault(f"name{number}", expected=str(number), remedy="") for number in range(MAX_LINES + 7)]
    lines = summarize(faults, more=3)
    assert (len(lines), lines[-1]) == (MAX_LINES + 1, "and 10 more faults")
    assert summarize([], more=1) == ["and 1 more fault"]
