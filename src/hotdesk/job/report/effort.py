"""Time and cost of each step, as bars and as numbers."""

from __future__ import annotations

from hotdesk.dataclass import dataclass
from hotdesk.job.format import lasting, plural
from hotdesk.job.record.progress import Cost
from hotdesk.job.report.facts import JobReport
from hotdesk.job.report.markup import Child, Markup, isolate, join_markup, tag
from hotdesk.job.report.parts import section, table
from hotdesk.job.report.summary import price, seconds

WIDE = 1000
"""Units of a whole bar."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One row of the chart."""

    name: str
    seconds: float
    cost: Cost
    acts: int = 0
    attempts: int = 0
    failed: int = 0


def effort(report: JobReport) -> Markup:
    """Chart what each step took."""
    rows = bars(report)
    longest = max((each.seconds for each in rows), default=0.0) or 1.0
    dearest = max((each.cost.dollars for each in rows), default=0.0)
    lines: list[list[Child]] = []
    for each in rows:
        acts = f"{each.acts}{f', {each.failed} failed' if each.failed else ''}" if each.attempts else ""
        time = measure(lasting(each.seconds), each.seconds / longest)
        paid = measure(price(each.cost), each.cost.dollars / dearest) if dearest else price(each.cost)
        lines.append([isolate(each.name, 80), time, paid, acts, f"{each.attempts}" if each.attempts else ""])
    head = ("Step", "Time", "Cost", "Acts", "Attempts")
    cost = report.tale.cost
    total = f"Total: {lasting(seconds(report))}. " + spent(cost)
    return section("effort", "Time and cost", tag("p", total), table("Time and cost by step", head, lines, "chart"))


def bars(report: JobReport) -> list[Bar]:
    """Return the rows: steps, checks, and what is left."""
    steps = [
        Bar(each.name, each.seconds, each.cost, each.acts, len(each.tries), each.failed)
        for each in report.tale.checklist()
    ]
    planning = Cost()
    for (part, _), share in report.tale.course.shares.items():
        if part == "plan":
            planning = add(planning, share)
    rest = seconds(report) - sum(each.seconds for each in steps) - report.tale.course.checking
    others = Bar("planning, approvals, opening desks", max(rest, 0.0), planning)
    return [*steps, Bar("checks in a clean desk", report.tale.course.checking, Cost()), others]


def add(one: Cost, other: Cost) -> Cost:
    """Add two costs up."""
    names = ("dollars", "unpriced", "replies", "input", "output", "cached", "up", "stored")
    return Cost(**{name: getattr(one, name) + getattr(other, name) for name in names})


def spent(cost: Cost) -> str:
    """Describe what models cost."""
    if not cost.tokens:
        return "No model was used."
    read = f"{cost.input + cost.cached + cost.stored:,} tokens read, {cost.output:,} written"
    return f"Models: {price(cost)}, {plural(cost.replies, 'reply')}, {read}."


def measure(text: str, share: float) -> Markup:
    """Write a number, and draw it."""
    return tag("div", tag("span", text), bar(share), class_="measure")


def bar(share: float) -> Markup:
    """Draw a share of the longest bar; the number stands beside it."""
    width = round(max(min(share, 1.0), 0.0) * WIDE)
    back = tag("rect", x=0, y=0, width=WIDE, height=10, class_="track")
    front = tag("rect", x=0, y=0, width=max(width, 4 if share > 0 else 0), height=10, class_="fill")
    return tag(
        "svg", join_markup(back, front), viewBox=f"0 0 {WIDE} 10", preserveAspectRatio="none", aria_hidden="true"
    )
