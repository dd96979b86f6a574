"""Layout of the live area: rows of spans for a state, a width, a height and a time. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from hotdesk.cli.board.cells import Line, Span, TerminalTraits, cut, measure_width
from hotdesk.cli.board.state import State
from hotdesk.job.event_text import WAITING, answer_commands, describe_target
from hotdesk.job.format import format_clock, format_cost, format_count, format_duration, format_size, format_tokens
from hotdesk.job.record.progress import Stand, StepProgress

_MAX_COLUMNS = 120
"""Maximum columns: text that is far apart is hard to read together."""
NAMES = 24
"""Maximum columns of a step's name."""
MARKS: dict[Stand, Span] = {
    "done": ("good", "✓"),
    "current": ("now", "▸"),
    "to come": ("dim", "·"),
    "failed": ("bad", "✗"),
    "rolled back": ("warn", "↺"),
}
FEWEST = 5
"""Minimum rows of the plan before other rows are shown."""
_MAX_WAITING_ROWS = 4
"""Maximum rows of pending requests: a desk may ask often, and must not hide the rest."""
ALWAYS = 0
Row: TypeAlias = tuple[int, Line]
"""How dispensable a row is (0 if it must be shown), and its content."""


def lay(state: State, width: int, height: int, now: float, look: TerminalTraits) -> list[str]:
    width, height = max(min(width, _MAX_COLUMNS), 1), max(height, 1)
    rest = [row for row in _list_facts(state, now) if row[1]]
    rest = _drop_rows(rest, height - 2 - min(len(state.course.steps), FEWEST))
    plan = _show_checklist(state, width, height - 2 - len(rest), now, look)
    lines = [[("dim", "─" * width)], _show_header(state, width, now, look), *plan, *(line for _, line in rest)]
    return [look.paint(line, width) for line in lines[:height]]


def _drop_rows(rows: list[Row], most: int) -> list[Row]:
    rows = list(rows)
    while len(rows) > max(most, 0) and any(rank > ALWAYS for rank, _ in rows):
        worst = max(rank for rank, _ in rows)
        rows.reverse()
        rows.remove(next(row for row in rows if row[0] == worst))
        rows.reverse()
    return rows


def _show_header(state: State, width: int, now: float, look: TerminalTraits) -> Line:
    elapsed, limit = state.course.compute_elapsed(now), state.limits.seconds
    right = f"{format_clock(elapsed)} of {format_clock(limit)}" if limit else format_clock(elapsed)
    late = "warn" if limit and elapsed > 0.8 * limit else "strong"
    return spread([("dim", f" {state.job}  "), ("strong", state.goal)], (late, right), width, look)


def spread(spans: Sequence[Span], right: Span, width: int, look: TerminalTraits) -> Line:
    """Put a text at the right end of a row; the text at the left is cut to fit."""
    room = width - measure_width(right[1]) - 2
    fitting: list[Span] = []
    for style, text in spans:
        text = cut(look.clean(text), max(room, 0))
        room -= measure_width(text)
        fitting.append((style, text))
    return [*fitting, ("", " " * (max(room, 0) + 1)), right] if right[1] else fitting


def _show_checklist(state: State, width: int, height: int, now: float, look: TerminalTraits) -> list[Line]:
    steps = list(state.course.steps.values())
    if not steps or height < 1:
        return []
    names = min(max(measure_width(look.clean(step.name)) for step in steps), NAMES)
    first, last = _choose_window(steps, height)
    rows = [_show_step(step, names, width, now, look) for step in steps[first:last]]
    above, below = steps[:first], steps[last:]
    if height < 3:  # then the current step is more useful than a count of the others
        return rows
    if above:
        rows[0] = [("dim", f" … {_summarize_steps(above + steps[first : first + 1])}")]
    if below:
        rows[-1] = [("dim", f" … {_summarize_steps(steps[last - 1 : last] + below)}")]
    return rows


