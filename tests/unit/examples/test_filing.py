"""Tests of the filing example: its books, its parser, and its judge."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from examples.filing import books, brain
from examples.filing.run import judge

SOURCE = (Path(brain.__file__).parent / "parse.py").read_text()
HELD = {
    "formulas": {"Income!B7": "=B5+B6"},
    "names": ["Growth"],
    "validations": ["B12"],
    "charts": ["chart1", "chart2"],
}


def parser(source: str) -> Callable[[str], tuple[int, str]]:
    """Return a parser's way to read amounts, without what it reads pages with."""
    [function] = [node for node in ast.parse(source).body if getattr(node, "name", "") == "amount"]
    space: dict[str, Any] = {"re": re}
    exec(compile(ast.Module([function], []), "parse.py", "exec"), space)  # noqa: S102 - our own source
    found: Callable[[str], tuple[int, str]] = space["amount"]
    return found


def told_of(imagined: books.Books) -> dict[str, Any]:
    totals = [imagined.totals(place) for place in range(5)]
    statements = {**imagined.quarters, **{name: [each[name] for each in totals] for name in totals[0]}}
    rows: dict[str, dict[str, list[Any]]] = {"Income": {}, "Balance": {}, "Reconciliation": {}}
    for item, values in statements.items():
        rows["Balance" if item in books.BALANCE or "assets" in item else "Income"][item] = list(values)
    for item, values in imagined.quarters.items():
        filed = imagined.filed(item)[1]
        rows["Reconciliation"][item] = [values[-2], filed, filed - values[-2], None, None]
    rows["Reconciliation"]["Items that differ"] = [None, None, 2, None, None]
    return {"rows": rows, "before": HELD, "after": dict(HELD), "pdf": f"Net income {totals[-1]['Net income']:,}"}


def test_every_seed_gives_books_that_balance_and_a_restatement_that_changes_no_sum() -> None:
    for seed in range(200):
        imagined = books.generate_books(seed)
        assert set(imagined.quarters) == {*books.INCOME, *books.BALANCE}
        for place in range(5):
            totals = imagined.totals(place)
            assert totals["Total assets"] == totals["Total liabilities and equity"]
            assert totals["Net income"] > 0
        changes = [new - imagined.quarters[item][-2] for item, new in imagined.restated.items()]
        assert len(changes) == 2
        assert sum(changes) == 0
        assert all(changes)


def test_a_seed_gives_the_same_books_and_another_gives_others() -> None:
    assert books.generate_books(5) == books.generate_books(5)
    several = [books.generate_books(seed) for seed in range(30)]
    assert len({each.company for each in several}) > 3
    assert len({tuple(each.restated) for each in several}) == len(books.MOVED)


@pytest.mark.parametrize(
    ("text", "value", "note"),
    [("1,234", 1234, ""), ("(1,234)", -1234, ""), ("7", 7, ""), ("1,234(1)", 1234, "1"), ("(1,234)(2)", -1234, "2")],
)
def test_a_footnote_breaks_the_first_parser_and_not_the_fixed_one(text: str, value: int, note: str) -> None:
    assert SOURCE.count(brain.PARSED) == 1
    assert parser(SOURCE.replace(brain.PARSED, brain.MENDED))(text) == (value, note)
    if note:
        with pytest.raises(ValueError, match="is no amount"):
            parser(SOURCE)(text)
    else:
        assert parser(SOURCE)(text) == (value, "")


@pytest.mark.parametrize("text", ["", "(1)", "1,23", "(1,234", "1,234)", "n/a"])
def test_an_invalid_amount_stays_invalid_for_the_fixed_parser(text: str) -> None:
    read = parser(SOURCE.replace(brain.PARSED, brain.MENDED))
    if text == "(1)":
        assert read(text) == (-1, "")
    else:
        with pytest.raises(ValueError, match="is no amount"):
            read(text)


def test_the_judge_accepts_the_books_figures() -> None:
    for seed in range(20):
        assert not judge(books.generate_books(seed), told_of(books.generate_books(seed)))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda told: told["after"].update(charts=["chart1"]),
        lambda told: told["after"].update(formulas={}),
        lambda told: told["after"].update(names=[]),
        lambda told: told["after"].update(validations=[]),
        lambda told: told["rows"]["Income"]["Income taxes"].__setitem__(-1, -1),
        lambda told: told["rows"]["Income"]["Net income"].__setitem__(-1, None),
        lambda told: told["rows"]["Balance"].pop("Cash"),
        lambda told: told["rows"]["Reconciliation"].pop("Payables"),
        lambda told: told["rows"]["Reconciliation"]["Payables"].__setitem__(1, 0),
        lambda told: told["rows"]["Reconciliation"]["Payables"].__setitem__(2, 5),
        lambda told: told["rows"]["Reconciliation"]["Items that differ"].__setitem__(2, 1),
        lambda told: told.update(pdf="nothing"),
    ],
    ids=[
        "a chart lost", "formulas lost", "names lost", "a validation lost", "a wrong input", "no sum", "an item lost",
        "not reconciled", "another number filed", "another difference", "too few differ", "an empty summary",
    ],
)  # fmt: skip
def test_the_judge_finds_each_fault(spoil: Callable[[dict[str, Any]], object]) -> None:
    told = told_of(books.generate_books(4))
    spoil(told)
    assert judge(books.generate_books(4), told)
