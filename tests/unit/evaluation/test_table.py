"""Tests of the results as a table and as JSON."""

from __future__ import annotations

import json

from hotdesk.evaluation.score import JobFigures, ModelUsage, TaskResult
from hotdesk.evaluation.table import lay_out_table, result_to_json, sum_up, totals_to_json

FIGURES = JobFigures("done", "m", True, 3, 4, ModelUsage(1500, 150, 900, 0.25, 2000), 2000)
RESULTS = [
    TaskResult("web/two", 1, "failed", False, FIGURES, 5.0, ("The sum is wrong.",), "The sum is wrong."),
    TaskResult("code/one", 2, "broken", failure="generate.py ended with exit code 1"),
    TaskResult("code/one", 1, "passed", True, FIGURES, 5.0),
]


def test_the_table_has_a_row_for_each_run_and_the_totals() -> None:
    lines = lay_out_table(RESULTS)
    assert [line.split()[:4] for line in lines] == [
        ["TASK", "SEED", "FIRST", "FINAL"],
        ["code/one", "1", "yes", "yes"],
        ["code/one", "2", "no", "broken"],
        ["web/two", "1", "no", "no"],
        ["total", "3", "1/3", "1/3"],
    ]
    assert lines[1].split()[4:] == ["3", "4", "1,500", "150", "900", "$0.25", "5.0", "s", "2.0", "s", "3.0", "s"]
    assert lines[3].endswith("The sum is wrong.")
    assert lines[4].endswith("33 % passed, 1 could not be run")
    assert len({line.find("FIRST FAILURE") for line in lines[:1]} | {lines[2].find("generate.py")}) == 1


def test_an_unknown_cost_is_called_unknown_and_long_failures_are_cut() -> None:
    unknown = JobFigures("done", "m", usage=ModelUsage(dollars=None))
    [_, row, total] = lay_out_table([TaskResult("code/one", 1, "failed", False, unknown, failure="x" * 500)])
    assert "unknown" in row
    assert "unknown" in total
    assert row.endswith("x…")
    assert len(row) < 300


def test_results_and_totals_are_plain_json() -> None:
    assert json.loads(json.dumps(result_to_json(RESULTS[0]))) == {
        "task": "web/two",
        "seed": 1,
        "outcome": "failed",
        "first_delivery": False,
        "passed": False,
        "model": "m",
        "turns": 3,
        "tool_calls": 4,
        "tokens": {"input": 1500, "output": 150, "cached": 900},
        "dollars": 0.25,
        "seconds": {"wall": 5.0, "model": 2.0, "hotdesk": 3.0},
        "first_failure": "The sum is wrong.",
        "faults": ["The sum is wrong."],
    }
    totals = totals_to_json(sum_up(RESULTS))
    assert totals["percent"] == 33.3
    assert (totals["runs"], totals["first_deliveries"], totals["passed"], totals["broken"]) == (3, 1, 1, 1)
    assert totals["seconds"] == {"wall": 10.0, "model": 4.0, "hotdesk": 6.0}
    assert totals["dollars"] == 0.5


def test_no_results_are_no_success() -> None:
    assert sum_up([]).percent == 0.0
    assert len(lay_out_table([])) == 2
