"""The timeline: steps with their acts, failures, how the worker continued, and screenshots."""

from __future__ import annotations

from hotdesk.job.event_text import Tone
from hotdesk.job.format import format_count, format_duration
from hotdesk.job.report.deliverables import render_faults
from hotdesk.job.report.facts import Attempted, JobReport, Moment, ToolUse
from hotdesk.job.report.markup import Markup, isolate, join_markup, render_block, tag
from hotdesk.job.report.parts import (
    SIGNS,
    note,
    render_collapsed,
    render_picture,
    render_pill,
    render_section,
    render_table,
    render_time,
)
from hotdesk.job.report.plan import STANDS

_OUTCOMES: dict[str, Tone] = {"done": "good", "failed": "bad", "": "wait"}
MOST_ACTS, MOST_FAILED = 1000, 12
"""Maximum acts listed of one attempt, and failed acts shown in detail."""


def render_timeline(report: JobReport) -> Markup:
    items = [_render_attempt(each) if isinstance(each, Attempted) else _render_moment(each) for each in report.timeline]
    return render_section("timeline", "What happened", tag("ol", *items, class_="timeline"))


def _render_moment(each: Moment) -> Markup:
    return tag(
        "li",
        tag(
            "div",
            render_time(each.at),
            tag("span", SIGNS[each.tone], class_=f"dot {each.tone}", aria_hidden="true"),
            class_="when",
        ),
        tag(
            "div",
            tag("p", tag("strong", isolate(each.title)), " ", tag("span", isolate(each.text, 600), class_="quiet")),
            render_faults(each.findings) if each.findings else None,
        ),
    )


def _render_attempt(each: Attempted) -> Markup:
    word, tone = STANDS[each.outcome or "begun"]
    again = f", attempt {each.attempt}" if each.attempt > 1 else ""
    took = f"{format_duration((each.ended - each.at) / 1000)}, " if each.ended else ""
    head = tag(
        "div",
        tag("h3", "Step ", isolate(each.step, 80), again),
        render_pill(f"{word}, rolled back" if each.rolled_back else word, tone),
        tag("span", f"{took}{format_count(len(each.acts), 'act')}", class_="quiet"),
        class_="title",
    )
    failed = [(place, act) for place, act in enumerate(each.acts) if act.outcome == "failed"]
    rest = len(failed) - MOST_FAILED
    return tag(
        "li",
        tag(
            "div",
            render_time(each.at),
            tag("span", SIGNS[tone], class_=f"dot {tone}", aria_hidden="true"),
            class_="when",
        ),
        tag(
            "div",
            head,
            tag("p", isolate(each.what, 600)),
            *(_render_failure(each, place, act) for place, act in failed[:MOST_FAILED]),
            note("wait", f"{rest} more acts failed; see the list of acts.") if rest > 0 else None,
            tag("div", tag("strong", "Why it failed"), render_block(each.note), class_="failure")
            if each.outcome == "failed" and each.note
            else None,
            _render_screens(each),
            _render_acts(each) if each.acts else None,
            render_collapsed("Summary for the next steps", render_block(each.leaves)) if each.leaves else None,
            class_="card",
        ),
    )


def _render_failure(attempt: Attempted, place: int, act: ToolUse) -> Markup:
    after = attempt.acts[place + 1] if place + 1 < len(attempt.acts) else None
    if after is None:
        went_on = "The step was rolled back." if attempt.rolled_back else "Nothing was done after it in this attempt."
        sequel = tag("span", went_on)
    else:
        sequel = tag(
            "span",
            f"It continued with act {after.number}: ",
            _render_act(after),
            f" ({after.outcome or 'outcome unknown'}).",
        )
    why = (
        tag("p", tag("span", "The worker then wrote: "), isolate(after.why), class_="quiet")
        if after and after.why
        else None
    )
    head = tag("p", tag("strong", f"Act {act.number} failed: "), _render_act(act))
    return tag("div", head, render_block(act.words) if act.words else None, why, tag("p", sequel), class_="failure")


def _render_act(act: ToolUse) -> Markup:
    return join_markup(tag("code", act.tool), tag("span", " ", isolate(act.call)))


def _render_screens(attempt: Attempted) -> Markup | None:
    shown = [
        render_picture(
            act.picture, f"The screen after act {act.number} of step {attempt.step}", f"Screen, act {act.number}"
        )
        for act in attempt.acts
        if act.picture is not None
    ]
    return tag("div", *shown, class_="screens") if shown else None


def _render_acts(attempt: Attempted) -> Markup:
    rows = [
        (
            f"{act.number}",
            tag("code", act.tool),
            isolate(act.call),
            render_pill(act.outcome or "unknown", _OUTCOMES[act.outcome]),
            format_duration(act.ms / 1000) if act.outcome else "",
        )
        for act in attempt.acts[:MOST_ACTS]
    ]
    caption = f"Acts of step {attempt.step}, attempt {attempt.attempt}"
    rest = len(attempt.acts) - MOST_ACTS
    listed = render_table(caption, ("Act", "Tool", "Used for", "Outcome", "Took"), rows, "acts")
    return render_collapsed(
        f"Every act ({len(attempt.acts):,})", listed, note("wait", f"{rest} more acts") if rest > 0 else None
    )
