"""The head of a report: what was found, how the job ended, and who decided."""

from __future__ import annotations

import time

from hotdesk.job.event_text import Tone
from hotdesk.job.format import format_cost, format_count, format_duration
from hotdesk.job.record.progress import Cost
from hotdesk.job.report.facts import JobReport
from hotdesk.job.report.markup import Markup, isolate, join_markup, tag
from hotdesk.job.report.paper_text import format_one_line
from hotdesk.job.report.parts import note, render_facts, render_pill

_TONES: dict[str, Tone] = {
    "done": "good", "failed": "bad", "broken": "bad", "killed": "bad", "paused": "wait", "waiting": "wait",
    "interrupted": "wait", "running": "wait",
}  # fmt: skip
WORDS = {"killed": "interrupted", "broken": "failed"}
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
FEW = 3
"""Maximum files named in a sentence, and minimum words of a finding."""
_FINDING = 200
"""Maximum characters of a finding in the headline."""
_MAX_HEADLINE_CHARS = 120
"""Maximum characters of a headline in the large font."""


def render_header(report: JobReport) -> Markup:
    """Render the finding, or the goal if there is none, and the outcome."""
    summary, how = report.summary, report.state[0]
    goal = " ".join(summary.goal.split()) or "The goal is not known"
    found = _get_finding(report)
    small = "long" if len(found or goal) > _MAX_HEADLINE_CHARS else None
    return tag(
        "header",
        tag("p", "hotdesk · job report", class_="brand"),
        tag("h1", isolate(found or goal, 2000), class_=small),
        tag("p", "The worker's summary. The task: ", isolate(goal, 2000), class_="task") if found else None,
        tag(
            "p",
            render_pill(WORDS.get(how, how), _TONES.get(how, "plain")),
            " ",
            tag("span", _render_outcome(report)),
            class_="outcome",
        ),
        _render_figures(report),
        render_brain(report.summary.brain),
    )


def _get_finding(report: JobReport) -> str:
    """Return the worker's finding as one line if the job is done and stored a file, else `""`.

    It is the summary of the last step that made a stored file, or that of the last step.
    """
    stored = {each.path for each in report.summary.kept}
    if report.state[0] != "done" or not stored:
        return ""
    makers = {step.name for step in report.plan if stored.intersection(step.makes)}
    summed = [each for each in report.attempts if each.outcome == "done" and each.leaves.strip()]
    last = next((each for each in reversed(summed) if each.step in makers), summed[-1] if summed else None)
    text = format_one_line(last.leaves, _FINDING) if last is not None else ""
    return text if len(text.split()) >= FEW else ""


def _render_outcome(report: JobReport) -> Markup:
    how, why = report.state
    took, because = format_duration(compute_work_seconds(report)), isolate(why.rstrip("."), 600) if why else None
    match how:
        case "done":
            parts: tuple[Markup | str, ...] = (f"Finished in {took}. ", _render_results(report))
        case "failed":
            parts = (f"The work failed after {took}: ", because or "the reason was not recorded", ".")
        case "broken":
            parts = ("hotdesk itself failed: ", because or "the reason was not recorded", ".")
        case "paused":
            parts = (
                f"The job stopped after {took}: ",
                because or "a person stopped it",
                ". Resume it with ",
                resume(report),
                ".",
            )
        case "interrupted":
            parts = ("The job was interrupted. Resume it with ", resume(report), ".")
        case "waiting":
            parts = ("The job waits for a person to decide: ", tag("code", f"hotdesk approve {why}"), ".")
        case "running":
            parts = (f"The job is still running, for {took} so far; this report shows its state when it was written.",)
        case _:
            parts = (
                "The job was interrupted: no process is running it, and its end was not recorded. Resume it with ",
                resume(report),
                ".",
            )
    return tag("span", *parts)


def resume(report: JobReport) -> Markup:
    return tag("code", f"hotdesk resume {report.summary.job}")


def _render_results(report: JobReport) -> Markup:
    stored = list(dict.fromkeys(each.path for each in report.summary.kept))
    if not stored:
        return tag("span", "No file was stored.")
    links = [part for path in stored for part in (", ", tag("a", isolate(path), href=f"#{anchor(report, path)}"))]
    names = tag("span", *links[1:]) if len(stored) <= FEW else tag("span", format_count(len(stored), "deliverable"))
    return tag(
        "span",
        names,
        f" passed every check in a clean desk and {'is' if len(stored) == 1 else 'are'} stored in the drive.",
    )


def anchor(report: JobReport, path: str) -> str:
    return f"file-{1 + list(report.delivered).index(path)}"


def compute_work_seconds(report: JobReport) -> float:
    course = report.summary.course
    return course.compute_elapsed(course.last)


def _render_figures(report: JobReport) -> Markup:
    summary, steps = report.summary, report.summary.list_steps()
    refused = sum(each.refused for each in report.door.exchanges)
    passed = len(report.door.exchanges) - refused
    return render_facts(
        ("Began", _format_date(summary.begun)),
        ("Worked", format_duration(compute_work_seconds(report))),
        ("Steps", f"{sum(each.outcome == 'done' for each in steps)} of {len(steps)} done"),
        ("Acts", f"{summary.course.acts:,}"),
        ("Model costs", describe_cost(summary.cost)),
        ("Network requests", f"{passed:,} admitted, {refused:,} refused"),
        class_="figures",
    )


def _format_date(at: int) -> str:
    day = time.gmtime(at / 1000)
    return f"{day.tm_mday} {MONTHS[day.tm_mon - 1]} {day.tm_year}, {day.tm_hour:02}:{day.tm_min:02} UTC"


def describe_cost(cost: Cost) -> str:
    """Describe the cost of models; a script has none."""
    return format_cost([cost]) if cost.tokens or cost.dollars or cost.unpriced else "none"


def render_brain(name: str) -> Markup:
    who = isolate(name or "not recorded", 200)
    if name.startswith(("written script", "recorded script")):
        sentence = join_markup(
            tag("strong", "The decisions came from a script, not from a model."),
            tag("span", " They were carried out for real, at a real desk. Brain: ", who, "."),
        )
    elif name.startswith("adversary"):
        sentence = join_markup(
            tag("strong", "The decisions came from a scripted adversary, not from a model:"),
            tag("span", " it attacks on purpose. Brain: ", who, "."),
        )
    elif name.startswith("replay of"):
        sentence = join_markup(
            tag("strong", "The decisions were recorded in an earlier job; no model was called."),
            tag("span", " Brain: ", who, "."),
        )
    else:
        sentence = tag(
            "span",
            tag("strong", "Brain: "),
            who,
            ". It planned and acted, within the permissions of the approved plan.",
        )
    return note("plain", sentence)
