"""Results as a table for people, and as JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence

from hotdesk.dataclass import dataclass
from hotdesk.errors import make_printable
from hotdesk.evaluation.score import ModelUsage, TaskResult

_HEAD = (
    "TASK", "SEED", "FIRST", "FINAL", "TURNS", "TOOLS", "TOKENS IN", "OUT", "CACHED", "COST", "WALL", "MODEL",
    "HOTDESK", "FIRST FAILURE",
)  # fmt: skip
_MAX_CELL_CHARS = 120
_NUMBERS = range(4, 13)
"""Right-aligned columns."""


@dataclass(frozen=True, slots=True)
class EvalTotals:
    """The totals of all results."""

    runs: int
    first_deliveries: int
    passed: int
    broken: int
    turns: int
    tool_calls: int
    usage: ModelUsage
    seconds: float
    own_seconds: float

    @property
    def percent(self) -> float:
        return 100 * self.passed / self.runs if self.runs else 0.0


def sum_up(results: Sequence[TaskResult]) -> EvalTotals:
    usage = ModelUsage()
    for result in results:
        usage = usage.add(result.figures.usage)
    return EvalTotals(
        runs=len(results),
        first_deliveries=sum(result.first_delivery for result in results),
        passed=sum(result.outcome == "passed" for result in results),
        broken=sum(result.outcome == "broken" for result in results),
        turns=sum(result.figures.turns for result in results),
        tool_calls=sum(result.figures.tool_calls for result in results),
        usage=usage,
        seconds=sum(result.seconds for result in results),
        own_seconds=sum(result.own_seconds for result in results),
    )


def lay_out_table(results: Sequence[TaskResult]) -> list[str]:
    """Return the lines of the table: a row for each run, and the totals."""
    totals = sum_up(results)
    ordered = sorted(results, key=lambda result: (result.task, result.seed))
    rows = [_HEAD, *map(_format_row, ordered), _format_total_row(totals)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(_align(place, cell, widths[place]) for place, cell in enumerate(row)).rstrip() for row in rows]


def result_to_json(result: TaskResult) -> dict[str, object]:
    return {
        "task": result.task,
        "seed": result.seed,
        "outcome": result.outcome,
        "first_delivery": result.first_delivery,
        "passed": result.outcome == "passed",
        "model": result.figures.model,
        **_figures_to_json(result.figures.turns, result.figures.tool_calls, result.figures.usage),
        **_seconds_to_json(result.seconds, result.figures.usage, result.own_seconds),
        "first_failure": result.failure or None,
        "faults": list(result.faults),
    }


def totals_to_json(totals: EvalTotals) -> dict[str, object]:
    return {
        "runs": totals.runs,
        "first_deliveries": totals.first_deliveries,
        "passed": totals.passed,
        "broken": totals.broken,
        "percent": round(totals.percent, 1),
        **_figures_to_json(totals.turns, totals.tool_calls, totals.usage),
        **_seconds_to_json(totals.seconds, totals.usage, totals.own_seconds),
    }


def _figures_to_json(turns: int, tool_calls: int, usage: ModelUsage) -> dict[str, object]:
    tokens = {"input": usage.input, "output": usage.output, "cached": usage.cached}
    return {"turns": turns, "tool_calls": tool_calls, "tokens": tokens, "dollars": usage.dollars}


def _seconds_to_json(seconds: float, usage: ModelUsage, own_seconds: float) -> dict[str, object]:
    times = {"wall": seconds, "model": usage.ms / 1000, "hotdesk": own_seconds}
    return {"seconds": {name: round(value, 3) for name, value in times.items()}}


def _format_row(result: TaskResult) -> tuple[str, ...]:
    final = {"passed": "yes", "failed": "no"}.get(result.outcome, result.outcome)
    return (
        result.task,
        str(result.seed),
        "yes" if result.first_delivery else "no",
        final,
        *_format_cells(result.figures.turns, result.figures.tool_calls, result.figures.usage),
        *_format_times(result.seconds, result.figures.usage, result.own_seconds),
        _cut(result.failure),
    )


def _format_total_row(totals: EvalTotals) -> tuple[str, ...]:
    return (
        "total",
        str(totals.runs),
        f"{totals.first_deliveries}/{totals.runs}",
        f"{totals.passed}/{totals.runs}",
        *_format_cells(totals.turns, totals.tool_calls, totals.usage),
        *_format_times(totals.seconds, totals.usage, totals.own_seconds),
        f"{totals.percent:.0f} % passed" + (f", {totals.broken} could not be run" if totals.broken else ""),
    )


def _format_cells(turns: int, tool_calls: int, usage: ModelUsage) -> tuple[str, ...]:
    cost = "unknown" if usage.dollars is None else f"${usage.dollars:.2f}"
    tokens = (f"{count:,}" for count in (usage.input, usage.output, usage.cached))
    return (str(turns), str(tool_calls), *tokens, cost)


def _format_times(seconds: float, usage: ModelUsage, own_seconds: float) -> tuple[str, ...]:
    return tuple(f"{value:.1f} s" for value in (seconds, usage.ms / 1000, own_seconds))


def _cut(text: str) -> str:
    line = make_printable(text)
    return line if len(line) <= _MAX_CELL_CHARS else f"{line[: _MAX_CELL_CHARS - 1]}…"


def _align(place: int, cell: str, width: int) -> str:
    return cell.rjust(width) if place in _NUMBERS else cell.ljust(width)
