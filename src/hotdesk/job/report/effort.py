"""Time and cost of each step, as bars and as numbers."""

from __future__ import annotations

from hotdesk.dataclass import dataclass
from hotdesk.job.format import format_count, format_duration
from hotdesk.job.record.progress import Cost
from hotdesk.job.report.facts import JobReport
from hotdesk.job.report.markup import Child, Markup, isolate, join_markup, tag
from hotdesk.job.report.parts import render_section, render_table
from hotdesk.job.report.summary import compute_work_seconds, describe_cost

WIDE = 1000
"""Width of a full bar, in SVG units."""


@dataclass(frozen=True, slots=True)
class Bar:
    name: str
    seconds: float
    cost: Cost
    acts: int = 0
    attempts: int = 0
    failed: int = 0


def render_effort(report: JobReport) -> Markup:
    rows = _list_bars(report)
    longest = max((each.seconds for each in rows), default=0.0) or 1.0
    dearest = max((each.cost.dollars for each in rows), default=0.0)
    lines: list[list[Child]] = []
    for each in rows:
        acts = f"{each.acts}{f', {each.failed} failed' if each.failed else ''}" if each.attempts else ""
        time = measure(format_duration(each.seconds), each.seconds / longest)
        paid = measure(describe_cost(each.cost), each.cost.dollars / dearest) if dearest else describe_cost(each.cost)
        lines.append([isolate(each.name, 80), time, paid, acts, f"{each.attempts}" if each.attempts else ""])
    head = ("Step", "Time", "Cost", "Acts", "Attempts")
    cost = report.summary.cost
    total = f"Total: {format_duration(compute_work_seconds(report))}. " + _describe_spending(cost)
    return render_section(
        "effort", "Time and cost", tag("p", total), render_table("Time and cost by step", head, lines, "chart")
    )


def _list_bars(report: JobReport) -> list[Bar]:
    """Return the rows: each step, the checks, and the remaining time."""
    steps = [
        Bar(each.name, each.seconds, each.cost, each.acts, len(each.tries), each.failed)
        for each in report.summary.list_steps()
    ]
    planning = Cost()
    for (part, _), share in report.summary.course.shares.items():
        if part == "plan":
            planning = add(planning, share)
    rest = compute_work_seconds(report) - sum(each.seconds for each in steps) - report.summary.course.checking
    others = Bar("planning, approvals, opening desks", max(rest, 0.0), planning)
    return [*steps, Bar("checks in a clean desk", report.summary.course.checking, Cost()), others]


def add(one: Cost, other: Cost) -> Cost:
    names = ("dollars", "unpriced", "replies", "input", "output", "cached", "up", "stored")
    return Cost(**{name: getattr(one, name) + getattr(other, name) for name in names})


def _describe_spending(cost: Cost) -> str:
    if not cost.tokens:
        return "No model was used."
    read = f"{cost.input + cost.cached + cost.stored:,} tokens read, {cost.output:,} written"
    return f"Models: {describe_cost(cost)}, {format_count(cost.replies, 'reply')}, {read}."


def measure(text: str, share: float) -> Markup:
    return tag("div", tag("span", text), bar(share), class_="measure")


def bar(share: float) -> Markup:
    """Draw a bar; `share` is its fraction of the longest one."""
    width = round(max(min(share, 1.0), 0.0) * WIDE)
    back = tag("rect", x=0, y=0, width=WIDE, height=10, class_="track")
    front = tag("rect", x=0, y=0, width=max(width, 4 if share > 0 else 0), height=10, class_="fill")
    return tag(
        "svg", join_markup(back, front), viewBox=f"0 0 {WIDE} 10", preserveAspectRatio="none", aria_hidden="true"
    )