def _choose_window(steps: Sequence[StepProgress], height: int) -> tuple[int, int]:
    """Choose the range of steps to show: around the current one, or the first to come."""
    if len(steps) <= height:
        return 0, len(steps)
    active = ("current", "rolled back", "to come")
    at = next((i for stand in active for i, step in enumerate(steps) if step.stand == stand), len(steps) - 1)
    first = min(max(at - height // 2, 0), len(steps) - height)
    return first, first + height


def _summarize_steps(steps: Sequence[StepProgress]) -> str:
    stands = [step.stand for step in steps]
    return ", ".join(f"{stands.count(stand)} {stand}" for stand in MARKS if stand in stands)


def _show_step(step: StepProgress, names: int, width: int, now: float, look: TerminalTraits) -> Line:
    style, mark = MARKS[step.stand]
    name = cut(look.clean(step.name), names)
    again = f"attempt {step.attempts}  " if step.attempts > 1 else ""
    seconds = step.seconds + (now - step.tries[-1].begun if step.stand == "current" else 0)
    took = format_duration(seconds) if step.attempts else ""
    shade = style if step.stand in ("current", "failed", "rolled back") else "dim" if step.stand == "to come" else ""
    spans = [(style, f" {mark} "), (shade, name + " " * (names - measure_width(name) + 2)), (shade, step.what)]
    return spread(spans, ("dim" if step.stand != "current" else "now", f"{again}{took}"), width, look)


def _list_facts(state: State, now: float) -> list[Row]:
    return [
        (3, _show_thought(state)),
        (2, _show_tool(state, now)),
        (5, _show_brain(state)),
        (1, spend(state)),
        (6, _show_model_traffic(state)),
        (4, _show_door(state)),
        (6, _show_checkpoints(state)),
        *((ALWAYS, line) for line in _show_waits(state, now)),
    ]


def _begin_row(word: str, *spans: Span) -> Line:
    return [("dim", f" {word:7}"), *spans]


def _show_thought(state: State) -> Line:
    return _begin_row("thinks", ("", f'"{state.thought}"')) if state.thought else []


def _show_tool(state: State, now: float) -> Line:
    course, most = state.course, state.limits.budget.acts
    running = [f"{name} {format_duration(max(now - since, 0))}" for name, since in course.running.values()]
    acts = f"  act {course.acts:,} of {most:,}" if most else f"  act {course.acts:,}" if course.acts else ""
    if running:
        return _begin_row("does", ("now", ", ".join(running)), ("dim", acts))
    if not state.tool:
        return []
    style = "" if state.outcome == "done" else "bad"
    way = f", by {state.fallback}" if state.fallback else ""
    return _begin_row(
        "did", ("", state.tool), (style, f" {state.outcome}, {format_duration(state.ms / 1000)}{way}"), ("dim", acts)
    )


def _show_brain(state: State) -> Line:
    if not state.brain and not state.model:
        return []
    other = f"  now {state.model}" if state.model and state.model not in state.brain else ""
    return _begin_row("brain", ("", state.brain), ("dim", other))


def spend(state: State) -> Line:
    parts = [
        f"{word} {format_cost(costs)}"
        for part, word in (("plan", "planning"), ("act", "acting"), ("look", "looking"))
        if (costs := [cost for cost in state.course.shares.values() if cost.part == part])
    ]
    most = state.limits.budget.dollars
    limit = f", of ${most:,.2f}" if most is not None else ""
    return _begin_row("spend", ("", f"{', '.join(parts)}{limit}")) if parts else []


def _show_model_traffic(state: State) -> Line:
    cost, most = state.course.cost, state.limits.budget.tokens
    limit = f" of {format_tokens(most)}" if most is not None else ""
    used = f"  {format_tokens(cost.tokens if most is None else cost.budget_tokens)}{limit} tokens"
    return (
        _begin_row("sent", ("", f"{format_size(cost.up)} to the model's provider"), ("dim", used))
        if cost.replies
        else []
    )


def _show_door(state: State) -> Line:
    """Show the number of admitted and refused requests, and of alarms."""
    spans: list[Span] = []
    if state.admitted or state.refused:
        spans.append(("", f"{state.admitted:,} admitted  "))
    if state.refused:
        spans.append(("warn", f"{state.refused:,} refused, last {state.refused_host[:60]}  "))
    if state.alarms:
        spans.append(("bad", f"{format_count(state.alarms, 'alarm')}  "))
    return _begin_row("door", *spans) if spans else []


def _show_checkpoints(state: State) -> Line:
    times = f"{format_count(state.checkpoints, 'time')}, {format_size(state.checkpoint)} the last time"
    return _begin_row("saved", ("dim", f"the desk's files {times}")) if state.checkpoints else []


def _show_waits(state: State, now: float) -> list[Line]:
    rows: list[Line] = []
    for each in state.waiting.open:
        remaining = f", {format_clock(each.until / 1000 - now)} left"
        rows.append(
            _begin_row(
                "WAITS",
                ("warn", f"{_get_first_command(answer_commands(each))}  "),
                ("", f"{WAITING[each.kind]}{remaining}"),
            )
        )
    for question in state.questions.values():
        rows.append(_begin_row("ASKS", ("warn", f"hotdesk approve {question.id}  "), ("", describe_target(question))))
    if len(rows) <= _MAX_WAITING_ROWS:
        return rows
    return [
        *rows[: _MAX_WAITING_ROWS - 1],
        _begin_row("WAITS", ("warn", "hotdesk approve  "), ("", f"{len(rows) - _MAX_WAITING_ROWS + 1} more requests")),
    ]


def _get_first_command(commands: str) -> str:
    """Return the first of several commands; the event's line has already listed all."""
    return commands.partition(" | ")[0]
