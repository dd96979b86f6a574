"""The plan section of a report, with its approval."""

from __future__ import annotations

from hotdesk.job.event_text import ANSWERS, Tone
from hotdesk.job.people.wait import format_utc
from hotdesk.job.report.facts import JobReport, PlannedStep, ReportedDecision
from hotdesk.job.report.markup import Markup, isolate, join_markup, tag
from hotdesk.job.report.parts import note, render_facts, render_hash, render_pill, render_section, render_table

STANDS: dict[str, tuple[str, Tone]] = {
    "": ("not started", "plain"),
    "begun": ("interrupted", "wait"), "done": ("done", "good"), "failed": ("failed", "bad"),
}  # fmt: skip


def render_plan(report: JobReport) -> Markup:
    return render_section(
        "plan", "Plan and approvals", _render_steps(report), _render_digest(report), _render_approvals(report.decisions)
    )


def _render_steps(report: JobReport) -> Markup:
    intents = {each.name: each for each in report.plan}
    items = []
    for step in report.summary.list_steps():
        planned = intents.get(step.name) or PlannedStep(step.name, step.what)
        word, tone = STANDS[step.outcome]
        head = tag("div", tag("h3", isolate(step.name, 80)), render_pill(word, tone), class_="title")
        items.append(tag("li", head, tag("p", isolate(planned.intent or step.what, 600)), _render_means(planned)))
    return tag("ol", *items, class_="steps") if items else note("wait", "No plan was recorded.")


def _render_means(step: PlannedStep) -> Markup | None:
    rows = [("makes", ", ".join(step.makes)), ("uses the secrets", ", ".join(step.grants))]
    rows.append(("risk", "high: rolled back if it fails" if step.risk == "high" else ""))
    parts = [tag("span", f"{name} ", isolate(value)) for name, value in rows if value]
    return tag("p", join_markup(*parts), class_="means") if parts else None


def _render_digest(report: JobReport) -> Markup | None:
    if not report.summary.plan:
        return None
    tried = report.summary.preflight
    preflight = (
        f"{len(tried.held)} of {len(tried.held) + len(tried.failed)} requirements met" if tried else "not checked"
    )
    return render_facts(("Digest of the plan", render_hash(report.summary.plan)), ("Requirements", preflight))


def _render_approvals(decisions: list[ReportedDecision]) -> Markup:
    if not decisions:
        return note("wait", "No approvals were requested.")
    rows = [
        (
            isolate(each.what),
            render_pill(each.answer, ANSWERS.get(each.answer, "wait")),
            isolate(each.by),
            format_utc(each.at) if each.at else "",
            tag("code", each.digest[:16]),
        )
        for each in decisions
    ]
    return render_table(
        "Approvals. The digest identifies exactly what was decided", ("About", "Answer", "By", "When", "Digest"), rows
    )
